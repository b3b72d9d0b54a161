"""The steps as notebooks."""
