"""Placement, operations and execution: what becomes of each tensor."""
