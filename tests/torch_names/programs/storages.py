"""The size of a model whose weights share memory, as programs count it, and the time of a product."""

import torch
import torch.utils.benchmark as benchmark
from torch import nn


def run():
    first, last = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    last.weight = first.weight
    extra = nn.Parameter(first.weight.detach()[1:3])
    tensors = [first.weight, last.weight, extra, nn.Parameter(torch.zeros(4))]
    by_address = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in tensors}
    x = torch.arange(6.0).reshape(2, 3)
    part = x.t()[1:]
    seen = [part.storage().tolist(), part.storage().size(), part.storage()[2], len(part.untyped_storage())]
    for degenerate in (torch.zeros(0), torch.tensor(3), torch.tensor([True, False]), torch.ones(2).expand(3, 2)):
        seen.append([degenerate.storage().tolist(), degenerate.untyped_storage().nbytes()])
    apart = x.clone().untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    timer = benchmark.Timer("x @ y", setup="y = x.t()", globals={"x": x}, label="product", num_threads=1)
    times = [timer.timeit(20), timer.blocked_autorange(min_run_time=0.01)]
    return {
        "bytes": sum(storage.nbytes() for storage in by_address.values()),
        "number": len(by_address),
        "seen": seen,
        "apart": apart,
        "numel": x.numel(),
        "times": [0 < t.median < 1 and 0 < t.mean < 1 and len(t.times) >= 1 for t in times],
    }
