#!/usr/bin/env python3
"""The rows of benchmarks/device_ops and benchmarks/train_step in PyTorch, eager, for the same GPU.

usage: torch_ops.py ops                            the operations, as JSON
       torch_ops.py train MODEL DTYPE BATCH STEPS  a training step, as JSON

Medians of times by events, after three runs to warm up.
"""
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = "cuda"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def milliseconds(work, repeats=20):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return sorted(times)[repeats // 2]


def ops():
    rows = []

    def add(op, dtype, work):
        rows.append({"op": op, "dtype": dtype, "ms": milliseconds(work)})

    source, target = (torch.zeros(1 << 28, device=DEVICE) for _ in range(2))
    add("copy", "f32", lambda: target.copy_(source))
    del source, target
    for name in ("f32", "bf16"):
        dtype = DTYPES[name]

        def make(*shape):
            return torch.randn(*shape, device=DEVICE).to(dtype)

        height, width = 32768, 4096
        x, y, weight, bias = make(height, width), make(height, width), make(width), make(width)
        with torch.no_grad():
            add("add", name, lambda: x + y)
            add("gelu", name, lambda: F.gelu(x, approximate="tanh"))
            add("softmax", name, lambda: F.softmax(x, 1))
            add("layer_norm", name, lambda: F.layer_norm(x, (width,), weight, bias))
            add("sum of rows", name, lambda: x.sum(1))
            add("transpose copy", name, lambda: x.t().contiguous())
        leaf = make(height, width).requires_grad_()
        add("softmax, both ways", name, lambda: F.softmax(leaf, 1).backward(y))
        leaf.grad = None
        add("layer_norm, both ways", name, lambda: F.layer_norm(leaf, (width,), weight, bias).backward(y))
        del x, y, leaf
        with torch.no_grad():
            tokens, vocabulary = 8192, 50257
            logits, labels = make(tokens, vocabulary), torch.randint(0, vocabulary, (tokens,), device=DEVICE)
            add("cross_entropy", name, lambda: F.cross_entropy(logits, labels))
            table, ids = make(vocabulary, 1024), torch.randint(0, vocabulary, (4 * tokens,), device=DEVICE)
            add("embedding", name, lambda: F.embedding(ids, table))
            del logits, table
            n = 4096 if name == "f32" else 8192
            a, b, c = make(n, n), make(n, n), make(n)
            add("matmul", name, lambda: a @ b)
            add("linear with bias", name, lambda: F.linear(a, b, c))
        shape = (8, 16, 2048, 64)
        q, k, v, gradient = (make(*shape) for _ in range(4))
        with torch.no_grad():
            add("attention, causal", name, lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        ql, kl, vl = (make(*shape).requires_grad_() for _ in range(3))
        add("attention, both ways", name,
            lambda: F.scaled_dot_product_attention(ql, kl, vl, is_causal=True).backward(gradient))
        with torch.no_grad():
            images, kernel = make(64, 128, 56, 56), make(128, 128, 3, 3)
            add("conv2d 3x3", name, lambda: F.conv2d(images, kernel, padding=1))
        if name == "f32":
            parameter = make(124_000_000).requires_grad_()
            parameter.grad = make(124_000_000)
            adam = torch.optim.AdamW([parameter], fused=True)
            add("AdamW step", name, adam.step)
    return rows


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape

        def split(t):
            return t.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = (split(t) for t in self.c_attn(x).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary, context, width, layers, heads):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.wte.weight
        nn.init.normal_(self.wte.weight, 0, 0.02)
        nn.init.normal_(self.wpe.weight, 0, 0.02)
        self.register_buffer("positions", torch.arange(context))

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        return self.head(self.ln_f(x))


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3), nn.Conv2d(32, 64, 3)
        self.fc1, self.fc2 = nn.Linear(9216, 128), nn.Linear(128, 10)

    def forward(self, x):
        h = F.relu(self.conv2(F.relu(self.conv1(x))))
        return self.fc2(F.relu(self.fc1(F.max_pool2d(h, 2).flatten(1))))


GPTS = {"char-gpt": (100, 128, 128, 4, 4), "gpt-10m": (100, 256, 384, 6, 6), "gpt2-124m": (50257, 64, 768, 12, 12)}


def train(name, dtype, batch, steps):
    torch.manual_seed(1)
    if name == "cnn":
        model = Cnn()
        x, y = torch.randn(batch, 1, 28, 28, device=DEVICE).to(DTYPES[dtype]), torch.randint(0, 10, (batch,))
    else:
        vocabulary, context = GPTS[name][:2]
        model = GPT(*GPTS[name])
        text = torch.randint(0, vocabulary, (batch, context + 1), device=DEVICE)
        x, y = text[:, :-1].contiguous(), text[:, 1:].reshape(-1).contiguous()
    model, y = model.to(DTYPES[dtype]).to(DEVICE), y.to(DEVICE)
    parameters = list(model.parameters())
    adam = torch.optim.AdamW(parameters, fused=True)

    def step():
        F.cross_entropy(model(x).flatten(0, -2), y).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()
        adam.zero_grad()
        torch.cuda.synchronize()

    for _ in range(3):
        step()
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        step()
        times.append(1e3 * (time.perf_counter() - begin))
    times.sort()
    return {"model": name, "dtype": dtype, "batch": batch, "median_ms": times[steps // 2], "best_ms": times[0]}


if __name__ == "__main__":
    if sys.argv[1:] == ["ops"]:
        result = ops()
    elif len(sys.argv) == 6 and sys.argv[1] == "train":
        result = train(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        sys.exit(__doc__)
    print(json.dumps(result, indent=2))
