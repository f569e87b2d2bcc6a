#!/usr/bin/env python3
"""Which published runs of each software are predicted, on which devices, and how well.

  tests/golden/software_runs.py [--program build/tests/bin/zplan] [--write]

Predicts the runs of tests/data/published_runs.jsonl, on which the rates of some profiles were fitted,
and of tests/data/blind_runs.jsonl, on which none was, and groups them by profile and device. --write
writes hwprofiles/predicted/software.json, from which a question without --for gets its software;
without it the file is compared, and the exit code is 1 where it is stale. Takes about a minute.
"""

import argparse
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "hwprofiles" / "predicted" / "software.json"
FITTED = "published_runs.jsonl"
BLIND = "blind_runs.jsonl"
SHARE = 0.8  # of the runs that `within` speaks of


def rows(program, name):
    command = [program, "validate", str(ROOT / "tests" / "data" / name), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [row for row in json.loads(done.stdout)["rows"] if row["predicted_s"] and row["measured_s"]]


def within(errors):
    """The error that SHARE of the runs stay below, rounded up to a per cent."""
    ordered = sorted(errors)
    at = max(0, -(-len(ordered) * SHARE // 1) - 1)
    return -(-ordered[int(at)] * 100 // 1) / 100


def grouped(program):
    groups = {}
    for name in (FITTED, BLIND):
        for row in rows(program, name):
            kind = row["kind"]
            group = groups.setdefault((row["stack"], kind["device"]), {
                "errors": [], "fitted": 0, "most": 0, "parameters": 0, "formats": set(), "features": set()})
            group["errors"].append(abs(row["predicted_s"] / row["measured_s"] - 1))
            group["fitted"] += name == FITTED
            group["most"] = max(group["most"], kind["devices"])
            group["parameters"] = max(group["parameters"], kind["parameters"])
            group["formats"].add(kind["format"])
            group["features"].update(kind["features"])
    return groups


def text(groups):
    lines = []
    for (software, device), group in sorted(groups.items()):
        lines.append(json.dumps({
            "software": software, "device": device, "runs": len(group["errors"]),
            "fitted": group["fitted"], "most_devices": group["most"],
            "most_parameters": group["parameters"], "within": within(group["errors"]), "formats": sorted(group["formats"]),
            "features": sorted(group["features"])}))
    return '{\n  "schema": "zplan.software_runs/1",\n  "runs": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=str(ROOT / "build" / "tests" / "bin" / "zplan"))
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = text(grouped(options.program))
    if options.write:
        FILE.write_text(found, encoding="utf-8")
        return 0
    if FILE.read_text(encoding="utf-8") == found:
        return 0
    print(f"{FILE.relative_to(ROOT)} is stale: tests/golden/software_runs.py --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
