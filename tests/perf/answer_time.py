"""How long zplan takes to answer, against its goals. Prints a table; asserts nothing.

  tests/perf/answer_time.py [--report] [RUNS]

RUNS (default 7) counted runs of each question, after one that is not counted; wall-clock seconds of
the whole process, on a warm build. --report also writes reports/answer_time.json.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, machine, write_report  # noqa: E402

# Question, goal in seconds on two cores.
GOALS = [
    (["--model", "1T", "--cluster", "dgx2x32"], 2.0),
    (["--model", "1T", "--cluster", "dgx2"], 2.0),
    (["--model", "175B", "--cluster", "dgx-a100x16"], 2.0),
    (["--model", "10B", "--cluster", "dgx2"], 2.0),
    (["--model", "gpt2", "--cluster", "dgx2"], 2.0),
    (["--model", "tiny", "--cluster", "workstation"], 2.0),
    (["--version"], 0.05),  # what the launcher adds
]


def ask(arguments):
    start = time.perf_counter()
    done = subprocess.run([str(ROOT / "zplan"), *arguments], capture_output=True, text=True)
    return time.perf_counter() - start, done.stdout


def measure(arguments, goal, runs):
    ask(arguments)
    times = sorted(ask(arguments)[0] for _ in range(runs))
    entry = {
        "command": "./zplan " + " ".join(arguments),
        "goal_s": goal,
        "min_s": round(times[0], 4),
        "median_s": round(statistics.median(times), 4),
        "max_s": round(times[-1], 4),
        "runs": runs,
    }
    if "--model" in arguments:
        answer = json.loads(ask([*arguments, "--json"])[1])
        entry["feasible"] = answer["feasible"]
        entry["search"] = answer["search"]
        entry["fingerprint"] = answer.get("fingerprint")
    return entry


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("runs", nargs="?", type=int, default=7)
    options = parser.parse_args()
    entries = []
    print(f"{'question':44} {'min':>7} {'median':>7} {'max':>7} {'goal':>6}")
    for arguments, goal in GOALS:
        entry = measure(arguments, goal, options.runs)
        entries.append(entry)
        over = entry["median_s"] - goal
        print(
            f"{' '.join(arguments):44} {entry['min_s']:7.3f} {entry['median_s']:7.3f}"
            f" {entry['max_s']:7.3f} {goal:6.2f}  {'met' if over <= 0 else f'missed by {over:.3f} s'}"
        )
    if options.report:
        write_report(__file__, entries, machine())


if __name__ == "__main__":
    main()
