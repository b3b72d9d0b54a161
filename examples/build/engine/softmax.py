"""Step 6: softmax and cross-entropy. Lesson 6 teaches it: eqs. (12) to (16) of document 003.

Softmax makes probabilities of any numbers, which are called logits: q_i = e^(L_i) / Σ_k e^(L_k). Subtract the largest
logit of each row first. No probability changes, since e^c cancels; without it e^1000 is infinite.

    dL/dL_i = q_i (g_i - Σ_k g_k q_k)        where g is the gradient that arrives at q

The loss of a prediction is -log q_t for the right answer t. Computed from the logits it is -L_t + log Σ_k e^(L_k), also
shifted, and its gradient is short: the prediction minus the right answer, q - p, where p is 1 at t and 0 elsewhere.
Over N rows the loss is a mean: what does this do to the gradient of each row?
"""

import numpy as np

from .tape import Tensor


def softmax(x):
    """The probabilities along the last axis of x."""
    # hole
    e = np.exp(x.data - x.data.max(axis=-1, keepdims=True))
    q = e / e.sum(axis=-1, keepdims=True)
    return Tensor(q, [(x, lambda g: q * (g - (g * q).sum(axis=-1, keepdims=True)))])


def cross_entropy(logits, targets):
    """The mean of -log q_t over the rows of logits (N, V), for the right answers t in targets (N,), whole numbers.

    With rows = np.arange(N), logits.data[rows, targets] picks the logits of the right answers.
    """
    # hole
    rows = np.arange(len(targets))
    shifted = logits.data - logits.data.max(axis=-1, keepdims=True)
    log_q = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))

    def pull(g):
        d = np.exp(log_q)
        d[rows, targets] -= 1
        return g * d / len(targets)

    return Tensor(-log_q[rows, targets].mean(), [(logits, pull)])
