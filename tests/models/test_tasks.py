"""The tasks from end to end: a translator of a user's own pairs, a recommender, and the commands that use them."""

import csv
import importlib.util
import io
import json
import math
import re
import shutil
import sys
from shlex import split

import numpy as np
import pytest

import tinytensor
from models.command.cli import main
from models.data import grammar
from models.data.pairs import batch, example, read_pairs, split_pairs
from models.data.text import IGNORE_INDEX, TextError
from models.data.tokenizers import WordTokenizer
from models.decoder import Config, Decoder
from models.tasks.recommend import RecommendTask, generated, hit_ratio, ndcg, rank
from models.tasks.translate import TranslateTask, read, scores, translate_sentences
from models.training import checkpoint
from models.transformer import CONFIGS, PAD, SPECIAL, Transformer
from tinytensor import tensor
from tinytensor.native.platform.distribution import install
from tinytensor.viz import plots

WHO = {"I am": "Je suis", "You are": "Tu es", "He is": "Il est", "She is": "Elle est", "We are": "Nous sommes"}
WHERE = {
    "here": "ici", "late": "en retard", "early": "en avance", "in Paris": "à Paris", "in Rome": "à Rome",
    "on time": "à l'heure", "in bed": "au lit", "in town": "en ville", "on holiday": "en vacances",
    "at school": "à l'école", "outside": "dehors", "downstairs": "en bas", "at work": "au travail", "there": "là",
}  # fmt: skip
LINES = [
    f"{who} {where}.\t{WHO[who]} {WHERE[where]}.\tCC-BY 2.0 (France) Attribution: tatoeba.org #{i} (a) & #{i + 9} (b)\n"
    for i, (who, where) in enumerate((who, where) for who in WHO for where in WHERE)
]
TINY = split(
    """--N 1 --d-model 16 --h 2 --d-ff 32 --n-vol 120 --n-max 16 --dropout 0.1 --steps 240 --batch-size 16 --warmup 20
    --log-every 20 --evaluate-every 80 --checkpoint-every 80 --threads 1"""
)


def run(capsys, *arguments, code=0):
    """What a command prints: (to the standard output, for errors and notes)."""
    actual = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert actual == code, err
    return out, err


