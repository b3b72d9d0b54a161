"""Pieces of long work: `--share 3/8` is the third of eight that together are everything."""

import argparse


def share(text: str) -> tuple[int, int]:
    """3/8, the third of eight, as (2, 8); an error of argparse's if it is none."""
    piece, _, of = text.partition("/")
    if not (piece.isdecimal() and of.isdecimal() and 1 <= int(piece) <= int(of)):
        raise argparse.ArgumentTypeError(f"a share is one of so many, as 3/8, and not {text!r}")
    return int(piece) - 1, int(of)
