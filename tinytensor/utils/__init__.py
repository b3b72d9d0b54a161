"""Utilities around tensors: data in batches, and the support of einops (loaded after einops itself)."""

from tinytensor.utils import data
