"""Values of tensors outside the engine: as Python's numbers and text, as NumPy's arrays, in files."""
