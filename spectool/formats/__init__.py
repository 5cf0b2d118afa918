"""Models of files: dialect files, verifier views, Speculators configs, records."""
