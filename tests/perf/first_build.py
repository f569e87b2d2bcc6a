"""What a fresh clone costs before its first answer. Prints a table; asserts nothing.

  tests/perf/first_build.py [--report]

Clones this project's last commit into a temporary folder and asks ./zplan the question of the README
there, with an empty compiler cache, so that all that answers need is built; the packages must be
installed. Takes minutes, on a machine that does nothing else. --report also writes
reports/first_build.json.
"""

import argparse
import collections
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, machine, write_report  # noqa: E402

QUESTION = ["--model", "1T", "--cluster", "dgx2x32"]
GOAL_WALL_S, GOAL_CPU_S = 200, 360
# An object of a target: "planner/cli/CMakeFiles/zplan_cli.dir/frame/options.cpp.o".
OBJECT = re.compile(r"(.*?)CMakeFiles/(\w+)\.dir/")


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def target_seconds(log):
    """Wall-clock seconds of the compilations of each target, side by side or not, of .ninja_log."""
    seconds = collections.Counter()
    for line in log.read_text(encoding="utf-8").splitlines()[1:]:
        start, end, _, output, _ = line.split("\t")
        found = OBJECT.match(output)
        if found:
            seconds[found.group(2)] += (int(end) - int(start)) / 1e3
    return {name: round(each, 1) for name, each in seconds.most_common()}


def measure(folder):
    clone = pathlib.Path(folder, "zplan")
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    cache = {"CCACHE_DISABLE": "1", "CCACHE_DIR": str(pathlib.Path(folder, "cache"))}
    before, start = cpu_seconds(), time.perf_counter()
    subprocess.run(["./zplan", *QUESTION], cwd=clone, env={**os.environ, **cache}, check=True,
                   stdout=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    return {
        "command": "./zplan " + " ".join(QUESTION),
        "wall_s": round(wall, 1),
        "cpu_s": round(cpu_seconds() - before, 1),
        "goal_wall_s": GOAL_WALL_S,
        "goal_cpu_s": GOAL_CPU_S,
        "compile_s_of_targets": target_seconds(clone / "build" / "release" / ".ninja_log"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        entry = measure(folder)
    for name, seconds in entry["compile_s_of_targets"].items():
        print(f"{name:24} {seconds:7.1f} s")
    print(f"wall clock {entry['wall_s']:.0f} s, goal {GOAL_WALL_S} s;"
          f" CPU time {entry['cpu_s']:.0f} s, goal {GOAL_CPU_S} s")
    if options.report:
        write_report(__file__, [entry], machine())


if __name__ == "__main__":
    main()
