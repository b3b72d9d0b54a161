"""The layers of einops as modules of tinytensor (interop/einops.py)."""

from tinytensor.interop.einops import EinMix, Rearrange, Reduce

__all__ = ["EinMix", "Rearrange", "Reduce"]
