"""From a published parallel drafter (P-EAGLE, DFlash, DSpark) to a vLLM server that provably speculates."""

__version__ = "0.1.0"
