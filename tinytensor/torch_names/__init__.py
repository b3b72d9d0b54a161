"""PyTorch's names beyond operations: dtype queries, devices, module paths, and errors that replace missing names."""
