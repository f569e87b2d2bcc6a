#!/usr/bin/env python3
"""How far collectives are from measured tables, row by row; with --report also as a report.

  tests/golden/collectives.py [--report] [--test PATH]

Runs tests/golden/collective_tables_test.cpp, whose rows these are. --report also writes
reports/collectives.json and reports/collectives.md.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, write_report  # noqa: E402

MEDIAN_GOAL, TAIL_GOAL = 0.10, 0.25
LAUNCHES = ("The measured times are of whole programs, with their launches, which the predictions leave out: the smaller "
            "the transfer, the larger this part of its time.")
CLASSES = ("64K-1M", "1M-64M", "64M-32G")
KINDS = {
    "formula": ("Constants of the device's family, without its measured times",
                "The constants come from the same tables, so this tests the form alone."),
    "interpolated": ("Every second measured size left out, predicted from the others",
                     "This is what a device with a table gets between the sizes of the table."),
    "no table": ("As for a device whose family was never measured",
                 "The constants lie between those of the two other families whose links are nearest, at the rate of "
                 "the link; of PCIe there is one other family."),
    "unseen": ("Tables of others that gave no constant, on clusters of the catalogue",
               "The forms over nodes were chosen with these tables in sight. No constant comes from a time that "
               "their pages print; what one of them states of network cards (gcp-a4-highgpu) is used. Of pages that "
               "asked for one algorithm the sizes count at which it is chosen. " + LAUNCHES),
    "informed": ("Tables of others whose pages gave a constant",
                 "These pages also print the small transfer that a start of the catalogue comes from: 8 B for "
                 "`transport` of aws-p5, 256 B for `collective_inter` of gcp-a3-megagpu, 1 KiB for that of "
                 "gcp-a3-ultragpu. None of them is among these rows. The 64 MiB of gcp_a3_ultra, which gave the rate of "
                 "LL128 over networks, are. The forms were chosen with these tables in sight, too. " + LAUNCHES),
}


def rows_of(test):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "out.json"
        subprocess.run([test, "--gtest_filter=CollectiveTables.*", f"--gtest_output=json:{path}"],
                       stdout=subprocess.DEVNULL, check=False)
        suites = json.loads(path.read_text(encoding="utf-8"))["testsuites"]
    for case in (case for suite in suites for case in suite["testsuite"]):
        for row, figures in case.items():
            if row.count("/") != 3:
                continue
            what, of, kind, size = row.split("/")
            median, tail, sizes = figures.split()
            yield {"what": what, "of": of, "collective": kind, "sizes": size, "median": float(median),
                   "p90": float(tail), "points": int(sizes),
                   "met": float(median) <= MEDIAN_GOAL and float(tail) <= TAIL_GOAL}


def table(rows):
    yield "| of | collective | " + " | ".join(f"{size}: median, p90" for size in CLASSES) + " |"
    yield "|---|---" + "|---" * len(CLASSES) + "|"
    named = {}
    for row in rows:
        mark = "" if row["met"] else " *"
        named.setdefault((row["of"], row["collective"]), {})[row["sizes"]] = \
            f"{100 * row['median']:.1f} %, {100 * row['p90']:.1f} %{mark}"
    for (of, kind), by_size in named.items():
        yield f"| {of} | {kind} | " + " | ".join(by_size.get(size, "") for size in CLASSES) + " |"


def markdown(report):
    rows = report["results"]
    lines = ["# Collectives against measured tables", "", f"command: `{report['made_by']}`  ",
             f"sources: `{report['source_hash']}`", "",
             f"|predicted / measured - 1|, median and 90th percentile. Goal: {100 * MEDIAN_GOAL:.0f} % and "
             f"{100 * TAIL_GOAL:.0f} %; * marks what misses it."]
    for what, (title, note) in KINDS.items():
        mine = [row for row in rows if row["what"] == what]
        met = sum(row["met"] for row in mine)
        lines += ["", f"## {title}", "", note, "", f"{met} of {len(mine)} rows meet the goal.", "", *table(mine)]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--test", default=str(ROOT / "build" / "tests" / "bin" / "test_golden_collectives"))
    options = parser.parse_args()
    rows = list(rows_of(options.test))
    if not rows:
        sys.exit(f"{options.test}: expected rows of CollectiveTables, got none")
    if not options.report:
        print(markdown({"results": rows, "made_by": "tests/golden/collectives.py", "source_hash": "-"}), end="")
        return
    write_report(__file__, rows, {"goal": {"median": MEDIAN_GOAL, "p90": TAIL_GOAL}})
    path = ROOT / "reports" / "collectives.json"
    path.with_suffix(".md").write_text(markdown(json.loads(path.read_text(encoding="utf-8"))), encoding="utf-8")


main()