def refused(capsys, *arguments):
    """The one sentence for what cannot be."""
    out, err = run(capsys, *arguments, code=2)
    assert err.startswith("models: ") and err.count("\n") == 1 and "Traceback" not in out + err
    return err.removeprefix("models: ").rstrip()


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """English first, then French, then whose they are; and two lines that are no pairs."""
    path = tmp_path_factory.mktemp("pairs") / "fra.tsv"
    path.write_text("".join([*LINES[:20], "no tab in this line\n", *LINES[20:], "I am\t\tCC-BY\n"]), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trained(file, tmp_path_factory):
    """The folder of a run, and what it printed."""
    out, printed = tmp_path_factory.mktemp("runs") / "first", io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", printed)
        patch.setattr(sys, "stderr", printed)
        arguments = ["train", "--task", "translate", "--pairs", file, "--columns", "2,1", "--out", out, *TINY]
        code = main([str(a) for a in arguments])
    assert code == 0, printed.getvalue()
    return out, printed.getvalue()


def translated(capsys, folder, *arguments):
    return run(capsys, "translate", "--checkpoint", folder, *arguments)[0].splitlines()


# --- Pairs of a user's own


def test_tatoeba_file_is_learnt(trained, file):
    out, printed = trained
    with (out / "log.csv").open() as log:
        rows = list(csv.DictReader(log))
    held = [float(row["heldout_loss"]) for row in rows if row["heldout_loss"]]
    assert len(held) == 3 and held[-1] < held[0] < math.log(120)
    assert float(rows[-1]["loss"]) < 0.5 * float(rows[0]["loss"])
    train, heldout = split_pairs(read_pairs(file, (2, 1), note=lambda note: None))
    assert len(train) + len(heldout) == len(LINES)
    assert f"{len(train)} training, {len(heldout)} held out" in printed
    assert "fra.tsv, line 21: 1 columns (separated by tabs), but column 2 is needed; skipped" in printed
    assert f"fra.tsv, line {len(LINES) + 2}: a sentence is empty; skipped" in printed
    assert f"held-out loss: {held[-1]:.4f} nats per token" in printed
    assert f"python -m models translate --checkpoint {out} " in printed


def test_translation_run_writes_all_its_files(trained):
    out, _ = trained
    names = {path.name for path in out.iterdir()}
    assert names >= {"log.csv", "loss.png", "attention.png", "stream.png", "held-out.tsv", "checkpoints", "page.html"}
    for name in ("loss.png", "attention.png", "stream.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    assert checkpoint.load(out).step == 240


def test_page_of_a_translator_begins_with_a_pair(capsys, trained, file, tmp_path):
    out, printed = trained
    assert f"to look inside, forward and backward, open {out / 'page.html'} in a browser" in printed
    [first] = re.findall(r'"source":("[^"]+")', (out / "page.html").read_text())
    assert json.loads(first) in [
        pair.source for pair in split_pairs(read_pairs(file, (2, 1), note=lambda note: None))[1]
    ]
    page, pair = tmp_path / "look.html", ("--text", "Je suis ici.", "--target", "I am here.")
    assert run(capsys, "show", out, "--out", page, *pair)[0] == f"written to {page}: open it in a browser\n"
    assert '"text":"I am here.","source":"Je suis ici."' in page.read_text()
    assert "does not have '日本'" in refused(capsys, "show", out, "--text", "Je suis 日本")
    assert "tokens, but the model takes n_max = 16" in refused(capsys, "show", out, "--text", "Je suis ici. " * 9)


def test_scores_match_the_written_translations(trained, file):
    out, printed = trained
    with (out / "held-out.tsv").open(encoding="utf-8") as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    _, heldout = split_pairs(read_pairs(file, (2, 1), note=lambda note: None))
    assert [(row["source"], row["expected"]) for row in rows] == [(p.source, p.target) for p in heldout]
    exact = np.mean([row["found"] == row["expected"] for row in rows])
    match = re.search(r"held out, (\d+) sentences: exact ([\d.]+)%, BLEU ([\d.]+), chrF ([\d.]+)", printed)
    assert int(match[1]) == len(rows)
    assert float(match[2]) == pytest.approx(100 * exact, abs=0.006)
    assert exact > 0.5  # the sentences are new, their parts are not
    bleu, chrf = float(match[3]), float(match[4])
    expected = scores([row["found"] for row in rows], [[row["expected"]] for row in rows])
    assert (bleu, chrf) == (pytest.approx(expected[1], abs=0.006), pytest.approx(expected[2], abs=0.006))
    assert bleu > 50 and chrf > 50


@pytest.mark.parametrize("how", [[], ["--eager"]])
def test_resumed_run_equals_an_unbroken_run(capsys, trained, tmp_path, how):
    out, repeated = trained[0], tmp_path / "again"
    shutil.copytree(out, repeated)
    shutil.rmtree(checkpoint.latest(repeated))  # as if it had been killed after step 160
    printed, _ = run(capsys, "train", "--resume", repeated, "--threads", "1", *how)
    assert "going on after step 160 of 240" in printed
    first, second = checkpoint.load(out), checkpoint.load(repeated)
    assert first.weights.keys() == second.weights.keys() and first.step == second.step
    for one, other in ((first.weights, second.weights), (first.optimizer, second.optimizer)):
        assert {k: v.numpy().tobytes() for k, v in one.items()} == {k: v.numpy().tobytes() for k, v in other.items()}
    columns = ("step", "loss", "lr", "heldout_loss")
    assert [[row.get(c) for c in columns] for row in first.state["log"]] == [
        [row.get(c) for c in columns] for row in second.state["log"]
    ]
    assert first.state["batches"] == second.state["batches"]


def test_resumed_run_needs_the_same_file(capsys, file, tmp_path):
    own = tmp_path / "own.tsv"
    shutil.copy(file, own)
    arguments = ["--pairs", own, "--columns", "2,1", "--out", tmp_path / "run", *TINY, "--steps", "1", "--eager"]
    run(capsys, "train", "--task", "translate", *arguments)
    own.write_text(own.read_text().replace("at school", "in school"))
    _, error = run(capsys, "train", "--resume", tmp_path / "run", code=2)
    assert "was trained on another text" in error.splitlines()[-1]


# --- The data


SOME = "je suis\ti am\ntu es ici\tyou are here\nil est là et elle ici\the is there and she here\nelle est\tshe is\n"


def task_of(path, content=SOME, n_max=64, n_vol=None, note=lambda note: None, **reading):
    path = path / "some.tsv"
    path.write_text(content)
    tokenizer = WordTokenizer.train([f" {word}" for word in content.split()], None, SPECIAL)
    config = CONFIGS["translate"].replace(n_max=n_max, n_vol=n_vol or tokenizer.vocab_size)
    reading = {"columns": None, "strict": False} | reading
    return TranslateTask(config, tokenizer, str(path), reading, read(str(path), reading, note), note)


def test_long_pairs_are_named_and_left_out(tmp_path):
    notes = []
    task_of(tmp_path, n_max=7, note=notes.append)  # six words and STOP just fit
    assert notes == []
    task = task_of(tmp_path, n_max=5, note=notes.append)
    kept = [pair.line for part in task.parts.values() for pair in part]
    assert sorted(kept) == [1, 2, 4]
    assert sum(map(len, task.examples_of.values())) == 3
    assert len(notes) == 1
    assert re.search(r"some\.tsv, (training|held out), line 3: more than n_max = 5 tokens; skipped", notes[0])
    with pytest.raises(TextError, match=r"line 3: more than n_max = 5 tokens \(1 such lines\)"):
        task_of(tmp_path, n_max=5, strict=True)
    with pytest.raises(TextError, match="no pair has at most n_max = 2 tokens: give a larger --n-max"):
        task_of(tmp_path, n_max=2)


def test_model_and_data_need_one_vocabulary(tmp_path):
    with pytest.raises(TextError, match=r"the vocabulary has \d+ tokens, but the model n_vol = 300"):
        task_of(tmp_path, n_vol=300)


@pytest.fixture(scope="module")
def french():
    return grammar.pairs()


def test_grammar_sentences_beyond_n_max_are_refused(capsys, monkeypatch, french, tmp_path):
    monkeypatch.setattr(grammar, "pairs", lambda: french[::9])
    result = refused(capsys, "train", "--task", "translate", "--n-max", "5", "--out", tmp_path / "run")
    assert result.startswith("the French learnt here has sentences of ")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--pairs", "/nowhere.tsv"], "/nowhere.tsv: there is no such file"),
        (["--columns", "0,1"], "argument --columns: '0,1' is not 2 columns with commas"),
        (["--columns", "2"], "argument --columns: '2' is not 2 columns with commas"),
        (["--columns", "1,7"], "fra.tsv: 0 usable pairs"),
        (["--strict"], "fra.tsv, line 21: 1 columns"),
        (["--n-vol", "4"], "BPETokenizer: a vocabulary of 4 has no room for text"),
        (["--d-model", "15"], "d_model = 15 is not divisible by h = 2"),
        (["--norm", "between"], "argument --norm: invalid choice: 'between'"),
        (["--text", "x"], "unrecognized arguments: --text x"),
        (["--layer-lr", "1"], "unrecognized arguments: --layer-lr 1"),
    ],
)
def test_invalid_runs_are_refused(capsys, file, tmp_path, arguments, sentence):
    usual = ["--pairs", file, "--out", tmp_path / "run", *TINY, "--steps", "1"]
    code = main([str(a) for a in ["train", "--task", "translate", *usual, *arguments]])
    error = capsys.readouterr().err.splitlines()  # notes about lines may come before it
    assert code == 2 and sentence in error[-1], error
    assert not (tmp_path / "run").exists()


