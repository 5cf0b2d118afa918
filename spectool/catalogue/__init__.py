"""Public drafters by what was seen of them: who drafts for a verifier, which one a folder is, what to expect of it."""
