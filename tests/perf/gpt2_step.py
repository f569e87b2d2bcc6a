"""One PyTorch training step of a GPT-2, timed: the yardstick of executor_speed.py.

  gpt2_step.py SEQUENCE BATCH STEPS THREADS [LAYERS HIDDEN HEADS VOCAB] [bf16]

Of 124M parameters unless its sizes are given; bf16: under autocast.

Plain eager fp32: fused linear layers, scaled_dot_product_attention (causal, never a stored square),
tied head, cross-entropy, clip_grad_norm_, AdamW in its fused form; learned positions, no dropout.
The same model, batch, clipping and update as `zplan run`. Prints JSON: seconds of each step.
"""

import json
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

WORDS = [word for word in sys.argv[1:] if word != "bf16"]
SIZES = WORDS[4:8] or (12, 768, 12, 50257)
LAYERS, HIDDEN, HEADS, VOCAB = (int(size) for size in SIZES)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.fc, self.out = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        batch, sequence, _ = x.shape
        heads = self.qkv(self.ln_1(x)).view(batch, sequence, 3, HEADS, HIDDEN // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(batch, sequence, HIDDEN))
        return x + self.out(F.gelu(self.fc(self.ln_2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, sequence):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(sequence, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1))


def main():
    sequence, batch, steps, threads = (int(word) for word in WORDS[:4])
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = Gpt2(sequence)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )
    seconds = []
    for _ in range(steps):
        text = torch.randint(0, 256, (batch, sequence + 1))
        start = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled="bf16" in sys.argv):
            loss = model(text[:, :-1], text[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss.item()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"torch": torch.__version__, "seconds": seconds}))


if __name__ == "__main__":
    main()
