#!/usr/bin/env python3
"""Writes the golden files of a tiny GPT-2: golden_gpt2_tiny.json and golden_gpt2_tiny.bin.

Decides what an executor must reproduce in double precision: losses, global gradient norms,
gradients and parameters of five AdamW steps. Model [Radford19] in the Hugging Face naming and
layout (Conv1D weights are [in, out]), written with plain torch operations; torch.autograd gives
the gradients and torch.optim.AdamW the updates. Initial values and data order are counter-based
(Philox4x32-10 [Salmon11]), written here in numpy, independently of the C++ code they check.

Leaves out dropout, mixed precision, learning-rate schedules and every parallel strategy.
Needs torch and numpy; the build and the tests need neither, they read the two files.

  make_golden.py            write the golden files next to this script
  make_golden.py --check    check generator, gradients and update, write nothing

Shapes: b = sequences, s = positions, h = hidden, a = heads, d = h / a, V = vocabulary.
"""

import argparse
import hashlib
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as functional

HERE = pathlib.Path(__file__).resolve().parent
TEXT_FILE = "text.txt"
NAME = "golden_gpt2_tiny"

MODEL = {
    "layers": 2,
    "hidden": 32,
    "heads": 2,
    "ffn": 128,
    "vocab": 256,
    "seq": 16,
    "layer_norm_eps": 1e-5,
}
TRAIN = {
    "seed": 0,
    "global_batch": 4,
    "steps": 5,
    "learning_rate": 1e-3,
    "beta1": 0.9,
    "beta2": 0.95,
    "adam_eps": 1e-8,
    "weight_decay": 0.1,
    "clip_norm": 1.0,
    "clip_eps": 1e-6,
    "init_std": 0.02,
}
TIGHT_CLIP_NORM = 0.05  # far below every gradient norm of this run: clipping binds at each step
GRADIENT_STEPS = (0, 4)  # steps whose gradients are stored

INIT_ROLE, DATA_ROLE = 0, 1  # last counter word, keeps the two streams apart


# Counter-based random numbers ---------------------------------------------------------------------


def philox4x32(counter, key):
    """Philox4x32-10 [Salmon11]: four uint64 arrays of words, two key words -> four arrays."""
    mask, low = np.uint64(0xFFFFFFFF), np.uint64(32)
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (p1 >> low) ^ c[1] ^ np.uint64(k0),
            p1 & mask,
            (p0 >> low) ^ c[3] ^ np.uint64(k1),
            p0 & mask,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def fnv1a32(name):
    """FNV-1a, 32 bit: the identity of a tensor or stream in a counter."""
    value = 0x811C9DC5
    for byte in name.encode("ascii"):
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def draw(indices, name, role, seed):
    """The four Philox words of each 64-bit index in the stream (name, role)."""
    index = np.asarray(indices, dtype=np.uint64)
    tag = np.full_like(index, fnv1a32(name))
    counter = (
        index & np.uint64(0xFFFFFFFF),
        index >> np.uint64(32),
        tag,
        np.full_like(index, role),
    )
    return philox4x32(counter, (seed & 0xFFFFFFFF, seed >> 32))


def normal(count, name, seed):
    """Standard normal values of elements 0 .. count-1 by Box-Muller, cosine branch only."""
    x0, x1 = draw(np.arange(count), name, INIT_ROLE, seed)[:2]
    u1, u2 = ((x.astype(np.float64) + 0.5) / 2.0**32 for x in (x0, x1))
    return np.sqrt(-2.0 * np.log(u1)) * np.cos(2.0 * np.pi * u2)


