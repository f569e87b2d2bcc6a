#!/usr/bin/env python3
"""Plans run by our own executor on this machine, beside what is predicted for them.

  tests/golden/own_runs.py [--report] [--program PATH] [--profile FILE] [--directory DIR]
                           [--steps N] [--only WORDS] [--busy-anyway]

Calibrates this machine (`zplan calibrate`, unless --profile gives one), then trains with each plan
of MATRIX and compares the median of its steady steps, its memory and the order of the plans with
what zplan said of them. Takes about 10 minutes with nothing else on the cores, and refuses to
measure while something else uses them, before each plan anew. --busy-anyway tries the script out:
what it measures then is marked and proves nothing. --report also writes reports/own_runs.json and
reports/own_runs.md.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, machine, write_report_of_runs  # noqa: E402

MINUTES = 10
STEPS = 7  # the first is left out
MOST_BUSY = 0.08  # of one core, by others, over a second [assumed] the system's own daemons

# layers, hidden, heads, ffn, vocabulary, sequence, global batch
MODELS = {
    "gpt-14m": (6, 384, 6, 1536, 8192, 128, 4),
    "gpt-30m": (8, 512, 8, 2048, 8192, 128, 4),
    "gpt-60m": (8, 704, 11, 2816, 16384, 64, 4),
    "gpt2-124m": (12, 768, 12, 3072, 50257, 64, 4),
}
LLAMAS = {"llama-20m": (6, 384, 6, 1024, 16384, 128, 4, 2)}  # and key-value heads

# Questions: a model, and plans of which the fastest is wanted.
ONE = "--dp 1 --tp 1 --pp 1 --zero 0"
MATRIX = {
    "gpt-14m on one rank": ("gpt-14m", [
        f"{ONE} --micro-batch 4 --recompute none",
        f"{ONE} --micro-batch 1 --recompute none",
        f"{ONE} --micro-batch 2 --recompute full",
        f"{ONE} --micro-batch 4 --recompute none --optimizer gpu",
        f"{ONE} --micro-batch 4 --recompute none --optimizer nvme",
        f"{ONE} --micro-batch 4 --recompute none threads=2",
    ]),
    "gpt-14m on two ranks": ("gpt-14m", [
        "--dp 2 --tp 1 --pp 1 --zero 0 --micro-batch 2 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 1 --micro-batch 2 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 2 --micro-batch 1 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 3 --micro-batch 2 --recompute none",
        "--dp 1 --tp 2 --pp 1 --zero 0 --micro-batch 4 --recompute none",
        "--dp 1 --tp 1 --pp 2 --zero 0 --micro-batch 1 --recompute none",
        "--dp 1 --tp 2 --pp 1 --zero 0 --micro-batch 2 --recompute full --sp",
    ]),
    "gpt-14m on four ranks": ("gpt-14m", [
        "--dp 4 --tp 1 --pp 1 --zero 1 --micro-batch 1 --recompute none",
        "--dp 4 --tp 1 --pp 1 --zero 3 --micro-batch 1 --recompute none",
        "--dp 2 --tp 1 --pp 2 --zero 1 --micro-batch 1 --recompute none",
        "--dp 1 --tp 1 --pp 3 --zero 0 --micro-batch 1 --recompute none",
    ]),
    "gpt-30m on one rank": ("gpt-30m", [
        f"{ONE} --micro-batch 4 --recompute none",
        f"{ONE} --micro-batch 2 --recompute full",
        f"{ONE} --micro-batch 4 --recompute none --optimizer gpu",
        f"{ONE} --micro-batch 2 --recompute none --optimizer nvme",
        f"{ONE} --micro-batch 4 --recompute none threads=2",
    ]),
    "gpt-30m on two ranks": ("gpt-30m", [
        "--dp 2 --tp 1 --pp 1 --zero 0 --micro-batch 2 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 2 --micro-batch 2 --recompute none --optimizer cpu",
        "--dp 2 --tp 1 --pp 1 --zero 3 --micro-batch 2 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 3 --micro-batch 2 --recompute none --params cpu --optimizer cpu",
        "--dp 2 --tp 1 --pp 1 --zero 3 --micro-batch 2 --recompute none --params nvme --optimizer nvme",
        "--dp 1 --tp 2 --pp 1 --zero 0 --micro-batch 4 --recompute none",
        "--dp 1 --tp 1 --pp 2 --zero 0 --micro-batch 1 --recompute none",
    ]),
    "gpt-30m on four ranks": ("gpt-30m", [
        "--dp 2 --tp 2 --pp 1 --zero 1 --micro-batch 2 --recompute none",
        "--dp 1 --tp 4 --pp 1 --zero 0 --micro-batch 4 --recompute none",
        "--dp 1 --tp 2 --pp 2 --zero 0 --micro-batch 2 --recompute full",
        "--dp 1 --tp 1 --pp 4 --zero 0 --micro-batch 1 --recompute none",
    ]),
    "gpt-60m": ("gpt-60m", [
        f"{ONE} --micro-batch 4 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 1 --micro-batch 2 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 3 --micro-batch 2 --recompute full",
        "--dp 1 --tp 1 --pp 2 --zero 0 --micro-batch 2 --recompute none",
    ]),
    "llama-20m": ("llama-20m", [
        f"{ONE} --micro-batch 4 --recompute none",
        "--dp 2 --tp 1 --pp 1 --zero 2 --micro-batch 2 --recompute none",
        "--dp 1 --tp 2 --pp 1 --zero 0 --micro-batch 4 --recompute none",
        "--dp 1 --tp 1 --pp 2 --zero 0 --micro-batch 1 --recompute full",
    ]),
    "gpt2-124m": ("gpt2-124m", [
        f"{ONE} --micro-batch 4 --recompute none",
        f"{ONE} --micro-batch 4 --recompute none threads=2",
        f"{ONE} --micro-batch 4 --recompute none --optimizer nvme",
        "--dp 2 --tp 1 --pp 1 --zero 2 --micro-batch 2 --recompute none",
        "--dp 1 --tp 2 --pp 1 --zero 0 --micro-batch 4 --recompute none",
    ]),
}


def busy_share():
    """Cores that others used over a second, and the processes that used most of it."""
    def ticks():
        used = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                text = stat.read_text()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:].rsplit(")", 1)
            fields = rest.split()
            used[stat.parent.name] = (name, int(fields[11]) + int(fields[12]))
        return used

    def total():
        numbers = [int(n) for n in open("/proc/stat", encoding="utf-8").readline().split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]  # all, idle and waiting for drives

    before, (all_before, idle_before) = ticks(), total()
    time.sleep(1)
    after, (all_after, idle_after) = ticks(), total()
    passed = max(1, all_after - all_before)
    cores = os.cpu_count() * (1 - (idle_after - idle_before) / passed)
    own = str(os.getpid())
    grown = sorted(((used - before.get(pid, (name, used))[1], name, pid)
                    for pid, (name, used) in after.items() if pid != own), reverse=True)
    return cores, [f"{name} ({pid})" for used, name, pid in grown[:3] if used > 0]


def wait_for_idle(options, patience_s=20):
    """Refuses to measure on busy cores; what a run before left behind may end first."""
    if options.busy_anyway:
        return
    for _ in range(patience_s):
        cores, who = busy_share()
        if cores <= MOST_BUSY:
            return
    sys.exit(f"{cores:.2f} cores are in use by {', '.join(who) or 'others'}: a time measured beside "
             "that proves nothing (--busy-anyway tries the script out)")


class Runs:
    def __init__(self, options, folder):
        self.options = options
        self.folder = pathlib.Path(folder)
        self.directory = options.directory or folder
        for name, sizes in itertools.chain(MODELS.items(), LLAMAS.items()):
            self.write_model(name, *sizes)

    def write_model(self, name, layers, hidden, heads, ffn, vocab, sequence, batch, kv_heads=None):
        model = {
            "schema": "zplan.model/1", "name": name, "layers": layers, "hidden": hidden,
            "heads": heads, "ffn": ffn, "vocab": vocab, "sequence": sequence,
            "global_batch": batch, "tied_embeddings": kv_heads is None,
            "source": "assumed: small enough to train on a CPU",
        }
        if kv_heads:
            model |= {"architecture": "llama", "kv_heads": kv_heads, "rope_theta": 10000,
                      "sources": {"rope_theta": "[Su21 sec 3.3]"}}
        (self.folder / f"{name}.json").write_text(json.dumps(model), encoding="utf-8")

    def zplan(self, *arguments):
        done = subprocess.run([self.options.program, *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"zplan {' '.join(map(str, arguments))}\n{done.stderr.strip()}")
        return done.stdout

    def calibrate(self):
        if self.options.profile:
            return pathlib.Path(self.options.profile).resolve()
        wait_for_idle(self.options)
        start = time.monotonic()
        print("calibrating ..", flush=True)
        self.zplan("calibrate", "--device", "cpu", "--nvme-dir", self.directory, "-o",
                   "machine.json")
        self.calibration_s = time.monotonic() - start
        print(f"calibrated in {self.calibration_s:.0f} s", flush=True)
        return self.folder / "machine.json"

    def run(self, question, model, pins, profile):
        words = pins.split()
        threads = next((w.split("=")[1] for w in words if w.startswith("threads=")), "1")
        words = [w for w in words if not w.startswith("threads=")]
        self.zplan("plan", "--model", f"./{model}.json", "--cluster", profile,
                   "--ignore-capacity", *words, "-o", "plan.json")
        nvme = ["--nvme-dir", self.directory] if "nvme" in words else []
        wait_for_idle(self.options)
        ran = json.loads(self.zplan("run", "plan.json", "--ignore-capacity", "--json", "--steps",
                                    self.options.steps, "--threads-per-rank", threads, *nvme))
        memory = ran["memory"]
        return {
            "question": question,
            "model": model,
            "plan": pins,
            "fingerprint": ran["fingerprint"],
            "predicted_s": ran["predicted_step_s"],
            "measured_s": ran["measured_step_s"],
            "error": ran["predicted_step_s"] / ran["measured_step_s"] - 1,
            "steps_s": [step["wall_s"] for step in ran["steps"][1:]],
            "slab_bytes": memory["slab_bytes"],
            "resident_bytes": memory["resident_bytes"],
            "locked_bytes": memory["locked_bytes"],
            "maps": memory["maps"],
            "beside_slabs_bytes": memory["beside_slabs_bytes"],
            "predicted_beside_slabs_bytes": memory["predicted_beside_slabs_bytes"],
            "split": ran["split"],
        }


def memory_off(row):
    """Bytes beyond what max(3 %, 32 MiB) allows; at most 0 where it holds."""
    off = abs(row["beside_slabs_bytes"] - row["predicted_beside_slabs_bytes"])
    return off - max(0.03 * row["beside_slabs_bytes"], 32 << 20)


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0] * len(values)
    for rank, i in enumerate(order):
        result[i] = rank
    return result


def correlation(rows):
    """Spearman's, of predicted and measured step times."""
    a, b = (ranks([row[key] for row in rows]) for key in ("predicted_s", "measured_s"))
    mean = (len(rows) - 1) / 2
    spread = sum((x - mean) ** 2 for x in a)
    return sum((x - mean) * (y - mean) for x, y in zip(a, b)) / spread if spread else 1.0


