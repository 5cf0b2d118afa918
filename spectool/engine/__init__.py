"""vLLM by version: facts, its reading of a folder, and asking an installed one."""
