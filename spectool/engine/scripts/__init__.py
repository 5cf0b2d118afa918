"""Scripts that an engine's interpreter runs. They are files to hand over, not modules to import."""
