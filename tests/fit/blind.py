#!/usr/bin/env python3
"""How well runs are foretold by what was learnt from other groups alone.

  tests/fit/blind.py [--program build/tests/bin/zplan_fit]

For each group of tests/data/published_runs.jsonl: fits all constants of tests/fit/constants.json to
the other groups, leaves those that nothing else determines at what is usual for them, and predicts
the group. Writes reports/blind.json. Takes about ten minutes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, write_report  # noqa: E402

RUNS = ROOT / "tests" / "data" / "published_runs.jsonl"
CONSTANTS = ROOT / "tests" / "fit" / "constants.json"
# Fewer runs of each group and fewer rounds than the fit itself takes: its answer moves by less than
# the errors printed here.
FIT = ["--most", "40", "--rounds", "12"]
ERROR = re.compile(r"^(?P<group>\S+) +(?P<n>\d+) runs +mean +(?P<mean>\S+) % +bias +(?P<bias>\S+) %")


def blind(program, group):
    """Errors of the group, or None where none of its runs can be expressed."""
    command = [program, str(RUNS), str(CONSTANTS), *FIT, "--leave-out", group]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        found = ERROR.match(line)
        if found and found["group"] == group:
            return {"n": int(found["n"]), "mape_pct": float(found["mean"]), "bias_pct": float(found["bias"])}
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "tests" / "bin" / "zplan_fit"))
    arguments = parser.parse_args()
    with RUNS.open(encoding="utf-8") as lines:
        names = sorted({json.loads(line)["group"] for line in lines})
    groups = {}
    for name in names:
        errors = blind(arguments.program, name)
        print(name, errors, flush=True)
        if errors:
            groups[name] = errors
    mean = sum(errors["mape_pct"] for errors in groups.values()) / len(groups)
    write_report(__file__, {"groups": groups, "mean_group_mape_pct": round(mean, 2), "goal_pct": 13}, {})


if __name__ == "__main__":
    main()
