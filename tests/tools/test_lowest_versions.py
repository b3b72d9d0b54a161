"""The lowest versions that are declared, as requirements for pip."""

import tomllib

import pytest

from tests.tools.lowest_versions import PROJECT, lowest


def test_lowest_versions_are_printed_for_each_need():
    project = tomllib.loads(PROJECT.read_text())["project"]
    result = lowest(project, ["train"])
    assert len(result) == len(project["dependencies"]) + len(project["optional-dependencies"]["train"])
    assert all(need.count("==") == 1 and ">" not in need for need in result)


def test_need_without_a_bound_is_refused():
    with pytest.raises(ValueError, match="numpy: one lower bound is needed"):
        lowest({"name": "x", "dependencies": ["numpy"]}, [])