def test_missing_sacrebleu_is_named_before_training(capsys, monkeypatch, file):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "sacrebleu" else real(name))
    actual = refused(capsys, "train", "--task", "translate", "--pairs", file)
    assert actual == f"train needs sacrebleu: {install('train')}"


def test_scores_with_several_references():
    results = ["i am a student", "you are here"]
    references = [["i am one", "i am a student"], ["you are there"]]
    exact, bleu, chrf = scores(results, references)
    assert exact == 0.5 and 30 < bleu < 100 and 50 < chrf < 100
    assert scores(["i am a student now"], [["i am a student now"]]) == pytest.approx((1, 100, 100))
    assert scores(["x"], [["i am a student now"]])[0] == 0


def test_the_default_configuration_begins_to_learn_the_grammar(french):
    """Sixty steps on a few of its sentences; what it reaches in all its steps takes minutes to see."""
    sentences = [s for s in french if len(s.source.split()) <= 4][:40]
    words = WordTokenizer.train([f" {s.source} {s.target}" for s in sentences], None, SPECIAL)
    tinytensor.manual_seed(0)
    model = Transformer(CONFIGS["translate"].replace(n_vol=words.vocab_size))
    optimizer = tinytensor.optim.AdamW(model.parameters(), lr=3e-3)
    x, y = (tensor(a) for a in batch([example(words, s) for s in sentences], 8, 40))

    def exact():
        result = translate_sentences(model, words, [s.source for s in sentences])
        return scores(result, [[s.target] for s in sentences])[0]

    assert exact() < 0.1
    for _ in range(60):
        optimizer.zero_grad()
        model(x, y)[1].backward()
        optimizer.step()
    assert exact() > 0.9


