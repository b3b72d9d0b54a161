"""Utilities around tensors: data in batches, and (imported by name) the support of einops."""

from tinytensor.utils import data
