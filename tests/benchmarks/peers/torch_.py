"""PyTorch, as a good user writes these models: Q, K and V in one product, its fused attention, its fused AdamW."""

import math

import numpy as np

from ..data import Case

PAD, BEGIN = 0, 1  # the first tokens of models/transformer/, which would bring our engine into this process


class Eager:
    """PyTorch as it is called."""

    def __init__(self, threads: int):
        import torch

        self.library = self.torch = torch
        torch.set_num_threads(threads)

    def compiled(self, model):
        return model

    def training_step(self, case: Case):
        torch = self.torch
        module = decoder(case) if case.model == "decoder" else translator(case)
        model = self.compiled(module)
        parameters = [p for p in module.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=case.lr, weight_decay=case.weight_decay, fused=True)
        batches = [(torch.tensor(x), torch.tensor(y)) for x, y in zip(case.x, case.y)]

        def step(i):
            optimizer.zero_grad(set_to_none=True)
            loss = model(*batches[i % len(batches)])
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    def sampler(self, case: Case):
        """What `models.inference.generate` does, as a PyTorch program does it.

        The cache is there from the beginning, a token goes through the model with fused attention over what the cache
        holds, then softmax and multinomial. Tokens stay tensors, which is less work than ours, who hands out numbers.
        """
        torch, model = self.torch, decoder(case).eval()

        @torch.inference_mode()
        def following(token, position: int, temperature: float):
            logits = model.next_logits(token, position)
            if temperature == 0:
                return logits.argmax(-1, keepdim=True)
            return torch.multinomial(torch.softmax(logits / temperature, -1), 1)

        def sample(count: int, temperature: float):
            model.new_cache()
            token = torch.zeros(1, 1, dtype=torch.int64)
            for position in range(count):
                token = following(token, position, temperature)
                yield token  # as a tensor: the next step takes it as it is

        return sample

    def prompted(self, case: Case):
        """The likeliest tokens after a text: the text in one pass, then token by token."""
        torch, model = self.torch, decoder(case).eval()

        @torch.inference_mode()
        def write(tokens: list[int], count: int) -> list[int]:
            model.new_cache()
            made = [model.last_logits(torch.tensor([tokens])).argmax(-1, keepdim=True)]
            for position in range(len(tokens), len(tokens) + count - 1):
                made.append(model.next_logits(made[-1], position).argmax(-1, keepdim=True))
            return torch.cat(made, 1)[0].tolist()

        return write

    def operation(self, name: str, arrays: dict[str, np.ndarray]):
        """PyTorch's kernels without its tape. The same calls on next to nothing tell what a call costs beside them."""
        forward, backward = self._calls(name, arrays)
        little = {k: np.ascontiguousarray(a[(slice(0, 1),) * a.ndim]) for k, a in arrays.items()}
        if "targets" in little:
            little["targets"] = np.zeros_like(little["targets"])
        idle_forward, idle_backward = self._calls(name, little)
        n = 32

        def times(call):
            def run():
                for _ in range(n):
                    call()

            return run

        return {
            "forward": (times(forward), n, times(idle_forward)),
            "backward": (times(backward), n, times(idle_backward)),
        }

    def _calls(self, name: str, arrays: dict[str, np.ndarray]):
        """What autograd calls forward and backward for an operation, with saved results between them."""
        torch, aten = self.torch, self.torch.ops.aten
        t = {key: torch.tensor(value) for key, value in arrays.items()}
        x, g = t["x"], t["g"]
        if name == "softmax":
            y = torch.softmax(x, -1)
            return lambda: torch.softmax(x, -1), lambda: aten._softmax_backward_data(g, y, -1, x.dtype)
        if name == "layer_norm":
            weight, shape = t.get("weight"), list(x.shape[-1:])
            wanted = [True, weight is not None, False]
            _, mean, rstd = aten.native_layer_norm(x, shape, weight, None, 1e-5)
            return (
                lambda: aten.native_layer_norm(x, shape, weight, None, 1e-5),
                lambda: aten.native_layer_norm_backward(g, x, shape, mean, rstd, weight, None, wanted),
            )
        if name == "cross_entropy":
            targets = t["targets"]

            def forward():
                y = aten._log_softmax(x, -1, False)
                return y, *aten.nll_loss_forward(y, targets, None, 1, -100)

            y, _, total = forward()

            def backward():
                dy = aten.nll_loss_backward(g, y, targets, None, 1, -100, total)
                return aten._log_softmax_backward_data(dy, y, -1, x.dtype)

            return forward, backward
        if name == "GELU":
            return lambda: aten.gelu(x), lambda: aten.gelu_backward(g, x)
        attend = aten._scaled_dot_product_flash_attention_for_cpu
        y, lse = attend(x, t["k"], t["v"], 0.0, True)
        gradient = aten._scaled_dot_product_flash_attention_for_cpu_backward
        return (
            lambda: attend(x, t["k"], t["v"], 0.0, True),
            lambda: gradient(g, x, t["k"], t["v"], y, lse, 0.0, True),
        )


