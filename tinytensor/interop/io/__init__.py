"""Tensors in files.

serialization.py  `save` and `load`, and safetensors files
pytorch.py        files of PyTorch (.pt, .pth), without PyTorch
unpickling.py     the few instructions of a pickle that such files need; no code of a file is run
values.py         the values that files hold beside tensors
"""
