"""One browser for all tests of pages."""

import pytest

from tests.tools.browser import chromium


@pytest.fixture(scope="package")
def browser():
    with chromium() as driver:
        yield driver