# --- Python -m models translate


def test_command_translates(capsys, trained):
    out, _ = trained
    assert translated(capsys, out, "Je suis à Paris.") == ["I am in Paris."]
    both = ["Tu es en retard.", "Elle est dehors."]
    assert translated(capsys, out, *both) == ["You are late.", "She is outside."]
    assert translated(capsys, out, "  Je   suis à Paris. ", "--no-cache") == ["I am in Paris."]
    assert translated(capsys, out, "Je suis à Paris.", "--beam", "4", "--length-penalty", "0") == ["I am in Paris."]
    assert len(translated(capsys, out, "Je suis à Paris.", "--literal")) == 1


def test_command_reads_standard_input(capsys, monkeypatch, trained):
    monkeypatch.setattr(sys, "stdin", io.StringIO("Je suis à Paris.\nTu es en retard.\n"))
    assert translated(capsys, trained[0]) == ["I am in Paris.", "You are late."]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"Je suis l\xe0.\n"), encoding="utf-8"))
    assert "can't decode byte 0xe0" in refused(capsys, "translate", "--checkpoint", trained[0])
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert refused(capsys, "translate", "--checkpoint", trained[0]).startswith("no sentence was given")


def test_a_seed_repeats_a_translation(capsys, trained):
    def sampled(seed, *how):
        return translated(capsys, trained[0], "Je suis à Paris.", "--temperature", "4", "--seed", seed, *how)

    assert sampled(1) == sampled(1) != sampled(2)
    assert sampled(1, "--top-k", "1") == ["I am in Paris."]


def test_command_draws_attention(capsys, monkeypatch, trained, tmp_path):
    drawn, draw = [], plots.attention
    monkeypatch.setattr(plots, "attention", lambda *what: drawn.append(what) or draw(*what))
    assert translated(capsys, trained[0], "Je suis à Paris.", "--attention", tmp_path / "a.png") == ["I am in Paris."]
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    maps, rows, columns = drawn[0]
    assert maps.shape == (1, 2, len(rows), len(columns))
    assert "".join(columns) == "Jesuisà" + "Paris." and rows[-1] == "<stop>" and "".join(rows[:-1]) == "IaminParis."
    monkeypatch.undo()
    translated(capsys, trained[0], "Je suis à Paris.", "--attention", tmp_path / "a.png", "--beam", "3")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["Je suis à 東京."], "'Je suis à 東京.': the model's vocabulary does not have '東京'; nothing was translated"),
        (["Je suis ici.", " "], "a sentence is empty: there is nothing to translate"),
        ([""], "a sentence is empty"),
        (["Je suis " * 20], "translate: a sentence of "),
        (["東" * 5000], "'" + "東" * 196 + "...: the model's vocabulary does not have '東東"),
        (["Je", "--beam", "0"], "translate: beam = 0"),
        (["Je", "--beam", "2", "--temperature", "1"], "translate: choose one of beam search"),
        (["Je", "--beam", "2", "--length-penalty", "-1"], "translate: length penalty = -1.0"),
        (["Je", "--temperature", "-1"], "temperature = -1.0"),
        (["Je", "--top-k", "0"], "top-k = 0"),
        (["Je", "Tu", "--attention", "a.png"], "--attention draws one sentence, but 2 were given"),
        (
            ["Je", "--attention", "/nowhere/at/all.png"],
            "the picture cannot be written to /nowhere/at/all.png: there is no such",
        ),
        (["Je", "--attention", "a.xyz"], "Format 'xyz' is not supported"),
        (["Je", "--attention", "."], "--attention . is a folder"),
        (["Je", "--threads", "0"], "--threads 0: 1 or more is needed"),
    ],
)
def test_invalid_translations_are_refused(capsys, monkeypatch, tmp_path, trained, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, "translate", "--checkpoint", trained[0], *arguments).startswith(sentence)


