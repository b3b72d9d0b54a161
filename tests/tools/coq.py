"""Coq for tests: certificates are checked by its kernel, in one folder for the whole run."""

import os
import shutil

import pytest

from derivations.proofs import coq
from tinytensor.symbolic.certificates.certify import PACKAGES, Certified


def needed() -> None:
    """Skip the test where there is no Coq; with NEEDS_COQ=1, as `.ci/run` sets it, it fails."""
    if shutil.which("coqc") is None:
        message = f"no coqc: apt-get install {PACKAGES.replace(' and ', ' ')}"
        if os.environ.get("NEEDS_COQ") == "1":
            pytest.fail(message)
        pytest.skip(message)


def certified(text: str) -> Certified:
    """What Coq says of a certificate."""
    needed()
    return coq.coq().certify(text)
