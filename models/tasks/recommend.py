"""`--task recommend`: the causal decoder names the item that a user will choose next (001 comes from a recommender).

The last item of each user is left out for the test, the one before it for the held-out loss while training.
"""

from collections import Counter, defaultdict
from datetime import datetime
from hashlib import blake2b

import numpy as np

from models.data import tables
from models.data.pairs import PairBatches, batch
from models.data.tables import Columns
from models.data.text import IGNORE_INDEX, TextError, read_text, report_lines
from models.data.tokenizers import WordTokenizer
from models.decoder import Config, Decoder
from models.inference import report
from models.options import columns, data_path
from models.tasks.task import Glimpse, Task, check_known, fingerprint, say, written_files
from models.transformer import PAD
from tinytensor import no_grad, tensor
from tinytensor.viz import plots

TOP = 10  # HR@10, NDCG@10


class RecommendTask(Task):
    name = "recommend"
    summary = "The decoder of document 003 learns which item a user chooses next; by default from generated sequences."
    Config, Model, default = Config, Decoder, "recommend"
    CONFIGS = {"recommend": Config(D=64, H=4, F=128, C=32, residual="pre-norm", final_norm=True, dropout=0.2)}
    examples, predicted = "sequences", "item"
    source, sized_by_data = "sequences", ("V", "causal")
    chosen_by_data = sized_by_data  # a model that sees the next item does not learn to name it

    def __init__(self, config, tokenizer, file, sequences: dict[str, list[str]], columns: Columns | None = None):
        super().__init__(config, tokenizer, file)
        self.columns = columns
        C, number = config.C, {item: i for i, item in enumerate(tokenizer.tokens)}
        rows = [[number.get(item, tokenizer.unknown) for item in chosen] for chosen in sequences.values()]
        self.rows = [row for row in rows if len(row) >= 4]  # two to learn from, two that are left out
        self.too_short = len(rows) - len(self.rows)
        parts = [row[i : i + C + 1] for row in (r[:-2] for r in self.rows) for i in range(0, len(row) - 1, C)]
        self.windows = [(part[:-1], part[1:]) for part in parts]
        if not self.windows:
            raise TextError(f"{file}: no user has the four items that are needed: two to learn from, two to leave out")

    @classmethod
    def add_options(cls, group):
        about = "a table with user, item and time (a number or an ISO date); MovieLens's files are read as they are"
        group.add_argument("--sequences", metavar="FILE.csv", type=data_path, help=about)
        which = "the columns of user, item and time: their names in the first line, or numbers from 1"
        group.add_argument("--columns", metavar="NAME,NAME,NAME", type=columns(3), help=which)

    @classmethod
    def begin(cls, config, flags, name, known=None):
        file = str(flags["sequences"].resolve()) if "sequences" in flags else None
        chosen = flags.get("columns")
        sequences = _sequences(file, chosen, say)
        if known is not None:
            check_known(
                Counter(item for chosen in sequences.values() for item in chosen),
                set(known.tokens).__contains__,
                "items",
            )
            return cls(config, known, file, sequences, chosen)
        items = sorted({item for chosen in sequences.values() for item in chosen})
        tokenizer = WordTokenizer(items, special=("<pad>",))
        return cls(config.replace(V=tokenizer.vocab_size), tokenizer, file, sequences, chosen)

    @classmethod
    def restore(cls, state):
        config, tokenizer = cls.described(state)
        file, chosen = state["file"], state.get("columns") and tuple(state["columns"])
        return cls(config, tokenizer, file, _sequences(file, chosen, lambda note: None), chosen)

    def state(self):
        return super().state() | ({} if self.columns is None else {"columns": self.columns})

    @classmethod
    def options(cls, state):
        return super().options(state) | {"columns": state.get("columns")}

    @classmethod
    def recipe(cls, config, flags):
        return {"steps": 3000, "batch_size": 64, "lr": 0.2 / config.D, "evaluate_every": 500}

    def fingerprint(self):
        return fingerprint(self.rows)

    def batches(self, batch_size, generator):
        return _Batches(self.windows, self.config.C, batch_size, generator)

    def heldout_batches(self, batch_size):
        return self._last([row[:-1] for row in self.rows], batch_size)

    def _last(self, rows, batch_size: int):
        """Yield x, y (batch_size, C): the items before the last one of each row, which alone is a target."""
        C = self.config.C
        for first in range(0, len(rows), batch_size):
            chosen = rows[first : first + batch_size]
            x, _ = batch([(row[:-1][-C:], []) for row in chosen], C, batch_size)
            y = np.full_like(x, IGNORE_INDEX)
            for i, row in enumerate(chosen):
                y[i, min(C, len(row) - 1) - 1] = row[-1]
            yield x, y

    def describe(self):
        counts = f"{len(self.rows):,} users, {self.config.V - 2:,} items, {sum(map(len, self.rows)):,} choices"
        left_out = f"; users left out, with fewer than four: {self.too_short:,}" if self.too_short else ""
        return [f"sequences: {self.file or 'generated'}: {counts}{left_out}"]

    def glimpse(self, model, seed):
        """The model's guesses of the next items of some users, beside the items that are held out while training."""
        names, chosen, lines = self.tokenizer.tokens, [row[:-2][-self.config.C :] for row in self.rows[:5]], []
        training = model.training
        model.eval()
        for row, known in zip(self.rows, chosen):
            with no_grad():
                logits = model(tensor([known]))[0].numpy()[0, -1, 2:]  # (items,), without <pad> and the unknown
            best = [names[i + 2] for i in np.argsort(-logits, kind="stable")[:3]]
            lines.append(f"{', '.join(names[i] for i in known[-3:])} → {', '.join(best)}   (chosen: {names[row[-2]]})")
        model.train(training)
        labels = [names[i] for i in chosen[0]]
        about = "The last items of each user, and the model's next ones; attention is over all items of the first user."
        return Glimpse(about, "\n".join(lines), report.attention_maps(model, chosen[0]), labels, labels)

    def finish(self, model, folder, rows, seed):
        """HR@10 and NDCG@10 of the items left out, beside popularity and a Markov chain."""
        with self.attempt(f"the picture {folder / 'loss.png'}"):
            plots.save(plots.loss(rows, unit=f"nats per {self.predicted}"), folder / "loss.png")
        print(
            f"\nheld-out loss: {rows[-1]['heldout_loss']:.3f} nats per {self.predicted}\n{'':<16}HR@{TOP}  NDCG@{TOP}"
        )
        for name, ranks in self.ranks(model).items():
            print(f"{name:<16}{hit_ratio(ranks):5.3f}  {ndcg(ranks):7.3f}")
        print(f"written to {folder}: {written_files(folder, 'loss.png')}")

    def ranks(self, model: Decoder) -> dict[str, np.ndarray]:
        """The place of each left-out item among all items, by popularity, by a Markov chain, and by the model."""
        popular, follows = np.zeros(self.config.V), defaultdict(Counter)
        for row in self.rows:
            for before, item in zip([None, *row[:-3]], row[:-2]):
                popular[item] += 1
                follows[before][item] += 1
        ranks_by_name = defaultdict(list)
        model.eval()
        for first, (x, y) in zip(range(0, len(self.rows), 256), self._last(self.rows, 256)):
            rows = self.rows[first : first + 256]
            chain = np.tile(popular / (popular.sum() + 1), (len(rows), 1))  # below 1: it decides where nothing was seen
            for scores, row in zip(chain, rows):
                for item, count in follows[row[-2]].items():
                    scores[item] += count
            with no_grad():
                logits = model(tensor(x))[0].numpy()[y != IGNORE_INDEX]  # (users, V)
            for name, scores in ("popularity", popular[None]), ("Markov chain", chain), ("this model", logits):
                ranks_by_name[name].append(rank(np.broadcast_to(scores, logits.shape), [row[-1] for row in rows]))
        return {name: np.concatenate(ranks) for name, ranks in ranks_by_name.items()}