class Compiled(Eager):
    """PyTorch with the model under torch.compile."""

    def compiled(self, model):
        return self.torch.compile(model)


def decoder(case: Case):
    """The decoder of models/decoder/ as a module of PyTorch."""
    import torch
    import torch.nn.functional as F

    c, weights = case.config, case.weights
    D, H, L, C = c["D"], c["H"], c["L"], c["C"]
    K, approximate = D // H, "tanh" if c["activation"] == "gelu-tanh" else "none"

    def parameter(array: np.ndarray):
        return torch.nn.Parameter(torch.tensor(np.ascontiguousarray(array)))

    def columns(weight: np.ndarray) -> np.ndarray:  # (H, D, K) -> (H K, D)
        return weight.transpose(0, 2, 1).reshape(D, D)

    class Norm(torch.nn.Module):
        def __init__(self, name: str):
            super().__init__()
            self.weight, self.bias = (
                parameter(weights[f"{name}.{n}"]) if f"{name}.{n}" in weights else None for n in ("weight", "bias")
            )

        def forward(self, z):
            if c["norm"] == "rms":
                return F.rms_norm(z, (D,), eps=c["eps"])
            return F.layer_norm(z, (D,), self.weight, self.bias, c["eps"])

    class Block(torch.nn.Module):
        def __init__(self, i: int):
            super().__init__()
            w = {n.removeprefix(f"blocks.{i}."): a for n, a in weights.items() if n.startswith(f"blocks.{i}.")}
            self.enter, self.middle = Norm(f"blocks.{i}.enter"), Norm(f"blocks.{i}.middle")
            self.qkv = parameter(np.concatenate([columns(w[n]) for n in "QKV"]))  # (3 D, D)
            self.w, self.f, self.g = parameter(w["W"].T), parameter(w["F"].T), parameter(w["G"].T)
            self.b, self.c, self.bias = (parameter(w[n]) if n in w else None for n in "bcw")
            self.biases = parameter(np.concatenate([w[n] for n in "qkv"])) if "q" in w else None
            self.keys = self.values = None

        def attend(self, n, position):
            B, rows, _ = n.shape
            q, k, v = F.linear(n, self.qkv, self.biases).view(B, rows, 3, H, K).permute(2, 0, 3, 1, 4)
            if position is None:
                if self.keys is not None:
                    self.keys[:, :, :rows], self.values[:, :, :rows] = k, v
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:  # one more row after those that the cache holds
                self.keys[:, :, position : position + 1] = k
                self.values[:, :, position : position + 1] = v
                y = F.scaled_dot_product_attention(
                    q, self.keys[:, :, : position + 1], self.values[:, :, : position + 1]
                )
            return F.linear(y.transpose(1, 2).reshape(B, rows, D), self.w, self.bias)

        def forward(self, z, position=None):
            n = z if c["residual"] == "once" else self.enter(z)
            z = n if c["residual"] == "literal" else z
            z = z + self.attend(n, position)
            x = F.linear(self.middle(z), self.f, self.b)
            x = torch.relu(x) if c["activation"] == "relu" else F.gelu(x, approximate=approximate)
            return z + F.linear(x, self.g, self.c)

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.E, self.P = parameter(weights["E"]), parameter(weights["P"])
            self.blocks = torch.nn.ModuleList([Block(i) for i in range(L)])
            self.final = Norm("final") if c["final_norm"] else None
            self.enter = Norm("blocks.0.enter") if c["residual"] == "once" else None
            self.O = None if c["tied"] else parameter(weights["O"].T)

        def logits(self, z, position=None):
            if self.enter is not None:
                z = self.enter(z)
            for block in self.blocks:
                z = block(z, position)
            z = z if self.final is None else self.final(z)
            return F.linear(z, self.E if self.O is None else self.O)

        def forward(self, x, y):
            logits = self.logits(F.embedding(x, self.E) + self.P)
            return F.cross_entropy(logits.flatten(0, 1), y.flatten())

        def new_cache(self):
            for block in self.blocks:
                block.keys, block.values = torch.empty(2, 1, H, C, K)

        def last_logits(self, tokens):
            """After a text from the beginning, which the cache then holds."""
            z = F.embedding(tokens, self.E) + self.P[: tokens.shape[1]]
            for block in self.blocks:
                z = block(z)
            z = z[:, -1] if self.final is None else self.final(z[:, -1])
            return F.linear(z, self.E if self.O is None else self.O)

        def next_logits(self, token, position):
            return self.logits(F.embedding(token, self.E) + self.P[position], position)[:, -1]

    return Decoder()


