"""Published step times against simulated ones, row by row, and where the simulated time goes.

  tests/golden/paper_runs.py [--report]

Simulates the plans of tests/data/paper_runs.json with ./zplan. --report also writes
reports/paper_runs.json. No constant is fitted to these rows.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, write_report  # noqa: E402

ROWS = ROOT / "tests" / "data" / "paper_runs.json"


def simulate(plan):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "plan.json"
        path.write_text(json.dumps(plan), encoding="utf-8")
        command = [str(ROOT / "zplan"), "simulate", str(path), "--stack", "deepspeed_infinity",
                   "--ignore-capacity", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr.strip())
    return json.loads(done.stdout)


def entry_of(row):
    answer = simulate(row["plan"])
    time = answer["time"]
    parts = {part["part"]: round(part["time_s"], 2) for part in time["split"]["parts"]}
    ratio = time["step_s"] / row["step_s"]
    compute = parts["compute"]
    return {
        "name": row["name"],
        "command": "./zplan simulate PLAN --stack deepspeed_infinity --ignore-capacity --json",
        "published_s": row["step_s"],
        "simulated_s": round(time["step_s"], 1),
        "error": round(ratio - 1, 3),
        "goal": row["goal"],
        "goal_met": abs(ratio - 1) <= row["goal"],
        "split_s": {name: seconds for name, seconds in parts.items() if seconds > 0},
        # Which term is off, if the compute is right: all the others, and what is left for them.
        "beside_compute_s": {
            "simulated": round(time["step_s"] - compute, 1),
            "published": round(row["step_s"] - compute, 1),
        },
        "limited_by": time["limited_by"],
        "fits": answer["feasible"],
        "fingerprint": answer["fingerprint"],
        "profile_hash": profile_hash(row["plan"]["hardware"]),
    }


def profile_hash(cluster):
    """Of the node's file: "dgx2x32" is 32 nodes of dgx2.json."""
    for path in sorted((ROOT / "hwprofiles").glob("*.json")):
        if cluster == path.stem or cluster.startswith(path.stem + "x"):
            return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    raise SystemExit(f"{cluster}: no such profile")


def show(entry):
    print(
        f"{entry['name']:16} {entry['published_s']:8.1f} {entry['simulated_s']:9.1f}"
        f" {entry['error']:+7.1%} {entry['goal']:5.0%}  {'met' if entry['goal_met'] else 'missed'}"
    )
    for name, seconds in entry["split_s"].items():
        print(f"    {seconds:10.1f} s  {seconds / entry['simulated_s']:4.0%}  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    data = json.loads(ROWS.read_text(encoding="utf-8"))
    entries = []
    print(f"{'row':16} {'paper s':>8} {'simulated':>9} {'error':>7} {'goal':>5}")
    for row in data["rows"]:
        entries.append(entry_of(row))
        show(entries[-1])
    if options.report:
        write_report(__file__, entries, {"published": data["source"]})


if __name__ == "__main__":
    main()
