"""PyTorch's names beyond operations: dtype queries, devices, module paths; errors for missing names.

`pytorch_functions.py` lets functions written for PyTorch take our tensors; `numpy_functions.py` does so for NumPy's.
"""
