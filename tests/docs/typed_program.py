"""A user's program, as mypy --strict and pyright must accept it; assert_type says what they must see."""

import math
from typing import assert_type

import tinytensor as tt
from tinytensor import nn
from tinytensor.func import hessian, vmap
from tinytensor.nn import functional as F
from tinytensor.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, width: int, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.first, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.act = nn.GELU()
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: tt.Tensor) -> tt.Tensor:
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.first(self.norm(x)).chunk(3, dim=-1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        hidden = tt.ones(x.shape[1], x.shape[1], dtype=tt.bool).triu(1)
        weights = F.softmax(tt.where(hidden, tt.tensor(-1e9), scores), dim=-1)
        y = self.last((weights @ v).transpose(1, 2).flatten(2))
        return x + self.dropout(self.act(assert_type(y, tt.Tensor)))


class Model(nn.Module):
    def __init__(self, vocabulary: int, width: int, depth: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.scale = nn.Parameter(tt.ones(width))
        self.register_buffer("steps", tt.zeros(1))
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, vocabulary))

    def forward(self, tokens: tt.Tensor) -> tt.Tensor:
        x = self.embedding(tokens) * self.scale
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def main() -> float:
    tt.manual_seed(0)
    text = tt.randint(0, 11, (16, 9))
    data = TensorDataset(text[:, :-1], text[:, 1:])
    model = Model(11, 8, depth=2)
    optimizer = tt.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    schedule = tt.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))

    @tt.compile
    def step(tokens: tt.Tensor, targets: tt.Tensor) -> tt.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    losses: list[float] = []
    for _ in range(2):
        for tokens, targets in DataLoader(data, batch_size=4, shuffle=True):
            loss = step(tokens, targets)
            losses.append(assert_type(loss, tt.Tensor).item())
        schedule.step()
    model.eval()
    with tt.no_grad():
        probabilities = F.softmax(model(text[:1, :-1])[0, -1], dim=-1)
        best = int(probabilities.argmax())
        top, positions = probabilities.topk(3)
        model.scale[0] += 0.5 * probabilities[best]
    x = tt.tensor([1.0, 2.0], requires_grad=True)
    (g,) = assert_type(tt.autograd.grad((x * x).sum(), x), tuple[tt.Tensor, ...])
    curvature = vmap(hessian(lambda x: (x**3).sum()))(x.detach().reshape(2, 1))
    half = -((g[0] / 2) ** 2) + 1 - x.detach().numpy().sum()
    state = model.state_dict()
    shapes = {name: tuple(value.shape) for name, value in state.items()}
    model.load_state_dict({name: value.clone() for name, value in state.items()})
    print(f"{losses[-1]:.2f}", shapes["scale"], len(top.tolist()), positions.dtype, half.item(), curvature.shape)
    return sum(losses) / len(losses)


if __name__ == "__main__":
    main()
