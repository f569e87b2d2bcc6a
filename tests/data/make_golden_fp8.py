#!/usr/bin/env python3
"""Writes golden_fp8_tiny.json and .bin: a tiny Llama whose layers multiply operands rounded to fp8.

Model, data and initial values are those of make_golden.py, and so is the update. Every product of a
layer, forward and both gradients, takes its operands rounded [Micikevicius22], and multiplies and
adds what comes out in double precision:

  blocks   e4m3 in blocks with a scale each, 1 x 128 of activations and their gradients and 128 x 128
           of weights [DeepSeek24b sec 3.3.2]
  whole    one scale for each operand, that of a micro-batch, e4m3, and e5m2 of gradients
           [TransformerEngine]

A step is two micro-batches of two sequences. Needs torch and numpy; the build and the tests need
neither.

  make_golden_fp8.py           write the files next to this script
  make_golden_fp8.py --check   check the rounding against torch's types, write nothing
"""

import argparse
import hashlib

import golden_llama as model
import make_golden as base
import numpy as np
import torch

NAME = "golden_fp8_tiny"
BLOCK = 128
MICRO_BATCH = 2
E4M3, E5M2 = (3, -6, 448.0), (2, -14, 57344.0)  # bits of the mantissa, least exponent, largest
TORCH_TYPES = {E4M3: torch.float8_e4m3fn, E5M2: torch.float8_e5m2}


def nearest(x, form):
    """Of the values of a format, ties to even; magnitudes are at most the largest."""
    bits, least, _ = form
    exponent = (torch.frexp(x).exponent - 1).clamp(min=least) - bits
    step = torch.ldexp(torch.ones_like(x), exponent)
    return torch.where(x == 0, x, (x / step).round() * step)


def in_blocks(x, form, rows, columns):
    result = torch.empty_like(x)
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], columns):
            block = x[i : i + rows, j : j + columns]
            greatest = block.abs().max()
            scale = greatest / form[2] if greatest > 0 else torch.ones_like(greatest)
            result[i : i + rows, j : j + columns] = nearest(block / scale, form) * scale
    return result


def rounded(x, operand, how):
    """operand: input, weight or gradient."""
    if how == "whole":
        return in_blocks(x, E5M2 if operand == "gradient" else E4M3, *x.shape)
    return in_blocks(x, E4M3, BLOCK if operand == "weight" else 1, BLOCK)


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, how):
        ctx.how = how
        x, w = rounded(x, "input", how), rounded(w, "weight", how)
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = rounded(dy, "gradient", ctx.how)
        return dy @ w.T, x.T @ dy, None


def logits_of(params, inputs, how):
    x = params["model.embed_tokens.weight"][inputs]
    for layer in range(model.MODEL["layers"]):
        block = f"model.layers.{layer}."

        def multiply(value, part, block=block):
            weight = params[block + part + ".weight"]
            flat = Product.apply(value.reshape(-1, value.shape[-1]), weight, how)
            return flat.reshape(*value.shape[:-1], -1)

        def norm(value, part, block=block):
            return model.rms_norm(value, params[block + part + ".weight"])

        x = x + model.attention(norm(x, "input_layernorm"), multiply, norm)
        up = multiply(norm(x, "post_attention_layernorm"), "mlp.gate_up_proj")
        x = x + multiply(model.swiglu(up), "mlp.down_proj")
    return model.rms_norm(x, params["model.norm.weight"]) @ params["lm_head.weight"].T


def loss_of(params, inputs, targets, how):
    """The part of the mean over all tokens of a step that a micro-batch gives."""
    logits = logits_of(params, inputs, how)
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    tokens = base.TRAIN["global_batch"] * model.MODEL["seq"]
    return (torch.logsumexp(logits, dim=-1) - chosen).sum() / tokens


def train(how, text):
    params = base.make_parameters(model)
    optimizer = base.make_optimizer(params)
    losses, norms = [], []
    for step in range(base.TRAIN["steps"]):
        optimizer.zero_grad()
        inputs, targets = base.batch_of(model, text, step)
        loss = 0.0
        for part in zip(inputs.split(MICRO_BATCH), targets.split(MICRO_BATCH)):
            own = loss_of(params, *part, how)
            own.backward()
            loss += own.item()
        norm = torch.sqrt(sum((p.grad * p.grad).sum() for p in params.values()))
        clip = base.TRAIN["clip_norm"] / (norm.item() + base.TRAIN["clip_eps"])
        for p in params.values():
            p.grad.mul_(min(1.0, clip))
        optimizer.step()
        losses.append(loss)
        norms.append(norm.item())
    return losses, norms, base.snapshot(params)


def write(text):
    blob, records, runs = bytearray(), [], {}
    for how in ("blocks", "whole"):
        losses, norms, final = train(how, text)
        print(f"{how}: losses {losses}")
        runs[how] = {"losses": losses, "gradient_norms": norms}
        for name, array in final.items():
            records.append(
                {
                    "kind": f"final_{how}",
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
                "script": "make_golden_fp8.py",
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "config": {"model": model.MODEL, "train": base.TRAIN},
            "runs": runs,
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
    """The rounding is that of torch's types: their values, what is between them, any others."""
    torch.manual_seed(1)
    for form, kind in TORCH_TYPES.items():
        codes = torch.arange(256, dtype=torch.uint8).view(kind).double()
        values = codes[codes.isfinite()].sort().values
        assert values.max() == form[2]
        middles = (values[:-1] + values[1:]) / 2
        drawn = torch.randn(100000) * torch.logspace(-9, 4, 100000)
        drawn = drawn[drawn.abs() <= form[2]].double()
        for x in (values, middles, drawn):
            expected = x.float().to(kind).double()
            assert (nearest(x, form) == expected).all()


def main():
    parser = argparse.ArgumentParser(description="golden files of products rounded to fp8")
    parser.add_argument("--check", action="store_true", help="run the checks, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    check()
    if not arguments.check:
        write(np.frombuffer((base.HERE / base.TEXT_FILE).read_bytes(), dtype=np.uint8))


if __name__ == "__main__":
    main()
