#!/usr/bin/env python3
"""Runs that are kept, gone on with, validated, exported and loaded on a GPU, one rank each.

  tests/gpu/kept_runs.py [--report] [--program PATH] [--folder DIR]

Each plan of PLANS is trained for six steps with a checkpoint after the third, from which another
process goes on, with the kernels that were chosen: losses and norms of gradients must be the same
to the last bit, also where each step is followed by a validation. What is exported after the sixth
step must, loaded again, have the loss that its validation had. Then checkpoints of a larger model:
how long training stood still for them, and how fast they were written beside the drive of --folder.
Takes 2 minutes; --report writes reports/gpu_kept_runs.json. The exit code is 5 when a comparison failed.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import sources  # noqa: E402
from report import ROOT  # noqa: E402

DATA = ROOT / "tests" / "data" / "text.txt"
STEPS, KEPT = 6, 3
ONE = "--cluster dgx-h100 --dp 1 --tp 1 --pp 1 --zero 0 --recompute none".split()
SMALL = "--model gpt2-124m --seq 256 --global-batch 8 --micro-batch 4".split()
PLANS = {
    "fp32": ["--kernel-set", "cuda.sm90.fp32"],
    "bf16": [],
    "bf16, graphs": ["--launch", "graph"],
    "bf16, optimizer states on the CPU": ["--optimizer", "cpu", "--optimizer-near", "0"],
}
LARGE = "--model gpt2-355m --seq 1024 --global-batch 8 --micro-batch 8".split()
LARGE_STEPS, LARGE_EVERY = 240, 80


class Zplan:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def __call__(self, *words):
        done = subprocess.run([self.program, *map(str, words)], cwd=self.folder, timeout=200,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"zplan {' '.join(map(str, words))}\n{done.stderr.strip()}")
        return done.stdout

    def run(self, *words):
        return json.loads(self("run", *words, "--json", "--threads-per-rank", os.cpu_count()))


def trained(result):
    return [(step["loss"], step["gradient_norm"]) for step in result["steps"]]


def compare(zplan, name, pins):
    """Rows of one plan: what was compared, and whether it is the same."""
    plan, kept, exported = "plan.json", f"kept {name}", f"exported {name}"
    zplan("plan", *ONE, *SMALL, *pins, "-o", plan)
    begin = ["--resume-from", f"{kept}/step-{KEPT:06}"]
    whole = trained(zplan.run(plan, "--steps", STEPS, "--save", kept, "--every", KEPT))
    rest = trained(zplan.run(plan, "--steps", STEPS, *begin))
    again = zplan.run(plan, "--steps", STEPS, *begin, "--validate", DATA, "--validate-every", 1,
                      "--validate-batches", 1)
    zplan.run(plan, "--steps", 0, "--resume-from", f"{kept}/step-{STEPS:06}", "--export", exported)
    loaded = zplan.run(plan, "--steps", 0, "--weights", exported, "--validate", DATA,
                       "--validate-batches", 1)
    return {
        "gone on from a checkpoint": rest == whole[KEPT:],
        "with a validation after each step": trained(again) == rest,
        "exported and loaded": loaded["validations"][-1]["loss"] == again["validations"][-1]["loss"],
    }


def drive_rate(folder):
    """Bytes a second of a plain loop that writes past the page cache."""
    count, block = 256, 16 << 20
    start = time.monotonic()
    subprocess.run(["dd", "if=/dev/zero", f"of={folder}/plain", f"bs={block}", f"count={count}",
                    "oflag=direct", "conv=fsync"], check=True, capture_output=True)
    seconds = time.monotonic() - start
    (pathlib.Path(folder) / "plain").unlink()
    return count * block / seconds


def measure(zplan):
    """What checkpoints of a larger model cost."""
    zplan("plan", *ONE, *LARGE, "-o", "large.json")
    plain = drive_rate(zplan.folder)
    result = zplan.run("large.json", "--steps", LARGE_STEPS, "--save", "large", "--every",
                       LARGE_EVERY, "--keep", 1)
    saved = result["checkpoints"]["saved"][:-1]  # the last one is waited for
    steps = [step["wall_s"] for step in result["steps"]]
    return {
        "checkpoint_bytes": saved[0]["bytes"],
        "step_s": sorted(steps)[len(steps) // 2],
        "stall_s": [one["stall_s"] for one in saved],
        "stall_of_steps_between": max(one["stall_s"] for one in saved)
                                  / sum(steps[LARGE_EVERY:2 * LARGE_EVERY]),
        "written_bytes_per_s": [one["bytes"] / one["writing_s"] for one in saved],
        "plain_loop_bytes_per_s": plain,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "build" / "gpu" / "bin" / "zplan"))
    parser.add_argument("--folder")
    options = parser.parse_args()
    device = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"],
                            capture_output=True, text=True, check=True).stdout.splitlines()[0]
    rows = {}
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        zplan = Zplan(str(pathlib.Path(options.program).resolve()), folder)
        for name, pins in PLANS.items():
            rows[name] = compare(zplan, name, pins)
            print(f"{name}: " + ", ".join(f"{what}: {'same bits' if same else 'OTHER BITS'}"
                                          for what, same in rows[name].items()), flush=True)
        cost = measure(zplan)
    print(json.dumps(cost, indent=1))
    report = {"schema": "zplan.gpu-kept-runs/1", "device": device,
              "date": time.strftime("%Y-%m-%d"), "same_bits": rows, "checkpoints": cost}
    if options.report:
        (ROOT / "reports" / "gpu_kept_runs.json").write_text(json.dumps(report, indent=1) + "\n",
                                                             encoding="utf-8")
        sources.stamp("gpu_kept_runs.json")
    return 0 if all(all(row.values()) for row in rows.values()) else 5


if __name__ == "__main__":
    sys.exit(main())
