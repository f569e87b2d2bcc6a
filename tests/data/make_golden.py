#!/usr/bin/env python3
"""Writes the golden files of tiny models: golden_*_tiny.json and golden_*_tiny.bin.

Decides what an executor must reproduce in double precision: losses, global gradient norms,
gradients and parameters of five AdamW steps. The models are the other golden_*.py, written with plain torch operations; torch.autograd gives the
gradients and torch.optim.AdamW the updates. Initial values and data order are counter-based
(golden_random.py), independently of the C++ code they check.

Leaves out dropout, mixed precision, learning-rate schedules and every parallel strategy.
Needs torch and numpy; the build and the tests need neither, they read the files.

  make_golden.py            write the golden files next to this script
  make_golden.py --only X   write those of this name
  make_golden.py --check    check generator, models, gradients and update, write nothing

Shapes: b = sequences, s = positions, h = hidden, a = heads, d = h / a, V = vocabulary.
"""

import argparse
import hashlib
import json
import math
import pathlib

import golden_balanced
import golden_bert
import golden_blender
import golden_dense
import golden_families
import golden_deepseek
import golden_delta
import golden_dsa
import golden_falcon
import golden_gated_experts
import golden_gpt2
import golden_gpt_oss
import golden_jamba
import golden_kimi
import golden_lfm2
import golden_llama
import golden_mamba
import golden_mixtral
import golden_mla
import golden_qwen3
import golden_random
import golden_t5
import golden_vision
import numpy as np
import torch
import torch.nn.functional as functional

HERE = pathlib.Path(__file__).resolve().parent
TEXT_FILE = "text.txt"
MODELS = (golden_gpt2, golden_llama, golden_qwen3, golden_mla, golden_mixtral, golden_deepseek,
          *golden_families.MODELS, golden_gpt_oss.MODEL, golden_blender.MODEL,
          golden_t5.MODEL, golden_bert.MODEL, golden_balanced.MODEL, *golden_dense.MODELS,
          golden_gated_experts.MODEL, golden_mamba.MODEL, golden_delta.MODEL,
          golden_kimi.MODEL, golden_jamba.MODEL, golden_falcon.MODEL,
          golden_lfm2.MODEL, golden_dsa, golden_vision.MODEL)

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


# Parameters and loss -------------------------------------------------------------------------------


def initial_values(model, name, shape):
    if name.endswith((".bias", ".sinks", ".dt_bias", ".A_log")):
        return np.zeros(shape)
    if len(shape) == 1:  # gain of a norm
        return np.ones(shape)
    std = model.init_std(name, TRAIN["init_std"])
    draws = golden_random.normal(math.prod(shape), name, TRAIN["seed"])
    return (draws * std).reshape(shape)


def make_parameters(model):
    return {
        name: torch.tensor(
            initial_values(model, name, shape), dtype=torch.float64, requires_grad=True
        )
        for name, shape in model.tensor_shapes().items()
    }


def loss_of(model, params, inputs, targets):
    """What is trained: the cross entropy and, of a model that has one, the auxiliary loss."""
    auxiliary = getattr(model, "auxiliary_loss", lambda *_: 0.0)
    return cross_entropy(model, params, inputs, targets) + auxiliary(params, inputs)


def cross_entropy(model, params, inputs, targets):
    """Mean in nats over all tokens with a target, one that is not -1."""
    logits, asked = model.logits_of(params, inputs), targets >= 0
    chosen = logits.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return (torch.logsumexp(logits, dim=-1) - chosen)[asked].mean()


# Data and training --------------------------------------------------------------------------------


def sample_starts(step, text_size, sequence):
    """First byte of each sequence of a step; sample n of the run is step * global_batch + g."""
    batch = TRAIN["global_batch"]
    samples = np.arange(step * batch, (step + 1) * batch)
    x0, x1 = golden_random.draw(samples, "data", golden_random.DATA_ROLE, TRAIN["seed"])[:2]
    return ((x0 | (x1 << np.uint64(32))) % np.uint64(text_size - sequence)).astype(np.int64)


