"""The Hugging Face Hub: sources read by header and byte range at a pinned commit, and publication."""