def translator(case: Case):
    """The encoder-decoder of models/transformer/, of nn.Transformer's layers."""
    import torch
    import torch.nn.functional as F

    c, weights = case.config, case.weights
    d, h, rows = c["d_model"], c["h"], case.y.shape[-1]

    def tensor(array: np.ndarray):
        return torch.tensor(np.ascontiguousarray(array))

    def positions():
        angle = torch.arange(rows)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)

    def fill(parameters, name: str, attentions: dict[str, str], norms: dict[str, str]):
        """Our weights of one stack, under PyTorch's names."""
        state = {}
        for theirs, ours in attentions.items():
            parts = [weights[f"{name}.{ours}.W_{q}"].transpose(0, 2, 1).reshape(d, d) for q in "QKV"]
            state[f"{theirs}.in_proj_weight"] = tensor(np.concatenate(parts))
            state[f"{theirs}.out_proj.weight"] = tensor(weights[f"{name}.{ours}.W_O"].T)
        for theirs, ours in norms.items():
            state |= {f"{theirs}.{n}": tensor(weights[f"{name}.{ours}.norm.{n}"]) for n in ("weight", "bias")}
        for number in (1, 2):
            state[f"linear{number}.weight"] = tensor(weights[f"{name}.ffn.W_{number}"].T)
            state[f"linear{number}.bias"] = tensor(weights[f"{name}.ffn.b_{number}"])
        parameters.load_state_dict(state)

    def attention():
        return torch.nn.MultiheadAttention(d, h, bias=False, batch_first=True)

    class Translator(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = {"d_model": d, "nhead": h, "dim_feedforward": c["d_ff"], "dropout": 0.0, "batch_first": True}
            encoder = torch.nn.TransformerEncoderLayer(**sizes)
            decoder = torch.nn.TransformerDecoderLayer(**sizes)
            encoder.self_attn, decoder.self_attn, decoder.multihead_attn = (attention() for _ in range(3))
            self.encoder = torch.nn.TransformerEncoder(encoder, c["N"], enable_nested_tensor=False)
            self.decoder = torch.nn.TransformerDecoder(decoder, c["N"])
            for i in range(c["N"]):
                norms = {"norm1": "add_attention", "norm2": "add_ffn"}
                fill(self.encoder.layers[i], f"encoder.{i}", {"self_attn": "attention"}, norms)
                both = {"self_attn": "masked", "multihead_attn": "attention"}
                norms = {"norm1": "add_masked", "norm2": "add_attention", "norm3": "add_ffn"}
                fill(self.decoder.layers[i], f"decoder.{i}", both, norms)
            self.embedding = torch.nn.Embedding.from_pretrained(tensor(weights["W_Embedding"]), freeze=False)
            self.out = torch.nn.Linear(d, c["n_vol"])
            self.out.load_state_dict({"weight": tensor(weights["W_S"].T), "bias": tensor(weights["b_S"])})
            self.register_buffer("table", positions())
            self.register_buffer("mask", torch.nn.Transformer.generate_square_subsequent_mask(rows))

        def embed(self, tokens):
            z = self.embedding(tokens) * math.sqrt(d)
            z = z.masked_fill((tokens == BEGIN).unsqueeze(-1), 0.0)  # y_0 is the zero vector
            return z + self.table

        def forward(self, x, y):
            shifted = torch.cat([torch.full_like(y[:, :1], BEGIN), y[:, :-1]], 1)
            padded = torch.zeros(x.shape).masked_fill(x == PAD, -math.inf)  # a mask of floats, as the other one is
            memory = self.encoder(self.embed(x), src_key_padding_mask=padded)
            z = self.decoder(
                self.embed(shifted), memory, tgt_mask=self.mask, tgt_is_causal=True, memory_key_padding_mask=padded
            )
            return F.cross_entropy(self.out(z).flatten(0, 1), y.flatten(), ignore_index=PAD)

    return Translator()
