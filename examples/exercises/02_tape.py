# %% [markdown]
# # Exercises: a tape from nothing
#
# Write your answers in place of the dots, or mend the code, and run the file again. Each check says in one sentence
# whether an answer is right. The checks draw new numbers each time. Here is the tape of the lesson again.

# %%
import math
import random

from judge import check, compare


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


@check("write down all entries of the tape, from 0 on, before you look at the last one.")
def check_1(answer) -> None:
    Value.tape.clear()
    a, b = Value(random.uniform(1, 2)), Value(random.uniform(3, 4))
    y = (a * b) * a
    right = sorted((Value.tape.index(source), slope) for source, slope in y.sources)
    mistakes = {
        "The local slope of a factor is the other factor, not its own value.": [(0, a.data), (2, a.data * b.data)],
        "The entry knows only its own product, whose sources are its two factors.": [
            (0, 2 * a.data * b.data),
            (1, a.data * a.data),
        ],
    }
    case = f"for a = {a.data:.3f}, b = {b.data:.3f} the list of (place, slope), sorted,"
    compare(sorted(answer(a.data, b.data)), right, case, mistakes)


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


@check("which numbers does `back` read, and when?")
def check_2(answer) -> None:
    a, b, g = Value(random.uniform(1, 2)), Value(random.uniform(3, 4)), random.uniform(1, 2)
    product, right = a.data * b.data, [1 + g * b.data, 1 + g * a.data]
    a.grad = b.grad = 1.0  # what has arrived before
    y = answer(a, b)
    compare(y.data, product, "the product of a and b")
    y.grad, b.data = g, 0.0  # a step of training
    y.back()
    mistakes = {
        "`back` reads b when it runs; b was changed after the product had been made.": [1.0, right[1]],
        "Add to the gradients that have arrived before, do not replace them.": [right[0] - 1, right[1] - 1],
    }
    compare([a.grad, b.grad], right, "the list of the gradients of a and b", mistakes)
    a.grad = 0.0
    y = answer(a, a)
    y.grad = g
    y.back()
    mistakes = {"Both uses of a count: add to the gradient, do not replace it.": g * a.data}
    compare(a.grad, 2 * g * a.data, f"the gradient of a in a · a at {a.data:.3f}", mistakes)


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


@check("write it as __mul__ is written. If b stands still, a power of a is left.")
def check_3(answer) -> None:
    Value.tape.clear()
    for base in (math.e, random.uniform(2, 4)):
        a, b = Value(base), Value(random.uniform(1.5, 2.5))
        y = answer(a + a, b)
        y.backward()
        h, where = 1e-5, f"(a + a)^b at a = {a.data:.3f}, b = {b.data:.3f}:"
        right = (2 * base) ** b.data
        compare(y.data, right, f"{where} the value")
        slope_a = ((2 * base + 2 * h) ** b.data - (2 * base - 2 * h) ** b.data) / (2 * h)
        slope_b = ((2 * base) ** (b.data + h) - (2 * base) ** (b.data - h)) / (2 * h)
        mistakes = {
            "Nothing has arrived: note the sources, each with its slope.": 0.0,
            "Is a^b = e^(b ln a) differentiated as a whole? A logarithm is missing.": right,
            "As a function of b it is no power, with the number in the exponent, but an exponential.": slope_a / 2,
        }
        compare(a.grad, slope_a, f"{where} the slope with respect to a", mistakes)
        compare(b.grad, slope_b, f"{where} the slope with respect to b", mistakes)


print("exercise 3:", check_3(answer_3))

# %% [markdown]
# ## 4 ★★★ Extend: read the tape forwards
#
# Read backwards, the tape gives the slope of one result with respect to all values. Read forwards, it gives the slopes
# of all values with respect to one: how much does each entry move if `start` is nudged? One loop is enough. (This is
# called forward mode. For one loss and many parameters, which of the two do you want? Lesson 5 answers.)


# %%
def answer_4(tape: list[Value], start: Value) -> list[float]:
    """The slope of each entry of the tape with respect to `start`."""
    ...


@check("`start` has the slope 1. What does an entry do whose sources move?")
def check_4(answer) -> None:
    for count in (8, 8, 8, 4, 1):
        Value.tape.clear()
        values = [Value(random.uniform(0.5, 1.5)) for _ in range(3)]
        for _ in range(count):
            a, b = random.choices(values, k=2)
            values.append(a * b if random.random() < 0.5 else a + b)
        tape, start, right = list(Value.tape), random.choice(values[:3]), []
        for value in tape:
            value.backward()
            right.append(start.grad)
        mistakes = {
            "Other entries move, too, if their sources do.": [float(value is start) for value in tape],
            "That is the tape read backwards, from its last entry.": [value.grad for value in tape],
        }
        hint = "Does an entry add what comes from each of its sources?"
        answer.compare(
            (tape, start), right, f"the list of slopes with respect to entry {tape.index(start)}", mistakes, hint=hint
        )


print("exercise 4:", check_4(answer_4))
