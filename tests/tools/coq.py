"""Coq for tests: certificates are checked by its kernel, in one folder for the whole run."""

import os
import re
from functools import cache

import pytest

from derivations.proofs import coq
from tinytensor.symbolic.certificates import certify
from tinytensor.symbolic.certificates.certify import PACKAGES, Certified

absent = cache(certify.absent)


def needed() -> None:
    """Skip the test where there is no Coq; with NEEDS_COQ=1, as `.ci/run` sets it, it fails."""
    if missing := absent():
        message = f"{missing}: apt-get install {PACKAGES.replace(' and ', ' ')}"
        if os.environ.get("NEEDS_COQ") == "1":
            pytest.fail(message)
        pytest.skip(message)


def certified(text: str) -> Certified:
    """What Coq says of a certificate."""
    needed()
    return coq.coq().certify(text)


def printed(text: str, commands: list[str]) -> list[str]:
    """What Coq prints at each command in the words of this file, with nothing left out: a term."""
    needed()
    assert coq.coq().run("certificate", [text]) == ("", "")
    said = coq.coq().asked(["Set Printing All", *commands])[1:]
    return [re.sub(r"^certificate\.\w+ =", "", term) for term in said]
