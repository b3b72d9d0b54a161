"""A run that is over in a second: a small model on a small text."""

import pytest

from models.data import text
from models.data.tokenizers import CharTokenizer
from models.decoder import Config
from models.tasks.text import TextTask
from models.training.trainer import Settings, Trainer

VERSE = "the cat sat on the mat; the dog lay by the door. a bird sang in the tree, and the rain fell on the roof.\n"

CONFIG = Config(D=8, H=2, F=12, L=2, V=1, C=10)
SETTINGS = Settings(
    steps=30, batch_size=3, lr=0.01, warmup=5, log_every=4, evaluate_every=10, checkpoint_every=7, weight_decay=0.1
)


@pytest.fixture(scope="session")
def verse(tmp_path_factory):
    """A file with text, for commands."""
    path = tmp_path_factory.mktemp("text") / "verse.txt"
    path.write_text("the cat sat on the mat and the dog lay by the door\n" * 30)
    return path


@pytest.fixture(scope="session")
def corpus():
    return text.prepare([VERSE * 12], CharTokenizer)


@pytest.fixture
def begin(corpus, tmp_path):
    """begin(folder="run", eager=False, **changes): a Trainer of CONFIG and SETTINGS with some of them changed."""

    def make(folder="run", eager=False, model=None, **changes):
        config = CONFIG.replace(**{"V": corpus.tokenizer.vocab_size, **(model or {})})
        settings = Settings(**{**SETTINGS.__dict__, **changes})
        (tmp_path / folder).mkdir(exist_ok=True)
        return Trainer(TextTask(config, corpus, None), settings, tmp_path / folder, eager=eager)

    return make
