#!/usr/bin/env python3
"""Plans of one rank run by our own executor on a GPU, beside what is predicted for them.

  tests/gpu/plan_runs.py [--report] [--program PATH] [--profile FILE] [--steps N] [--only WORDS]
                         [--seconds S]

Each plan of MATRIX is trained, and the median of its steady steps stands beside two predictions:
that of the catalogue (--cluster dgx-h100, nothing measured here), and that of a profile that
`zplan calibrate --device cuda` makes of this GPU first, unless --profile gives one. The kernel
tables of the catalogue go with both. Takes about 5 minutes; --seconds ends it earlier, and what is
left out is said. --report also writes reports/plan_runs.json, reports/plan_runs.md and the profile.
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
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, machine, write_report_of_runs  # noqa: E402

CATALOGUE = "dgx-h100"
STEPS = 12
WARM_UP = 4  # of them
ONE = "--dp 1 --tp 1 --pp 1 --zero 0"

# Questions: a model, sequence, global batch, and plans of which the fastest is wanted.
MATRIX = {
    "gpt2-124m, 16 x 1024": ("gpt2-124m", 1024, 16, [
        "--micro-batch 16 --recompute none",
        "--micro-batch 16 --recompute none --launch graph",
        "--micro-batch 4 --recompute none",
        "--micro-batch 4 --recompute none --launch graph",
        "--micro-batch 16 --recompute full",
        "--micro-batch 16 --recompute none --optimizer cpu",
    ]),
    "gpt2-124m, 8 x 128": ("gpt2-124m", 128, 8, [
        "--micro-batch 8 --recompute none",
        "--micro-batch 8 --recompute none --launch graph",
        "--micro-batch 8 --recompute full",
    ]),
    "gpt2-355m, 8 x 1024": ("gpt2-355m", 1024, 8, [
        "--micro-batch 8 --recompute none",
        "--micro-batch 2 --recompute none",
        "--micro-batch 8 --recompute full",
    ]),
    "gpt2-1.5b, 8 x 1024": ("gpt2-1.5b", 1024, 8, [
        "--micro-batch 8 --recompute none",
        "--micro-batch 8 --recompute full",
    ]),
    "8 layers of llama3-8b, 2 x 4096": ("llama3-8b-8", 4096, 2, [
        "--micro-batch 2 --recompute none",
        "--micro-batch 1 --recompute none",
    ]),
}


class Runs:
    def __init__(self, options, folder):
        self.options = options
        self.folder = pathlib.Path(folder)
        path = ROOT / "models" / "catalogue" / "llama3-8b.json"
        cut = json.loads(path.read_text(encoding="utf-8"))
        cut |= {"name": "llama3-8b-8", "layers": 8, "aliases": []}
        self.write("llama3-8b-8.json", cut)

    def write(self, name, value):
        (self.folder / name).write_text(json.dumps(value), encoding="utf-8")

    def zplan(self, *arguments):
        done = subprocess.run([self.options.program, *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"zplan {' '.join(map(str, arguments))}\n{done.stderr.strip()}")
        return done.stdout

    def calibrate(self):
        """The profile of this GPU, and what was measured for it."""
        if self.options.profile:
            return pathlib.Path(self.options.profile).resolve(), None
        start = time.monotonic()
        measured = json.loads(self.zplan("calibrate", "--device", "cuda", "--json", "-o",
                                         "machine.json"))
        print(f"calibrated in {time.monotonic() - start:.0f} s", flush=True)
        return self.folder / "machine.json", measured

    def predicted(self, profile):
        plan = json.loads((self.folder / "plan.json").read_text(encoding="utf-8"))
        self.write("measured.json", plan | {"hardware": str(profile)})
        answer = json.loads(self.zplan("simulate", "measured.json", "--ignore-capacity", "--json"))
        return answer["time"]["step_s"]

    def plan(self, question, pins):
        model, sequence, batch, _ = MATRIX[question]
        file = f"./{model}.json" if (self.folder / f"{model}.json").exists() else model
        self.zplan("plan", "--model", file, "--cluster", CATALOGUE, *ONE.split(), "--seq", sequence,
                   "--global-batch", batch, *pins.split(), "-o", "plan.json")

    def run(self, question, pins, profile):
        self.plan(question, pins)
        ran = json.loads(self.zplan("run", "plan.json", "--json", "--steps", self.options.steps,
                                    "--threads-per-rank", os.cpu_count()))
        steps = [step["wall_s"] for step in ran["steps"][WARM_UP:]]
        return {
            "question": question,
            "plan": pins,
            "fingerprint": ran["fingerprint"],
            "measured_s": statistics.median(steps),
            "steps_s": steps,
            "predicted_catalogue_s": ran["predicted_step_s"],
            "predicted_calibrated_s": self.predicted(profile),
            "final_loss": ran["steps"][-1]["loss"],
        }


def error(row, which):
    return row[f"predicted_{which}_s"] / row["measured_s"] - 1


def summary_of(rows, which):
    """Of one of the two predictions."""
    errors = [error(row, which) for row in rows]
    losses = []
    for question in dict.fromkeys(row["question"] for row in rows):
        own = [row for row in rows if row["question"] == question]
        chosen = min(own, key=lambda row: row[f"predicted_{which}_s"])
        best = min(own, key=lambda row: row["measured_s"])
        losses.append(chosen["measured_s"] / best["measured_s"] - 1)
    return {
        "median_error": statistics.median(map(abs, errors)),
        "median_signed_error": statistics.median(errors),
        "greatest_error": max(map(abs, errors)),
        "losses_of_choice": losses,
    }


def percent(value):
    return f"{100 * value:+.1f} %"


def markdown(report):
    rows = report["results"]
    lines = [
        "# Plans on one GPU, predicted and measured", "",
        f"Made by `{report['made_by']}` on {report['date']}, sources {report['source_hash']}; "
        f"{report['gpu']}, {report['machine']['processor']}, {report['machine']['cores']} cores. "
        f"bf16 on one rank, `{ONE}`; steady steps, median of {report['steps']}.", ""]
    for which, words in (("catalogue", f"From `--cluster {CATALOGUE}`, nothing measured here"),
                         ("calibrated", "From the profile that `zplan calibrate` made of this GPU")):
        s = report["summary"][which]
        lines.append(
            f"- {words}: median error {100 * s['median_error']:.1f} % (signed "
            f"{percent(s['median_signed_error'])}), greatest {100 * s['greatest_error']:.1f} %; the "
            "plan predicted best is at most "
            f"{percent(max(s['losses_of_choice']))} slower than the best measured of its question")
    lines += ["", "| question | plan | measured | catalogue | error | calibrated | error |",
              "|---|---|---:|---:|---:|---:|---:|"]
    for row in rows:
        cells = [row["question"], f"`{row['plan']}`", f"{1e3 * row['measured_s']:.2f} ms"]
        for which in ("catalogue", "calibrated"):
            cells += [f"{1e3 * row[f'predicted_{which}_s']:.2f} ms", percent(error(row, which))]
        lines.append(f"| {' | '.join(cells)} |")
    if report["failed"]:
        lines += ["", "Without figures:", ""] + [f"- {one}" for one in report["failed"]]
    return "\n".join(lines) + "\n"


def gpu_name():
    words = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0] if done.returncode == 0 else "no GPU"


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "build" / "gpu" / "bin" / "zplan"))
    parser.add_argument("--profile", help="a calibrated profile in place of calibrating")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--only", default="", help="questions with these words in their name")
    options = parser.parse_args()
    options.program = str(pathlib.Path(options.program).resolve())
    return options


def main():
    options = read_options()
    rows, failed, start = [], [], time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, folder)
        profile, calibration = runs.calibrate()
        for question, (_, _, _, plans) in MATRIX.items():
            for pins in plans if options.only in question else []:
                if time.monotonic() - start > options.seconds:
                    failed.append(f"{question}, {pins}: left out, no time")
                    continue
                try:
                    row = runs.run(question, pins, profile)
                except RuntimeError as refused:
                    failed.append(f"{question}, {pins}: {refused}")
                    print(failed[-1], flush=True)
                    continue
                rows.append(row)
                print(f"{question:32} {1e3 * row['measured_s']:8.2f} ms, catalogue "
                      f"{percent(error(row, 'catalogue')):>9}, calibrated "
                      f"{percent(error(row, 'calibrated')):>9}  {pins}", flush=True)
        profile_text = profile.read_text(encoding="utf-8")
    summary = {which: summary_of(rows, which) for which in ("catalogue", "calibrated")}
    print(json.dumps(summary, indent=2))
    if not options.report:
        return
    about = {"gpu": gpu_name(), "machine": machine(), "steps": options.steps - WARM_UP,
             "failed": failed, "summary": summary, "calibration": calibration}
    write_report_of_runs(__file__, rows, about, markdown, profile_text)


if __name__ == "__main__":
    main()
