#!/usr/bin/env python3
"""How well runs are foretold of software that took no part in a fit.

  tests/fit/blind.py [--programs build/tests/bin] [--report]

Of software after software of tests/data/published_runs.jsonl, with all that is kin of it
(tests/fit/constants.json), no run takes part: its constants stay at what is usual for them
(hwprofiles/stack.h). Its runs are then predicted, with an 80 % interval of each time, and once more
with one run of the group known. Beside it the errors of tests/data/blind_runs.jsonl, of which no run
took part in any fit. With --report, writes reports/blind.json. Takes about a minute.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, write_report  # noqa: E402

RUNS = ROOT / "tests" / "data" / "published_runs.jsonl"
OTHERS = ROOT / "tests" / "data" / "blind_runs.jsonl"
CONSTANTS = ROOT / "tests" / "fit" / "constants.json"


def validated(program, runs):
    """The rows of `zplan validate` that have a predicted and a measured time."""
    command = [program, "validate", str(runs), "--json"]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["rows"]
    return [row for row in rows if row.get("predicted_s") and row.get("measured_s")]


def families(stacks, kin):
    """Sets of stacks that are kin, in order of their first names."""
    sets = []
    for name in sorted(stacks):
        met = [family for family in sets if any(kin.get(a) == name or kin.get(name) == a for a in family)]
        sets = [family for family in sets if family not in met] + [{name}.union(*met)]
    return sorted(sets, key=min)


def without(program, folder, family):
    """The rows of a family's runs, predicted without them."""
    rows = folder / "rows.json"
    command = [program, str(RUNS), str(folder / "constants.json"), "--rounds", "1"]
    command += ["--leave-out", ",".join(sorted(family)), "--blind", str(rows)]
    subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(rows.read_text(encoding="utf-8"))


def constants_of(family):
    """What is free of these stacks alone: nothing else bears on their runs."""
    constants = json.loads(CONSTANTS.read_text(encoding="utf-8"))
    constants["free"] = {owner: rates for owner, rates in constants["free"].items() if owner in family}
    constants["kin"] = {a: b for a, b in constants["kin"].items() if a in family}
    return constants


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def summary(rows):
    """Of the runs of a group."""
    result = {
        "n": len(rows),
        "mape_pct": 100 * mean(abs(row["error"]) for row in rows),
        "bias_pct": 100 * mean(row["error"] for row in rows),
        "log_bias": mean(math.log1p(row["error"]) for row in rows),
        "within_interval_pct": 100 * mean(row["within"] for row in rows),
        "half_width_pct": 50 * statistics.median(row["high"] - row["low"] for row in rows),
        "stacks": sorted({row["stack"] for row in rows}),
    }
    anchored = [row["anchored_error"] for row in rows if row.get("anchored_error") is not None]
    if anchored:
        result["anchored_mape_pct"] = 100 * mean(anchored)
    return rounded(result)


def rounded(result):
    digits = {"log_bias": 3}
    return {key: round(value, digits.get(key, 1)) if isinstance(value, float) else value for key, value in result.items()}


def by_group(rows):
    groups = {}
    for row in rows:
        groups.setdefault(row["group"], []).append(row)
    return {name: summary(groups[name]) for name in sorted(groups)}


def over_groups(groups):
    """What is said of all groups together; each counts alike."""
    values = groups.values()
    of_ten = [group["within_interval_pct"] for group in values if group["n"] >= 10]
    runs = sum(group["n"] for group in values)
    return rounded(
        {
            "runs": runs,
            "mean_group_mape_pct": mean(group["mape_pct"] for group in values),
            "median_group_mape_pct": statistics.median(group["mape_pct"] for group in values),
            "bias_pct": mean(group["bias_pct"] for group in values),
            "between_groups_sd": statistics.pstdev([group["log_bias"] for group in values]) if len(values) > 1 else 0.0,
            "within_interval_pct": sum(group["n"] * group["within_interval_pct"] for group in values) / runs,
            "least_within_of_ten_pct": min(of_ten) if of_ten else 100.0,
        }
    )


def over_software(groups):
    """The mean of log errors over software, each of which counts alike: hwprofiles/stacks take what it leaves as `overall`."""
    of_software = {}
    for group in groups.values():
        of_software.setdefault(tuple(group["stacks"]), []).append(group["log_bias"])
    return round(mean(mean(errors) for errors in of_software.values()), 3)


def of_validated(row):
    """A row of `zplan validate` as the fit writes one."""
    return {
        **row,
        "error": row["error_pct"] / 100,
        "low": row["low_s"] / row["predicted_s"],
        "high": row["high_s"] / row["predicted_s"],
        "within": row["low_s"] <= row["measured_s"] <= row["high_s"],
    }


def left_out(programs):
    """Errors by group where the group's software took no part in the fit."""
    kin = json.loads(CONSTANTS.read_text(encoding="utf-8"))["kin"]
    stacks = {row["stack"] for row in validated(str(programs / "zplan"), RUNS)}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for family in families(stacks, kin):
            (folder / "constants.json").write_text(json.dumps(constants_of(family)), encoding="utf-8")
            rows += without(str(programs / "zplan_fit"), folder, family)
    return by_group(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, default=ROOT / "build" / "tests" / "bin")
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    results = {}
    sets = {"software_left_out": left_out(arguments.programs)}
    if OTHERS.exists():
        sets["other_runs"] = by_group(map(of_validated, validated(str(arguments.programs / "zplan"), OTHERS)))
    for name, groups in sets.items():
        results[name] = {**over_groups(groups), "software_log_bias": over_software(groups), "groups": groups}
        for group, errors in groups.items():
            print(f"{group:28}", errors)
        print(name, {key: value for key, value in results[name].items() if key != "groups"}, flush=True)
    if arguments.report:
        write_report(__file__, results, {})


if __name__ == "__main__":
    main()
