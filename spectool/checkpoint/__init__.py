"""Where checkpoints come from and go to: headers, folders, byte ranges, and the streaming writer."""
