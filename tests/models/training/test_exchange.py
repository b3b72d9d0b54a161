"""GPT-2 of Hugging Face and nanoGPT as runs, and back: the logits are those of GPT-2's definition, in float64.

The definition is written here anew, in NumPy, from the weights as the files hold them.
"""

import json
import math
import pickle
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tinytensor as tt
from models.command import cli
from models.data.tokenizers import BPETokenizer, CharTokenizer, LibraryTokenizer, WordTokenizer
from models.decoder import Config, Decoder
from models.training import checkpoint
from models.training.exchange import ExchangeError, import_folder
from tests.models.training.gpt2 import CONFIG, TEXT, gpt2_logits, random_weights, train_vocabulary
from tests.tools.packages import missing


@pytest.fixture(scope="module")
def vocabulary():
    """The trained tokenizer of the library: bytes, as GPT-2's."""
    return train_vocabulary()


@pytest.fixture
def folder(tmp_path, vocabulary):
    """GPT-2 in Hugging Face's layout, with random weights."""
    made = tmp_path / "gpt2"
    made.mkdir()
    save_file(random_weights(), made / "model.safetensors", {"format": "pt"})
    (made / "config.json").write_text(json.dumps(CONFIG))
    vocabulary.save(str(made / "tokenizer.json"))
    return made


def logits(saved: checkpoint.Checkpoint, tokens) -> np.ndarray:
    config = Config(**saved.state["task"]["config"])
    model = checkpoint.built(Decoder, config, dict(saved.weights)).eval()
    return model(tt.tensor([tokens]))[0][0].detach().numpy()


TOKENS = [5, 17, 250, 3, 3, 81, 0, 299]


def near(a, b):
    np.testing.assert_allclose(a, b, rtol=0, atol=2e-5)


@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "relu"])
def test_logits_are_those_of_the_definition(activation, folder):
    (folder / "config.json").write_text(json.dumps(CONFIG | {"activation_function": activation}))
    near(logits(import_folder(folder), TOKENS), gpt2_logits(random_weights(), TOKENS, activation))


def test_a_wrong_definition_is_noticed(folder):
    result = logits(import_folder(folder), TOKENS)
    for wrong in ({"activation": "gelu"}, {"eps": 1e-2}, {"scale": 1.0}, {"causal": False}):
        with pytest.raises(AssertionError, match="Mismatched elements"):
            near(result, gpt2_logits(random_weights(), TOKENS, **wrong))