# Model --------------------------------------------------------------------------------------------


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files; the output head is wte."""
    h, f = MODEL["hidden"], MODEL["ffn"]
    shapes = {
        "transformer.wte.weight": (MODEL["vocab"], h),
        "transformer.wpe.weight": (MODEL["seq"], h),
    }

    def affine(name, weight, bias):
        shapes[name + ".weight"], shapes[name + ".bias"] = weight, bias

    for layer in range(MODEL["layers"]):
        block = f"transformer.h.{layer}."
        affine(block + "ln_1", (h,), (h,))
        affine(block + "attn.c_attn", (h, 3 * h), (3 * h,))
        affine(block + "attn.c_proj", (h, h), (h,))
        affine(block + "ln_2", (h,), (h,))
        affine(block + "mlp.c_fc", (h, f), (f,))
        affine(block + "mlp.c_proj", (f, h), (h,))
    affine("transformer.ln_f", (h,), (h,))
    return shapes


def initial_values(name, shape):
    if name.endswith(".bias"):
        return np.zeros(shape)
    if len(shape) == 1:  # LayerNorm gain
        return np.ones(shape)
    std = TRAIN["init_std"]
    if name.endswith("c_proj.weight"):  # two residual additions per layer [Radford19 2.3]
        std /= math.sqrt(2 * MODEL["layers"])
    return (normal(math.prod(shape), name, TRAIN["seed"]) * std).reshape(shape)


def make_parameters():
    return {
        name: torch.tensor(initial_values(name, shape), dtype=torch.float64, requires_grad=True)
        for name, shape in tensor_shapes().items()
    }


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + MODEL["layer_norm_eps"]) * gain + bias


def gelu(x):
    """Tanh form [Hendrycks16 2], as in GPT-2."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def attention(x, affine):
    b, s, h = x.shape
    q, k, v = (
        part.reshape(b, s, MODEL["heads"], -1).transpose(1, 2)  # [b, a, s, d]
        for part in affine(x, "attn.c_attn").split(h, dim=-1)
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # [b, a, s, s]
    future = torch.ones(s, s, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return affine((weights @ v).transpose(1, 2).reshape(b, s, h), "attn.c_proj")


def logits_of(params, inputs):
    """Byte ids [b, s] -> logits [b, s, V]."""

    def pair(prefix):
        return params[prefix + ".weight"], params[prefix + ".bias"]

    wte = params["transformer.wte.weight"]
    x = wte[inputs] + params["transformer.wpe.weight"][: inputs.shape[1]]
    for layer in range(MODEL["layers"]):
        block = f"transformer.h.{layer}."

        def affine(value, part, block=block):
            weight, bias = pair(block + part)
            return value @ weight + bias

        x = x + attention(layer_norm(x, *pair(block + "ln_1")), affine)
        x = x + affine(gelu(affine(layer_norm(x, *pair(block + "ln_2")), "mlp.c_fc")), "mlp.c_proj")
    return layer_norm(x, *pair("transformer.ln_f")) @ wte.T


def loss_of(params, inputs, targets):
    """Mean cross entropy in nats over all b * s tokens."""
    logits = logits_of(params, inputs)
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (torch.logsumexp(logits, dim=-1) - chosen).mean()


# Data and training --------------------------------------------------------------------------------


def sample_starts(step, text_size):
    """First byte of each sequence of a step; sample n of the run is step * global_batch + g."""
    batch = TRAIN["global_batch"]
    x0, x1 = draw(np.arange(step * batch, (step + 1) * batch), "data", DATA_ROLE, TRAIN["seed"])[:2]
    return ((x0 | (x1 << np.uint64(32))) % np.uint64(text_size - MODEL["seq"])).astype(np.int64)


def batch_of(text, step):
    rows = sample_starts(step, len(text))[:, None] + np.arange(MODEL["seq"])
    return torch.from_numpy(text[rows].astype(np.int64)), torch.from_numpy(
        text[rows + 1].astype(np.int64)
    )


def make_optimizer(params):
    """AdamW [Loshchilov19] with decay on matrices (embeddings among them) and none on vectors."""
    groups = [
        {
            "params": [p for p in params.values() if p.dim() == 2],
            "weight_decay": TRAIN["weight_decay"],
        },
        {"params": [p for p in params.values() if p.dim() != 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=TRAIN["learning_rate"],
        betas=(TRAIN["beta1"], TRAIN["beta2"]),
        eps=TRAIN["adam_eps"],
        foreach=False,
    )


def snapshot(values):
    return {name: value.detach().numpy().copy() for name, value in values.items()}


def train(text, clip_norm):
    """Runs all steps; keeps losses, norms and gradients before clipping, parameters."""
    params = make_parameters()
    optimizer = make_optimizer(params)
    run = {"losses": [], "norms": [], "gradients": {}, "initial": snapshot(params)}
    for step in range(TRAIN["steps"]):
        optimizer.zero_grad()
        loss = loss_of(params, *batch_of(text, step))
        loss.backward()
        gradients = {name: p.grad for name, p in params.items()}
        if step in GRADIENT_STEPS:
            run["gradients"][step] = snapshot(gradients)
        norm = torch.sqrt(sum((g * g).sum() for g in gradients.values()))
        coefficient = min(1.0, clip_norm / (norm.item() + TRAIN["clip_eps"]))
        for gradient in gradients.values():
            gradient.mul_(coefficient)
        optimizer.step()
        run["losses"].append(loss.item())
        run["norms"].append(norm.item())
    run["final"] = snapshot(params)
    return run


# Output -------------------------------------------------------------------------------------------


def pack(run):
    """Concatenates all stored arrays; returns the bytes and one record per array."""
    kinds = {"initial_parameter": run["initial"]}
    kinds.update({f"gradient_step_{step}": run["gradients"][step] for step in GRADIENT_STEPS})
    kinds["final_parameter"] = run["final"]
    blob, records = bytearray(), []
    for kind, arrays in kinds.items():
        for name, array in arrays.items():
            records.append(
                {"kind": kind, "name": name, "shape": list(array.shape), "offset_bytes": len(blob)}
            )
            blob += array.astype("<f8").tobytes()
    return bytes(blob), records


def write_json(path, document):
    """Indented JSON with one line per tensor record, so that changes stay readable."""
    records = document.pop("tensors")
    head = json.dumps(document, indent=2).removesuffix("\n}")
    lines = ",\n".join("    " + json.dumps(record) for record in records)
    path.write_text(f'{head},\n  "tensors": [\n{lines}\n  ]\n}}\n', encoding="ascii")


def write_golden(text):
    run, tight = train(text, TRAIN["clip_norm"]), train(text, TIGHT_CLIP_NORM)
    blob, records = pack(run)
    write_json(
        HERE / f"{NAME}.json",
        {
            "schema": "zplan.golden/1",
            "generator": {
                "script": pathlib.Path(__file__).name,
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "config": {"model": MODEL, "train": TRAIN},
            "text": {
                "file": TEXT_FILE,
                "size_bytes": len(text),
                "sha256": hashlib.sha256(text.tobytes()).hexdigest(),
            },
            "sample_starts": [
                sample_starts(step, len(text)).tolist() for step in range(TRAIN["steps"])
            ],
            "losses": run["losses"],
            "gradient_norms": run["norms"],
            "tight_clip": {
                "clip_norm": TIGHT_CLIP_NORM,
                "losses": tight["losses"],
                "gradient_norms": tight["norms"],
            },
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
    (HERE / f"{NAME}.bin").write_bytes(blob)
    print(
        f"torch {torch.__version__}, numpy {np.__version__}, "
        f"{len(blob)} bytes in {len(records)} arrays"
    )
    for title, result in ((f"clip {TRAIN['clip_norm']}", run), (f"clip {TIGHT_CLIP_NORM}", tight)):
        for step, (loss, norm) in enumerate(zip(result["losses"], result["norms"])):
            print(f"{title}  step {step}  loss {loss!r}  norm {norm!r}")


# Checks -------------------------------------------------------------------------------------------


def check_generator():
    """Known answers: Random123 kat_vectors (philox4x32, 10 rounds), FNV-1a reference values."""
    ones = 0xFFFFFFFF
    answers = [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones, ones), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ]
    for counter, key, expected in answers:
        assert tuple(int(word) for word in philox4x32(counter, key)) == expected, counter
    for name, expected in (("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)):
        assert fnv1a32(name) == expected, name


def check_operations():
    """The written-out operations equal those of torch.nn.functional."""
    torch.manual_seed(1)
    x, gain, bias = (torch.randn(size, dtype=torch.float64) for size in ((3, 5, 32), (32,), (32,)))
    torch.testing.assert_close(
        layer_norm(x, gain, bias),
        functional.layer_norm(x, (32,), gain, bias, MODEL["layer_norm_eps"]),
    )
    torch.testing.assert_close(gelu(x), functional.gelu(x, approximate="tanh"))
    qkv = torch.randn(2, 5, 96, dtype=torch.float64)
    q, k, v = (
        part.reshape(2, 5, MODEL["heads"], -1).transpose(1, 2) for part in qkv.split(32, dim=-1)
    )
    heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(
        attention(qkv[..., :32], lambda value, part: qkv if part == "attn.c_attn" else value),
        heads.transpose(1, 2).reshape(2, 5, 32),
    )


def check_gradients(text):
    """Central differences against autograd, the largest and the first gradient of every tensor."""
    params, batch, width, deviations = make_parameters(), batch_of(text, 0), 1e-5, []
    loss = loss_of(params, *batch)
    loss.backward()
    torch.testing.assert_close(
        loss,
        functional.cross_entropy(logits_of(params, batch[0]).flatten(0, 1), batch[1].flatten()),
    )
    with torch.no_grad():
        for name, p in params.items():
            flat, gradient = p.view(-1), p.grad.view(-1)
            for index in sorted({0, int(gradient.abs().argmax())}):
                kept = flat[index].item()
                flat[index] = kept + width
                above = loss_of(params, *batch)
                flat[index] = kept - width
                below = loss_of(params, *batch)
                flat[index] = kept
                difference = abs(((above - below) / (2 * width) - gradient[index]).item())
                allowed = 1e-9 + 1e-6 * abs(gradient[index].item())
                assert difference < allowed, (name, index, difference)
                deviations.append(difference)
    print(
        f"finite differences: largest deviation {max(deviations):.2e} "
        f"over {len(deviations)} entries"
    )


def check_update(text):
    """Five torch.optim.AdamW steps equal the written-out rule, with the tight clip in force."""
    params, rule = train(text, TIGHT_CLIP_NORM)["final"], make_parameters()
    first, second = ({name: torch.zeros_like(p) for name, p in rule.items()} for _ in range(2))
    lr, beta1, beta2 = TRAIN["learning_rate"], TRAIN["beta1"], TRAIN["beta2"]
    for step in range(TRAIN["steps"]):
        names, values = zip(*rule.items())
        gradients = torch.autograd.grad(loss_of(rule, *batch_of(text, step)), values)
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        assert norm > 2 * TIGHT_CLIP_NORM, "the tight clip does not bind"
        with torch.no_grad():
            for name, p, g in zip(names, values, gradients):
                g = g * min(1.0, TIGHT_CLIP_NORM / (norm.item() + TRAIN["clip_eps"]))
                first[name] = beta1 * first[name] + (1 - beta1) * g
                second[name] = beta2 * second[name] + (1 - beta2) * g * g
                m_hat = first[name] / (1 - beta1 ** (step + 1))
                v_hat = second[name] / (1 - beta2 ** (step + 1))
                p *= 1 - lr * (TRAIN["weight_decay"] if p.dim() == 2 else 0.0)
                p -= lr * m_hat / (torch.sqrt(v_hat) + TRAIN["adam_eps"])
    worst = max(float(np.abs(params[name] - rule[name].detach().numpy()).max()) for name in rule)
    assert worst < 1e-10, worst
    print(f"AdamW rule: largest deviation {worst:.2e}")


def main():
    parser = argparse.ArgumentParser(description="golden files of a tiny GPT-2")
    parser.add_argument("--check", action="store_true", help="run the checks, write nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    text = np.frombuffer((HERE / TEXT_FILE).read_bytes(), dtype=np.uint8)
    check_generator()
    if arguments.check:
        check_operations()
        check_gradients(text)
        check_update(text)
    else:
        write_golden(text)


if __name__ == "__main__":
    main()
