"""How fast ring attention trains on the CPU executor, beside PyTorch. Prints a table; asserts nothing.

  tests/perf/ring_attention_speed.py [--python PYTHON] [--rounds N] [--program PROGRAM] [--report]
                                     [SEQUENCE ...]

A GPT-2 of 4 layers and width 256 on one long sequence in fp32, two threads in all: `zplan run` with
`--cp 2 --ring 2`, a rank on each core, with Ulysses, and on one rank of two threads, against PyTorch
(gpt2_step.py) under PYTHON, which must have torch. All of them take turns, ROUNDS (default 3) times
each. A figure is the median over the rounds of the median step, the first step left out.
The goal is that of one rank at long sequences (executor_speed.py), less what ranks on cores of their
own wait for each other. --report also writes reports/ring_attention_speed.json.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import executor_speed  # noqa: E402
from report import ROOT, machine, write_report  # noqa: E402

MODEL = {"layers": 4, "hidden": 256, "heads": 4, "vocab": 4096}
GOAL = 1.5  # our step rate over PyTorch's
SEQUENCES = [(2048, 4), (8192, 3)]  # and steps of a run
WAYS = {"ring": ("--cp 2 --ring 2", 1), "Ulysses": ("--cp 2", 1), "one rank": ("", 2)}  # threads of a rank


def write_model(folder, sequence):
    path = pathlib.Path(folder) / f"long-{sequence}.json"
    path.write_text(json.dumps({
        "schema": "zplan.model/1", "name": "long", **MODEL, "ffn": 4 * MODEL["hidden"],
        "sequence": sequence, "global_batch": 1, "tied_embeddings": True,
        "source": "tests/perf/ring_attention_speed.py",
    }))
    return path


def our_step(options, model, sequence, choices, threads, steps, folder):
    plan = pathlib.Path(folder) / "plan.json"
    words = (f"plan --model {model} --cluster dgx2 --kernel-set cpu.f32 --dp 1 --tp 1 --pp 1 --zero 0 "
             f"--recompute none --micro-batch 1 --global-batch 1 --seq {sequence} {choices} -o {plan}")
    executor_speed.output_of([options.program, *words.split()])
    ran = json.loads(executor_speed.output_of(
        [options.program, "run", plan, "--ignore-capacity", "--steps", str(steps),
         "--threads-per-rank", str(threads), "--json"]))
    return ran["measured_step_s"]


def torch_step(options, sequence, steps):
    words = [options.python, executor_speed.YARDSTICK, sequence, 1, steps, executor_speed.THREADS,
             MODEL["layers"], MODEL["hidden"], MODEL["heads"], MODEL["vocab"]]
    ran = json.loads(executor_speed.output_of([str(word) for word in words]))
    return statistics.median(ran["seconds"][1:]), ran["torch"]


def measure(options, sequence, steps, folder):
    model = write_model(folder, sequence)
    ours, theirs = {way: [] for way in WAYS}, []
    for _ in range(options.rounds):
        for way, (choices, threads) in WAYS.items():
            ours[way].append(our_step(options, model, sequence, choices, threads, steps, folder))
        seconds, version = torch_step(options, sequence, steps)
        theirs.append(seconds)
    return [{
        "what": f"{way}, sequence {sequence}, fp32, {executor_speed.THREADS} threads",
        "zplan_step_s": [round(s, 4) for s in ours[way]],
        "torch_step_s": [round(s, 4) for s in theirs],
        "torch": version,
        "ratio": round(statistics.median(theirs) / statistics.median(ours[way]), 3),
        "goal": GOAL,
    } for way in WAYS]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("sequence", nargs="*", type=int)
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    entries = []
    with tempfile.TemporaryDirectory() as folder:
        for sequence, steps in SEQUENCES:
            if options.sequence and sequence not in options.sequence:
                continue
            for entry in measure(options, sequence, steps, folder):
                entries.append(entry)
                executor_speed.show(entry)
    if options.report:
        write_report(__file__, entries, {**machine(), "load_before": round(load_before, 2)})


if __name__ == "__main__":
    main()
