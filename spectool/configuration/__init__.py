"""What a project wants of `spectool validate`: which rules run, what is ignored and why, when it fails."""
