import copy
import itertools
import math

import tinytensor as tt


def right_1(q, a, V):
    """The right token has q in a part a, and (1 − q) / (V − 1) in the others; the perplexity is e to the loss."""
    loss = -a * math.log(q) - (1 - a) * math.log((1 - q) / (V - 1))
    return loss, math.exp(loss)


def right_1_perplexity_first(q, a, V):
    """A product of powers of 1 / q."""
    perplexity = q**-a * ((V - 1) / (1 - q)) ** (1 - a)
    return math.log(perplexity), perplexity


def wrong_1_right_ones_only(q, a, V):
    return -a * math.log(q), math.exp(-a * math.log(q))


def wrong_1_as_if_always_right(q, a, V):
    return -math.log(q), 1 / q


def wrong_1_V_others(q, a, V):
    loss = -a * math.log(q) - (1 - a) * math.log((1 - q) / V)
    return loss, math.exp(loss)


def wrong_1_not_shared(q, a, V):
    loss = -a * math.log(q) - (1 - a) * math.log(1 - q)
    return loss, math.exp(loss)


def wrong_1_mean_of_probabilities(q, a, V):
    mean = a * q + (1 - a) * (1 - q) / (V - 1)
    return -math.log(mean), 1 / mean


def wrong_1_bits(q, a, V):
    loss, perplexity = right_1(q, a, V)
    return loss / math.log(2), perplexity


def wrong_1_base_2(q, a, V):
    loss, _ = right_1(q, a, V)
    return loss, 2**loss


def wrong_1_upside_down(q, a, V):
    loss, perplexity = right_1(q, a, V)
    return loss, 1 / perplexity


def right_2(model, texts):
    """`eval()` switches dropout off; `train(mode)` puts back what was there."""
    mode = model.training
    model.eval()
    loss = model(texts).item()
    model.train(mode)
    return loss


def right_2_on_a_copy(model, texts):
    """The model itself stays as it is."""
    measured = copy.deepcopy(model).eval()
    with tt.no_grad():
        return measured(texts).item()


def wrong_2_as_it_was(model, texts):
    return model(texts).item()


def wrong_2_left_in_evaluation_mode(model, texts):
    return model.eval()(texts).item()


def wrong_2_always_back_to_training(model, texts):
    loss = model.eval()(texts).item()
    model.train()
    return loss


def wrong_2_no_grad_alone(model, texts):
    with tt.no_grad():
        return model(texts).item()


def wrong_2_mean_of_many(model, texts):
    return sum(model(texts).item() for _ in range(50)) / 50


def right_3(a, V):
    """−a / q + (1 − a) / (1 − q) = 0 gives q = a: be as sure as you are right. (V has no part in it.)"""
    return a, -a * math.log(a) - (1 - a) * math.log((1 - a) / (V - 1))


def right_3_searched(a, V):
    """Half of the bracket goes where the slope has the wrong sign."""
    low, high = 0.0, 1.0
    for _ in range(60):
        q = (low + high) / 2
        low, high = (low, q) if -a / q + (1 - a) / (1 - q) > 0 else (q, high)
    return q, right_1(q, a, V)[0]


def wrong_3_sure(a, V):
    return 1.0, 0.0


def wrong_3_knows_nothing(a, V):
    return 1 / V, math.log(V)


def wrong_3_part_that_is_wrong(a, V):
    return 1 - a, right_3(a, V)[1]


def wrong_3_right_ones_only(a, V):
    return a, -a * math.log(a)


def wrong_3_as_if_always_right(a, V):
    return a, -math.log(a)


def wrong_3_not_shared(a, V):
    return a, -a * math.log(a) - (1 - a) * math.log(1 - a)


def right_4(train, w, patience):
    """The lowest loss so far, with a copy of its weights; each new one begins the count of the others anew."""
    lowest, kept, calls, waited = math.inf, None, 0, 0
    while waited < patience:
        loss = train()
        calls += 1
        if loss < lowest:
            lowest, kept, waited = loss, w.clone(), 0
        else:
            waited += 1
    return calls, lowest, kept


def right_4_all_kept(train, w, patience):
    """All weights are kept, which needs more memory; the first of the lowest losses ends the search."""
    losses, weights = [], []
    for _ in itertools.count():
        losses.append(train())
        weights.append(w.tolist())
        best = min(range(len(losses)), key=lambda i: (math.isnan(losses[i]), losses[i]))
        if len(losses) - 1 - best == patience:
            return len(losses), losses[best], tt.tensor(weights[best], dtype=w.dtype)


def wrong_4_weights_of_the_last_call(train, w, patience):
    calls, lowest, _ = right_4(train, w, patience)
    return calls, lowest, w


def wrong_4_first_rise(train, w, patience):
    return right_4(train, w, 1)


def wrong_4_one_more(train, w, patience):
    return right_4(train, w, patience + 1)


def wrong_4_count_goes_on(train, w, patience):
    lowest, kept, calls, waited = math.inf, None, 0, 0
    while waited < patience:
        loss, calls = train(), calls + 1
        if loss < lowest:
            lowest, kept = loss, w.clone()
        else:
            waited += 1
    return calls, lowest, kept


def wrong_4_as_low(train, w, patience):
    lowest, kept, calls, waited = math.inf, None, 0, 0
    while waited < patience:
        loss, calls = train(), calls + 1
        if loss <= lowest:
            lowest, kept, waited = loss, w.clone(), 0
        else:
            waited += 1
    return calls, lowest, kept


def wrong_4_nan_counts_as_lower(train, w, patience):
    lowest, kept, calls, waited = math.inf, None, 0, 0
    while waited < patience:
        loss, calls = train(), calls + 1
        if not loss >= lowest:
            lowest, kept, waited = loss, w.clone(), 0
        else:
            waited += 1
    return calls, lowest, kept


def wrong_4_call_of_the_lowest(train, w, patience):
    calls, lowest, kept = right_4(train, w, patience)
    return calls - patience, lowest, kept


def wrong_4_last_loss(train, w, patience):
    losses = []
    calls, _, kept = right_4(lambda: losses.append(train()) or losses[-1], w, patience)
    return calls, losses[-1], kept


def wrong_4_never(train, w, patience):
    lowest = math.inf
    while True:
        lowest = min(lowest, train())
