"""The engine's reading: what vLLM would run, given a folder."""
