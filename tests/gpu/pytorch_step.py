"""Training steps of one decoder in PyTorch, as the yardstick of step-speed (tests/gpu): bf16
parameters with fp32 master copies (autocast), torch.compile, flash attention, fused AdamW, one GPU.

Prints "tokens_per_s X": the median over the last steps. Needs torch with CUDA, nothing else.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

STEPS, WARM_UP = 12, 4


class RmsNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.weight, 1e-5)


def rotated(x, angles):
    """x [b, heads, s, d]; angles [s, d/2]."""
    even, odd = x.float().chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1).type_as(x)


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.heads, self.kv_heads, self.d = a.heads, a.kv_heads, a.hidden // a.heads
        self.qkv = nn.Linear(a.hidden, (a.heads + 2 * a.kv_heads) * self.d, bias=not a.llama)
        self.out = nn.Linear(a.hidden, a.hidden, bias=not a.llama)
        self.llama = a.llama

    def forward(self, x, angles):
        b, s, _ = x.shape
        q, k, v = self.qkv(x).split(
            [self.heads * self.d, self.kv_heads * self.d, self.kv_heads * self.d], dim=2)
        q = q.view(b, s, self.heads, self.d).transpose(1, 2)
        k = k.view(b, s, self.kv_heads, self.d).transpose(1, 2)
        v = v.view(b, s, self.kv_heads, self.d).transpose(1, 2)
        if self.llama:
            q, k = rotated(q, angles), rotated(k, angles)
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.out(y.transpose(1, 2).reshape(b, s, -1))


class Mlp(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.llama = a.llama
        self.up = nn.Linear(a.hidden, a.ffn * (2 if a.llama else 1), bias=not a.llama)
        self.down = nn.Linear(a.ffn, a.hidden, bias=not a.llama)

    def forward(self, x):
        if self.llama:
            gate, up = self.up(x).chunk(2, dim=-1)
            return self.down(F.silu(gate) * up)
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        norm = RmsNorm if a.llama else nn.LayerNorm
        self.norm1, self.norm2 = norm(a.hidden), norm(a.hidden)
        self.attention, self.mlp = Attention(a), Mlp(a)

    def forward(self, x, angles):
        x = x + self.attention(self.norm1(x), angles)
        return x + self.mlp(self.norm2(x))


class Decoder(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.a = a
        self.tokens = nn.Embedding(a.vocab, a.hidden)
        self.positions = None if a.llama else nn.Embedding(a.sequence, a.hidden)
        self.blocks = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = (RmsNorm if a.llama else nn.LayerNorm)(a.hidden)
        self.head = nn.Linear(a.hidden, a.vocab, bias=False)
        if not a.llama:
            self.head.weight = self.tokens.weight
        d = a.hidden // a.heads
        frequencies = 10000.0 ** (-torch.arange(0, d, 2) / d)
        self.register_buffer("angles", torch.outer(torch.arange(a.sequence), frequencies))

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x, self.angles)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, self.a.vocab).float(), targets.reshape(-1))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("layers", "hidden", "heads", "kv-heads", "ffn", "vocab", "batch", "sequence"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--llama", action="store_true")
    return parser.parse_args()


def main():
    a = arguments()
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = Decoder(a)
        data = torch.randint(a.vocab, (a.batch, a.sequence + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    compiled = torch.compile(model)
    seconds = []
    for _ in range(STEPS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = compiled(data[:, :-1], data[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    median = statistics.median(seconds[WARM_UP:])
    print(f"tokens_per_s {a.batch * a.sequence / median}")


if __name__ == "__main__":
    main()
