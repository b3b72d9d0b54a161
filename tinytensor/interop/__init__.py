"""What serves other libraries, their names and their files.

`torch_names` has PyTorch's names beyond operations, and lets functions of PyTorch and NumPy take tensors. `io` has
tensors in files: safetensors, and those of PyTorch. `amp.py` is PyTorch's mixed precision, `einops.py` lets einops take
tensors, `tensorboard.py` writes TensorBoard's records; programs import these three from PyTorch's places for them.
"""
