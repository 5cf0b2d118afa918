"""What the tensors hold: NaN, nothing but zeros, a wrong vocabulary map. Read in blocks, never a tensor at once."""
