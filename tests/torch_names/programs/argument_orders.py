"""The arguments in the order of PyTorch before 1.5: the factor before the tensor that it scales."""

import torch


def run():
    x, y = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double(), torch.tensor([[0.5, -1.0], [2.0, 0.0]]).double()
    v, changed = y[0], []
    for change in (
        lambda z: z.add_(0.25, y),
        lambda z: z.sub_(2, y),
        lambda z: z.addcmul_(-0.5, y, x),
        lambda z: z.addcdiv_(3, y, x),
        lambda z: z.addmm_(2, 0.5, x, y),
        lambda z: z.addmm_(2, x, y),
        lambda z: torch.add(z, 2, y),
        lambda z: torch.sub(z, 0, y),
        lambda z: torch.addmm(2, z, 0.5, x, y),
        lambda z: torch.addcmul(z, 2, y, y),
        lambda z: torch.addmv(0, v, 2.0, z, v),
        lambda z: torch.addr(1, z, 2, v, v),
        lambda z: torch.baddbmm(1, z[None], 2, z[None], z[None]),
        lambda z: torch.add(2, z),
    ):
        changed.append(change(x.clone()).tolist())
    w = x.clone().requires_grad_()
    torch.add(w, 3, w * y).sum().backward()
    return {"changed": changed, "gradient": w.grad.tolist()}