def test_checkpoint_of_another_task_is_refused(capsys, monkeypatch, trained, tmp_path):
    verse = tmp_path / "verse.txt"
    verse.write_text("the cat sat on the mat\n" * 20)
    sizes = split("--D 8 --H 2 --F 12 --L 1 --C 10 --tokenizer char --steps 1 --eager --threads 1")
    run(capsys, "train", "--text", verse, "--out", tmp_path / "text", *sizes)
    result = refused(capsys, "translate", "--checkpoint", tmp_path / "text", "Je")
    assert result.endswith("was trained with --task text, this command needs a run of --task translate")
    result = refused(capsys, "sample", trained[0])
    assert result.endswith("was trained with --task translate, this command needs a run of --task text")
    assert "holds no checkpoint" in refused(capsys, "translate", "--checkpoint", tmp_path, "Je")
    monkeypatch.chdir(tmp_path)
    assert "there is no run of python -m models train --task translate" in refused(capsys, "translate", "Je")
    shutil.copytree(trained[0], tmp_path / "runs" / "mine")
    shutil.copytree(tmp_path / "text", tmp_path / "runs" / "newer")
    assert run(capsys, "translate", "Je suis à Paris.")[0] == "I am in Paris.\n"  # the newest that translates


# --- Info and help


def test_info_of_a_translator(capsys, trained):
    out, _ = run(capsys, "info", "base")
    assert out.rstrip().endswith("63,082,632  63,082,632  match: True")
    assert "N = 6, d_model = 512, h = 8" in out
    out, _ = run(capsys, "info", "translate")
    assert out.rstrip().endswith("match: True") and "W_Embedding" in out
    out, _ = run(capsys, "info", trained[0])
    assert "after step 240 of 240, held-out loss" in out and "n_vol = 120" in out and out.rstrip().endswith("True")


@pytest.mark.parametrize(
    ("task", "there", "absent"),
    [
        ("translate", "--pairs --columns --d-model --d-ff --label-smoothing", "--text --sequences --D --layer-lr --F"),
        ("recommend", "--sequences --D --layer-lr", "--text --pairs --d-model --V --n-vol --tokenizer --causal"),
        ("text", "--text --D --V --tokenizer", "--pairs --sequences --d-model"),
    ],
)
def test_help_shows_the_options_of_the_task(capsys, task, there, absent):
    with pytest.raises(SystemExit) as exit:
        main(["train", "--task", task, "--help"])
    assert exit.value.code == 0
    matches = set(re.findall(r"--[\w-]+", capsys.readouterr().out))
    assert matches >= set(there.split())
    assert not matches & set(absent.split())


# --- The recommender


def test_ranks_by_hand():
    """Columns 0 and 1 are <pad> and the unknown: they are no items, whatever their scores."""
    nine = [9.0, 9.0]
    score = np.array([nine + [3, 2, 1, 0], nine + [1, 1, 1, 0], nine + [2, 5, 5, 1], nine + [0, 0, 0, 0]], dtype=float)
    np.testing.assert_array_equal(rank(score, [2, 2, 3, 5]), [1, 2, 1.5, 2.5])
    np.testing.assert_array_equal(rank(score, [5, 5, 2, 2]), [4, 4, 3, 2.5])


