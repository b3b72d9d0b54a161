"""Layers, except attention and recurrent ones: linear, embedding, norms, dropout, convolution and others."""

import math
from collections.abc import Sequence

from tinytensor.core.dtypes import int64
from tinytensor.core.modes import no_grad
from tinytensor.core.tensor import Tensor
from tinytensor.nn import functional as F
from tinytensor.nn import init
from tinytensor.nn.module import Module, Parameter
from tinytensor.ops.creation import empty, full, ones, zeros
from tinytensor.ops.fused import linear
from tinytensor.ops.products import einsum


class Linear(Module):
    """y = x w^T + b, with w (out, in); both uniform on +-1/sqrt(in) at first."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True, device=None, dtype=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(empty(out_features, in_features, device=device, dtype=dtype))
        self.register_parameter("bias", None)
        if bias:
            self.bias = Parameter(empty(out_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        if self.weight.device == "meta":
            return
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """y = the rows of the weight (num_embeddings, embedding_dim) that the indices name; normal at first.

    The E of eq. (1) of 003. The row `padding_idx` is 0 at first, and gets no gradient; `max_norm`, `norm_type` and
    `scale_grad_by_freq` are those of functional.embedding().
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        if sparse:
            raise NotImplementedError(
                "Embedding: sparse=True is not offered, gradients are dense here; leave it out, the values are the same"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ValueError(f"Embedding: padding_idx {padding_idx} is outside {num_embeddings} embeddings")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if _weight is None:
            weight = empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
            self.weight = Parameter(weight, requires_grad=not _freeze)
            self.reset_parameters()
            return
        if _weight.shape != (num_embeddings, embedding_dim):
            raise ValueError(
                f"Embedding: a weight of shape {_weight.shape}, expected ({num_embeddings}, {embedding_dim})"
            )
        self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None and self.weight.device != "meta":
            with no_grad():
                self.weight[self.padding_idx] = 0

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> "Embedding":
        """An embedding with given rows, not trained unless `freeze` is False."""
        if embeddings.ndim != 2:
            raise ValueError(f"Embedding.from_pretrained: expected rows of shape (V, D), got {embeddings.shape}")
        options = {"max_norm": max_norm, "norm_type": norm_type, "scale_grad_by_freq": scale_grad_by_freq}
        options |= {"sparse": sparse, "_weight": embeddings, "_freeze": freeze}
        return cls(*embeddings.shape, padding_idx, **options)

    def forward(self, input: Tensor) -> Tensor:
        options = self.max_norm, self.norm_type, self.scale_grad_by_freq
        return F.embedding(input, self.weight, self.padding_idx, *options)

    def extra_repr(self):
        shown = [f"{self.num_embeddings}, {self.embedding_dim}"]
        plain = {"padding_idx": None, "max_norm": None, "norm_type": 2, "scale_grad_by_freq": False}
        shown += [f"{name}={getattr(self, name)}" for name, value in plain.items() if getattr(self, name) != value]
        return ", ".join(shown)


class LayerNorm(Module):
    r"""y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta; without affine there are no \gamma, \delta (003)."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = (
            tuple(normalized_shape) if isinstance(normalized_shape, tuple | list) else (normalized_shape,)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", None)
        self.register_parameter("bias", None)
        if elementwise_affine:
            self.weight = Parameter(ones(*self.normalized_shape, device=device, dtype=dtype))
            if bias:
                self.bias = Parameter(zeros(*self.normalized_shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    r"""y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta, over each group of channels; x is (N, C, ...)."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device=None, dtype=None
    ):
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels do not make {num_groups} groups of one size")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.register_parameter("weight", Parameter(ones(num_channels, device=device, dtype=dtype)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_channels, device=device, dtype=dtype)) if affine else None)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class RMSNorm(Module):
    r"""y = \gamma x / \sqrt{\overline{x^2} + \epsilon}; Zhang and Sennrich (2019)."""

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.normalized_shape = (
            tuple(normalized_shape) if isinstance(normalized_shape, tuple | list) else (normalized_shape,)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter("weight", None)
        if elementwise_affine:
            self.weight = Parameter(ones(*self.normalized_shape, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class Dropout(Module):
    """While training, 0 with probability p, and the rest scaled by 1 / (1 - p); Srivastava and others (2014)."""

    _drop = staticmethod(F.dropout)

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: the probability must be between 0 and 1, got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return self._drop(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout):
    """While training, whole channels of (N, C, L) or (C, L) are 0 with probability p, and the rest scaled."""

    _drop = staticmethod(F.dropout1d)


class Dropout2d(Dropout):
    """While training, whole channels of (N, C, H, W) are 0 with probability p, and the rest scaled."""

    _drop = staticmethod(F.dropout2d)


class Dropout3d(Dropout):
    """While training, whole channels of (N, C, D, H, W) are 0 with probability p, and the rest scaled."""

    _drop = staticmethod(F.dropout3d)


class Threshold(Module):
    """y = x where x > threshold, else the value."""

    def __init__(self, threshold: float, value: float, inplace: bool = False):
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self):
        return f"threshold={self.threshold}, value={self.value}{', inplace=True' if self.inplace else ''}"


class PReLU(Module):
    """y = x where x > 0, else w x, with one trained w, or one for each of num_parameters channels."""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device=None, dtype=None):
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self):
        return f"num_parameters={self.num_parameters}"


