"""Settings that the command line offers: what is refused, which options there are, and what comes back from them."""

import argparse
import math
import re
import shlex
from dataclasses import dataclass

import pytest
import sympy

from models import transformer
from models.options import add_options, check, flags_for, option, setting


@dataclass
class Settings:
    size: int = option(4, "a size", least=1)
    width: int | None = option(None, "a width", least=1, default_text="size / 2")
    part: float = option(0.0, "a part", least=0.0, below=1)
    rate: float = option(0.1, "a rate", least=0.0)
    style: str = option("plain", "a style", ("plain", "round"))
    switched: bool = option(True, "a switch")
    factors: tuple[float, ...] = option((), "factors, one each")
    unseen: float = 1e-5  # nothing explains it: no option
    bounded: float = setting(0.5, least=0.0, most=1.0)  # nor this, but it has bounds
    pair: tuple[float, float] = setting((0.9, 0.99), below=1)


@pytest.mark.parametrize(
    "changes",
    [{}, {"size": 1}, {"width": 3}, {"part": 0.999}, {"rate": 1e9}, {"style": "round"}, {"unseen": -1}],
)
def test_valid_settings_are_accepted(changes):
    check(Settings(**changes))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"size": 0}, "size = 0: a whole number of 1 or more is needed"),
        ({"size": 2.5}, "size = 2.5: a whole number of 1 or more is needed"),
        ({"size": 2.0}, "size = 2.0: a whole number of 1 or more is needed"),
        ({"size": 1e300}, "size = 1e+300: a whole number of 1 or more is needed"),
        ({"size": 10**400}, f"size = {10**400}: a whole number of 1 or more is needed"),
        ({"rate": 10**400}, f"rate = {10**400}: 0 or more is needed"),
        ({"bounded": 1.5}, "bounded = 1.5: 0 or more, at most 1.0, is needed"),
        ({"bounded": -1}, "bounded = -1: 0 or more, at most 1.0, is needed"),
        ({"pair": (0.9,)}, "pair = (0.9,): 2 numbers are needed"),
        ({"pair": []}, "pair = []: 2 numbers are needed"),
        ({"pair": (0.9, 1)}, "pair: 1 among its values: numbers of 0 or more and below 1 are needed"),
        ({"factors": (1, 10**400)}, f"factors: {10**400} among its values: numbers of 0 or more are needed"),
        ({"size": math.inf}, "size = inf: a whole number of 1 or more is needed"),
        ({"size": math.nan}, "size = nan: a whole number of 1 or more is needed"),
        ({"width": -3}, "width = -3: a whole number of 1 or more is needed"),
        ({"part": 1}, "part = 1: 0 or more, below 1, is needed"),
        ({"part": -0.5}, "part = -0.5: 0 or more, below 1, is needed"),
        ({"part": math.nan}, "part = nan: 0 or more, below 1, is needed"),
        ({"rate": -1}, "rate = -1: 0 or more is needed"),
        ({"rate": math.inf}, "rate = inf: 0 or more is needed"),
        ({"style": "square"}, "style = 'square': choose one of plain, round"),
    ],
)
def test_invalid_settings_are_refused(changes, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        check(Settings(**changes))


def test_first_wrong_field_is_named():
    with pytest.raises(ValueError, match=r"^size = 0"):
        check(Settings(style="square", size=0))


def test_symbols_are_not_checked():
    check(Settings(size=sympy.Symbol("s"), width=sympy.Symbol("w") / 2, part=sympy.Symbol("p")))


def parser(**settings):
    made = argparse.ArgumentParser(argument_default=argparse.SUPPRESS, exit_on_error=False)
    add_options(made, Settings, **settings)
    return made


def test_every_explained_field_has_an_option():
    words = shlex.split("--size 8 --width 3 --part 0.5 --rate 2 --style round --no-switched --factors 1,0.5")
    arguments = vars(parser().parse_args(words))
    assert arguments == {
        "size": 8, "width": 3, "part": 0.5, "rate": 2.0, "style": "round", "switched": False, "factors": (1.0, 0.5),
    }  # fmt: skip
    assert isinstance(arguments["rate"], float) and isinstance(arguments["size"], int)
    assert flags_for(Settings, arguments | {"out": "runs"}) == arguments
    assert Settings(**arguments).unseen == 1e-5


def test_missing_options_keep_the_defaults():
    assert vars(parser().parse_args([])) == {}
    assert flags_for(Settings, {}) == {}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--size", "2.5"], "invalid int value: '2.5'"),
        (["--style", "square"], "invalid choice: 'square'"),
        (["--factors", "1;2"], "'1;2' is not a list of numbers with commas between them"),
    ],
)
def test_invalid_option_values_are_refused(words, sentence):
    with pytest.raises(argparse.ArgumentError, match=sentence):
        parser().parse_args(words)


def test_unexplained_and_excluded_fields_have_no_option():
    text = parser(leave_out=("width",)).format_help()
    assert "--size" in text and "--unseen" not in text and "--width" not in text
    assert "a width (default: size / 2)" in " ".join(parser().format_help().split())


def test_every_encoder_decoder_setting_has_an_option():
    """Each one but eps can be given on the command line, and has an explanation of its own."""
    made = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    add_options(made, transformer.Config)
    offered = {action.dest: action.help for action in made._actions if action.dest != "help"}
    assert offered.keys() == transformer.Config.__dataclass_fields__.keys() - {"eps"}
    assert len(set(offered.values())) == len(offered)
    arguments = vars(made.parse_args(shlex.split("--d-model 6 --h 2 --d-k 5 --norm before --no-positions --bias")))
    config = transformer.Config(**flags_for(transformer.Config, arguments))
    assert config == transformer.Config(d_model=6, h=2, d_k=5, norm="before", positions=False, bias=True)
