"""Writes hwprofiles/measured/own.json: what was measured of zplan's own runs, by kind of device.

  tests/golden/own_measured.py           from reports/own_runs.json, plan_runs.json and gpu_*.json
  tests/golden/own_measured.py --check   exit code 1 where the file is another one

A row is the runs of one report: how many they are, on which device, in which format and with which
features (planner/certainty/kind.h), and how far from its prediction a run is.
"""

import argparse
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = ROOT / "hwprofiles" / "measured" / "own.json"
QUANTILE, SHARE = 1.2816, 0.8  # 80 % of a normal distribution lie within so many deviations

# A GPU as its driver names it, and as the catalogue does.
CATALOGUE = {"NVIDIA H100 80GB HBM3": "H100-SXM5-80GB", "NVIDIA H200": "H200-SXM-141GB"}


def read(name):
    return json.loads((ROOT / "reports" / name).read_text(encoding="utf-8"))


def options_of(plan):
    """Option -> value of a plan's words, "--dp 2 --sp" say."""
    found = {}
    for word in plan.split():
        if word.startswith("--"):
            option = word
            found[option] = ""
        else:
            found[option] = word
    return found


def features_of(plan):
    """As kind_of names them (planner/certainty/kind.cpp)."""
    options = options_of(plan)
    homes = {options.get(f"--{state}") for state in ("params", "grads", "optimizer")}
    features = {
        "tensor parallelism": int(options.get("--tp", 1)) > 1,
        "sequence parallelism": "--sp" in options,
        "a pipeline": int(options.get("--pp", 1)) > 1,
        "data parallelism": int(options.get("--dp", 1)) > 1,
        "recomputation": options.get("--recompute", "none") != "none",
        "states on the CPU": "cpu" in homes,
        "states on drives": "nvme" in homes,
        **{f"ZeRO {n}": options.get("--zero") == str(n) for n in (1, 2, 3)},
    }
    return {name for name, has in features.items() if has}


def ranks_of(plan):
    options = options_of(plan)
    return math.prod(int(options.get(axis, 1)) for axis in ("--dp", "--tp", "--pp"))


def row(devices, form, plans, errors):
    """`errors`: logarithms of measured over predicted."""
    sizes = sorted(map(abs, errors))
    return {
        "name": "own",
        "runs": len(errors),
        "run_sd": round(sizes[math.ceil(SHARE * len(sizes)) - 1] / QUANTILE, 3),
        "most_devices": max(map(ranks_of, plans)),
        "devices": devices,
        "formats": [form],
        "features": sorted(set().union(*map(features_of, plans))),
        "fitted": [],
        "correlation": [],
    }


def row_of_plans(report):
    gpu = report["gpu"].split(",")[0]
    runs = report["results"]
    return row([CATALOGUE[gpu], gpu], "bf16", [run["plan"] for run in runs],
               [math.log(run["measured_s"] / run["predicted_catalogue_s"]) for run in runs])


def row_of_step(report):
    """The one model that tests/gpu/run trains, beside its prediction."""
    found = [each for each in report["rows"] if each["name"].endswith("beside its prediction")
             and each["part"] == "step-speed"]
    return row([CATALOGUE[report["device"]], report["device"]], "bf16", [""],
               [math.log1p(each["figure"]) for each in found])


def row_of_cores(report):
    runs = report["results"]
    return row([report["machine"]["processor"]], "fp32", [run["plan"] for run in runs],
               [math.log(run["measured_s"] / run["predicted_s"]) for run in runs])


def text():
    rows = [row_of_plans(read("plan_runs.json")), row_of_step(read("gpu_nvidia_h200.json")),
            row_of_cores(read("own_runs.json"))]
    return json.dumps({"schema": "zplan.measured/1", "stacks": rows, "best": []}, indent=2) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        FILE.write_text(text(), encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text():
        sys.exit(f"{FILE.relative_to(ROOT)} is not what the reports say: run tests/golden/own_measured.py")


if __name__ == "__main__":
    main()
