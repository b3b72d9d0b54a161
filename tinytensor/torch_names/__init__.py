"""PyTorch's names beyond operations: older constructors, dtype queries, devices, and what replaces missing names."""
