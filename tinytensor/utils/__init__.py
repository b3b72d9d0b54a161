"""What programs need around tensors: data in batches, and (imported by name) what einops needs."""

from tinytensor.utils import data
