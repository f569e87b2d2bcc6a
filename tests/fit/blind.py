#!/usr/bin/env python3
"""How well runs are foretold by what was learnt from other groups alone.

  tests/fit/blind.py [--programs build/tests/bin]

For each group of tests/data/published_runs.jsonl: fits all constants of tests/fit/constants.json to
the other groups, leaves those that nothing else determines at what is usual for them, and predicts
the group, an 80 % interval of each time, and the times once one run of the group is known. Stacks meet in a fit only where they are kin, so that those of other groups are left out.
Writes reports/blind.json. Takes about ten minutes.
"""

import argparse
import json
import pathlib
import statistics
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
    rows = folder / "rows.json"
    command = [program, str(folder / "runs.jsonl"), str(folder / "constants.json"), *FIT, "--leave-out", group]
    subprocess.run([*command, "--blind", str(rows)], capture_output=True, text=True, check=True)
    return summary(json.loads(rows.read_text(encoding="utf-8")))


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def summary(rows):
    """Of the runs of a group."""
    result = {
        "n": len(rows),
        "mape_pct": 100 * mean(abs(row["error"]) for row in rows),
        "bias_pct": 100 * mean(row["error"] for row in rows),
        "known_stack": all(row["known_stack"] for row in rows),
        "within_interval_pct": 100 * mean(row["within"] for row in rows),
        "half_width_pct": 50 * statistics.median(row["high"] - row["low"] for row in rows),
    }
    if len(rows) > 1:
        result["anchored_mape_pct"] = 100 * mean(r["anchored_error"] for r in rows if r["anchored_error"] is not None)
    return {key: round(value, 1) if isinstance(value, float) else value for key, value in result.items()}


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
    of_known = [group["half_width_pct"] for group in groups.values() if group["known_stack"]]
    results = {
        "groups": groups,
        "mean_group_mape_pct": mean(group["mape_pct"] for group in groups.values()),
        "within_interval_pct": mean(group["within_interval_pct"] for group in groups.values()),
        "least_within_of_ten_pct": min(g["within_interval_pct"] for g in groups.values() if g["n"] >= 10),
        "half_width_of_known_stacks_pct": statistics.median(of_known),
        "anchored_mape_pct": mean(g["anchored_mape_pct"] for g in groups.values() if "anchored_mape_pct" in g),
    }
    results = {key: round(value, 1) if isinstance(value, float) else value for key, value in results.items()}
    print({key: value for key, value in results.items() if key != "groups"})
    write_report(__file__, results, {})


if __name__ == "__main__":
    main()
