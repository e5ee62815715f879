"""Tensors of a training state: their layout, their memory, their files."""