class _Batches(PairBatches):
    """Items and the items after them; the loss does not count the padding of a row."""

    def next(self):
        x, y = super().next()
        return x, np.where(y == PAD, IGNORE_INDEX, y)


def rank(scores: np.ndarray, targets: list[int]) -> np.ndarray:
    """The place (1: the best) of each row's target among the items, halfway among its equals; scores (users, V)."""
    items = scores[:, 2:]  # without <pad> and the unknown
    own = scores[np.arange(len(targets)), targets][:, None]
    return 1 + (items > own).sum(-1) + ((items == own).sum(-1) - 1) / 2


def hit_ratio(ranks: np.ndarray) -> float:
    """HR@10: the part of the users whose item is among the first ten."""
    return float((ranks <= TOP).mean())


def ndcg(ranks: np.ndarray) -> float:
    """NDCG@10 with one right item each: the mean of 1 / log2(1 + rank), 0 from the eleventh place on."""
    return float(np.where(ranks <= TOP, 1 / np.log2(1 + ranks), 0).mean())


USUAL = {  # names of columns in the files that people have
    "user": ("user", "userid", "user_id"),
    "item": ("item", "itemid", "item_id", "movieid", "movie_id"),
    "time": ("time", "timestamp"),
}


def _sequences(file: str | None, chosen: Columns | None, note) -> dict[str, list[str]]:
    """The items of each user in the order of time; the order of equal times is random, and not that of the file.

    A file that is sorted by item would give all items that are often chosen the first places otherwise.
    """
    if file is None:
        if chosen is not None:
            raise TextError(f"--columns {','.join(map(str, chosen))}: name the file that has them with --sequences")
        return generated(np.random.default_rng(0))
    table = read_text(file, note)
    between = tables.separator(table)
    rows, bad = [], []
    for number, cells in tables.rows(file, table, between, chosen or _usual_columns(file, table, between)):
        user, item, time = ("", "", "") if isinstance(cells, str) else map(str.strip, cells)
        when = _time(time)
        if user and item and np.isfinite(when):
            rows.append((when, user, item))
        else:
            bad.append((number, "a user, an item and a time (a number or an ISO date) are needed"))
    report_lines(file, bad, False, note)
    items_by_user = defaultdict(list)
    for _, user, item in sorted(rows, key=lambda row: (row[0], blake2b("\t".join(row[1:]).encode()).digest())):
        items_by_user[user].append(item)
    return items_by_user


