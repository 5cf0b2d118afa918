"""Reports as one self-contained HTML file: no script, nothing loaded from elsewhere."""
