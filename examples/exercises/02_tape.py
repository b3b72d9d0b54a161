# %% [markdown]
# # Exercises: a tape from nothing
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time. Here is the tape of the lesson again.

# %%
import math
import random


class Value:
    """A number that remembers how it was made."""

    tape: list["Value"] = []

    def __init__(self, data, sources=()):
        self.data, self.grad, self.sources = data, 0.0, sources  # sources: (value, local slope)
        Value.tape.append(self)

    def __add__(self, other):
        return Value(self.data + other.data, [(self, 1.0), (other, 1.0)])

    def __mul__(self, other):
        return Value(self.data * other.data, [(self, other.data), (other, self.data)])

    def backward(self):
        for value in Value.tape:
            value.grad = 0.0
        self.grad = 1.0
        for value in reversed(Value.tape):
            for source, slope in value.sources:
                source.grad += value.grad * slope


# %% [markdown]
# ## 1 ★ Predict: the last entry
#
# The tape is empty. a and b are made, and then y = (a * b) * a. What does the last entry of the tape note? Give its
# sources by their places on the tape, counted from 0, each with its local slope.


# %%
def answer_1(a: float, b: float) -> list[tuple[int, float]]:
    """(place of the source, local slope), for each source of y."""
    ...


def check_1(answer) -> str:
    Value.tape.clear()
    a, b = Value(random.uniform(1, 2)), Value(random.uniform(3, 4))
    y = (a * b) * a
    given = answer(a.data, b.data)
    if given is None:
        return "not solved yet. Hint: write down all entries of the tape, from 0 on, before you look at the last one."
    right = sorted((Value.tape.index(source), slope) for source, slope in y.sources)
    given = sorted(given)
    if [place for place, _ in given] != [place for place, _ in right]:
        return f"wrong: the sources of y stand at the places {[place for place, _ in right]} of the tape."
    for (place, slope), (_, found) in zip(right, given, strict=True):
        if abs(slope - found) > 1e-9:
            return (
                f"wrong: for a = {a.data:.3f}, b = {b.data:.3f} source {place} has slope {slope:.3f}, not {found:.3f}."
            )
    return "right"


print("exercise 1:", check_1(answer_1))

# %% [markdown]
# ## 2 ★★ Find the bug: notes that are read too late
#
# Some engines, such as micrograd, note a function in place of the slopes: `backward` will call it. `answer_2` makes a
# product so. Gradients are right, until a parameter is changed between the product and the call. Mend it.


# %%
def answer_2(a: Value, b: Value) -> Value:
    """The product of a and b, with a function `back` that adds to the gradients of a and b."""
    y = Value(a.data * b.data)

    def back():
        a.grad += b.data * y.grad
        b.grad += a.data * y.grad

    y.back = back
    return y


def check_2(answer) -> str:
    a, b = Value(random.uniform(1, 2)), Value(random.uniform(3, 4))
    y = answer(a, b)
    if y is None:
        return "not solved yet. Hint: which numbers does `back` read, and when?"
    y.grad, slopes = 1.0, (b.data, a.data)
    b.data = 0.0  # a step of training
    y.back()
    if abs(a.grad - slopes[0]) + abs(b.grad - slopes[1]) > 1e-9:
        return f"wrong: b was {slopes[0]:.3f} in the product, and 0 when `back` ran; a has the gradient {a.grad:.3f}."
    a.grad = 0.0
    y = answer(a, a)
    y.grad = 1.0
    y.back()
    if abs(a.grad - 2 * a.data) > 1e-9:
        return f"wrong: the slope of a · a at {a.data:.3f} is {2 * a.data:.3f}, not {a.grad:.3f}; both uses count."
    return "right"


print("exercise 2:", check_2(answer_2))

# %% [markdown]
# ## 3 ★★ Derive: e^x, and any power
#
# Add another operation to the tape: a to the power of b, where both are Values. With a = e it is e^x. (Lesson 1 says
# what e has to do with other bases; `math.log` is the natural logarithm.)


# %%
def answer_3(a: Value, b: Value) -> Value:
    """a to the power of b, on the tape."""
    ...


def check_3(answer) -> str:
    for base in (math.e, random.uniform(2, 4)):
        a, b = Value(base), Value(random.uniform(1.5, 2.5))
        y = answer(a + a, b)
        if y is None:
            return "not solved yet. Hint: write it as __mul__ is written. If b stands still, a power of a is left."
        y.backward()
        h, where = 1e-5, f"(a + a)^b at a = {a.data:.3f}, b = {b.data:.3f}"
        right = (2 * base) ** b.data
        if abs(y.data - right) > 1e-9 * right:
            return f"wrong: {where} is {right:.4f}, not {y.data:.4f}."
        slope_a = ((2 * base + 2 * h) ** b.data - (2 * base - 2 * h) ** b.data) / (2 * h)
        slope_b = ((2 * base) ** (b.data + h) - (2 * base) ** (b.data - h)) / (2 * h)
        for name, value, slope in (("a", a, slope_a), ("b", b, slope_b)):
            if abs(value.grad - slope) > 1e-5 * slope:
                return f"wrong: {where} has the slope {slope:.4f} with respect to {name}, not {value.grad:.4f}."
    return "right"


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: read the tape forwards
#
# Read backwards, the tape gives the slope of one result with respect to all values. Read forwards, it gives the slopes
# of all values with respect to one: how much does each entry move if `start` is nudged? One loop is enough. (This is
# called forward mode. For one loss and many parameters, which of the two do you want?)


# %%
def answer_4(tape: list[Value], start: Value) -> list[float]:
    """The slope of each entry of the tape with respect to `start`."""
    ...


def check_4(answer) -> str:
    for count in (1, 4, 8):
        Value.tape.clear()
        values = [Value(random.uniform(0.5, 1.5)) for _ in range(3)]
        for _ in range(count):
            a, b = random.choices(values, k=2)
            values.append(a * b if random.random() < 0.5 else a + b)
        tape, start = list(Value.tape), random.choice(values[:3])
        given = answer(tape, start)
        if given is None:
            return "not solved yet. Hint: `start` has the slope 1. What does an entry do whose sources move?"
        for place, value in enumerate(tape):
            value.backward()
            if len(given) != len(tape) or abs(given[place] - start.grad) > 1e-9:
                which = f"start is entry {tape.index(start)} of {len(tape)}"
                return f"wrong: entry {place} has the slope {start.grad:.4f} with respect to start; {which}: {given}."
    return "right"


print("exercise 4:", check_4(answer_4))
