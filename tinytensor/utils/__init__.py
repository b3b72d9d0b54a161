"""What programs need around tensors: data in batches."""

from tinytensor.utils import data
