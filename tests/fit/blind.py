#!/usr/bin/env python3
"""How well runs are foretold by what was learnt from other groups alone.

  tests/fit/blind.py [--programs build/tests/bin]

For each group of tests/data/published_runs.jsonl: fits all constants of tests/fit/constants.json to
the other groups, leaves those that nothing else determines at what is usual for them, and predicts
the group. Stacks meet in a fit only where they are kin, so that those of other groups are left out.
Writes reports/blind.json. Takes about ten minutes.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, write_report  # noqa: E402

RUNS = ROOT / "tests" / "data" / "published_runs.jsonl"
CONSTANTS = ROOT / "tests" / "fit" / "constants.json"
# Fewer runs of each group and fewer rounds than the fit itself takes: its answer moves by less than
# the errors printed here.
FIT = ["--most", "40", "--rounds", "12"]
ERROR = re.compile(r"^(?P<group>\S+) +(?P<n>\d+) runs +mean +(?P<mean>\S+) % +bias +(?P<bias>\S+) %")


def stacks_of_groups(program):
    """The stacks that plan the runs of each group."""
    command = [program, "validate", str(RUNS), "--json"]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
    stacks = {}
    for row in rows:
        if row.get("predicted_s") and row.get("measured_s"):
            stacks.setdefault(row["group"], set()).add(row["stack"])
    return stacks


def related(names, kin):
    """These stacks, and all that are kin of them or of a common one."""
    found = set(names)
    while True:
        more = {a for pair in kin.items() if found & set(pair) for a in pair} - found
        if not more:
            return found
        found |= more


def blind(program, folder, group, stacks):
    """Errors of the group."""
    constants = json.loads(CONSTANTS.read_text(encoding="utf-8"))
    concerned = related(stacks[group], constants["kin"])
    known = {stack for names in stacks.values() for stack in names}
    constants["free"] = {
        owner: rates for owner, rates in constants["free"].items() if owner in concerned or owner not in known
    }
    constants["kin"] = {a: b for a, b in constants["kin"].items() if a in concerned}
    (folder / "constants.json").write_text(json.dumps(constants), encoding="utf-8")
    with RUNS.open(encoding="utf-8") as lines, (folder / "runs.jsonl").open("w", encoding="utf-8") as out:
        out.writelines(line for line in lines if stacks.get(json.loads(line)["group"], set()) & concerned)
    command = [program, str(folder / "runs.jsonl"), str(folder / "constants.json"), *FIT, "--leave-out", group]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = next(match for match in map(ERROR.match, done.stdout.splitlines()) if match and match["group"] == group)
    return {"n": int(found["n"]), "mape_pct": float(found["mean"]), "bias_pct": float(found["bias"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "tests" / "bin")
    arguments = parser.parse_args()
    stacks = stacks_of_groups(str(arguments.programs / "zplan"))
    groups = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(stacks):
            groups[name] = blind(str(arguments.programs / "zplan_fit"), pathlib.Path(folder), name, stacks)
            print(name, groups[name], flush=True)
    mean = sum(errors["mape_pct"] for errors in groups.values()) / len(groups)
    write_report(__file__, {"groups": groups, "mean_group_mape_pct": round(mean, 2), "goal_pct": 13}, {})


if __name__ == "__main__":
    main()