def batch_of(model, text, step):
    sequence = model.MODEL["seq"]
    rows = sample_starts(step, len(text), sequence)[:, None] + np.arange(sequence)
    samples = np.arange(step * TRAIN["global_batch"], (step + 1) * TRAIN["global_batch"])
    if hasattr(model, "begin_batch"):
        model.begin_batch(samples)
    if getattr(model, "ENCODES", False):
        masked, _ = golden_random.masked(text[rows], samples, model.FILE["vocab"], TRAIN["seed"])
        inputs = np.stack((masked, text[rows].astype(np.int64)))
        return torch.from_numpy(inputs), torch.from_numpy(text[rows + 1].astype(np.int64))
    if getattr(model, "MASKED", False):
        masked = golden_random.masked(text[rows], samples, model.FILE["vocab"], TRAIN["seed"])
        return tuple(torch.from_numpy(part) for part in masked)
    return torch.from_numpy(text[rows].astype(np.int64)), torch.from_numpy(
        text[rows + 1].astype(np.int64)
    )


def decays(name, parameter):
    """Matrices do, embeddings among them; vectors, biases of experts and rates of states do not."""
    return parameter.dim() >= 2 and not name.endswith((".bias", ".A_log"))


def make_optimizer(params):
    """AdamW [Loshchilov19]."""
    groups = [
        {
            "params": [p for name, p in params.items() if decays(name, p)],
            "weight_decay": TRAIN["weight_decay"],
        },
        {"params": [p for name, p in params.items() if not decays(name, p)], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        lr=TRAIN["learning_rate"],
        betas=(TRAIN["beta1"], TRAIN["beta2"]),
        eps=TRAIN["adam_eps"],
        foreach=False,
    )


def added_after_update(model, params, inputs):
    """Name -> what moves a parameter beside its gradient; of most models nothing does."""
    return getattr(model, "added_after_update", lambda *_: {})(params, inputs)


def add_all(params, added):
    with torch.no_grad():
        for name, value in added.items():
            params[name] += value


def snapshot(values):
    return {name: value.detach().numpy().copy() for name, value in values.items()}


def train(model, text, clip_norm):
    """Runs all steps; keeps losses, norms and gradients before clipping, parameters."""
    params = make_parameters(model)
    optimizer = make_optimizer(params)
    run = {"losses": [], "norms": [], "gradients": {}, "initial": snapshot(params)}
    for step in range(TRAIN["steps"]):
        optimizer.zero_grad()
        batch = batch_of(model, text, step)
        loss_of(model, params, *batch).backward()
        loss = cross_entropy(model, params, *batch)
        added = added_after_update(model, params, batch[0])
        gradients = {name: p.grad for name, p in params.items()}
        if step in GRADIENT_STEPS:
            run["gradients"][step] = snapshot(gradients)
        norm = torch.sqrt(sum((g * g).sum() for g in gradients.values()))
        coefficient = min(1.0, clip_norm / (norm.item() + TRAIN["clip_eps"]))
        for gradient in gradients.values():
            gradient.mul_(coefficient)
        optimizer.step()
        add_all(params, added)
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


def write_golden(model, text):
    run, tight = train(model, text, TRAIN["clip_norm"]), train(model, text, TIGHT_CLIP_NORM)
    blob, records = pack(run)
    write_json(
        HERE / f"{model.NAME}.json",
        {
            "schema": "zplan.golden/1",
            "generator": {
                "script": pathlib.Path(__file__).name,
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "config": {"model": model.MODEL, "train": TRAIN},
            "text": {
                "file": TEXT_FILE,
                "size_bytes": len(text),
                "sha256": hashlib.sha256(text.tobytes()).hexdigest(),
            },
            "sample_starts": [
                sample_starts(step, len(text), model.MODEL["seq"]).tolist()
                for step in range(TRAIN["steps"])
            ],
            "losses": run["losses"],
            "gradient_norms": run["norms"],
            "tight_clip": {
                "clip_norm": TIGHT_CLIP_NORM,
                "losses": tight["losses"],
                "gradient_norms": tight["norms"],
            },
            "binary": {
                "file": f"{model.NAME}.bin",
                "dtype": "float64",
                "byte_order": "little",
                "size_bytes": len(blob),
                "sha256": hashlib.sha256(blob).hexdigest(),
            },
            "tensors": records,
        },
    )
    (HERE / f"{model.NAME}.bin").write_bytes(blob)
    print(
        f"{model.NAME}: torch {torch.__version__}, numpy {np.__version__}, "
        f"{len(blob)} bytes in {len(records)} arrays"
    )
    for title, result in ((f"clip {TRAIN['clip_norm']}", run), (f"clip {TIGHT_CLIP_NORM}", tight)):
        for step, (loss, norm) in enumerate(zip(result["losses"], result["norms"])):
            print(f"{title}  step {step}  loss {loss!r}  norm {norm!r}")


# Checks -------------------------------------------------------------------------------------------


def check_gradients(model, text):
    """Central differences against autograd, the largest and the first gradient of every tensor."""
    params, batch, width, deviations = make_parameters(model), batch_of(model, text, 0), 1e-5, []
    loss = loss_of(model, params, *batch)
    loss.backward()
    logits = model.logits_of(params, batch[0])
    torch.testing.assert_close(
        cross_entropy(model, params, *batch),
        functional.cross_entropy(logits.flatten(0, 1), batch[1].flatten(), ignore_index=-1),
    )
    with torch.no_grad():
        for name, p in params.items():
            flat, gradient = p.view(-1), p.grad.view(-1)
            for index in sorted({0, int(gradient.abs().argmax())}):
                kept = flat[index].item()
                flat[index] = kept + width
                above = loss_of(model, params, *batch)
                flat[index] = kept - width
                below = loss_of(model, params, *batch)
                flat[index] = kept
                difference = abs(((above - below) / (2 * width) - gradient[index]).item())
                allowed = 1e-9 + 1e-6 * abs(gradient[index].item())
                assert difference < allowed, (name, index, difference)
                deviations.append(difference)
    print(
        f"finite differences: largest deviation {max(deviations):.2e} "
        f"over {len(deviations)} entries"
    )


def check_update(model, text):
    """Five torch.optim.AdamW steps equal the written-out rule, with the tight clip in force."""
    params, rule = train(model, text, TIGHT_CLIP_NORM)["final"], make_parameters(model)
    first, second = ({name: torch.zeros_like(p) for name, p in rule.items()} for _ in range(2))
    lr, beta1, beta2 = TRAIN["learning_rate"], TRAIN["beta1"], TRAIN["beta2"]
    for step in range(TRAIN["steps"]):
        names, values = zip(*rule.items())
        added = added_after_update(model, rule, batch_of(model, text, step)[0])
        gradients = torch.autograd.grad(
            loss_of(model, rule, *batch_of(model, text, step)), values
        )
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        assert norm > 2 * TIGHT_CLIP_NORM, "the tight clip does not bind"
        with torch.no_grad():
            for name, p, g in zip(names, values, gradients):
                g = g * min(1.0, TIGHT_CLIP_NORM / (norm.item() + TRAIN["clip_eps"]))
                first[name] = beta1 * first[name] + (1 - beta1) * g
                second[name] = beta2 * second[name] + (1 - beta2) * g * g
                m_hat = first[name] / (1 - beta1 ** (step + 1))
                v_hat = second[name] / (1 - beta2 ** (step + 1))
                p *= 1 - lr * (TRAIN["weight_decay"] if decays(name, p) else 0.0)
                p -= lr * m_hat / (torch.sqrt(v_hat) + TRAIN["adam_eps"])
        add_all(rule, added)
    worst = max(float(np.abs(params[name] - rule[name].detach().numpy()).max()) for name in rule)
    assert worst < 1e-10, worst
    print(f"AdamW rule: largest deviation {worst:.2e}")


def main():
    parser = argparse.ArgumentParser(description="golden files of tiny models")
    parser.add_argument("--check", action="store_true", help="run the checks, write nothing")
    parser.add_argument("--only", nargs="*", help="names of the files to write")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    text = np.frombuffer((HERE / TEXT_FILE).read_bytes(), dtype=np.uint8)
    golden_random.check_generator()
    for model in MODELS:
        if arguments.check:
            model.check_operations()
            check_gradients(model, text)
            check_update(model, text)
        elif not arguments.only or model.NAME in arguments.only:
            write_golden(model, text)


if __name__ == "__main__":
    main()