def test_hit_ratio_and_ndcg_by_hand():
    ranks = np.array([1, 3, 10, 10.5, 200])
    assert hit_ratio(ranks) == 3 / 5
    assert ndcg(ranks) == pytest.approx((1 + 1 / 2 + 1 / math.log2(11)) / 5, rel=1e-12)
    assert ndcg(np.array([1.0])) == hit_ratio(np.array([1.0])) == 1


# the last two of each are left out; x has too few
CHOICES = {"u": "a b a b c d", "v": "a b c a c", "w": "b c a b a", "z": "c e d d", "x": "d d d"}


def table(choices, when=str):
    return [(user, item, when(i)) for user, items in choices.items() for i, item in enumerate(items.split())]


def write(path, rows, head="user,item,time"):
    path.write_text("".join(f"{line}\n" for line in [head, *(",".join(row) for row in rows)]))
    return path


def recommender(file, **sizes):
    config = Config(D=8, H=2, F=12, L=1, V=1, C=8).replace(**sizes)
    return RecommendTask.begin(config, {"sequences": file}, "recommend")


def test_popularity_and_the_markov_chain_by_hand(tmp_path):
    """Trained on a b a b, a b c, b c a and c e. a and b came four times, c three times, e once, d never; after a came b
    (three times), after b came c (twice) and a, after c came a and e. Asked for what follows c, a, b and d."""
    task = recommender(write(tmp_path / "c.csv", table(CHOICES)))
    assert task.tokenizer.tokens[2:] == ["a", "b", "c", "d", "e"] and len(task.rows) == 4
    assert task.describe()[0].endswith("4 users, 5 items, 20 choices; users left out, with fewer than four: 1")
    tinytensor.manual_seed(0)
    model = Decoder(task.config)
    result = task.ranks(model)
    ranks = sorted(zip(result["popularity"].tolist(), result["Markov chain"].tolist()))  # in any order of the users
    assert ranks == [(1.5, 2), (3, 3), (5, 5), (5, 5)]
    for row, position in zip(task.rows, result["this model"], strict=True):  # each user alone
        logits = model.eval()(tensor([row[:-1]]))[0].detach().numpy()[0, -1:]
        assert position == rank(logits, [row[-1]])[0]


def test_held_out_items_are_not_trained_on(tmp_path):
    generator = np.random.default_rng(0)
    choices = {}
    for user in range(30):
        items = [f"item-{i}" for i in generator.integers(9, size=generator.integers(2, 25))]
        choices[f"user-{user}"] = " ".join([*items, f"last-but-one-{user}", f"last-{user}"])
    task = recommender(write(tmp_path / "c.csv", table(choices)), C=6)
    name = task.tokenizer.tokens
    learnt = [{name[i] for part in window for i in part} for window in task.windows]
    assert not [item for window in learnt for item in window if item.startswith("last")]
    targets = sum(len(y) for _, y in task.windows)
    assert targets == sum(len(items.split()) - 3 for items in choices.values())  # all others but each user's first
    for x, y in task.windows:
        assert x[1:] == y[:-1] and len(x) <= 6
    batches = task.batches(4, np.random.default_rng(0))
    for _ in range(40):
        x, y = batches.next()
        assert not [i for i in {*x.flat, *y.flat} if i > PAD and name[i].startswith("last")]
        assert ((y == IGNORE_INDEX) == (x == PAD)).all()
    for batches, target, unseen in (
        (task.heldout_batches(4), r"last-but-one-\d+", r"last-\d+"),
        (task._last(task.rows, 4), r"last-\d+", None),
    ):
        counted = 0
        for x, y in batches:
            assert x.shape == y.shape == (4, 6)
            for items, targets in zip(x, y, strict=True):
                for where in np.flatnonzero(targets != IGNORE_INDEX):  # the place of the last item that is seen
                    assert (items[: where + 1] != PAD).all() and (items[where + 1 :] == PAD).all()
                    seen = [name[i] for i in items]
                    assert re.fullmatch(target, name[targets[where]]) and name[targets[where]] not in seen
                    assert unseen is None or not any(re.fullmatch(unseen, item) for item in seen)
                    counted += 1
        assert counted == len(choices)


