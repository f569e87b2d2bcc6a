#!/usr/bin/env python3
"""Layouts of published runs, pinned: none beats the answer, none contradicts it.

  tests/golden/published_pins.py [--report] [--program PATH] [--first N]

Each run of tests/data/published_runs.jsonl and blind_runs.jsonl whose model and cluster zplan knows
is asked twice, by batch and sequence alone and with the layout of the run pinned. Of runs that pin
the same on the same cluster, the one on the fewest GPUs is taken. The pinned plan `beats` the answer
if it takes less time than the fastest plan that the answer names of software that was measured, by
more than the gap of the answer and TOLERANCE. It `contradicts` the answer if its family stands there
as one that does not fit, or that takes at least more time. --report also writes reports/published_pins.json.
"""

import argparse
import collections
import json
import subprocess
import sys

sys.path.insert(0, str(__file__).rsplit("/", 2)[0] + "/support")
from report import ROOT, write_report  # noqa: E402

TOLERANCE = 0.01
MODELS = {
    "GPT-2 10B": "zero-infinity-10b", "GPT-175B": "gpt3-175b", "GPT-22B": "megatron-22b",
    "GPT-3 175B": "gpt3-175b", "GPT 1T": "megatron-1t", "GPT 530B": "megatron-530b",
    "Llama-2-7B": "llama2-7b", "Llama-2-13B": "llama2-13b", "Llama-2-70B": "llama2-70b",
    "Llama-3-8B": "llama3-8b", "Llama-3-70B": "llama3-70b", "Llama-3 70B": "llama3-70b",
    "Llama-3.1-405B": "llama3-405b", "Llama-3.1-405B (126 layers)": "llama3-405b",
    "Qwen2.5-0.5B": "qwen2.5-0.5b", "Qwen2.5-7B": "qwen2.5-7b",
}
# A cluster of the device, and the GPUs of its nodes.
CLUSTERS = {
    "a100_sxm4_80gb": ("dgx-a100", 8), "b200_sxm_180gb": ("dgx-b200", 8),
    "gb200_186gb": ("gb200-tray", 4), "gb300_288gb": ("gb300-tray", 4),
    "h100_sxm5_80gb": ("dgx-h100", 8), "h200_sxm_141gb": ("dgx-h200", 8),
    "h800_sxm_80gb": ("hgx-h800", 8), "l40s": ("l40s-server", 4),
    "rtx_4090": ("rtx4090-workstation", 4), "v100_sxm3_32gb": ("dgx2", 16),
}
RECOMPUTED = ("none", "selective", "full")


