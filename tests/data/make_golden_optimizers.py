#!/usr/bin/env python3
"""Writes golden_optimizers_tiny.json and .bin: a tiny Llama after five steps of other optimizers.

Model, data and initial values are those of make_golden.py. SGD is torch.optim.SGD, Adafactor is
torch.optim.Adafactor of all parameters. What PyTorch does not have is written out with plain torch
operations here, in double precision:

  adamw-8bit   AdamW whose moments, of the matrices of layers, are kept as bytes [Dettmers22]: in
               blocks of BLOCK neighbours of the flattened matrix each value is the nearest of 256
               times the greatest magnitude of its block. Everything else is torch.optim.AdamW.

Muon is torch.optim.Muon for the matrices of layers, with its products in double precision in place
of bf16 and with the step sizes of "match_rms_adamw"; everything else is torch.optim.AdamW.

Needs torch and numpy; the build and the tests need neither.

  make_golden_optimizers.py           write the files next to this script
  make_golden_optimizers.py --check   check the 8-bit values, write nothing
"""

import argparse
import hashlib

import golden_llama
import make_golden as base
import numpy as np
import torch

NAME = "golden_optimizers_tiny"
BLOCK = 256
RATES = {"sgd": 0.5, "sgd-momentum": 0.2, "adamw-8bit": 1e-3, "muon": 1e-3, "adafactor": 1e-2}


def codes(has_sign):
    """The values of a byte, ascending."""
    values = [torch.tensor([0.0, 1.0], dtype=torch.float64)]
    for i in range(7):
        steps = 2**i if has_sign else 2 ** (i + 1)
        borders = torch.linspace(0.1, 1, steps + 1, dtype=torch.float64)
        middles = (borders[:-1] + borders[1:]) / 2 * 10.0 ** (i - 6)
        values.append(middles)
        if has_sign:
            values.append(-middles)
    return torch.cat(values).sort().values


def through_a_byte(x, table):
    """What is left of x [n] after it was kept in blocks."""
    blocks = x.reshape(-1, BLOCK)
    scale = blocks.abs().amax(dim=1, keepdim=True)
    ratio = torch.where(scale > 0, blocks / scale, torch.zeros_like(blocks))
    nearest = (ratio.unsqueeze(-1) - table).abs().argmin(dim=-1)
    return (table[nearest] * scale).reshape(x.shape)


class EightBitAdamW(torch.optim.Optimizer):
    """Decoupled weight decay [Loshchilov19]; a step uses the moments before they are rounded."""

    SIGNED, UNSIGNED = codes(True), codes(False)

    def __init__(self, params, lr, betas, eps, weight_decay):
        super().__init__(params, {})
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        beta1, beta2 = self.betas
        for p in self.param_groups[0]["params"]:
            state = self.state[p]
            if not state:
                state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
            m = beta1 * state["m"] + (1 - beta1) * p.grad
            v = beta2 * state["v"] + (1 - beta2) * p.grad * p.grad
            p.mul_(1 - self.lr * self.weight_decay)
            denominator = (v / (1 - beta2**self.steps)).sqrt() + self.eps
            p.sub_(self.lr / (1 - beta1**self.steps) * m / denominator)
            state["m"] = through_a_byte(m.flatten(), self.SIGNED).reshape(p.shape)
            state["v"] = through_a_byte(v.flatten(), self.UNSIGNED).reshape(p.shape)


def make_optimizers(kind, params):
    decay = base.TRAIN["weight_decay"]
    groups = [
        {"params": [p for p in params.values() if p.dim() == 2], "weight_decay": decay},
        {"params": [p for p in params.values() if p.dim() != 2], "weight_decay": 0.0},
    ]
    if kind == "adafactor":
        return [torch.optim.Adafactor(groups, lr=RATES[kind], foreach=False)]
    if kind.startswith("sgd"):
        momentum = base.TRAIN["beta1"] if kind == "sgd-momentum" else 0.0
        return [torch.optim.SGD(groups, lr=RATES[kind], momentum=momentum, foreach=False)]
    betas = (base.TRAIN["beta1"], base.TRAIN["beta2"])
    matrices = [p for name, p in params.items() if ".layers." in name and p.dim() == 2]
    known = {id(p) for p in matrices}
    others = {name: p for name, p in params.items() if id(p) not in known}
    if kind == "muon":
        muon = torch.optim.Muon(
            matrices,
            lr=RATES[kind],
            weight_decay=decay,
            momentum=base.TRAIN["beta1"],
            adjust_lr_fn="match_rms_adamw",
        )
        return [muon, base.make_optimizer(others)]
    eight_bit = EightBitAdamW(matrices, RATES[kind], betas, base.TRAIN["adam_eps"], decay)
    return [eight_bit, base.make_optimizer(others)]


def train(kind, text):
    model, params = golden_llama, base.make_parameters(golden_llama)
    optimizers = make_optimizers(kind, params)
    losses = []
    for step in range(base.TRAIN["steps"]):
        for p in params.values():
            p.grad = None
        loss = base.loss_of(model, params, *base.batch_of(model, text, step))
        loss.backward()
        norm = torch.sqrt(sum((p.grad * p.grad).sum() for p in params.values()))
        clip = base.TRAIN["clip_norm"] / (norm.item() + base.TRAIN["clip_eps"])
        for p in params.values():
            p.grad.mul_(min(1.0, clip))
        for optimizer in optimizers:
            optimizer.step()
        losses.append(loss.item())
    return losses, base.snapshot(params)


def write(text):
    blob, records, optimizers = bytearray(), [], {}
    torch.bfloat16 = torch.float64  # what Muon casts to
    for kind, rate in RATES.items():
        losses, final = train(kind, text)
        print(f"{kind}: losses {losses}")
        optimizers[kind] = {"learning_rate": rate, "losses": losses}
        for name, array in final.items():
            records.append(
                {
                    "kind": f"final_{kind}",
                    "name": name,
                    "shape": list(array.shape),
                    "offset_bytes": len(blob),
                }
            )
            blob += array.astype("<f8").tobytes()
    base.write_json(
        base.HERE / f"{NAME}.json",
        {
            "schema": "zplan.golden/1",
            "generator": {
                "script": "make_golden_optimizers.py",
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "config": {"model": golden_llama.MODEL, "train": base.TRAIN},
            "block": BLOCK,
            "optimizers": optimizers,
            "binary": {
                "file": f"{NAME}.bin",
                "dtype": "float64",
                "byte_order": "little",
                "size_bytes": len(blob),
                "sha256": hashlib.sha256(blob).hexdigest(),
            },
            "tensors": records,
        },
    )
    (base.HERE / f"{NAME}.bin").write_bytes(blob)


def check():
    for has_sign in (True, False):
        table = codes(has_sign)
        assert len(table) == 256 and (table[1:] > table[:-1]).all()
        assert table[-1] == 1 and 0 in table and (table.min() < 0) == has_sign
        kept = through_a_byte(table * 3, table)
        torch.testing.assert_close(kept, table * 3)


def main():
    parser = argparse.ArgumentParser(description="golden files of optimizers")
    parser.add_argument("--check", action="store_true", help="run the checks, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    check()
    if not arguments.check:
        write(np.frombuffer((base.HERE / base.TEXT_FILE).read_bytes(), dtype=np.uint8))


if __name__ == "__main__":
    main()