def test_items_are_sorted_by_time(tmp_path):
    expected = recommender(write(tmp_path / "a.csv", table(CHOICES))).rows

    def date(i):
        return f"2024-0{1 + i // 3}-{28 - 9 * (2 - i % 3):02d}T10:00:00"

    assert recommender(write(tmp_path / "b.csv", table(CHOICES, date))).rows == expected
    shuffled = sorted(table(CHOICES), key=lambda row: (row[0], -int(row[2])))
    columns = [(when, "x", user, item) for user, item, when in shuffled]
    assert recommender(write(tmp_path / "c.csv", columns, "time, rating, user, item")).rows == expected


@pytest.mark.parametrize("times", [1, 2])
def test_order_of_equal_times_is_not_that_of_the_file(times, tmp_path):
    """Whatever the file is sorted by, items of equal times come in the same order, another one for each user."""
    events = [(f"u{u}", f"i{i:02d}", str(u % times)) for u in range(40) for i in range(20)]
    files = {
        "by user": events,
        "by item": sorted(events, key=lambda event: event[1]),
        "by item, falling": sorted(events, key=lambda event: event[1], reverse=True),
        "by time": sorted(events, key=lambda event: event[2]),
    }
    rows = [recommender(write(tmp_path / f"{name}.csv", lines)).rows for name, lines in files.items()]
    assert all(other == rows[0] for other in rows)
    last = {row[-1] for row in rows[0]}
    assert len(rows[0]) == 40 and len(last) > 10  # of 20 items; sorted by item it is one


def test_ratings_of_movielens_are_read_as_they_are(capsys, tmp_path):
    expected = recommender(write(tmp_path / "a.csv", table(CHOICES))).rows
    ratings = [(user, item, "4.5", time) for user, item, time in table(CHOICES)]
    for name, mark, header in (
        ("ratings.csv", ",", "userId,movieId,rating,timestamp\n"),
        ("ratings.dat", "::", ""),
        ("u.data", "\t", ""),
    ):
        (tmp_path / name).write_text(header + "".join(mark.join(row) + "\n" for row in ratings))
        assert recommender(tmp_path / name).rows == expected, name
    assert not capsys.readouterr().err


def test_columns_of_sequences_are_named_by_an_option(capsys, tmp_path):
    expected = recommender(write(tmp_path / "a.csv", table(CHOICES))).rows
    rows = [(time, item, user) for user, item, time in table(CHOICES)]
    file, config = write(tmp_path / "b.csv", rows, "when,what,who"), RecommendTask.CONFIGS["recommend"]
    for chosen in (("who", "what", "when"), (3, 2, 1)):
        task = RecommendTask.begin(config, {"sequences": file, "columns": chosen}, "recommend")
        assert task.rows == expected
        state = json.loads(json.dumps({"config": task.config.to_dict()} | task.state()))
        assert RecommendTask.restore(state).rows == expected
    assert "line 1: a user, an item and a time" in capsys.readouterr().err  # with numbers it is a row as any other
    usual = ["train", "--task", "recommend", "--out", tmp_path / "run"]
    for chosen, sentence in (
        ("who,what,time", "the first line names the columns when, what, who; not there: time"),
        ("who,what", "argument --columns: 'who,what' is not 3 columns with commas between them"),
        ("1,2,when", "argument --columns: '1,2,when' is not 3 columns"),
        ("1,2,0", "argument --columns: '1,2,0' is not 3 columns"),
    ):
        assert sentence in refused(capsys, *usual, "--sequences", file, "--columns", chosen)
    assert "name the file that has them with --sequences" in refused(capsys, *usual, "--columns", "1,2,3")