def question_of(run):
    """What the run trains on what, without its plan; nothing where zplan does not know it."""
    model = MODELS.get(run["model"]["name"])
    cluster, per_node = CLUSTERS.get(run["hardware"]["device"], (None, 0))
    gpus = run["hardware"]["gpus"]
    if model is None or cluster is None or (gpus > per_node and gpus % per_node):
        return None
    nodes = max(1, gpus // per_node)
    words = ["--model", model, "--cluster", f"{cluster}x{nodes}" if nodes > 1 else cluster,
             "--global-batch", str(run["global_batch"]), "--seq", str(run["model"]["seq"])]
    return words if gpus >= per_node else [*words, "--gpus", str(gpus)]


def pins_of(run):
    """The layout of the run as options."""
    cut = run["parallel"]
    words = []
    for option, degree in (("--tp", cut.get("tp")), ("--pp", cut.get("pp")), ("--cp", cut.get("cp")),
                           ("--zero", cut.get("zero_stage")), ("--micro-batch", run["micro_batch"])):
        if degree is not None:
            words += [option, str(degree)]
    if (cut.get("interleave") or 1) > 1:
        words += ["--schedule", "interleaved", "--chunks", str(cut["interleave"])]
    if run.get("recompute") in RECOMPUTED:
        words += ["--recompute", run["recompute"]]
    if run.get("offload", {}).get("optimizer", "gpu") != "gpu":
        words += ["--optimizer", run["offload"]["optimizer"]]
    return words


def cases():
    """Question, pins and the run that has them, for all layouts that differ."""
    found = {}
    for name in ("published_runs", "blind_runs"):
        for line in (ROOT / "tests" / "data" / f"{name}.jsonl").read_text().splitlines():
            run = json.loads(line)
            question = question_of(run)
            if question is None or run["measured"].get("out_of_memory"):
                continue
            pins = pins_of(run)
            key = (question[1], run["hardware"]["device"], question[7], *pins)
            gpus = run["hardware"]["gpus"]
            if key not in found or gpus < found[key][0]:
                found[key] = (gpus, question, pins, run["id"])
    return [case[1:] for case in found.values()]


def ask(program, words):
    """The answer as JSON; nothing where the question has none, and then the line that says why."""
    done = subprocess.run([program, "plan", *words, "--json"], capture_output=True, text=True,
                          check=False)
    if not done.stdout.startswith("{"):
        return None, (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    answer = json.loads(done.stdout)
    return (answer, "") if answer["feasible"] else (None, "does not fit")


def family_of_row(row):
    return row["zero_stage"], frozenset(row["tiers"]), row["tensor"], row["pipeline"]


def family_of_plan(plan):
    """The same of a plan; precision is the software's."""
    cut = plan["parallel"]
    tiers = frozenset(["gpu", *plan["placement"].values()])
    return plan["zero_stage"], tiers, cut["tp"] > 1, cut["pp"] > 1


def is_in_space(pinned, answer):
    """Whether the answer speaks of plans with such context parallelism and schedules."""
    cut, left_out = pinned["plan"]["parallel"], " ".join(answer["search"]["left_out"])
    if "schedules" in left_out and cut["schedule"] != "1f1b":
        return False
    return "context" not in left_out or cut.get("cp", 1) <= (2 if "above 2" in left_out else 1)


def is_contradicted(row, step):
    """By a plan of the family that fits and takes `step` seconds."""
    if row["infeasible"] is not None:
        return True
    return row["step_s"] is None and step < row["bound_s"] * (1 - TOLERANCE)


def measured_steps(answer):
    """Of the plans that the answer names of measured software, in seconds."""
    lines = [line["step_s"] for line in answer["software"] if line["plan"] is not None]
    fastest = [answer["fastest"]["step_s"]] if answer.get("fastest") else []
    return [answer["time"]["step_s"], *lines, *fastest]


def verdict_of(answer, pinned):
    """Outcome and words about it."""
    named = min(measured_steps(answer))
    step = pinned["time"]["step_s"]
    words = (f"{step:.4g} s against {named:.4g} s, gap {100 * answer['search']['gap']:.1f} %,"
             f" {pinned['software'][0]['title']} and {answer['software'][0]['title']}")
    if step < named * (1 - answer["search"]["gap"] - TOLERANCE):
        return "beats", words
    same = pinned["software"][0]["software"] == answer["software"][0]["software"]
    family = family_of_plan(pinned["plan"])
    rows = [row for row in answer["rejected"]
            if row["state"] == "rejected" and family_of_row(row) == family]
    if same and is_in_space(pinned, answer) and any(is_contradicted(row, step) for row in rows):
        return "contradicts", words
    return "ok", words


def row_of(program, known, question, pins, run):
    key = " ".join(question)
    if key not in known:
        known[key] = ask(program, question)
    answer, why = known[key]
    row = {"run": run, "question": key, "pins": " ".join(pins)}
    if answer is None:
        return {**row, "outcome": "no answer", "words": why}
    pinned, why = ask(program, [*question, *pins])
    if pinned is None:
        return {**row, "outcome": "no plan", "words": why}
    outcome, words = verdict_of(answer, pinned)
    return {**row, "outcome": outcome, "words": words}


def options_of():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--first", type=int, help="only the first N layouts")
    return parser.parse_args()


def main():
    options = options_of()
    known, rows = {}, []
    for question, pins, run in cases()[:options.first]:
        row = row_of(options.program, known, question, pins, run)
        rows.append(row)
        print(f"{row['outcome']:<12} {row['run']}: {row['question']} | {row['pins']}\n"
              f"{'':13}{row['words']}", flush=True)
    counts = collections.Counter(row["outcome"] for row in rows)
    print(f"{len(rows)} layouts: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
    if options.report:
        write_report(__file__, rows, {"tolerance": TOLERANCE, "outcomes": dict(counts)})
    return 1 if counts["beats"] or counts["contradicts"] else 0


if __name__ == "__main__":
    sys.exit(main())
