"""Tensors outside the engine: as text, and in files."""
