#!/usr/bin/env python3
"""How many published config.json files the program reads, and whether it counts them right.

  tests/golden/published_configs.py [--program PATH] [--type MODEL_TYPE ..] [--kind KIND ..]
                                     [--report FILE]

Runs `zplan models FILE --json` over each file of tests/data/published_configs and compares the
parameters with those of its index (tests/frameworks/count_published.py says what they are). A file
counts as exact when the number is that of the whole model, or that of its language model where it
has encoders, with the correction of the router's choice in both cases. Exit code 1 where a number
differs: a refused file is no error. The report has a line for each file: what was found, the count
and what a refusal says.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "data" / "published_configs"
EXACT, TEXT, WRONG, UNCOUNTED, REFUSED = "exact", "text", "differs", "uncounted", "refused"
ORDER = (EXACT, TEXT, WRONG, UNCOUNTED, REFUSED)
TOLD = {EXACT: "exact", TEXT: "exact of the language model", WRONG: "differ",
        UNCOUNTED: "read, no number to compare", REFUSED: "refused"}  # fmt: skip


def index():
    with open(FOLDER / "index.jsonl", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read(program, row):
    """Of a file: the count, or None and what was said."""
    command = [program, "models", str(FOLDER / row["file"]), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return json.loads(done.stdout)["models"][0]["parameters"], ""
    told = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    told = told.split(row["file"], 1)[-1].lstrip(":0123456789 ")
    return None, re.sub(r"expected one of .*, got", "not among those that are read:", told)


def judged(row, count):
    if count is None:
        return REFUSED
    biases = row.get("router_bias", 0)
    for key, found in (("parameters", EXACT), ("text_parameters", TEXT)):
        if row.get(key) is not None and count == row[key] + biases:
            return found
    return WRONG if row.get("parameters") else UNCOUNTED


def show(kind, results):
    told = collections.Counter(result for _, result, _, _ in results)
    print(f"{kind}: " + ", ".join(f"{told[one]} {TOLD[one]}" for one in ORDER if told[one]))
    refusals = collections.defaultdict(list)
    for row, result, count, message in results:
        if result == REFUSED:
            refusals[message].append(row["file"])
        if result == WRONG:
            wanted = row.get("text_parameters") or row["parameters"]
            wanted += row.get("router_bias", 0)
            print(f"  {row['file']}: {count}, published {wanted} ({count - wanted:+d})")
    for message, files in refusals.items():
        print(f"  {', '.join(files)}: {message}")


def write_report(path, groups):
    rows = [(row, *rest) for group in groups.values() for row, *rest in group]
    with open(path, "w", encoding="utf-8") as file:
        for row, result, count, message in sorted(rows, key=lambda one: one[0]["file"].lower()):
            wanted = row["parameters"] and row["parameters"] + row.get("router_bias", 0)
            line = {"file": row["file"], "model_type": row["model_type"], "kind": row["kind"],
                    "result": result, "read": count, "published": wanted}  # fmt: skip
            file.write(json.dumps(line | ({"refusal": message} if message else {})) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--type", nargs="*", dest="types")
    parser.add_argument("--kind", nargs="*", dest="kinds")
    parser.add_argument("--report", metavar="FILE")
    arguments = parser.parse_args()
    groups = collections.defaultdict(list)
    for row in index():
        if arguments.types and row["model_type"] not in arguments.types:
            continue
        if arguments.kinds and row["kind"] not in arguments.kinds:
            continue
        count, message = read(arguments.program, row)
        groups[row["model_type"]].append((row, judged(row, count), count, message))
    for kind in sorted(groups):
        show(kind, groups[kind])
    if arguments.report:
        write_report(arguments.report, groups)
    results = [result for group in groups.values() for _, result, _, _ in group]
    told = collections.Counter(results)
    print(f"of {len(results)} files of {len(groups)} model types: "
          + ", ".join(f"{told[one]} {TOLD[one]}" for one in ORDER))  # fmt: skip
    return 1 if told[WRONG] else 0


if __name__ == "__main__":
    sys.exit(main())
