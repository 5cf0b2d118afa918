"""The record of a conversion: made, sealed, proved, repeated, and told as a model card."""
