"""Rows of files as people have them: columns between commas, tabs or ::, or a JSON object on each line.

A column is named by its number, from 1, or by its name; names stand in the first line, or are the keys of the objects.
"""

import csv
from collections.abc import Iterator
from io import StringIO

from models.data.text import TextError, read_json
from tinytensor.interop.io.files import format_of

Columns = tuple[int | str, ...]
Row = tuple[int, list[str] | str]  # the number of a line; its cells in the columns asked for, or why there are none


def separator(text: str) -> str:
    """What stands between the cells of a text's first line: ::, a tab, or a comma."""
    first = text.split("\n", 1)[0]
    return next((mark for mark in ("::", "\t") if mark in first), ",")


def seeming(text: str, between: str) -> str:
    """What a text seems to be, whose first line has not the columns that are needed; empty if that is not known."""
    if format_name := format_of(text[:1000].encode()):
        return f". It seems to be {format_name}"
    first = text.split("\n", 1)[0]
    if between not in first and (other := next((mark for mark in ";|" if mark in first), None)):
        return f". Its columns seem to stand between {other}: put commas or tabs there"
    return ""


def lines(path, text: str, between: str) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not empty; with commas, quotation marks may enclose a cell."""
    if between != ",":
        yield from ((number, line.split(between)) for number, line in enumerate(text.split("\n"), 1) if line.strip())
        return
    reader = csv.reader(StringIO(text), skipinitialspace=True, strict=True)
    try:
        yield from ((reader.line_num, cells) for cells in reader if cells)
    except csv.Error as error:  # a quotation mark that nothing closes
        raise TextError(f"{path}, line {reader.line_num}: {error}") from None


def rows(path, text: str, between: str, columns: Columns) -> Iterator[Row]:
    """The cells of some columns, line by line; TextError if the first line does not have the names asked for."""
    cells_by_line = lines(path, text, between)
    if isinstance(columns[0], str):
        header = [cell.strip() for cell in next(cells_by_line, (0, []))[1]]
        if missing := [name for name in columns if name not in header]:
            seen = f"the first line names the columns {', '.join(header)}; not there: {missing[0]}"
            raise TextError(f"{path}: {seen}{seeming(text, between)}")
        columns = tuple(header.index(name) + 1 for name in columns)
    marks = {"\t": "tabs", ",": "commas"}.get(between, between)
    for number, cells in cells_by_line:
        if len(cells) < max(columns):
            yield number, f"{len(cells)} columns (separated by {marks}), but column {max(columns)} is needed"
        else:
            yield number, [cells[column - 1] for column in columns]


def objects(path, text: str, columns: Columns) -> Iterator[Row]:
    """The values of some keys, from a JSON object on each line; they must be texts."""
    if not isinstance(columns[0], str):
        names = ",".join(map(str, columns))
        raise TextError(f"{path}: --columns {names}: columns of a .jsonl file have names, not numbers")
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            entry = read_json(line)
        except (ValueError, RecursionError) as error:
            yield number, f"it is no JSON ({error})"
            continue
        values = [entry.get(name) for name in columns] if isinstance(entry, dict) else []
        if values and all(isinstance(value, str) for value in values):
            yield number, values
        else:
            yield number, f"an object with texts under {' and '.join(columns)} is needed"
