"""How fast the CPU executor trains, against its goals. Prints a table; asserts nothing.

  tests/perf/executor_speed.py [--python PYTHON] [--rounds N] [--programs FOLDER]
                               [--directory FOLDER] [--report] [WHAT ...]

WHAT (default all of it):
  64, 256, 1024  GPT-2 124M, 4 sequences of so many tokens, fp32, two threads: `zplan run` on a
                 one-rank plan against PyTorch (gpt2_step.py) under PYTHON, which must have torch;
                 the two run alternately, ROUNDS (default 3) times each. A figure is the median over
                 the rounds of the median step, the first step left out.
  bf16           the same of 256 tokens with bf16 parameters, against PyTorch's autocast.
  nvme           the plan of 256 tokens with its optimizer states on NVMe, in the folder --directory,
                 against the same with all of them in memory; updated after backward, and beside it.
  checkpoint     the plan of 64 tokens that saves every 20 steps into --directory: the share of the
                 time that is left to the steps, which wait for copies and run beside the writing.
  adamw, collective, storage  the programs beside this one (cmake --build build/tests --target
                 perf): AdamW against a four-array stream, collectives against the copy bound, the
                 NVMe tier against fio and a plain loop on the disk of --directory.
A figure during which others used more than 3 % of the cores is not shown and does not count.
--report writes what counts into reports/executor_speed.json, where figures stay that an earlier call
on the same sources and machine wrote.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from quiet import MOST, Watch  # noqa: E402
from report import ROOT, machine, tree_hash, write_report  # noqa: E402

YARDSTICK = pathlib.Path(__file__).with_name("gpt2_step.py")
THREADS = 2
BATCH = 4

# Sequence length, kernel set, a cluster that has it, goal for our step rate over PyTorch's, steps.
CASES = {
    "64": ("64", "cpu.f32", "dgx2", 2.6, 8),
    "256": ("256", "cpu.f32", "dgx2", 2.6, 5),
    "1024": ("1024", "cpu.f32", "dgx2", 2.6, 3),
    "bf16": ("256", "cpu.bf16", "dgx-h100", 1.0, 5),
}

# When states on NVMe are updated: choices of both plans, and of the one on NVMe. The goal is a step
# within 1.2 times that in memory.
ON_NVME = {
    "after": ([], ["--no-optimizer-overlap"]),
    "beside": (["--no-clip"], ["--optimizer-overlap"]),
}
NVME_GOAL = 0.833

EVERY = 20  # steps between two checkpoints
KEPT_STEPS = 70


def output_of(command):
    environment = {**os.environ, "OMP_NUM_THREADS": str(THREADS)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def plan_command(what, path):
    sequence, kernels, cluster, *_ = CASES[what]
    choices = "--dp 1 --tp 1 --pp 1 --zero 0 --recompute none --micro-batch 4 --global-batch 4"
    return [
        *f"plan --model gpt2 --cluster {cluster} --kernel-set {kernels} {choices}".split(),
        "--seq", sequence, "-o", str(path),
    ]


def our_step(program, plan, steps, *more):
    ran = json.loads(
        output_of([program, "run", plan, "--ignore-capacity", "--steps", str(steps),
                   "--threads-per-rank", str(THREADS), "--json", *more])
    )
    return ran["measured_step_s"], ran["fingerprint"]


def torch_step(python, what, sequence, steps):
    words = [python, YARDSTICK, sequence, str(BATCH), str(steps), str(THREADS)]
    ran = json.loads(output_of(words + ["bf16"] * (what == "bf16")))
    return statistics.median(ran["seconds"][1:]), ran["torch"]


def measure_steps(options, what, folder):
    sequence, kernels, _, goal, steps = CASES[what]
    plan = pathlib.Path(folder) / f"plan_{what}.json"
    output_of([options.program, *plan_command(what, plan)])
    ours, theirs = [], []
    for _ in range(options.rounds):
        seconds, fingerprint = our_step(options.program, plan, steps)
        ours.append(seconds)
        seconds, version = torch_step(options.python, what, sequence, steps)
        theirs.append(seconds)
    return {
        "what": f"gpt2-124m, batch {BATCH}, sequence {sequence}, {kernels}, {THREADS} threads",
        "command": "./zplan " + " ".join(plan_command(what, "plan.json")),
        "fingerprint": fingerprint,
        "zplan_step_s": [round(s, 4) for s in ours],
        "torch_step_s": [round(s, 4) for s in theirs],
        "torch": version,
        "ratio": round(statistics.median(theirs) / statistics.median(ours), 3),
        "goal": goal,
    }


def measure_offload(options, when, folder):
    steps = CASES["256"][-1]
    in_memory, on_nvme = pathlib.Path(folder) / "memory.json", pathlib.Path(folder) / "nvme.json"
    both, only_nvme = ON_NVME[when]
    home = ["--optimizer", "nvme", "--optimizer-near", "0"]
    plain = [*plan_command("256", in_memory), *both]
    offloaded = [*plan_command("256", on_nvme), *both, *only_nvme, *home]
    output_of([options.program, *plain])
    output_of([options.program, *offloaded])
    memory, nvme = [], []
    for _ in range(options.rounds):
        memory.append(our_step(options.program, in_memory, steps)[0])
        seconds, fingerprint = our_step(
            options.program, on_nvme, steps, "--nvme-dir", options.directory
        )
        nvme.append(seconds)
    return {
        "what": f"gpt2-124m, sequence 256, updated {when} backward, optimizer on NVMe",
        "command": "./zplan " + " ".join(offloaded).replace(str(on_nvme), "plan.json"),
        "fingerprint": fingerprint,
        "memory_step_s": [round(s, 4) for s in memory],
        "nvme_step_s": [round(s, 4) for s in nvme],
        "ratio": round(statistics.median(memory) / statistics.median(nvme), 3),
        "goal": NVME_GOAL,
    }


def measure_checkpoints(options, folder):
    plan = pathlib.Path(folder) / "kept.json"
    output_of([options.program, *plan_command("64", plan)])
    with tempfile.TemporaryDirectory(dir=options.directory) as kept:
        words = ["--steps", str(KEPT_STEPS), "--save", kept, "--every", str(EVERY), "--json"]
        ran = json.loads(output_of([options.program, "run", plan, "--ignore-capacity",
                                    "--threads-per-rank", str(THREADS), *words]))
    walls = [step["wall_s"] for step in ran["steps"]]
    plain = statistics.median(walls)
    saved = [each for each in ran["checkpoints"]["saved"] if each["step"] < KEPT_STEPS]
    lost = 0
    for each in saved:
        beside = 1 + math.ceil(each["writing_s"] / plain)  # steps that a save can make longer
        lost += sum(walls[each["step"]:each["step"] + beside]) - beside * plain
    return {
        "what": f"gpt2-124m, batch {BATCH}, sequence 64, saved every {EVERY} steps",
        "command": "./zplan " + " ".join(plan_command("64", "plan.json")),
        "fingerprint": ran["fingerprint"],
        "step_s": round(plain, 4),
        "bytes": saved[0]["bytes"],
        "stall_s": [round(each["stall_s"], 4) for each in saved],
        "writing_s": [round(each["writing_s"], 4) for each in saved],
        "ratio": round(1 - lost / (len(saved) * EVERY * plain), 4),
        "goal": 0.95,
    }


def measure_program(options, name, *words):
    program = pathlib.Path(options.programs) / f"perf_{name}_speed"
    return [json.loads(line) for line in output_of([program, *words]).splitlines()]


def measure(options, what, folder):
    if what in CASES:
        return [measure_steps(options, what, folder)]
    if what == "nvme":
        return [measure_offload(options, when, folder) for when in ON_NVME]
    if what == "checkpoint":
        return [measure_checkpoints(options, folder)]
    words = {"adamw": [str(THREADS)], "collective": [], "storage": [options.directory]}
    return measure_program(options, what, *words[what])


def show(entry, others):
    """Returns whether the figure counts."""
    if others > MOST:
        print(f"{entry['what']:52} not shown: others used {others:.0%} of the cores", flush=True)
        return False
    verdict = "met" if entry["ratio"] >= entry["goal"] else "missed"
    line = f"{entry['what']:52} {entry['ratio']:6.2f} goal {entry['goal']:4.2f}  {verdict}"
    print(line, flush=True)
    entry["others_share"] = round(others, 4)
    return True


def with_earlier(entries):
    """Those and the others of the report, where that is of these sources and this machine."""
    path = ROOT / "reports" / "executor_speed.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    is_same = report["source_hash"] == tree_hash() and machine().items() <= report.items()
    figures = {entry["what"]: entry for entry in report["results"]} if is_same else {}
    return list({**figures, **{entry["what"]: entry for entry in entries}}.values())


def main():
    everything = [*CASES, "nvme", "checkpoint", "adamw", "collective", "storage"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--python", default=sys.executable, help="one that has torch")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--programs", default=str(ROOT / "build/tests/bin"))
    parser.add_argument("--directory", default=str(ROOT / "build"), help="on the disk to measure")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("what", nargs="*", metavar="WHAT", help="one of " + ", ".join(everything))
    options = parser.parse_args()
    unknown = set(options.what) - set(everything)
    if unknown:
        parser.error(f"expected {', '.join(everything)}, got {', '.join(sorted(unknown))}")
    entries, is_quiet = [], True
    with tempfile.TemporaryDirectory() as folder:
        for what in options.what or everything:
            watch = Watch()
            measured = measure(options, what, folder)
            others = watch.others()
            counting = [entry for entry in measured if show(entry, others)]
            is_quiet &= counting == measured
            entries += counting
    if options.report and entries:
        write_report(__file__, with_earlier(entries), machine())
    if not is_quiet:
        sys.exit("others used the cores: the figures that are not shown want a quiet machine")


if __name__ == "__main__":
    main()
