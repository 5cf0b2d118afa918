"""Rules: what can be wrong, each one documented object with its check."""
