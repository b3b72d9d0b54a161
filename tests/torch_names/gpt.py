"""A small GPT and its training loop as one writes them for PyTorch; the test runs both libraries on this text."""

import math

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, context, dropout, bias):
        super().__init__()
        assert width % heads == 0
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)
        self.attn_dropout = nn.Dropout(dropout)
        self.resid_dropout = nn.Dropout(dropout)
        self.heads, self.width = heads, width
        self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.width, dim=2)
        k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = self.attn_dropout(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, width, dropout, bias):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=bias)
        self.gelu = nn.GELU()
        self.c_proj = nn.Linear(4 * width, width, bias=bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


class Block(nn.Module):
    def __init__(self, width, heads, context, dropout, bias):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.attn = CausalSelfAttention(width, heads, context, dropout, bias)
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.mlp = MLP(width, dropout, bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        x = x + self.mlp(self.ln_2(x))
        return x


class GPT(nn.Module):
    def __init__(self, vocabulary=17, width=12, heads=3, layers=2, context=8, dropout=0.0, bias=True):
        super().__init__()
        self.context = context
        self.transformer = nn.ModuleDict(
            dict(  # noqa: C408
                wte=nn.Embedding(vocabulary, width),
                wpe=nn.Embedding(context, width),
                drop=nn.Dropout(dropout),
                h=nn.ModuleList([Block(width, heads, context, dropout, bias) for _ in range(layers)]),
                ln_f=nn.LayerNorm(width, bias=bias),
            )
        )
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight  # tied
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * layers))

    def get_num_params(self, non_embedding=True):
        n = sum(p.numel() for p in self.parameters())
        return n - self.transformer.wpe.weight.numel() if non_embedding else n

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)
            if module.bias is not None:
                torch.nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        _, t = idx.size()
        assert t <= self.context
        pos = torch.arange(0, t, dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        x = self.transformer.ln_f(x)
        if targets is None:
            return self.lm_head(x[:, [-1], :]), None
        logits = self.lm_head(x)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss

    def configure_optimizers(self, weight_decay, learning_rate, betas):
        params = {name: p for name, p in self.named_parameters() if p.requires_grad}
        decay = [p for p in params.values() if p.dim() >= 2]
        no_decay = [p for p in params.values() if p.dim() < 2]
        groups = [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=device == "cuda")

    @torch.no_grad()
    def generate(self, idx, max_new_tokens, temperature=1.0, top_k=None):
        for _ in range(max_new_tokens):
            idx_cond = idx if idx.size(1) <= self.context else idx[:, -self.context :]
            logits, _ = self(idx_cond)
            logits = logits[:, -1, :] / temperature
            if top_k is not None:
                v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < v[:, [-1]]] = -float("Inf")
            probs = F.softmax(logits, dim=-1)
            idx_next = torch.multinomial(probs, num_samples=1)
            idx = torch.cat((idx, idx_next), dim=1)
        return idx


data = np.random.RandomState(3).randint(0, 17, 400)


def get_batch(model, rng, batch_size=4):
    ix = rng.randint(0, len(data) - model.context - 1, batch_size)
    x = torch.stack([torch.from_numpy(data[i : i + model.context].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + model.context].astype(np.int64)) for i in ix])
    y[0, :2] = -1  # not counted
    return x.to(device), y.to(device)


@torch.no_grad()
def estimate_loss(model, batches=3):
    model.eval()
    rng = np.random.RandomState(9)
    losses = torch.zeros(batches)
    for k in range(batches):
        _, loss = model(*get_batch(model, rng))
        losses[k] = loss.item()
    model.train()
    return losses.mean()


def get_lr(step, warmup=3, steps=8, high=1e-2, low=1e-3):
    if step < warmup:
        return high * (step + 1) / (warmup + 1)
    return low + 0.5 * (1.0 + math.cos(math.pi * (step - warmup) / (steps - warmup))) * (high - low)


def train(model, steps=8, accumulation=2, grad_clip=1.0):
    """The losses of all steps, the norms of the gradients, and the loss at the end."""
    model.to(device)
    optimizer = model.configure_optimizers(weight_decay=0.1, learning_rate=1e-2, betas=(0.9, 0.95))
    rng = np.random.RandomState(5)
    history = []
    for step in range(steps):
        lr = get_lr(step)
        for param_group in optimizer.param_groups:
            param_group["lr"] = lr
        for _ in range(accumulation):
            _, loss = model(*get_batch(model, rng))
            loss = loss / accumulation
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        history.append((loss.item() * accumulation, norm.item()))
    history.append((estimate_loss(model).item(), 0.0))
    return history
