#!/usr/bin/env python3
"""Writes reports/memory_tracker.md: what modules were measured to hold beside what is predicted.

usage: memory_report.py TEST, where TEST is the program test_golden_memory_tracker, which predicts
each case of tests/data/memory_tracker.jsonl.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import sources  # noqa: E402
from report import ROOT, tree_hash  # noqa: E402

MEASURED = ROOT / "tests" / "data" / "memory_tracker.jsonl"
REPORT = ROOT / "reports" / "memory_tracker.md"
GOAL = 0.05
GIB = 2**30


def predictions(test):
    """Case -> (stack, bytes)."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "predictions"
        subprocess.run([test], env=os.environ | {"ZPLAN_MEMORY_TRACKER": str(path)},
                       stdout=subprocess.DEVNULL, check=False)
        lines = path.read_text(encoding="utf-8").splitlines()
    return {case: (stack, int(size)) for case, stack, size in map(str.split, lines)}


def row(case, stack, predicted):
    measured = case["peak_bytes"]
    error = predicted / measured - 1
    words = [case["model"], case["attention"], "full" if case["recompute"] else "none",
             str(case["ranks"]), str(case["micro_batch"]), str(case["sequence"]), f"`{stack}`",
             f"{case['after_forward']['activation'] / GIB:.3f}", f"{measured / GIB:.3f}",
             f"{predicted / GIB:.3f}", f"{error:+.2%}", f"`{case['peak_at']}`"]
    return "| " + " | ".join(words) + " |"


def page(cases, predicted):
    errors = {c["case"]: predicted[c["case"]][1] / c["peak_bytes"] - 1 for c in cases}
    missed = {name: error for name, error in errors.items() if abs(error) > GOAL}
    worst = max(errors, key=lambda name: abs(errors[name]))
    lines = ["# What Hugging Face modules hold, measured and predicted", "",
             "command: `tests/frameworks/memory_report.py build/tests/bin/test_golden_memory_tracker`  ",
             f"sources: `{tree_hash()}`  ",
             f"measured: `{MEASURED.relative_to(ROOT)}`, by PyTorch's MemTracker on fake tensors, "
             f"torch {cases[0]['torch']}, transformers {cases[0]['transformers']}", "",
             "GiB of one GPU: activations when forward has ended, and the peak up to the update, "
             "AdamW's moments among it. One GPU trains in bf16 throughout (recipe lean), 8 share "
             "fp32 states by FSDP2 (recipe fsdp). Workspaces of libraries are in neither figure.", "",
             f"{len(cases)} cases, {len(cases) - len(missed)} within {GOAL:.0%}; the worst is "
             f"{worst}, {errors[worst]:+.2%}.", "",
             "| model | attention | recomputed | GPUs | micro-batch | sequence | stack | "
             "activations | peak | predicted | error | peak at |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|"]
    lines += [row(c, *predicted[c["case"]]) for c in cases]
    if missed:
        lines += ["", "Missed: " + ", ".join(f"{n} {e:+.2%}" for n, e in missed.items())]
    return "\n".join(lines) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    cases = [json.loads(line) for line in MEASURED.read_text(encoding="utf-8").splitlines()]
    REPORT.write_text(page(cases, predictions(sys.argv[1])), encoding="utf-8")
    sources.stamp(REPORT.name)


if __name__ == "__main__":
    main()
