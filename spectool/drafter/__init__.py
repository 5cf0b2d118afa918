"""The description of a drafter, and the comparison of two readings of it."""