def test_unusable_csv_lines_are_named(capsys, tmp_path):
    rows = table(CHOICES)
    bad = [*rows[:3], ("u", "", "3"), ("u", "a"), ("u", "a", "yesterday"), ("", "a", "3"), ("u", "a", "nan"), *rows[3:]]
    task = recommender(write(tmp_path / "c.csv", bad))
    notes = capsys.readouterr().err.splitlines()
    assert [int(re.search(r"line (\d+): a user, an item and a time", note)[1]) for note in notes] == [5, 6, 7, 8, 9]
    assert task.rows == recommender(write(tmp_path / "d.csv", rows)).rows


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("user,thing,time\na,b,1\n", "the first line must name the columns user, item and time; not there: item. "),
        ("user;item;time\na;b;1\n", "not there: user, item, time. Its columns seem to stand between ;"),
        ("<!DOCTYPE html>\n", "not there: user, item, time. It seems to be an HTML page"),
        ("user,item,time\na,b,1\na,c,2\na,d,3\n", "no user has the four items that are needed"),
        ('user,item,time\na,"b,1\n' + "a,c,2\n" * 30000, "line "),
        ("", "is empty"),
    ],
)
def test_unusable_csv_files_are_refused(capsys, tmp_path, content, sentence):
    file = tmp_path / "c.csv"
    file.write_text(content)
    assert sentence in refused(capsys, "train", "--task", "recommend", "--sequences", file, "--out", tmp_path / "run")


def test_recommender_trains_from_end_to_end(capsys, tmp_path):
    """Two interests each, taken in turn: the last item says little, the one before it much."""
    choices = generated(np.random.default_rng(1), users=150, genres=4, size=5)
    file = write(tmp_path / "c.csv", table({user: " ".join(items) for user, items in choices.items()}))
    sizes = split("--D 16 --H 2 --F 32 --L 2 --C 16 --dropout 0 --steps 200 --batch-size 32 --threads 1")
    out = tmp_path / "run"
    printed, _ = run(capsys, "train", "--task", "recommend", "--sequences", file, "--out", out, *sizes)
    assert "150 users, 20 items" in printed
    lines = re.findall(r"^(\D+?) +(0\.\d+) +(0\.\d+)$", printed, re.MULTILINE)
    results = {name: (float(hits), float(gain)) for name, hits, gain in lines}
    assert results.keys() == {"popularity", "Markov chain", "this model"}
    saved = checkpoint.load(out)
    task = RecommendTask.restore(saved.state["task"])
    model = Decoder(task.config)
    model.load_state_dict(saved.weights)
    for name, ranks in task.ranks(model).items():
        assert results[name] == (pytest.approx(hit_ratio(ranks), abs=6e-4), pytest.approx(ndcg(ranks), abs=6e-4))
    assert results["this model"][1] > 1.5 * results["popularity"][1]
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    held = [row["heldout_loss"] for row in saved.state["log"] if row.get("heldout_loss")]
    assert held[-1] < math.log(20)
    # a file with an item that was not there
    with file.open("a") as more:
        more.write("user-0,something new,99\n")
    assert "was trained on another text" in refused(capsys, "train", "--resume", out)


def test_generated_sequences_have_the_documented_structure():
    choices = generated(np.random.default_rng(0), users=300)
    follows = total = other = 0
    for items in choices.values():
        assert 12 <= len(items) < 30
        pairs = [tuple(map(int, item.split("-")[1:])) for item in items]
        last = {}
        for (genre, position), (before, _) in zip(pairs[1:], pairs, strict=False):
            other += genre != before
            if genre in last:
                total += 1
                follows += position == (last[genre] + 1) % 20
            last[genre] = position
    assert follows / total > 0.8
    assert 0.65 < other / sum(len(items) - 1 for items in choices.values()) < 0.85
    assert choices == generated(np.random.default_rng(0), users=300)


def test_tokenizer_of_another_vocabulary_is_refused():
    tokenizer = WordTokenizer(["a", "b"])
    state = {"config": Config(D=8, H=2, V=3).to_dict(), "tokenizer": tokenizer.to_dict()}
    config, result = RecommendTask.described(state)
    assert (config.V, result.tokens) == (3, tokenizer.tokens)
    state["tokenizer"]["pieces"].append("c")
    with pytest.raises(ValueError, match="the tokenizer knows 4 tokens, but the model was made for V = 3"):
        RecommendTask.described(state)
