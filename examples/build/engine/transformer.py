"""Step 10: a transformer that learns to write. Lesson 13 teaches it: eqs. (1) to (18) of document 003.

All parts are there. A block has two sublayers, and each adds what it finds to the vectors Z of the positions:

    Z = Z + heads(norm1(Z)) W        what the position reads from others, (2) to (9)
    Z = Z + G relu(F norm2(Z))       what it makes of it, (10)

The model looks up a vector for each character, adds one for each position (1), applies its blocks and a last norm, and
ends with logits for the next character (11). So position i of the input predicts character i + 1: this is the target.

When the checks pass, `python -m examples.build FOLDER --milestone 10` trains it, or in the folder above this one
`python -m my_engine.transformer`: your engine needs NumPy and nothing else.
"""

import re
import sys
import textwrap
import time
from pydoc_data.topics import topics

import numpy as np

from .attention import attention, join_heads, split_heads
from .matrices import reshape, take
from .modules import AdamW, LayerNorm, Linear, Module
from .order import backward, zero_grad
from .softmax import cross_entropy, softmax
from .tape import Tensor


class Block(Module):
    """One layer: attention with H heads, then a network with one hidden layer of 4 D units."""

    def __init__(self, D, H, random):
        """H; layer norms norm1 and norm2 of width D; linear layers q, k, v, W from D to D, F to 4 D, G back to D."""
        # hole
        self.H = H
        self.norm1, self.norm2 = LayerNorm(D), LayerNorm(D)
        self.q, self.k, self.v, self.W = (Linear(D, D, random) for _ in range(4))
        self.F, self.G = Linear(D, 4 * D, random), Linear(4 * D, D, random)

    def __call__(self, Z):
        """Z (B, n, D) after the two sublayers."""
        # hole
        X = self.norm1(Z)
        q, k, v = (split_heads(part(X), self.H) for part in (self.q, self.k, self.v))  # each (B, H, n, K)
        Z = Z + self.W(join_heads(attention(q, k, v)))
        return Z + self.G(self.F(self.norm2(Z)).relu())


class Transformer(Module):
    """V characters, texts of at most C characters, vectors of width D, H heads, L blocks."""

    def __init__(self, V, C=64, D=48, H=4, L=2, seed=0):
        """C; the tensors E (V, D) and P (C, D), of random numbers times 0.1; a list of L blocks; norm; O from D to V.

        E has a vector for each character, P one for each position. All random numbers come from `random`.
        """
        random = np.random.default_rng(seed)
        # hole
        self.C = C
        self.E = Tensor(random.standard_normal((V, D)) * 0.1)
        self.P = Tensor(random.standard_normal((C, D)) * 0.1)
        self.blocks = [Block(D, H, random) for _ in range(L)]
        self.norm = LayerNorm(D)
        self.O = Linear(D, V, random)

    def __call__(self, t):
        """Logits (B, n, V) for the characters that follow, for t (B, n), whole numbers."""
        # hole
        Z = take(self.E, t) + take(self.P, slice(0, t.shape[1]))  # (B, n, D)
        for block in self.blocks:
            Z = block(Z)
        return self.O(self.norm(Z))


def loss_of(model, t):
    """The mean cross-entropy of the next characters, for texts t (B, n + 1): inputs are all but the last character."""
    # hole
    logits = model(t[:, :-1])
    B, n, V = logits.shape
    return cross_entropy(reshape(logits, (B * n, V)), t[:, 1:].reshape(-1))


def batch_of(t, count, n, random):
    """`count` pieces of n + 1 characters each, from random places of the long array t: an array (count, n + 1).

    random.integers(stop, size=count) draws from 0 to stop - 1; the last place that may be drawn is len(t) - n - 1.
    """
    # hole
    starts = random.integers(len(t) - n, size=count)
    return t[starts[:, None] + np.arange(n + 1)]


def train_step(model, optimizer, t):
    """One step (18) on the texts t: gradients to 0, loss, backward, step. Return the loss as a number."""
    # hole
    zero_grad(optimizer.parameters)
    loss = loss_of(model, t)
    backward(loss)
    optimizer.step()
    return float(loss.data)


def sample(model, t, count, random, temperature=0.6):
    """The list t of characters (whole numbers), and `count` more that the model draws one by one.

    Each is drawn from softmax(logits / temperature) of the last position, by random.choice(V, p=...). The model reads
    at most its last C characters.
    """
    # hole
    t = list(t)
    for _ in range(count):
        logits = model(np.array([t[-model.C :]])).data[0, -1]
        q = softmax(Tensor(logits / temperature)).data
        t.append(int(random.choice(len(q), p=q)))
    return t


def read_text():
    """Sentences from the language reference that every Python carries, in small letters."""
    paragraphs = [" ".join(p.split()) for name in sorted(topics) for p in topics[name].split("\n\n")]
    prose = [p for p in dict.fromkeys(paragraphs) if p.endswith(".") and p[0].isalpha()]
    return re.sub(r"[^a-z ,.'-]", "", " ".join(prose).lower())


def train(steps=2000, batch=16, seed=0):
    """Train a model on `read_text()` and show what it writes on the way. Return the model and the losses."""
    text = read_text()
    alphabet = sorted(set(text))
    t = np.array([alphabet.index(c) for c in text])
    model, random = Transformer(len(alphabet), seed=seed), np.random.default_rng(seed)
    optimizer = AdamW(model.parameters(), rate=0.0, decay=0.01, betas=(0.9, 0.99))
    numbers = sum(x.data.size for x in model.parameters())
    print(f"{numbers:,} parameters, {len(text):,} characters of text, {steps:,} steps")

    def write(count):
        begin = [alphabet.index(c) for c in "the "]
        return "".join(alphabet[i] for i in sample(model, begin, count, random))

    back = "\r" if sys.stdout.isatty() else ""  # to the beginning of the line, over the progress
    losses, began = [], time.perf_counter()
    for i in range(steps):
        if i in (0, 100, steps // 3):
            print(f"{back}step {i:5,} it writes: {write(60)}")
        optimizer.rate = 6e-3 * min(1, (i + 1) / 50) * (1 - 0.9 * i / steps)  # up in 50 steps, then down to a tenth
        losses.append(train_step(model, optimizer, batch_of(t, batch, model.C, random)))
        if back and i % 10 == 9:
            left = (time.perf_counter() - began) / (i + 1) * (steps - i - 1)
            print(f"{back}step {i + 1:5,} loss {np.mean(losses[-50:]):.3f} {left:4.0f} s left", end="", flush=True)
    seconds = time.perf_counter() - began
    print(f"{back}loss {losses[0]:.2f} -> {np.mean(losses[-50:]):.2f} nats a character, in {seconds:.0f} seconds")
    print("\n" + textwrap.fill(write(300), 80) + "\n")
    return model, losses


if __name__ == "__main__":
    train()
