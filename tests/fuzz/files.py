"""Hostile files to learn from, and hostile tensors: refused with a sentence, or read."""

import json
import pickle
import random
import struct
from pathlib import Path

import numpy as np
from safetensors.numpy import save

import tinytensor
from tinytensor.interop.io import serialization

from .commands import PAIRS, TINY, in_a_folder, judge, prepare, run
from .tally import Diary, Tally, TooLong, is_sentence, limited

LINES = b"the cat sat on the mat\n"


def texts(chance: random.Random, count: int):
    """Yield (what, bytes) of files to learn from."""
    good = {
        "verse": LINES * 30,
        "pairs": b"".join(b"je suis %d\ti am %d\n" % (n, n) for n in range(60)),
        "rows": b"user,item,time\n" + b"".join(b"u%d,i%d,%d\n" % (n % 9, n % 7, n) for n in range(90)),
    }
    yield from good.items()
    yield from {
        "empty": b"",
        "NUL": b"\0" * 1000,
        "one line": b"a b " * 20_000,
        "byte order mark": b"\xef\xbb\xbf" + LINES * 30,
        "UTF-16": "the cat\n".encode("utf-16") * 30,
        "cut in a letter": "é".encode()[:1] * 3,
        "only line ends": b"\r\n\r" * 300,
        "combining": "e\u0301\u0301".encode() * 500,
        "right to left": "\u202eabc ".encode() * 200,
        "unknown": "\ufffd".encode() * 300,
        "tabs": b"\t" * 500 + b"\n",
        "quotation mark": b'user,item,time\n"u1,i1,1\n' * 20,
        "times": b"user,item,time\n" + b"u,i,nan\nu,i,inf\nu,i,1e999\nu,i,9999-99-99\nu,i,\n" * 9,
        "no columns": b"a,b,c\n1,2,3\n" * 20,
    }.items()
    for number in range(count):
        name, content = chance.choice(list(good.items()))
        content = bytearray(content)
        for _ in range(chance.randrange(1, 20)):
            at = chance.randrange(len(content))
            content[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(4))
        yield f"{name}, changed ({number})", bytes(content)


def archives(chance: random.Random, count: int):
    """Yield (what, bytes) of files that are to be tensors and mostly are not."""
    good = save({"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.ones(2, dtype=np.int64)})

    def with_header(header, body=b"\0" * 24) -> bytes:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + body

    def entry(**changes):
        return {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes}

    yield from {
        "good": good,
        "empty": b"",
        "eight bytes": b"\xff" * 8,
        "a header of 2**60": struct.pack("<Q", 2**60) + b"{}",
        "no JSON": with_header(b"{" * 50),
        "deep": with_header(b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
        "huge shape": with_header(entry(shape=[2**40, 2**40])),
        "negative shape": with_header(entry(shape=[-2, -3])),
        "overlap": with_header(entry() | {"b": entry()["a"]}),
        "beyond the end": with_header(entry(data_offsets=[0, 4000], shape=[1000])),
        "backwards": with_header(entry(data_offsets=[24, 0])),
        "no dtype": with_header(entry(dtype="F1000")),
        "half": with_header(entry(dtype="F16", shape=[12])),
        "bool of 7": with_header(entry(dtype="BOOL", shape=[24]), b"\7" * 24),
        "tied": with_header(entry() | {"__metadata__": {"tinytensor.tied": "{"}}),
        "a pickle": pickle.dumps({"a": [1.0, 2.0]}),
        "a zip": b"PK\3\4" + bytes(100),
    }.items()
    for number in range(count):
        content = bytearray(good)
        for _ in range(chance.randrange(1, 6)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        yield f"changed ({number})", bytes(content)


TEXTS = {"short": 2, "sample": 6, "long": 300}  # changed by chance, for each size of the run; and as many archives:
ARCHIVES = {"short": 20, "sample": 100, "long": 2000}


def fuzz(size: str, diary: Diary) -> Tally:
    tally, chance = Tally(), random.Random(3)
    with in_a_folder(prepare) as (folder, _):  # which compiles what there is to compile, so that no case waits for it
        file = folder / "file"
        for number, (message, content) in diary.mine(enumerate(texts(chance, TEXTS[size]))):
            file.write_bytes(content)
            for task, option, sizes in (
                ("text", "--text", TINY),
                ("translate", "--pairs", PAIRS),
                ("recommend", "--sequences", TINY.removesuffix(" --tokenizer char")),
            ):
                diary.enter(f"{option} {message}")
                arguments = ["train", "--task", task, option, str(file), "--out", f"run-{task}-{number}"]
                judge(tally, f"{option} {message}", *run(arguments + sizes.split()))
        for message, content in diary.mine(archives(chance, ARCHIVES[size])):
            file.write_bytes(content)
            for load in (serialization.load_file, serialization.load_metadata, tinytensor.load):
                diary.enter(f"{load.__name__} {message}")
                _load(tally, f"{load.__name__} {message}", load, file)
    return tally


def _load(tally: Tally, message: str, load, file: Path) -> None:
    try:
        with limited(20):
            load(file)
        tally.enter("taken")
    except TooLong:
        tally.find(f"{message}: no end in 20 s")
    except Exception as error:
        if is_sentence(error):
            tally.enter("refused")
        else:
            tally.find(f"{message}: {type(error).__name__}: {error}")
