"""How long zplan takes to answer, against its goals. Prints a table; asserts nothing.

  tests/perf/answer_time.py [--report] [RUNS]

RUNS (default 7) counted runs of each question, after one that is not counted; wall-clock seconds of
the whole process, on a warm build. --report also writes reports/answer_time.json.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORT = ROOT / "reports" / "answer_time.json"

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


def git(*arguments):
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout


def tree_hash():
    """Of the tracked files without reports/."""
    return hashlib.sha256(git("ls-files", "-s", "--", ":!reports").encode()).hexdigest()[:16]


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


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
        report = {
            "schema": "zplan.report/1",
            "made_by": "tests/perf/answer_time.py --report",
            "date": datetime.date.today().isoformat(),
            "source_hash": tree_hash(),
            "processor": processor(),
            "cores": os.cpu_count(),
            "results": entries,
        }
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
        print(f"wrote {REPORT.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