class Identity(Module):
    """y = x."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Flatten(Module):
    """Join the dimensions from start_dim to end_dim into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """Split one dimension into several."""

    def __init__(self, dim: int, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, tuple(self.unflattened_size))

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class ZeroPad2d(Module):
    """Zeros around the last two dimensions: the same number on all sides, or (left, right, top, bottom)."""

    def __init__(self, padding: int | Sequence[int]):
        super().__init__()
        self.padding = (padding,) * 4 if isinstance(padding, int) else tuple(padding)
        if len(self.padding) != 4:
            raise ValueError(f"ZeroPad2d: expected a number or (left, right, top, bottom), got {self.padding}")

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding)

    def extra_repr(self):
        return f"{self.padding}"


class Bilinear(Module):
    r"""y_k = x^T W_k z + b_k, with W (out, in1, in2)."""

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device=None, dtype=None
    ):
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = Parameter(empty(out_features, in1_features, in2_features, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        bound = 1 / math.sqrt(self.in1_features)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        y = einsum("...i,kij,...j->...k", input1, self.weight, input2)
        return y if self.bias is None else y + self.bias

    def extra_repr(self):
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class BatchNorm1d(Module):
    r"""y = \gamma (x - \mu) / \sqrt{\sigma^2 + \epsilon} + \delta for each channel, over the batch.

    From Ioffe and Szegedy (2015).

    x is (N, C) or (N, C, L). While training \mu and \sigma^2 are those of the batch, and the running ones move towards
    them by the share `momentum` (None: they are the mean of all batches so far). Evaluation uses the running ones.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device=None,
        dtype=None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        where = {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(ones(num_features, **where)) if affine else None)
        self.register_parameter("bias", Parameter(zeros(num_features, **where)) if affine and bias else None)
        self.register_buffer("running_mean", zeros(num_features, **where) if track_running_stats else None)
        self.register_buffer("running_var", ones(num_features, **where) if track_running_stats else None)
        batches = zeros((), device=device, dtype=int64)
        self.register_buffer("num_batches_tracked", batches if track_running_stats else None)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (2, 3) or input.shape[1] != self.num_features:
            raise ValueError(
                f"BatchNorm1d: input of shape {input.shape}, expected (N, {self.num_features}) or "
                f"(N, {self.num_features}, L)"
            )
        shape = (1, -1) + (1,) * (input.ndim - 2)
        if self.training or not self.track_running_stats:
            dims = (0,) if input.ndim == 2 else (0, 2)
            n = input.numel() // self.num_features
            if self.training and n < 2:
                raise ValueError(f"BatchNorm1d: one value per channel has no variance; got an input of {input.shape}")
            mean, var = input.mean(dims), input.var(dims, correction=0)
            if self.training and self.track_running_stats:
                self._follow(mean.detach(), var.detach() * (n / (n - 1)))
        else:
            mean, var = self.running_mean, self.running_var
        y = (input - mean.reshape(shape)) * (var.reshape(shape) + self.eps).rsqrt()
        y = y if self.weight is None else y * self.weight.reshape(shape)
        return y if self.bias is None else y + self.bias.reshape(shape)

    def _follow(self, mean: Tensor, var: Tensor) -> None:
        with no_grad():
            self.num_batches_tracked.add_(1)
            share = 1 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
            self.running_mean.add_((mean - self.running_mean) * share)
            self.running_var.add_((var - self.running_var) * share)

    def extra_repr(self):
        shown = f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"
        return f"{shown}, bias={self.bias is not None}, track_running_stats={self.track_running_stats}"


class Conv1d(Module):
    r"""y_{n o l} = b_o + \sum_{c k} w_{o c k} x_{n c (s l + d k)}: x (N, C, L) or (C, L), w (out, in / groups, kernel).

    The windows are laid side by side, and multiplied by the weight as one matrix.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int],
        stride: int | tuple[int] = 1,
        padding: int | str | tuple[int] = 0,
        dilation: int | tuple[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device=None,
        dtype=None,
    ):
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"Conv1d: {in_channels} and {out_channels} channels are not both multiples of groups={groups}"
            )
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(f"Conv1d: padding_mode {padding_mode!r}: expected zeros, reflect, replicate or circular")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.padding_mode = padding_mode
        self.kernel_size, self.stride, self.dilation = (_single(n) for n in (kernel_size, stride, dilation))
        if isinstance(padding, str):
            spread = self.dilation[0] * (self.kernel_size[0] - 1)
            if padding not in ("valid", "same") or (padding == "same" and (spread % 2 or self.stride != (1,))):
                raise ValueError(
                    f"Conv1d: padding {padding!r}: expected a number, 'valid', or 'same' for an odd kernel of stride 1"
                )
            padding = spread // 2 if padding == "same" else 0
        self.padding = _single(padding)
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(*shape, device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        bound = 1 / math.sqrt(self.in_channels // self.groups * self.kernel_size[0])
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self.padding * 2, self.padding_mode), 0
        return F.conv1d(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        shown = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        shown += "" if self.padding == (0,) else f", padding={self.padding}"
        shown += "" if self.dilation == (1,) else f", dilation={self.dilation}"
        shown += "" if self.groups == 1 else f", groups={self.groups}"
        shown += "" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}"
        return shown + ("" if self.bias is not None else ", bias=False")


def _single(n: int | tuple[int]) -> tuple[int]:
    return tuple(n) if isinstance(n, tuple | list) else (n,)