def question_summary(question, rows):
    chosen = min(rows, key=lambda row: row["predicted_s"])
    best = min(rows, key=lambda row: row["measured_s"])
    return {
        "question": question,
        "plans": len(rows),
        "best_predicted": chosen["plan"],
        "best_measured": best["plan"],
        "slower_than_best": chosen["measured_s"] / best["measured_s"] - 1,
        "rank_correlation": correlation(rows),
    }


def summary_of(rows):
    errors = [abs(row["error"]) for row in rows]
    questions = [question_summary(q, [r for r in rows if r["question"] == q])
                 for q in dict.fromkeys(row["question"] for row in rows)]
    return {
        "plans": len(rows),
        "median_error": statistics.median(errors),
        "greatest_error": max(errors),
        "median_signed_error": statistics.median(row["error"] for row in rows),
        "rank_correlation": correlation(rows),
        "greatest_loss_of_choice": max(q["slower_than_best"] for q in questions),
        "memory_within_bound": sum(memory_off(row) <= 0 for row in rows),
        "questions": questions,
    }


def percent(value):
    return f"{100 * value:+.1f} %"


def mib(value):
    return f"{value / (1 << 20):,.1f}"


def markdown(report):
    s, rows = report["summary"], report["results"]
    lines = ["# Our own executor, predicted and measured", ""]
    if report["busy_anyway"]:
        lines += ["**Measured while other programs may have used the cores: these figures prove "
                  "nothing.**", ""]
    lines += [
        f"Made by `{report['made_by']}` on {report['date']}, sources {report['source_hash']}; "
        f"{report['machine']['processor']}, {report['machine']['cores']} cores.",
        "",
        f"- {s['plans']} plans; median error of the step time {100 * s['median_error']:.1f} % "
        f"(signed {percent(s['median_signed_error'])}), greatest {100 * s['greatest_error']:.1f} %",
        f"- rank correlation of all plans {s['rank_correlation']:.3f}",
        f"- plans best by prediction are at most {percent(s['greatest_loss_of_choice'])} slower "
        "than the best measured",
        f"- process memory beside the slabs within max(3 %, 32 MiB): {s['memory_within_bound']} of "
        f"{s['plans']}",
        "",
        "| question | best by prediction | best measured | slower by | rank correlation |",
        "|---|---|---|---:|---:|",
    ]
    for q in s["questions"]:
        lines.append(f"| {q['question']} | `{q['best_predicted']}` | `{q['best_measured']}` | "
                     f"{percent(q['slower_than_best'])} | {q['rank_correlation']:.2f} |")
    lines += ["", "| model | plan | predicted | measured | error | slabs, MiB | beside, MiB | "
              "predicted, MiB |", "|---|---|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        lines.append(
            f"| {r['model']} | `{r['plan']}` | {1e3 * r['predicted_s']:.1f} ms | "
            f"{1e3 * r['measured_s']:.1f} ms | {percent(r['error'])} | {mib(r['slab_bytes'])} | "
            f"{mib(r['beside_slabs_bytes'])} | {mib(r['predicted_beside_slabs_bytes'])} |")
    return "\n".join(lines) + "\n"


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--profile", help="a calibrated profile in place of calibrating")
    parser.add_argument("--directory", help="folder on the drive to use")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--only", default="", help="questions with these words in their name")
    parser.add_argument("--busy-anyway", action="store_true")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    return options


def main():
    options = read_options()
    rows = []
    print(f"takes about {MINUTES} minutes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, folder)
        profile = runs.calibrate()
        for question, (model, plans) in MATRIX.items():
            if options.only not in question:
                continue
            for pins in plans:
                row = runs.run(question, model, pins, profile)
                rows.append(row)
                print(f"{model:10} {1e3 * row['predicted_s']:8.1f} {1e3 * row['measured_s']:8.1f} ms "
                      f"{percent(row['error']):>9}  {pins}", flush=True)
        profile_text = profile.read_text(encoding="utf-8")
    summary = summary_of(rows)
    print(json.dumps(summary, indent=2))
    if not options.report:
        return
    about = {"machine": machine(), "busy_anyway": options.busy_anyway, "summary": summary}
    write_report_of_runs(__file__, rows, about, markdown, profile_text)


if __name__ == "__main__":
    main()
