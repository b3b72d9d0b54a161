"""What the tests of pages read in the browser, and compare with the engine."""

import json
import math

import numpy as np

from models.show.program import table
from tests.models.show.running import run
from tinytensor import nn

NEAR = 1e-5  # of the largest entry

# --- The numbers

STATE = """
const plain = (arrays) => Object.fromEntries(Object.entries(arrays).map(([key, a]) => [key, [...a.data].map(String)]));
return JSON.stringify({values: plain(page.state.values), gradients: plain(page.state.gradients)});
"""


def state(driver) -> tuple[dict, dict]:
    """(values, gradients) that the page holds, as flat arrays by key."""
    result = json.loads(driver.execute_script(STATE))
    read = [{k: np.array(v, dtype=np.float64) for k, v in part.items()} for part in result.values()]
    return read[0], read[1]


def size_of(key, values) -> float:
    """The largest entry of a gradient.

    A bias of K adds the same to all scores of a row, which no softmax notices: its gradient is 0 but for rounding, a
    sum of far larger numbers, the gradients of the keys.
    """
    terms = values[key.replace("bias of K", "k")]
    return float(np.abs(terms.grad.numpy()).max())


def near(result, expected, name, largest=None):
    expected = np.asarray(expected, dtype=np.float64).reshape(-1)
    result = result[: expected.size] if name.endswith("losses") else result  # the page's last token has no loss
    masked = np.isinf(expected)
    assert np.array_equal(np.isneginf(result), masked), name
    apart = np.abs(result[~masked] - expected[~masked]).max(initial=0.0)
    assert apart <= NEAR * (largest or np.abs(expected[~masked]).max()), (name, apart)


def assert_equal_to_the_engine(driver, model, text):
    made = table(model)
    expected, (values, gradients) = run(made, model, text), state(driver)
    assert set(values) == set(expected)
    for key, value in expected.items():
        near(values[key], value.detach().numpy(), key)
        assert (key in gradients) == (value.grad is not None), key
        if value.grad is not None:
            near(gradients[key], value.grad.numpy(), f"the gradient of {key}", size_of(key, expected))
    return expected


# --- Explanations

# For some cells of every variable, the terms of a cell: for each the factor, how, the shift and the cells' places; and
# what the map shows. The test multiplies and adds by itself, with the numbers of the maps.
TERMS = """
const out = [], {values, gradients} = page.state, random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
let seed = 7;
const said = (t) => ({factor: t.factor, how: t.how ?? null, shift: t.shift ?? 0,
                      of: t.cells.map((c) => [c.key, c.gradient, place(values[c.key], ...c.at)])});
for (const v of variables) for (let n = 0; n < 4; n++) {
  const a = values[v.key], at = [a.heads, a.rows, a.columns].map((x) => Math.floor(x * random()));
  const found = page.model.explain(page.state, v.key, at);
  if (found) out.push({key: v.key, at: place(a, ...at), gradient: false, finish: found.finish ?? null,
                       terms: found.terms.map(said)});
  if (gradients[v.key] && v.key !== "loss")
    out.push({key: v.key, at: place(a, ...at), gradient: true, finish: null,
              terms: page.model.explainGradient(page.state, v.key, at).flatMap((p) => p.terms).map(said)});
}
return JSON.stringify(out);
"""


def worked(term, arrays) -> float:
    """The number of a term, from the numbers of the maps."""
    numbers = [arrays[gradient][key][at] for key, gradient, at in term["of"]]
    if term["how"] == "exp":
        return term["factor"] * math.exp(numbers[0] - term["shift"])
    return term["factor"] * (np.mean(numbers) if term["how"] == "mean" else math.prod(numbers))


def finished(total, finish) -> float:
    """What a cell's finish makes of the sum of its terms."""
    if finish is None:
        return total
    by = {
        "scale": lambda: total * finish["factor"] + finish["shift"],
        "quotient": lambda: finish["numerator"] / total,
        "log": lambda: math.log(total) + finish["shift"],
        "relu": lambda: max(0.0, total),
        "gelu": lambda: total * (1 + math.erf(total / math.sqrt(2))) / 2,
        "masked": lambda: -math.inf,
        "given": lambda: finish["value"],
        "none": lambda: math.nan,
    }
    return by[finish["kind"]]()


def wrong_explanations(driver) -> list[str]:
    """The explained cells whose terms do not add up to them."""
    arrays, cells = state(driver), json.loads(driver.execute_script(TERMS))
    assert len(cells) > 100
    wrong = []
    for cell in cells:
        value = arrays[cell["gradient"]][cell["key"]][cell["at"]]
        terms = [worked(term, arrays) for term in cell["terms"]]
        actual = finished(math.fsum(terms), cell["finish"])
        largest = max([abs(value), *map(abs, terms)]) if math.isfinite(value) else 1
        if not (actual == value or (math.isnan(actual) and math.isnan(value)) or abs(actual - value) <= NEAR * largest):
            wrong.append(f"{'the gradient of ' * cell['gradient']}{cell['key']}: {actual} is not {value}")
    return wrong


# --- Learning


def press(driver, name, times=1):
    for _ in range(times):
        driver.execute_script("document.getElementById(arguments[0]).click()", name)


def loss_shown(driver) -> float:
    return float(driver.find_element("id", "loss-said").text)


WEIGHTS = "return JSON.stringify(Object.fromEntries(weightKeys.map((key) => [key, [...page.weights[key].data]])))"


def weights_of(driver) -> dict[str, np.ndarray]:
    return {key: np.array(value) for key, value in json.loads(driver.execute_script(WEIGHTS)).items()}


class Scaled(nn.Module):
    """A norm that no document has."""

    def forward(self, x):
        return 2 * x
