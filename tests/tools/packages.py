"""What to install where a test is skipped: `pytest.importorskip("torch", reason=missing("torch"))`."""

EXTRAS = {"torch": "bench", "flint": "proofs", "matplotlib": "viz", "mypy": "lint", "pyright": "lint", "tqdm": "train"}


def missing(package: str) -> str:
    """That a package is not installed, and the command that installs it."""
    install = f"-e '.[{EXTRAS[package]}]'" if package in EXTRAS else package
    return f"{package} is not installed: pip install {install}"
