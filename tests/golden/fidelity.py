#!/usr/bin/env python3
"""Step times and memory of published runs against predictions, group by group.

  tests/golden/fidelity.py [--report] [--program PATH]

Runs `./zplan validate tests/data/published_runs.jsonl`. --report also writes reports/fidelity.json
and reports/fidelity.md, which tests/cli/fidelity_test.py holds later versions to; what is foretold
without a fit stands first there, from reports/blind.json (tests/fit/blind.py --report, before).
"""

import hashlib
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, report_options, write_report  # noqa: E402

RUNS = ROOT / "tests" / "data" / "published_runs.jsonl"
STACKS = ROOT / "hwprofiles" / "stacks"
BLIND = ROOT / "reports" / "blind.json"
# Mean absolute errors of step time in per cent that were aimed at.
GOALS = {
    "korthikanti22_t5": 3, "vtrain_multi": 7, "mosaic_v1": 4, "mosaic_v2": 5,
    "megatron2020": 4, "llmq": 5, "dgxc2502": 4, "nemo2407": 4, "mbridge": 4, "zero_fig4": 9,
    "zero_offload_f8": 9, "zero_offload_f10": 9, "zero_infinity": 7, "fuyou": 4,
}


def validate(program):
    command = [program, "validate", str(RUNS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr.strip())
    return json.loads(done.stdout)


def fitted_rates():
    """Every fitted rate of a stack: (stack, rate, value, uncertainty, fitted on)."""
    rows = []
    for path in sorted(STACKS.glob("*.json")):
        for name, entry in json.loads(path.read_text(encoding="utf-8"))["rates"].items():
            if entry["source"] == "fitted":
                rows.append((path.stem, name, entry["value"], entry["uncertainty"], entry["ref"]))
    return rows


def fitted_device_values():
    """Every fitted value of a node or device profile: (file, pointer, value)."""
    rows = []

    def walk(node, name, pointer):
        if isinstance(node, dict):
            if node.get("source") == "fitted" and "uncertainty" not in node:
                rows.append((name, pointer, node["value"]))
            for key, child in node.items():
                walk(child, name, f"{pointer}/{key}")
        elif isinstance(node, list):
            for i, child in enumerate(node):
                walk(child, name, f"{pointer}/{child.get('id', i) if isinstance(child, dict) else i}")

    folder = ROOT / "hwprofiles" / "catalogue"
    for path in sorted(folder.glob("*.json")) + sorted((folder / "hardware").glob("*.json")):
        walk(json.loads(path.read_text(encoding="utf-8")), path.stem, "")
    return rows


def memory_rows(answer):
    """Every run with a figure of memory, and those labelled out of memory."""
    return [row for row in answer["rows"]
            if row["predicted_gib"] is not None or (row["out_of_memory"] and row["fits"] is not None)]


def memory_markdown(answer):
    """What a GPU holds, row by row: expected, the bound that 95 % stay below, measured."""
    memory = answer["memory"]
    lines = ["", "## Memory", "",
             "In GiB of the GPU that was measured. Figures of a stack's memory rest on mechanisms "
             "(hwprofiles/stacks), some of them found in these very runs.", "",
             "| run | stack | expected | bound | measured | error % | within the bound |",
             "|---|---|---|---|---|---|---|"]
    for row in memory_rows(answer):
        if row["predicted_gib"] is None:
            lines.append(f"| {row['id']} | {row['stack']} | | | out of memory | | "
                         f"{'fits: wrong' if row['fits'] else 'does not fit: right'} |")
            continue
        error = 100 * (row["predicted_gib"] / row["measured_gib"] - 1)
        within = "yes" if row["measured_gib"] <= row["bound_gib"] else "no"
        lines.append(f"| {row['id']} | {row['stack']} | {row['predicted_gib']:.2f} | "
                     f"{row['bound_gib']:.2f} | {row['measured_gib']:.2f} | {error:+.1f} | {within} |")
    wrong = memory["false_ooms"]
    lines += ["", f"Median of the absolute errors {memory['median_ape_pct']:.1f} %, "
              f"{memory['bounded_pct']:.0f} % within the bound. Of the runs that ran {wrong} are "
              f"predicted not to fit; of those labelled out of memory {memory['false_fits']} to fit."]
    return lines


BLIND_SETS = {
    "other_runs": ("Runs that took part in no fit",
                   "Published runs of tests/data/blind_runs.jsonl, by software and clusters that users have. No "
                   "constant was fitted to them; which mechanisms the model has was decided with them in sight."),
    "software_left_out": ("Software left out of the fit",
                          "The runs of tests/data/published_runs.jsonl, predicted with the constants of their software "
                          "at what is usual for software that nobody measured."),
}


def blind_markdown(blind):
    """What is foretold without a fit, group by group, the largest errors first."""
    lines = []
    for name, (title, about) in BLIND_SETS.items():
        found = blind[name]
        lines += ["", f"## {title}", "", about, "",
                  f"{found['runs']} runs of {len(found['groups'])} groups: mean over groups "
                  f"{found['mean_group_mape_pct']:.1f} %, median {found['median_group_mape_pct']:.1f} %, bias "
                  f"{found['bias_pct']:+.1f} %; {found['within_interval_pct']:.0f} % of the runs lie within their 80 % "
                  "interval.", "",
                  "| group | software assumed | runs | mean | bias | in | +- |", "|---|---|---|---|---|---|---|"]
        rows = sorted(found["groups"].items(), key=lambda entry: -entry[1]["mape_pct"])
        lines += [f"| {group} | {', '.join(row['stacks'])} | {row['n']} | {row['mape_pct']:.1f} | "
                  f"{row['bias_pct']:+.1f} | {row['within_interval_pct']:.0f} | {row['half_width_pct']:.0f} |"
                  for group, row in rows]
    return lines


def markdown(answer, about):
    lines = ["# Predictions against published runs", ""]
    lines += [f"{key}: `{value}`  " for key, value in about.items()]
    lines += ["", "Errors of step time in per cent. First what is foretold of runs that no constant was fitted to, "
              "then how well the model describes those that its constants were fitted to. In: runs within the 80 % "
              "interval of their prediction; +-: half of that interval, the median."]
    lines += blind_markdown(json.loads(BLIND.read_text(encoding="utf-8"))["results"])
    lines += ["", "## Fitted runs", "",
              "The rates of the stacks were fitted to these very runs, but for those of interleaved pipelines: "
              "this shows how well the model can describe them, not how well it foretells.", "",
              "| group | runs | mean | median | p90 | bias | goal, mean | met | in | +- |",
              "|---|---|---|---|---|---|---|---|---|---|"]

    def row(name, time, goal):
        met = "" if goal is None else "yes" if time["mape_pct"] <= goal else "no"
        cells = [f"{time[key]:.1f}" for key in ("mape_pct", "median_ape_pct", "p90_ape_pct", "bias_pct")]
        return f"| {name} | {time['n']} | " + " | ".join(cells) + f" | {goal or ''} | {met} | " \
               f"{time['in_interval_pct']:.0f} | {time['half_width_pct']:.1f} |"

    for name, group in answer["groups"].items():
        if group["time"]["n"]:
            lines.append(row(name, group["time"], GOALS.get(name)))
    lines.append(row("all runs", answer["time"], 6))
    lines += ["", f"Mean over groups {answer['mean_group_mape_pct']:.1f} % (goal 6.5). Of pairs of plans of "
              f"one sweep that differ by more than 10 %, {answer['time']['pairs_right_pct']:.1f} % of "
              f"{answer['time']['pairs']} are in the measured order."]
    lines += memory_markdown(answer) + ["", "## Not supported", ""]
    reasons = {}
    for entry in answer["unsupported"]:
        reasons.setdefault(entry["reason"], []).append(entry["id"])
    lines += [f"- {reason}: {len(ids)} runs" for reason, ids in sorted(reasons.items())]
    rates, values = fitted_rates(), fitted_device_values()
    lines += ["", f"## Fitted constants: {len(rates)} of stacks, {len(values)} of nodes and devices", "",
              "| stack | rate | value | relative uncertainty | fitted on |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(str(cell) for cell in entry) + " |" for entry in rates]
    lines += ["", "| profile | value of | |", "|---|---|---|"]
    lines += ["| " + " | ".join(str(cell) for cell in entry) + " |" for entry in values]
    return "\n".join(lines) + "\n"


def main():
    arguments = report_options(__doc__.splitlines()[0])
    answer = validate(arguments.program)
    groups = {
        name: {"n": group["time"]["n"], "mape_pct": round(group["time"]["mape_pct"], 2),
               "bias_pct": round(group["time"]["bias_pct"], 2), "goal_pct": GOALS.get(name),
               "in_interval_pct": round(group["time"]["in_interval_pct"], 1),
               "half_width_pct": round(group["time"]["half_width_pct"], 1)}
        for name, group in answer["groups"].items() if group["time"]["n"]
    }
    print(json.dumps(groups, indent=2))
    if not arguments.report:
        return
    about = {"runs_sha256": hashlib.sha256(RUNS.read_bytes()).hexdigest()[:16]}
    memory = {row["id"]: {key: row[key] for key in ("predicted_gib", "bound_gib", "measured_gib", "fits")}
              for row in memory_rows(answer)}
    results = {"groups": groups, "time": answer["time"], "memory": answer["memory"],
               "memory_runs": memory,
               "mean_group_mape_pct": answer["mean_group_mape_pct"],
               "unsupported": len(answer["unsupported"])}
    write_report(__file__, results, about)
    written = json.loads((ROOT / "reports" / "fidelity.json").read_text(encoding="utf-8"))
    header = {"command": "tests/golden/fidelity.py --report", "date": written["date"],
              "sources": written["source_hash"], **about}
    (ROOT / "reports" / "fidelity.md").write_text(markdown(answer, header), encoding="utf-8")
    print("wrote reports/fidelity.md")


if __name__ == "__main__":
    main()
