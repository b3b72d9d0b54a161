"""group_norm, composed of layer_norm."""

from tinytensor.core.registry import register
from tinytensor.core.tensor import Tensor
from tinytensor.ops.arguments import only_floats
from tinytensor.ops.shape import reshape
from tinytensor.ops.statistics import var_mean


@register("F.group_norm")
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    r"""y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta, with \mu and \sigma^2 of each group of channels.

    x is (N, C, ...); \gamma and \delta are (C,).
    """
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm: {num_groups} groups of the channels of {input.shape}: they do not come out even"
        )
    input, weight, bias = only_floats("group_norm", input, weight, bias)
    groups = reshape(input, (input.shape[0], num_groups, -1))
    variance, centre = var_mean(groups, -1, correction=0, keepdim=True)
    y = reshape((groups - centre) * (variance + eps).rsqrt(), input.shape)
    shape = (1, -1) + (1,) * (input.ndim - 2)
    y = y if weight is None else y * reshape(weight, shape)
    return y if bias is None else y + reshape(bias, shape)
