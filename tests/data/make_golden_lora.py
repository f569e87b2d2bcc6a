#!/usr/bin/env python3
"""Writes golden_lora_tiny.json and .bin: a tiny Llama after five AdamW steps of LoRA [Hu21].

Model, data and initial values are those of make_golden.py. Beside every matrix W [in, out] of a
layer stand A [in, rank], drawn as matrices are, and B [rank, out], zero at first; the product is
with W + alpha / rank A B. A and B alone are trained, by torch.optim.AdamW, and decay.

Needs torch and numpy; the build and the tests need neither.
"""

import hashlib

import golden_llama
import make_golden as base
import numpy as np
import torch

NAME = "golden_lora_tiny"
RANK, ALPHA, RATE = 4, 8, 0.02


def make_factors(params):
    factors = {}
    for name, weight in params.items():
        if ".layers." not in name or weight.dim() != 2:
            continue
        rows, columns = weight.shape
        stem = name.removesuffix(".weight")
        first = stem + ".lora_A.weight"
        drawn = base.initial_values(golden_llama, first, (rows, RANK))
        factors[first] = torch.tensor(drawn, dtype=torch.float64, requires_grad=True)
        factors[stem + ".lora_B.weight"] = torch.zeros(
            RANK, columns, dtype=torch.float64, requires_grad=True
        )
    return factors


def with_factors(params, factors):
    result = dict(params)
    for name in factors:
        if name.endswith(".lora_A.weight"):
            stem = name.removesuffix(".lora_A.weight")
            product = factors[name] @ factors[stem + ".lora_B.weight"]
            result[stem + ".weight"] = params[stem + ".weight"] + ALPHA / RANK * product
    return result


def train(text):
    params = {name: p.detach() for name, p in base.make_parameters(golden_llama).items()}
    factors = make_factors(params)
    optimizer = torch.optim.AdamW(
        factors.values(),
        lr=RATE,
        betas=(base.TRAIN["beta1"], base.TRAIN["beta2"]),
        eps=base.TRAIN["adam_eps"],
        weight_decay=base.TRAIN["weight_decay"],
        foreach=False,
    )
    losses, norms = [], []
    for step in range(base.TRAIN["steps"]):
        optimizer.zero_grad()
        batch = base.batch_of(golden_llama, text, step)
        loss = base.loss_of(golden_llama, with_factors(params, factors), *batch)
        loss.backward()
        norm = torch.sqrt(sum((p.grad * p.grad).sum() for p in factors.values()))
        clip = base.TRAIN["clip_norm"] / (norm.item() + base.TRAIN["clip_eps"])
        for p in factors.values():
            p.grad.mul_(min(1.0, clip))
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms, base.snapshot(params), base.snapshot(factors)


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    text = np.frombuffer((base.HERE / base.TEXT_FILE).read_bytes(), dtype=np.uint8)
    losses, norms, _, factors = train(text)
    print(f"losses {losses} norms {norms}")
    blob, records = bytearray(), []
    for name, array in factors.items():
        records.append(
            {
                "kind": "final_parameter",
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
                "script": "make_golden_lora.py",
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "config": {"model": golden_llama.MODEL, "train": base.TRAIN},
            "lora": {"rank": RANK, "alpha": ALPHA, "learning_rate": RATE},
            "losses": losses,
            "gradient_norms": norms,
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


if __name__ == "__main__":
    main()
