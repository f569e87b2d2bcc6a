#!/usr/bin/env python3
"""Writes golden_lora_tiny and golden_lora_mixtral_tiny, each a .json and a .bin: a tiny Llama and
a tiny Mixtral after five AdamW steps of LoRA [Hu21]; and golden_qlora_tiny, the Llama with matrices
of 4 bits [Dettmers23], as nf4, fp4 and with scales of 8 bits, and with rsLoRA [Kalajdzievski23].

Models, data and initial values are those of make_golden.py. Beside every matrix W [in, out] of a
layer but the router's stand A [in, rank], drawn as matrices are, and B [rank, out], zero at first;
the product is with W + alpha / rank A B. Each expert has an A and a B of its own: what its W has
one of, they have one of. A and B alone are trained, by torch.optim.AdamW, and decay.

Of 4 bits is every matrix that has factors. Of 64 neighbours in its row-major order the scale is
the greatest magnitude; a value over it is the nearest of 16, the lower one of two as near. With
double quantisation a scale is so many 255ths of the greatest of 256 of them.

Needs torch and numpy; the build and the tests need neither.
"""

import hashlib

import golden_llama
import golden_mixtral
import make_golden as base
import numpy as np
import torch

NAMES = {"golden_lora_tiny": golden_llama, "golden_lora_mixtral_tiny": golden_mixtral}
RANK, ALPHA, RATE = 4, 8, 0.02
# In ascending order. The floats: a sign and 0, 1/16, 2, 3, 4, 6, 8 or 12 twelfths.
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022833334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]  # fmt: skip
FP4 = sorted({s * n / 12 for s in (-1, 1) for n in (0, 1 / 16, 2, 3, 4, 6, 8, 12)})
QUANTISED = {
    "nf4": {"table": NF4, "double": False, "by_root": False},
    "fp4": {"table": FP4, "double": False, "by_root": False},
    "nf4-double": {"table": NF4, "double": True, "by_root": True},
}


def matrices_of(model, name, weight):
    """The shape [.., in, out] of the matrices that a tensor of a layer is, if it is some."""
    if ".layers." not in name or weight.dim() == 1 or name.endswith(".mlp.gate.weight"):
        return None
    if name.endswith(".experts.down_proj.weight"):  # an expert is a row
        return (golden_mixtral.EXPERTS, golden_mixtral.WIDTH, model.MODEL["hidden"])
    return tuple(weight.shape)


def make_factors(model, params):
    factors = {}
    for name, weight in params.items():
        shape = matrices_of(model, name, weight)
        if not shape:
            continue
        *experts, rows, columns = shape
        stem = name.removesuffix(".weight")
        first = stem + ".lora_A.weight"
        by_row = len(shape) > weight.dim()
        shape_of_first = (*experts, rows * RANK) if by_row else (*experts, rows, RANK)
        drawn = base.initial_values(model, first, shape_of_first)
        factors[first] = torch.tensor(drawn, dtype=torch.float64, requires_grad=True)
        factors[stem + ".lora_B.weight"] = torch.zeros(
            *experts, RANK, columns, dtype=torch.float64, requires_grad=True
        )
    return factors


def quantise(weight, table, double):
    values = torch.tensor(table, dtype=torch.float64)
    flat = weight.reshape(-1)
    blocks = torch.nn.functional.pad(flat, (0, -len(flat) % 64)).reshape(-1, 64)
    scales = blocks.abs().amax(dim=1)
    near = ((blocks / scales[:, None])[..., None] - values).abs().argmin(dim=-1)
    if double:
        groups = torch.nn.functional.pad(scales, (0, -len(scales) % 256)).reshape(-1, 256)
        most = groups.amax(dim=1, keepdim=True)
        scales = (torch.round(groups / most * 255) / 255 * most).reshape(-1)[: len(scales)]
    return (values[near] * scales[:, None]).reshape(-1)[: len(flat)].reshape(weight.shape)


def with_factors(params, factors, scale=ALPHA / RANK):
    result = dict(params)
    for name, first in factors.items():
        if name.endswith(".lora_A.weight"):
            stem = name.removesuffix(".lora_A.weight")
            weight, second = params[stem + ".weight"], factors[stem + ".lora_B.weight"]
            product = first.reshape(*second.shape[:-2], -1, RANK) @ second
            result[stem + ".weight"] = weight + scale * product.reshape(weight.shape)
    return result


def train(model, text, quantised=None):
    params = {name: p.detach() for name, p in base.make_parameters(model).items()}
    factors = make_factors(model, params)
    scale = ALPHA / RANK
    if quantised:
        for name, weight in params.items():
            if matrices_of(model, name, weight):
                params[name] = quantise(weight, quantised["table"], quantised["double"])
        scale = ALPHA / RANK**0.5 if quantised["by_root"] else scale
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
        batch = base.batch_of(model, text, step)
        loss = base.loss_of(model, with_factors(params, factors, scale), *batch)
        loss.backward()
        norm = torch.sqrt(sum((p.grad * p.grad).sum() for p in factors.values()))
        clip = base.TRAIN["clip_norm"] / (norm.item() + base.TRAIN["clip_eps"])
        for p in factors.values():
            p.grad.mul_(min(1.0, clip))
        optimizer.step()
        losses.append(loss.item())
        norms.append(norm.item())
    return losses, norms, base.snapshot(factors)


def about(model):
    return {
        "schema": "zplan.golden/1",
        "generator": {
            "script": "make_golden_lora.py",
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "config": {"model": model.MODEL, "train": base.TRAIN},
        "lora": {"rank": RANK, "alpha": ALPHA, "learning_rate": RATE},
    }


def write(file_name, model, text):
    losses, norms, factors = train(model, text)
    print(f"{file_name}: losses {losses} norms {norms}")
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
        base.HERE / f"{file_name}.json",
        {
            **about(model),
            "losses": losses,
            "gradient_norms": norms,
            "binary": {
                "file": f"{file_name}.bin",
                "dtype": "float64",
                "byte_order": "little",
                "size_bytes": len(blob),
                "sha256": hashlib.sha256(blob).hexdigest(),
            },
            "tensors": records,
        },
    )
    (base.HERE / f"{file_name}.bin").write_bytes(blob)


def write_quantised(file_name, model, text):
    """Losses and norms alone: they follow every matrix and factor."""
    runs = {}
    for base_type, how in QUANTISED.items():
        losses, norms, _ = train(model, text, how)
        print(f"{file_name} {base_type}: losses {losses} norms {norms}")
        runs[base_type] = {"by_root": how["by_root"], "losses": losses, "gradient_norms": norms}
    base.write_json(
        base.HERE / f"{file_name}.json",
        {
            **about(model),
            "runs": runs,
            "tensors": [],
        },
    )


def main():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    text = np.frombuffer((base.HERE / base.TEXT_FILE).read_bytes(), dtype=np.uint8)
    for file_name, model in NAMES.items():
        write(file_name, model, text)
    write_quantised("golden_qlora_tiny", golden_llama, text)


if __name__ == "__main__":
    main()
