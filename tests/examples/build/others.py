"""Other right answers than the solutions, as a student might write them: file -> function -> its code."""

OTHERS = {
    "slopes.py": {
        "mul": "return (a * b, [b, a])",
        "relu": "return (a > 0) * a, (a > 0,)",
        "tanh": "y = 2 / (1 + np.exp(-2 * a)) - 1\nreturn y, ((1 - y) * (1 + y),)",
    },
    "tape.py": {
        "Tensor.receive": "self.grad += unbroadcast(g, self.data.shape)",
        "Tensor.send": "for edge in self.edges:\n    edge[0].receive(edge[1](self.grad))",
        "Tensor.__neg__": "return record(lambda a: (-a, (-1.0,)), self)",
        "Tensor.__sub__": "return record(lambda a, b: (a - b, (1.0, -1.0)), self, other)",
        "Tensor.__truediv__": "return record(lambda a, b: (a / b, (1 / b, -a / b**2)), self, other)",
        "pull_by": "def pull(g):\n    return slope * g\nreturn pull",
    },
    "order.py": {
        "order": """
done, seen, stack = [], {id(last)}, [(last, 0)]
while stack:
    tensor, place = stack.pop()
    if place == len(tensor.edges):
        done.append(tensor)
        continue
    stack.append((tensor, place + 1))
    source = tensor.edges[place][0]
    if id(source) not in seen:
        seen.add(id(source))
        stack.append((source, 0))
done.reverse()
return done""",
        "zero_grad": "for tensor in tensors:\n    tensor.grad = np.zeros_like(tensor.data)",
        "backward": """
for tensor in order(last):
    if tensor.edges:
        tensor.grad = 0.0
last.receive(np.ones(last.shape))
for tensor in order(last):
    tensor.send()""",
    },
    "shapes.py": {
        "unbroadcast": """
while g.ndim > len(shape):
    g = g.sum(axis=0)
return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)""",
    },
    "sums.py": {
        "total": """
kept = x.data.sum(axis=axis, keepdims=True).shape
y = x.data.sum(axis=axis, keepdims=keepdims)
return Tensor(y, [(x, lambda g: np.ones(x.shape) * g.reshape(kept))])""",
        "mean": "return total(x, axis, keepdims) / (x.data.size if axis is None else x.shape[axis])",
    },
    "softmax.py": {
        "softmax": """
from .sums import total
e = (x - x.data.max(axis=-1, keepdims=True)).exp()
return e / total(e, -1, True)""",
        "cross_entropy": """
from .sums import mean, total
z = logits - logits.data.max(axis=1, keepdims=True)
picked = z * np.eye(logits.shape[1])[targets]
return mean(total(z.exp(), 1).log() - total(picked, 1))""",
    },
    "norm.py": {
        "normalize": """
from .sums import mean
centred = x - mean(x, -1, True)
return centred * (1 / (mean(centred * centred, -1, True) + eps) ** 0.5)""",
        "layer_norm": "return bias + gain * normalize(x, eps)",
    },
    "attention.py": {
        "causal_mask": "i = np.arange(n)\nreturn np.where(i[None, :] > i[:, None], -np.inf, 0.0)",
        "attention_weights": """
s = q @ swap(k, -2, -1) / np.sqrt(q.shape[-1])
return softmax(causal_mask(q.shape[-2]) + s)""",
        "split_heads": """
B, n, D = x.shape
return swap(reshape(x, (B, n, H, -1)), -3, -2)""",
    },
    "modules.py": {
        "Module.parameters": """
found = {}
def look(part):
    if isinstance(part, Tensor):
        found[id(part)] = part
    elif isinstance(part, Module):
        look(list(vars(part).values()))
    elif isinstance(part, (list, tuple)):
        for inner in part:
            look(inner)
look(self)
return list(found.values())""",
        "AdamW.step": """
self.t += 1
for x, m, v in zip(self.parameters, self.m, self.v):
    m += (1 - self.betas[0]) * (x.grad - m)
    v += (1 - self.betas[1]) * (x.grad * x.grad - v)
    x.data *= 1 - self.rate * self.decay
    root = np.sqrt(v / (1 - self.betas[1] ** self.t)) + self.eps
    x.data -= self.rate * m / (1 - self.betas[0] ** self.t) / root""",
    },
    "transformer.py": {
        "batch_of": "return np.stack([t[i : i + n + 1] for i in random.integers(0, len(t) - n, count)])",
        "loss_of": """
logits = model(t[:, :-1])
return cross_entropy(reshape(logits, (-1, logits.shape[-1])), t[:, 1:].ravel())""",
        "train_step": """
loss = loss_of(model, t)
zero_grad(model.parameters())
backward(loss)
optimizer.step()
return loss.data.item()""",
        "sample": """
written = [*t]
while len(written) < len(t) + count:
    q = softmax(model(np.array(written[-model.C:])[None])[0, -1] / temperature)
    written.append(random.choice(q.shape[0], p=q.data))
return written""",
    },
}
