"""Wrong answers for each function of the ten steps, as changes of the solutions, and what is to be said of them.

Each line: the file and function, what stands in the solution, what a student might write, and a part of the sentence.
"""

RECURSIVE = """done = []
    def go(tensor):
        for source, _ in tensor.edges:
            if source not in done:
                go(source)
        done.append(tensor)
    go(last)
    return done[::-1]
    uses, found = {last: 0}, [last]"""

THROUGH_THE_GRADIENT = """for i, x in enumerate(self.parameters):
            x.grad = x.grad + self.decay * x.data
            x.data = x.data / (1 - self.rate * self.decay)"""

IN_NO_ORDER = """def go(tensor):
        tensor.send()
        for source, _ in tensor.edges:
            go(source)
    go(last)"""

PLANTS = [
    # step 1
    ("slopes.py", "mul", "(b, a)", "(a, b)", "swapped"),
    ("slopes.py", "mul", "return a * b, (b, a)", "return a * b", "should return two things"),
    ("slopes.py", "power", "(n * a ** (n - 1),)", "(a ** (n - 1),)", "The factor n is missing."),
    ("slopes.py", "power", "(n * a ** (n - 1),)", "n * a ** (n - 1)", "`(slope,)` with the comma"),
    ("slopes.py", "power", "(n * a ** (n - 1),)", "(n * a ** n,)", "The exponent of the slope is n - 1"),
    ("slopes.py", "exp", "return y, (y,)", "return y, (a,)", "The slope of e^a is e^a"),
    ("slopes.py", "exp", "np.exp(a)", "__import__('math').exp(a)", "use NumPy's functions"),
    ("slopes.py", "log", "(1 / a,)", "(1 / np.log(a),)", "with the input a"),
    ("slopes.py", "log", "np.log(a)", "np.log10(a)", "natural logarithm"),
    ("slopes.py", "tanh", "1 - y * y", "1 - a * a", "not 1 - a²"),
    ("slopes.py", "power", "a**n, (n * a ** (n - 1),)", "np.exp(n * np.log(a)), (n * a ** (n - 1),)", "not nan"),
    ("slopes.py", "relu", "np.where(a > 0, 1.0, 0.0)", "np.ones_like(a)", "the slope is 0"),
    ("slopes.py", "relu", "np.where(a > 0, 1.0, 0.0)", "np.where(a >= 0, 1.0, 0.0)", "Where a is 0 take the slope 0."),
    ("slopes.py", "relu", "np.maximum(a, 0)", "max(a, 0)", "np.maximum can"),
    # step 2
    ("tape.py", "pull_by", "g * slope", "slope", "Multiply the slope by the gradient g"),
    ("tape.py", "pull_by", "lambda g: g * slope", "slope", "should return a function of g"),
    (
        "tape.py",
        "record",
        "(x, pull_by(slope)) for x, slope",
        "(x, lambda g: g * slope) for x, slope",
        "A lambda in a loop sees only the last one",
    ),
    (
        "tape.py",
        "record",
        "inputs = [as_tensor(x) for x in inputs]",
        "inputs = [Tensor(x.data) for x in inputs]",
        "not new tensors",
    ),
    ("tape.py", "record", "[(x, pull_by(slope))", "[(Tensor(x.data), pull_by(slope))", "not new tensors"),
    ("tape.py", "record", "rule(*(x.data for x in inputs))", "rule(*inputs)", "record hands tensors to the rule"),
    ("tape.py", "Tensor.receive", "self.grad + unbroadcast", "unbroadcast", "do not replace it"),
    ("tape.py", "Tensor.receive", "unbroadcast(g, self.shape)", "g", "must add unbroadcast(g, self.shape), not g"),
    ("tape.py", "Tensor.send", "source.receive(pull(self.grad))", "source.grad = pull(self.grad)", "a is used twice"),
    ("tape.py", "Tensor.send", "pull(self.grad)", "pull(1.0)", "not 1"),
    ("tape.py", "Tensor.send", "pull(self.grad)", "self.grad", "apply pull to it"),
    ("tape.py", "Tensor.__mul__", "slopes.mul", "slopes.add", "a * b at a ="),
    ("tape.py", "Tensor.__pow__", "slopes.power(a, n)", "slopes.power(a, 2)", "a ** 3 at a ="),
    ("tape.py", "Tensor.__neg__", "self * -1.0", "Tensor(-self.data)", "without `record`"),
    ("tape.py", "Tensor.__sub__", "self + -as_tensor(other)", "as_tensor(other) + -self", "That is b - a."),
    ("tape.py", "Tensor.__truediv__", "self * as_tensor(other) ** -1", "as_tensor(other) * self**-1", "That is b / a."),
    ("tape.py", "Tensor.exp", "record(slopes.exp, self)", "np.exp(self.data)", "should return a Tensor"),
    ("tape.py", "Tensor.log", "record(slopes.log, self)", "record(slopes.exp, self)", "a.log() at a ="),
    ("tape.py", "Tensor.tanh", "return record(slopes.tanh, self)", "record(slopes.tanh, self)", "returns nothing"),
    ("tape.py", "Tensor.relu", "record(slopes.relu, self)", "self", "a.relu()"),
    # step 3
    ("order.py", "order", "if uses[source] == 0:", "if source not in ordered + ready:", "complete"),
    ("order.py", "order", "if uses[source] == 0:", "if True:", "lists a tensor twice"),
    ("order.py", "order", "return ordered", "return ordered[::-1]", "the wrong way round"),
    ("order.py", "order", "return ordered", "return ordered[1:]", "leaves out `last`"),
    (
        "order.py",
        "order",
        "return ordered",
        "return [t for t in ordered if t.edges or t is last]",
        "without edges belong",
    ),
    ("order.py", "order", "uses, found = {last: 0}, [last]", RECURSIVE, "use a loop"),
    ("order.py", "zero_grad", "tensor.grad = 0.0", "tensor.grad == 0.0", "is 7.0"),
    (
        "order.py",
        "backward",
        "zero_grad([tensor for tensor in tensors if tensor.edges])",
        "pass",
        "the first call again",
    ),
    ("order.py", "backward", "if tensor.edges])", "])", "a has lost its first gradient"),
    ("order.py", "backward", "np.ones_like", "np.zeros_like", "No gradient arrives"),
    (
        "order.py",
        "backward",
        "for tensor in tensors:\n        tensor.send()",
        IN_NO_ORDER,
        "A tensor has sent twice",
    ),
    # step 4
    ("shapes.py", "unbroadcast", "g = g.sum(axis=axis, keepdims=True)", "pass", "with keepdims=True"),
    (
        "shapes.py",
        "unbroadcast",
        "g = g.sum(axis=tuple(range(g.ndim - len(shape))))",
        "g = g.mean(axis=tuple(range(g.ndim - len(shape))))",
        "do not average",
    ),
    ("shapes.py", "unbroadcast", "if g.shape == shape:", "if True:", "The axes in front"),
    ("sums.py", "total", "np.broadcast_to(g, x.shape)", "np.broadcast_to(g / x.data.size, x.shape)", ", not "),
    ("sums.py", "total", "g = np.expand_dims(g, axis)", "pass", "total"),
    ("sums.py", "mean", "y * (y.data.size / x.data.size)", "y", "That is the sum"),
    (
        "sums.py",
        "mean",
        "return y * (y.data.size / x.data.size)",
        "return Tensor(x.data.mean(axis=axis, keepdims=keepdims), y.edges)",
        "1/N is missing",
    ),
    # step 5
    ("matrices.py", "matmul", "g @ np.swapaxes(b.data, -1, -2)", "g @ b.data", "The wrong factor is transposed"),
    ("matrices.py", "matmul", "np.swapaxes(a.data, -1, -2) @ g", "g @ np.swapaxes(a.data, -1, -2)", "dL/dB = Aᵀ dL/dY"),
    ("matrices.py", "matmul", "np.swapaxes(a.data, -1, -2)", "a.data.T", "a stack of matrices"),
    ("matrices.py", "reshape", "g.reshape(x.shape)", "g", "A gradient has the shape"),
    ("matrices.py", "swap", "np.swapaxes(g, i, j)", "g", "Swap the axes of the gradient back"),
    ("matrices.py", "take", "np.add.at(d, index, g)", "d[index] += g", "receives several gradients"),
    # step 6
    (
        "softmax.py",
        "softmax",
        "np.exp(x.data - x.data.max(axis=-1, keepdims=True))",
        "np.exp(x.data)",
        "Subtract the largest",
    ),
    (
        "softmax.py",
        "softmax",
        "q * (g - (g * q).sum(axis=-1, keepdims=True))",
        "q * g",
        "the sum Σ g q is to be subtracted",
    ),
    (
        "softmax.py",
        "softmax",
        "q * (g - (g * q).sum(axis=-1, keepdims=True))",
        "q * (1 - q) * g",
        "depends on all logits",
    ),
    ("softmax.py", "softmax", "e / e.sum(axis=-1, keepdims=True)", "e / e.sum()", "keepdims=True"),
    ("softmax.py", "cross_entropy", "return g * d / len(targets)", "return g * d", "1/N is missing in the gradient"),
    ("softmax.py", "cross_entropy", "d[rows, targets] -= 1", "pass", "subtract 1 at the right answers"),
    ("softmax.py", "cross_entropy", "return g * d / len(targets)", "return -g * d / len(targets)", "The sign is wrong"),
    ("softmax.py", "cross_entropy", ".mean(), [", ".sum(), [", "not their sum"),
    ("softmax.py", "cross_entropy", " - logits.data.max(axis=-1, keepdims=True)", "", "Subtract the largest logit"),
    # step 7
    (
        "norm.py",
        "normalize",
        "(dz - dz.mean(axis=-1, keepdims=True) - z * (z * dz).mean(axis=-1, keepdims=True))",
        "dz",
        "constants",
    ),
    ("norm.py", "normalize", "- z * (z * dz).mean(axis=-1, keepdims=True)", "", "r was taken for a constant"),
    (
        "norm.py",
        "normalize",
        "np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)",
        "(np.sqrt((centred**2).mean(axis=-1, keepdims=True)) + eps)",
        "under the root",
    ),
    (
        "norm.py",
        "normalize",
        "(centred**2).mean(axis=-1, keepdims=True)",
        "x.data.var(axis=-1, keepdims=True, ddof=1)",
        "1/D",
    ),
    ("norm.py", "layer_norm", "* gain + bias", "* bias + gain", "swapped"),
    # step 8
    ("attention.py", "causal_mask", "-np.inf), 1)", "-np.inf), 0)", "may read itself"),
    (
        "attention.py",
        "causal_mask",
        "np.triu(np.full((n, n), -np.inf), 1)",
        "np.triu(np.ones((n, n)), 1) * -np.inf",
        "not a number",
    ),
    (
        "attention.py",
        "causal_mask",
        "np.triu(np.full((n, n), -np.inf), 1)",
        "np.tril(np.full((n, n), -np.inf), -1)",
        "transposed",
    ),
    ("attention.py", "attention_weights", " * (1 / np.sqrt(K))", "", "not divided by √K"),
    (
        "attention.py",
        "attention_weights",
        "softmax(scores + causal_mask(n))",
        "softmax(scores) * np.tril(np.ones((n, n)))",
        "after the softmax",
    ),
    ("attention.py", "attention_weights", "scores + causal_mask(n)", "scores", "The mask is missing"),
    (
        "attention.py",
        "attention",
        "matmul(attention_weights(q, k), v)",
        "matmul(swap(attention_weights(q, k), -1, -2), v)",
        "transposed",
    ),
    (
        "attention.py",
        "split_heads",
        "swap(reshape(x, (B, n, H, D // H)), 1, 2)",
        "reshape(x, (B, H, n, D // H))",
        "mixes positions",
    ),
    (
        "attention.py",
        "split_heads",
        "swap(reshape(x, (B, n, H, D // H)), 1, 2)",
        "reshape(x, (B, n, H, D // H))",
        "not swapped yet",
    ),
    ("attention.py", "join_heads", "swap(x, 1, 2)", "x", "Swap the axes 1 and 2 back"),
    # step 9
    ("modules.py", "Module.parameters", "isinstance(place, list)", "isinstance(place, set)", "finds 0 of 2"),
    (
        "modules.py",
        "Module.parameters",
        "isinstance(place, Module)",
        "isinstance(place, set)",
        "a tensor, and a module",
    ),
    ("modules.py", "Module.parameters", "if not any(place is other for other in found):", "if True:", "twice"),
    ("modules.py", "Linear.__init__", " / np.sqrt(inputs)", "", "Divide by √inputs"),
    (
        "modules.py",
        "Linear.__init__",
        "self.b = Tensor(np.zeros(outputs))",
        "self.b = np.zeros(outputs)",
        "a Tensor self.b",
    ),
    ("modules.py", "Linear.__call__", " + self.b", "", "The bias b is missing"),
    (
        "modules.py",
        "LayerNorm.__init__",
        "Tensor(np.ones(D)), Tensor(np.zeros(D))",
        "Tensor(np.zeros(D)), Tensor(np.ones(D))",
        "then y = z",
    ),
    ("modules.py", "LayerNorm.__call__", "self.gain, self.bias)", "self.bias, self.gain)", "LayerNorm(4)(x)"),
    (
        "modules.py",
        "AdamW.step",
        "self.m[i] / (1 - b1**self.t), self.v[i] / (1 - b2**self.t)",
        "self.m[i], self.v[i]",
        "bias correction",
    ),
    (
        "modules.py",
        "AdamW.step",
        "for i, x in enumerate(self.parameters):",
        THROUGH_THE_GRADIENT,
        "went through the gradient",
    ),
    ("modules.py", "AdamW.step", "x.data = x.data - self.rate * self.decay * x.data", "pass", "The decay is missing"),
    ("modules.py", "AdamW.__init__", "self.t = 0", "self.t = 1", "should be 0"),
    ("modules.py", "AdamW.__init__", "[np.zeros(x.shape) for x in self.parameters]", "0.0", "should be a list"),
    ("modules.py", "AdamW.step", "self.t += 1", "self.t = 1", "Does self.t grow"),
    ("modules.py", "AdamW.step", "/ (np.sqrt(v) + self.eps)", "/ (np.sqrt(v) + self.eps) - 0.02 * x.data", ", not "),
    ("modules.py", "AdamW.step", "x.grad**2", "x.grad", "v averages the squares"),
    # step 10
    (
        "transformer.py",
        "Block.__init__",
        "(Linear(D, D, random) for _ in range(4))",
        "[Linear(D, D, random)] * 4",
        "one and the same",
    ),
    ("transformer.py", "Block.__init__", "Linear(4 * D, D, random)", "Linear(D, 4 * D, random)", "should have (32, 8)"),
    ("transformer.py", "Block.__init__", "self.H = H", "self.heads = H", "self.H = 2"),
    (
        "transformer.py",
        "Transformer.__init__",
        "[Block(D, H, random) for _ in range(L)]",
        "[Block(D, H, random)] * L",
        "make a new one",
    ),
    (
        "transformer.py",
        "Transformer.__init__",
        "self.P = Tensor(random.standard_normal((C, D)) * 0.1)",
        "self.P = Tensor(np.zeros((C, D)))",
        "their size is 0",
    ),
    ("transformer.py", "Transformer.__init__", "(V, D)) * 0.1", "(V, D))", "their size is"),
    ("transformer.py", "batch_of", "np.arange(n + 1)", "np.arange(n)", "n + 1 characters"),
    ("transformer.py", "batch_of", "len(t) - n,", "len(t) - n - 1,", "begin at 0, 1, 2, 3, 4, 5, 6, 7 only"),
    (
        "transformer.py",
        "batch_of",
        "starts[:, None] + np.arange(n + 1)",
        "random.integers(len(t), size=(count, n + 1))",
        "follow each other",
    ),
    ("transformer.py", "Block.__call__", "return Z + self.G", "return self.G", "Block(Z)"),
    ("transformer.py", "Block.__call__", "self.norm2(Z)).relu()", "self.norm2(Z))", "The relu between F and G"),
    ("transformer.py", "Block.__call__", "self.norm2(Z)", "self.norm1(Z)", "a norm of its own"),
    ("transformer.py", "Transformer.__call__", " + take(self.P, slice(0, t.shape[1]))", "", "positions are missing"),
    ("transformer.py", "Transformer.__call__", "self.O(self.norm(Z))", "self.O(Z)", "The last norm"),
    ("transformer.py", "Transformer.__call__", "slice(0, t.shape[1])", "slice(None)", "stops with an error"),
    ("transformer.py", "loss_of", "t[:, 1:].reshape(-1)", "t[:, :-1].reshape(-1)", "the inputs themselves"),
    ("transformer.py", "train_step", "zero_grad(optimizer.parameters)", "pass", "zero_grad is missing"),
    ("transformer.py", "train_step", "float(loss.data)", "loss", "as a number"),
    ("transformer.py", "train_step", "optimizer.step()", "pass", "Nothing has moved"),
    ("transformer.py", "sample", "int(random.choice(len(q), p=q))", "int(q.argmax())", "draw with random.choice"),
    ("transformer.py", "sample", "logits / temperature", "logits * temperature", "do not multiply"),
    ("transformer.py", "sample", "t[-model.C :]", "t", "stops with an error"),
    ("transformer.py", "sample", ".data[0, -1]", ".data[0, 0]", "follows the last one"),
    ("transformer.py", "sample", "t = list(t)", "pass", "has changed the list"),
]
