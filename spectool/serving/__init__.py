"""Start an engine, watch it, ask it, stop it."""
