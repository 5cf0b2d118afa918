"""The trainer's reading: a folder and a dialect file become a drafter."""
