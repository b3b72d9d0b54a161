"""PyTorch's names beyond operations: distributions, dtype queries, devices, module paths; errors for missing names."""
