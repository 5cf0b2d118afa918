"""Writers: a drafter becomes the files of one output format."""
