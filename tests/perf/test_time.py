#!/usr/bin/env python3
"""CPU seconds of each test of tests/run, and the deliberate faults that it alone notices.

  tests/perf/test_time.py                  runs them one after the other; Markdown on stdout
  --only REGEX     those whose name it matches
  --build FOLDER   of the tests preset [build/tests]
  --keep FILE      writes the seconds there, as JSON
  --before FILE    puts the seconds of such a file into a column of their own

CPU time is user and system time of the test and of all its children, so that a machine that does
other things, too, tells nearly the same. A fault of tests/mutation/faults counts for a test whose
entry names no other; faults of shards are those of their test.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LEFT_OUT = "all"  # the label of what only tests/run --all runs


def tests_of(build):
    shown = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                           capture_output=True, text=True).stdout
    for test in json.loads(shown)["tests"]:
        properties = {each["name"]: each["value"] for each in test["properties"]}
        if LEFT_OUT not in properties.get("LABELS", []) and "command" in test:
            yield test["name"], test["command"], properties


def seconds_of(command, properties):
    """CPU and wall time, and whether it passed or was skipped."""
    more = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
    begin = time.monotonic()
    child = subprocess.Popen(command, cwd=properties["WORKING_DIRECTORY"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                             env={**os.environ, **more})
    _, status, used = os.wait4(child.pid, 0)
    code = os.waitstatus_to_exitcode(status)
    is_good = code in (0, properties.get("SKIP_RETURN_CODE", 0))
    return used.ru_utime + used.ru_stime, time.monotonic() - begin, is_good


def lone_killers():
    """How many faults each test notices alone, by the name of its program or script."""
    count = collections.Counter()
    for path in (ROOT / "tests/mutation/faults").glob("*.toml"):
        for fault in tomllib.loads(path.read_text())["fault"]:
            killers = {test.split()[0] for test in fault["tests"]}
            if len(killers) == 1:
                count[killers.pop()] += 1
    return count


def faults_of(name, command, killers):
    scripts = [str(pathlib.Path(word).resolve().relative_to(ROOT / "tests"))
               for word in command if word.endswith(".py") and word.startswith(str(ROOT / "tests"))]
    return sum(killers[each] for each in {re.sub(r"_\d+$", "", name), *scripts})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    parser.add_argument("--build", default=str(ROOT / "build/tests"))
    parser.add_argument("--keep")
    parser.add_argument("--before")
    options = parser.parse_args()
    before = json.loads(pathlib.Path(options.before).read_text()) if options.before else {}
    killers, rows, seconds = lone_killers(), [], {}
    for name, command, properties in tests_of(options.build):
        if not re.search(options.only, name):
            continue
        cpu, wall, is_good = seconds_of(command, properties)
        seconds[name] = cpu
        print(f"{name}: {cpu:.1f} s{'' if is_good else ', FAILED'}", file=sys.stderr)
        shown = name if is_good else f"{name} (failed)"
        rows.append((cpu, wall, shown, before.get(name), faults_of(name, command, killers)))
    print("| test | CPU s before | CPU s | s | faults that only it notices |\n|---|---|---|---|---|")
    for cpu, wall, name, old, faults in sorted(rows, reverse=True):
        print(f"| {name} | {'' if old is None else f'{old:.1f}'} | {cpu:.1f} | {wall:.1f} | {faults} |")
    if options.keep:
        pathlib.Path(options.keep).write_text(json.dumps(seconds, indent=1) + "\n")


if __name__ == "__main__":
    main()