def _usual_columns(file: str, table: str, between: str) -> Columns:
    """The columns of user, item and time in a file for which no option names them.

    MovieLens's older files have no names: user, item, rating and time stand between tabs or ::.
    """
    header = [cell.strip() for cell in next(tables.lines(file, table, between), (0, []))[1]]
    names = {what: [name for name in header if name.lower() in usual] for what, usual in USUAL.items()}
    if all(names.values()):
        return tuple(candidates[0] for candidates in names.values())
    if between == "," or any(names.values()):
        missing = ", ".join(what for what, candidates in names.items() if not candidates)
        raise TextError(
            f"{file}: the first line must name the columns user, item and time; not there: {missing}"
            + (tables.seeming(table, between) or ". Say with --columns which they are")
        )
    return (1, 2, 4) if len(header) >= 4 else (1, 2, 3)


def _time(value: str) -> float:
    for read in (float, lambda text: datetime.fromisoformat(text).timestamp()):
        try:
            return read(value)
        except ValueError:
            continue
    return np.nan


def generated(generator: np.random.Generator, users: int = 2000, genres: int = 10, size: int = 20):
    """Users with two interests each: the next item follows the last one of the same genre, round and round.

    Eight times in ten the next item is of the other genre than the last one; one time in ten anything is chosen. So the
    last item alone says little: one must look at the one before it, and further back.
    """
    chosen = {}
    for user in range(users):
        interests = generator.choice(genres, 2, replace=False)
        positions, now = generator.integers(size, size=2), 0
        chosen[f"user-{user}"] = items = []
        for _ in range(generator.integers(12, 30)):
            if generator.random() < 0.1:
                genre, position = generator.integers(genres), generator.integers(size)
            else:
                now = 1 - now if generator.random() < 0.8 else now
                positions[now] = (positions[now] + 1) % size
                genre, position = interests[now], positions[now]
            items.append(f"genre-{genre}-{position}")
    return chosen