def test_shards_and_prefixes_and_masks(folder):
    whole = random_weights()
    expected = gpt2_logits(whole, TOKENS)
    (folder / "model.safetensors").unlink()
    weights = {f"transformer.{name}": array for name, array in whole.items()}
    weights["lm_head.weight"] = whole["wte.weight"]
    weights["transformer.h.0.attn.bias"] = np.tri(32, dtype=bool)[None, None]
    weights["transformer.h.1.attn.masked_bias"] = np.array(-1e4, np.float32)
    names = sorted(weights)
    positions = {name: f"model-0000{1 + i % 3}-of-00003.safetensors" for i, name in enumerate(names)}
    for file in set(positions.values()):
        save_file({name: weights[name] for name in names if positions[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": positions}))
    near(logits(import_folder(folder), TOKENS), expected)


@pytest.mark.parametrize("before", ["module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.transformer."])
@pytest.mark.parametrize("inside", [False, True])
def test_names_of_wrappers_are_taken_off(folder, before, inside):
    """A checkpoint of a model that DistributedDataParallel or compile wrapped, or whose blocks compile wrapped."""
    weights = {before + name: array for name, array in random_weights().items()}
    if inside:
        weights = {name.replace("h.1.", "h.1._orig_mod."): array for name, array in weights.items()}
    save_file(weights, folder / "model.safetensors")
    near(logits(import_folder(folder), TOKENS), gpt2_logits(random_weights(), TOKENS))
    save_file(weights | {"wte.weight": random_weights()["wte.weight"]}, folder / "model.safetensors")
    with pytest.raises(ExchangeError, match=r"there twice, with and without transformer\., module\. or _orig_mod\."):
        import_folder(folder)


def test_a_head_that_is_not_tied(folder):
    weights = random_weights() | {"lm_head.weight": np.random.default_rng(5).normal(size=(300, 24)).astype(np.float32)}
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(ExchangeError, match=r"says that lm_head.weight is wte.weight, but their values differ"):
        import_folder(folder)
    (folder / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": False}))
    near(logits(import_folder(folder), TOKENS), gpt2_logits(weights, TOKENS))


def test_narrow_and_pickled_weights(folder):
    narrow = {name: array.astype(np.float16) for name, array in random_weights().items()}
    save_file(narrow, folder / "model.safetensors")
    wide = {name: array.astype(np.float32) for name, array in narrow.items()}
    near(logits(import_folder(folder), TOKENS), gpt2_logits(wide, TOKENS))
    (folder / "model.safetensors").unlink()
    tt.save({name: tt.tensor(array) for name, array in wide.items()}, folder / "x.pt")
    (folder / "x.pt").rename(folder / "pytorch_model.bin")
    near(logits(import_folder(folder), TOKENS), gpt2_logits(wide, TOKENS))


def test_both_kinds_of_vocabulary_give_the_same_ids(folder, vocabulary):
    text = f"{TEXT}é \U0001f600  {TEXT[:9]}<|endoftext|>\n\n'tis 1234"
    expected = vocabulary.encode(text).ids
    one = LibraryTokenizer.from_dict(import_folder(folder).state["task"]["tokenizer"])
    (folder / "tokenizer.json").unlink()
    vocabulary.model.save(str(folder))
    other = LibraryTokenizer.from_dict(import_folder(folder).state["task"]["tokenizer"])
    assert one.encode(text) == other.encode(text) == expected
    assert one.decode(expected) == other.decode(expected) == text.replace("<|endoftext|>", "")
    assert one.decode([299, *one.encode("the")]) == "the"  # 299 is no token of the vocabulary, but one of the model
    with pytest.raises(ValueError, match="decode: an id is outside the vocabulary of 300 tokens"):
        one.decode([300])


def run(*arguments, capsys) -> tuple[int, str, str]:
    code = cli.main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_an_imported_run_samples_and_is_exported(folder, vocabulary, tmp_path, capsys):
    out, back = tmp_path / "run", tmp_path / "back"
    code, said, _ = run("import", folder, "--out", out, capsys=capsys)
    assert code == 0 and "imported 22,464 parameters" in said
    code, said, _ = run("sample", out, "--prompt", "the cat", "--tokens", 12, "--temperature", 0, capsys=capsys)
    tokens = vocabulary.encode("the cat").ids
    for _ in range(12):
        tokens.append(int(gpt2_logits(random_weights(), tokens)[-1].argmax()))
    known = set(vocabulary.get_vocab().values())
    assert code == 0 and said == vocabulary.decode([i for i in tokens if i in known]) + "\n"
    code, said, _ = run("info", out, capsys=capsys)
    assert code == 0 and f"imported from {folder}" in said and "activation = gelu-tanh" in said
    code, _, said = run("train", "--resume", out, capsys=capsys)
    assert code == 2 and "was imported: it has weights, but no training to go on with" in said
    code, _, said = run("show", out, capsys=capsys)
    assert code == 2 and "no equations for the activation gelu-tanh" in said
    assert run("export", out, back, capsys=capsys)[0] == 0
    written = {name.removeprefix("transformer."): a for name, a in load_file(back / "model.safetensors").items()}
    assert written.keys() == random_weights().keys()
    assert all(np.array_equal(written[name], array) for name, array in random_weights().items())
    about = json.loads((back / "config.json").read_text())
    assert {name: about[name] for name in CONFIG} == CONFIG | {"n_inner": 96}
    near(logits(import_folder(back), TOKENS), gpt2_logits(random_weights(), TOKENS))
    assert (back / "tokenizer.json").read_text() == (folder / "tokenizer.json").read_text()
    code, _, said = run("export", out, back, capsys=capsys)
    assert code == 2 and "is a file, or not empty" in said


# --- NanoGPT


def nanogpt(folder, bias: bool, prefix: str = "", **arguments):
    """A checkpoint as nanoGPT writes it; returns the weights in Hugging Face's layout."""
    weights = {n: a for n, a in random_weights(V=9).items() if bias or not n.endswith("bias")}
    turned = {n: np.ascontiguousarray(a.T) if "attn.c_" in n or "mlp.c_" in n else a for n, a in weights.items()}
    model = {f"{prefix}transformer.{n}": tt.tensor(a) for n, a in turned.items()}
    model = {n: t.flatten() if "ln_" in n or n.endswith("bias") else t for n, t in model.items()}
    model[f"{prefix}lm_head.weight"] = model[f"{prefix}transformer.wte.weight"]
    sizes = {"n_layer": 2, "n_head": 3, "n_embd": 24, "block_size": 32, "bias": bias, "vocab_size": 9, "dropout": 0.0}
    held = {"model": model, "model_args": sizes | arguments, "iter_num": 7, "best_val_loss": tt.tensor(1.5)}
    held["optimizer"] = {"state": {0: {"step": tt.tensor(7.0), "exp_avg": tt.zeros(9, 24)}}, "param_groups": []}
    tt.save(held, folder / "ckpt.pt")
    return weights


@pytest.mark.one_in(4)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("prefix", ["", "_orig_mod.", "module._orig_mod."])
@pytest.mark.parametrize("as_json", [True, False])
def test_nanogpt_is_imported(bias, prefix, as_json, tmp_path, capsys):
    weights = nanogpt(tmp_path, bias, prefix)
    itos = dict(enumerate("\n abcdefg"))
    held = {"vocab_size": 9, "itos": itos, "stoi": {c: i for i, c in itos.items()}}
    path = tmp_path / ("meta.json" if as_json else "meta.pkl")
    path.write_bytes(json.dumps(held).encode() if as_json else pickle.dumps(held))
    tokens = [2, 5, 1, 8, 0]
    near(logits(import_folder(tmp_path), tokens), gpt2_logits(weights, tokens, "gelu"))
    out = tmp_path / "run"
    assert run("import", tmp_path, "--out", out, capsys=capsys)[0] == 0
    code, said, _ = run("sample", out, "--prompt", "ad", "--tokens", 3, "--temperature", 0, capsys=capsys)
    tokens = [2, 5]
    for _ in range(3):
        tokens.append(int(gpt2_logits(weights, tokens, "gelu")[-1].argmax()))
    assert code == 0 and said == "".join(itos[i] for i in tokens) + "\n"
    code, _, said = run("sample", out, "--prompt", "xa", capsys=capsys)
    assert code == 2 and "the vocabulary of this model lacks 'x'" in said
    assert run("export", out, tmp_path / "back", capsys=capsys)[0] == 0
    written = LibraryTokenizer((tmp_path / "back" / "tokenizer.json").read_text(), 9)
    assert written.encode("ad g") == [2, 5, 1, 8] and written.decode([2, 5, 1, 8]) == "ad g"
    near(logits(import_folder(tmp_path / "back"), tokens), gpt2_logits(weights, tokens, "gelu"))


def test_nanogpt_without_a_vocabulary(tmp_path):
    nanogpt(tmp_path, True)
    with pytest.raises(ExchangeError, match=r"no vocabulary: .*meta.json or meta.pkl beside ckpt.pt are needed"):
        import_folder(tmp_path)

    class Trap:
        def __reduce__(self):
            return (print, ("sprung",))

    (tmp_path / "meta.pkl").write_bytes(pickle.dumps({"itos": Trap()}))
    with pytest.raises(ExchangeError, match=r"meta.pkl cannot be read: .*it asks for builtins.print, which no file"):
        import_folder(tmp_path)
    (tmp_path / "meta.pkl").write_bytes(pickle.dumps({"itos": {0: "a", 1: "b"}}))
    with pytest.raises(ExchangeError, match="itos of the meta file does not name 9 characters, one for each id"):
        import_folder(tmp_path)


# --- Runs of this kind


@pytest.mark.parametrize("options", [{}, {"bias": True, "norm": "affine", "attention_bias": True, "tied": False}])
def test_a_trained_run_is_exported(options, tmp_path, capsys):
    config = Config(D=24, H=3, F=40, L=2, V=30, C=16, residual="pre-norm", final_norm=True, activation="gelu",
                    **{"norm": "scale", "bias": False, "tied": True} | options)  # fmt: skip
    tt.manual_seed(0)
    model = Decoder(config)
    for p in model.parameters():
        p.data = p + 0.1 * tt.randn(*p.shape)
    tokenizer = BPETokenizer.train([TEXT], 30)
    task = {"name": "text", "config": config.to_dict(), "tokenizer": tokenizer.to_dict(), "file": None}
    weights = {name: p.detach() for name, p in model.state_dict().items()}
    checkpoint.save(tmp_path / "run", checkpoint.Checkpoint(3, weights, {}, {"task": task}))
    assert run("export", tmp_path / "run", tmp_path / "back", capsys=capsys)[0] == 0
    written = {n.removeprefix("transformer."): a for n, a in load_file(tmp_path / "back" / "model.safetensors").items()}
    tokens = tokenizer.encode("the cat")
    expected = model.eval()(tt.tensor([tokens]))[0][0].detach().numpy()
    near(expected, gpt2_logits(written, tokens, "gelu"))
    near(logits(import_folder(tmp_path / "back"), tokens), expected)


@pytest.mark.parametrize("change", [{"residual": "literal"}, {"norm": "rms"}, {"positions": False}, {"causal": False}])
def test_other_layouts_are_not_exported(change, tmp_path, capsys):
    config = Config(
        **{"D": 8, "H": 2, "F": 8, "L": 1, "V": 5, "C": 4, "residual": "pre-norm", "final_norm": True} | change
    )
    tokenizer = CharTokenizer(list("abcd"))
    task = {"name": "text", "config": config.to_dict(), "tokenizer": tokenizer.to_dict(), "file": None}
    weights = Decoder(config).state_dict()
    checkpoint.save(tmp_path / "run", checkpoint.Checkpoint(3, weights, {}, {"task": task}))
    code, _, said = run("export", tmp_path / "run", tmp_path / "back", capsys=capsys)
    name = next(iter(change))
    assert code == 2 and f"this run has {name} = {change[name]}, for which GPT-2's layout has no place" in said
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("make", [lambda t: CharTokenizer.train(t, 20), lambda t: WordTokenizer.train(t, 8),
                                  lambda t: BPETokenizer.train(t, 30)])  # fmt: skip
def test_tokenizers_are_exported(make):
    tokenizer = make([TEXT])
    written = LibraryTokenizer(tokenizer.to_library().to_str(), tokenizer.vocab_size)
    for text in (TEXT, "the cat, the dog! \n\n  zebra é"):
        assert written.encode(text) == tokenizer.encode(text)
        assert written.decode(tokenizer.encode(text)) == tokenizer.decode(tokenizer.encode(text))


# --- What is refused


def edit(name, change):
    """A change of a JSON file in the folder."""

    def apply(folder):
        path = folder / name
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    return apply


def about(**changes):
    return edit("config.json", lambda held: held | changes)


def weights(change):
    def apply(folder):
        held = load_file(folder / "model.safetensors")
        save_file(change(held) or held, folder / "model.safetensors")

    return apply


def write(name, content):
    return lambda folder: (folder / name).write_bytes(content)


def index(**positions):
    return write("model.safetensors.index.json", json.dumps({"weight_map": positions}).encode())


TURNED = random_weights()["h.0.mlp.c_fc.weight"].T.copy()
NAN = np.full(24, np.nan, np.float32)
REFUSED = {
    "no folder": (lambda f: shutil.rmtree(f), "this is no folder"),
    "no configuration": (lambda f: (f / "config.json").unlink(), "neither config.json .* nor ckpt.pt"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "there are no weights"),
    "no vocabulary": (lambda f: (f / "tokenizer.json").unlink(), "there is no vocabulary"),
    "another model": (about(model_type="llama"), "describes a 'llama' model; only 'gpt2'"),
    "another scale": (about(scale_attn_by_inverse_layer_idx=True), "scale_attn_by_inverse_layer_idx = True"),
    "another activation": (about(activation_function="silu"), "activation_function = 'silu'; expected gelu_new"),
    "sizes that are text": (about(n_embd="24"), "n_embd = '24'; a whole number"),
    "no size": (edit("config.json", lambda c: {k: v for k, v in c.items() if k != "n_head"}), "n_head = None"),
    "heads that do not fit": (about(n_head=5), "24 is not divisible by H = 5"),
    "a tie that is text": (about(tie_word_embeddings="yes"), "tie_word_embeddings = 'yes'"),
    "an eps that is text": (about(layer_norm_epsilon="x"), "says layer_norm_epsilon = .*; a number is needed"),
    "a huge vocabulary": (about(vocab_size=10**15), "would need at least .* of memory"),
    "fewer layers": (about(n_layer=1), "GPT-2 has no weight h.1"),
    "more layers": (about(n_layer=3), "the weight h.2.ln_1.weight is missing"),
    "a smaller vocabulary": (about(vocab_size=299), r"wte.weight is float32 \(300, 24\); expected float32 \(299, 24\)"),
    "turned": (
        weights(lambda w: w.update({"h.0.mlp.c_fc.weight": w["h.0.mlp.c_fc.weight"].T.copy()})),
        "c_fc.weight is",
    ),
    "of whole numbers": (weights(lambda w: w.update({"ln_f.bias": np.zeros(24, np.int64)})), "ln_f.bias is int64"),
    "of complex numbers": (weights(lambda w: w.update({"ln_f.bias": np.zeros(24, np.uint16)})), "is stored as U16"),
    "NaN": (weights(lambda w: w.update({"ln_f.bias": NAN})), "ln_f.bias holds NaN or inf"),
    "twice": (weights(lambda w: w.update({"transformer.ln_f.bias": NAN})), "a weight is there twice"),
    "an odd name": (weights(lambda w: w.update({"h.0.lora": NAN})), "GPT-2 has no weight h.0.lora"),
    "cut weights": (
        lambda f: (f / "model.safetensors").write_bytes((f / "model.safetensors").read_bytes()[:-5]),
        "is not a safetensors file",
    ),
    "no JSON": (write("config.json", b"{"), "config.json is no JSON"),
    "a list": (write("config.json", b"[]"), "config.json holds a list; expected a dictionary"),
    "deep JSON": (write("config.json", b"[" * 100_000), "config.json is no JSON"),
    "a page": (write("config.json", b"<!DOCTYPE html>"), "config.json is no JSON: it seems to be an HTML page"),
    "a page as tokenizer": (write("tokenizer.json", b"<html>"), "tokenizer.json is no JSON: it seems to be an HTML"),
    "an empty file": (write("config.json", b""), "config.json is no JSON: it is empty"),
    "a pointer": (
        write("model.safetensors", b"version https://git-lfs.github.com/spec/v1"),
        "model.safetensors is not a safetensors file .it seems to be a Git LFS pointer",
    ),
    "an empty checkpoint": (write("ckpt.pt", b""), "ckpt.pt is not a file of PyTorch .it is empty"),
    "null as eps": (about(layer_norm_epsilon=None), "says layer_norm_epsilon = None; a number is needed"),
    "a list as eps": (about(layer_norm_epsilon=[1e-5]), r"says layer_norm_epsilon = \[1e-05\]; a number is needed"),
    "null as dropout": (about(resid_pdrop=None), "says resid_pdrop = None; a number is needed"),
    "a list as width": (about(n_inner=[4]), r"says n_inner = \[4\]; a whole number"),
    "null as context": (about(n_positions=None), "says n_positions = None; a whole number"),
    "a list as activation": (about(activation_function=["relu"]), r"says activation_function = \['relu'\]; expected"),
    "text as bias": (
        lambda f: tt.save({"model": {}, "model_args": {"n_embd": 8, "bias": "no"}}, f / "ckpt.pt"),
        "says bias = 'no'; expected true or false",
    ),
    "not UTF-8": (write("config.json", b"\xff{}"), "config.json is not UTF-8 at byte 0"),
    "an index without a map": (write("model.safetensors.index.json", b"{}"), "has no weight_map"),
    "an index of paths": (index(**{"wte.weight": "../model.safetensors"}), "has no weight_map from names to files of"),
    "an index of nothing": (index(**{"wte.weight": "x.safetensors"}), "x.safetensors is missing"),
    "an index that lies": (index(x="model.safetensors"), "says that x is in model.safetensors, where it is not"),
    "a damaged vocabulary": (write("tokenizer.json", b"{}"), "this is no tokenizer.json"),
    "a larger vocabulary": (about(vocab_size=260), "its largest id is 2.., but the model has 260 tokens"),
    "a damaged pickle": (write("ckpt.pt", b"PK\x03\x04"), "cannot be read as a file of PyTorch"),
    "another pickle": (lambda f: tt.save({"x": 1}, f / "ckpt.pt"), "has no model and model_args"),
    "a list as model": (
        lambda f: tt.save({"model": [], "model_args": {"n_embd": 3}}, f / "ckpt.pt"),
        "expected a dict",
    ),
    "text as weight": (lambda f: tt.save({"model": {"a": "b"}, "model_args": {}}, f / "ckpt.pt"), "expected tensors"),
    "no arguments": (lambda f: tt.save({"model": {}, "model_args": {}}, f / "ckpt.pt"), "says n_embd = None"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_folders_get_a_sentence(case, folder, tmp_path, capsys):
    change, message = REFUSED[case]
    change(folder)
    code, _, said = run("import", folder, "--out", tmp_path / "run", capsys=capsys)
    assert code == 2 and said.count("\n") == 1 and len(said) < 700
    with pytest.raises(ExchangeError, match=message):
        import_folder(folder)
    assert not (tmp_path / "run").exists()


def test_bad_vocabularies_of_two_files(folder, vocabulary):
    (folder / "tokenizer.json").unlink()
    vocabulary.model.save(str(folder))
    vocab, merges = (folder / "vocab.json").read_bytes(), (folder / "merges.txt").read_bytes()
    for file, content in (("merges.txt", b"a b c\n"), ("merges.txt", b"x\xff"), ("vocab.json", b'{"a": "b"}'),
                          ("merges.txt", b"zz qq\n"), ("vocab.json", b"{}"), ("vocab.json", b"[1]")):  # fmt: skip
        (folder / "vocab.json").write_bytes(vocab)
        (folder / "merges.txt").write_bytes(merges)
        (folder / file).write_bytes(content)
        with pytest.raises(ExchangeError) as raised:
            import_folder(folder)
        assert "\n" not in str(raised.value)


# --- Transformers


def test_transformers_gives_the_same_logits(tmp_path, vocabulary):
    transformers = pytest.importorskip("transformers", reason=missing("transformers"))
    import torch

    torch.manual_seed(0)
    sizes = {"n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 32, "vocab_size": 300}
    for tied in (True, False):
        theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, tie_word_embeddings=tied)).eval()
        with torch.no_grad():
            for p in theirs.parameters():
                p.add_(0.1 * torch.randn_like(p))
            expected = theirs(torch.tensor([TOKENS])).logits[0].numpy()
        there, run_folder, back = (tmp_path / f"{name}-{tied}" for name in ("there", "run", "back"))
        theirs.save_pretrained(there, max_shard_size="20KB")
        vocabulary.save(str(there / "tokenizer.json"))
        assert len(list(there.glob("*.safetensors"))) > 1
        saved = import_folder(there)
        np.testing.assert_allclose(logits(saved, TOKENS), expected, rtol=0, atol=1e-4)
        checkpoint.save(run_folder, saved)
        assert cli.main(["export", str(run_folder), str(back)]) == 0
        reloaded = transformers.GPT2LMHeadModel.from_pretrained(back).eval()
        with torch.no_grad():
            np.testing.assert_array_equal(reloaded(torch.tensor([TOKENS])).logits[0].numpy(), expected)
        ids = transformers.AutoTokenizer.from_pretrained(back)("the cat\n")["input_ids"]
        assert ids == vocabulary.encode("the cat\n").ids


def test_the_definition_is_that_of_transformers():
    transformers = pytest.importorskip("transformers", reason=missing("transformers"))
    import torch

    theirs = transformers.GPT2LMHeadModel(transformers.GPT2Config(**CONFIG)).double().eval()
    held = {f"transformer.{name}": torch.tensor(array).double() for name, array in random_weights().items()}
    theirs.load_state_dict(held | {"lm_head.weight": held["transformer.wte.weight"]})
    with torch.no_grad():
        expected = theirs(torch.tensor([TOKENS])).logits[0].numpy()
    np.testing.assert_allclose(gpt2_logits(random_weights(), TOKENS), expected, rtol=0, atol=1e-9)
    assert math.isfinite(expected.sum())
