"""How soon questions are answered, against their goals. Prints a table; asserts nothing.

  tests/perf/question_speed.py [--report] [--program PROGRAM] [--match WORDS]

Asks the questions of tests/data/questions.json, then commands that ask many searches or many
simulations. Of each: seconds until the first result, which is a line of the answer on stdout or
one that says on stderr what came of a part of the question; until the first line of progress;
until the end; and the CPU seconds of the process. Goals are wall-clock seconds on two cores and a
warm build. --match asks only commands that have these words. --report also writes
reports/question_speed.json.
"""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
from questions import questions  # noqa: E402
from report import ROOT, machine, write_report  # noqa: E402

GOAL_FIRST = 5.0
GOAL_ANSWER = 5.0  # of a documented question, to the end
# What a part of a longer question came to: `zplan: sweeping: 1 of 4: nodes=1: 16.9 s a step`.
PART_OF_RESULT = re.compile(r"^zplan: (sweeping: \d+ of \d+: |sizing: \S+: )")
# Commands that ask many searches or simulations, each with its goal to the end. Sweeps, sizes of
# models and numbers of nodes have none: their first result has.
LONG = (
    ("sweep --model 10B --cluster dgx2 --over nvme=1..64GB/s", None),
    ("sweep --model 10B --cluster dgx2 --over nvme=1..64GB/s --optimizer nvme --optimizer-near 0",
     None),
    ("sweep --model 10B --cluster dgx2 --over nodes=1..4", None),
    ("sweep --model gpt3-175b --cluster dgx-a100x16 --over nodes=8..32 --over batch=768..1536",
     None),
    ("sweep --model 1T --cluster dgx2x32 --over network=12.5..100GB/s", None),
    ("max --cluster dgx2", None),
    ("max --cluster dgx-h100x16", None),
    ("max --cluster dgx2x32", None),
    ("need --model 10B --tokens 300B --within 30d", None),
    ("need --model llama3-70b --tokens 300B --within 30d", None),
    ("plan --model 10B --cluster dgx2x4 --objective cheapest", GOAL_ANSWER),
    ("plan --model llama3-8b --cluster dgx-h100x4 --objective cheapest", GOAL_ANSWER),
    ("plan --model llama3-8b --cluster dgx-h100x4 --objective fewest-gpus", GOAL_ANSWER),
    ("plan --model llama3-8b --cluster dgx-h100 --objective longest-sequence", GOAL_ANSWER),
    ("plan --model llama3-8b --cluster dgx-h100 --objective most-headroom", GOAL_ANSWER),
    ("sensitivity --model 10B --cluster dgx2", GOAL_ANSWER),
    ("sensitivity --model 10B --cluster dgx2 --optimizer nvme", GOAL_ANSWER),
    ("sensitivity --model 10B --cluster dgx2 --optimizer nvme --check", None),
    ("what-if --model 10B --cluster dgx2 --set gpu.memory=80GiB", GOAL_ANSWER),
    ("what-if --model 1T --cluster dgx2 --set nvme=x2", GOAL_ANSWER),
    ("goodput --model llama3-70b --cluster dgx-h100x16 --tokens 300B", GOAL_ANSWER),
)


class FirstLines:
    """When the first result and the first line of progress came, and all that was written."""

    def __init__(self, process):
        self.begin = time.perf_counter()
        self.result = self.progress = None
        self.threads = [threading.Thread(target=self.read, args=(process.stdout, True)),
                        threading.Thread(target=self.read, args=(process.stderr, False))]
        for thread in self.threads:
            thread.start()

    def read(self, stream, is_answer):
        for line in stream:
            now = time.perf_counter() - self.begin
            if is_answer or PART_OF_RESULT.match(line):
                self.result = now if self.result is None else min(now, self.result)
            if not is_answer and self.progress is None:
                self.progress = now

    def join(self):
        for thread in self.threads:
            thread.join()


def measure(program, command):
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([program, *shlex.split(command)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, cwd=folder)
        first = FirstLines(process)
        first.join()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - first.begin
    return {"command": f"./zplan {command}", "exit": process.returncode,
            "first_result_s": rounded(first.result), "first_progress_s": rounded(first.progress),
            "wall_s": rounded(wall), "cpu_s": rounded(used.ru_utime + used.ru_stime)}


def rounded(seconds):
    return None if seconds is None else round(seconds, 2)


def asked():
    """Commands with their goals to the end."""
    documented = [(one["command"].removeprefix("zplan "), GOAL_ANSWER) for one in questions()]
    known = {command for command, _ in documented}
    return documented + [one for one in LONG if one[0] not in known]


def row_of(program, command, goal):
    row = {**measure(program, command), "goal_first_s": GOAL_FIRST, "goal_s": goal}
    # What is interrupted or refused says nothing on stdout.
    first = row["first_result_s"] if row["first_result_s"] is not None else row["wall_s"]
    row["met"] = first <= GOAL_FIRST and (goal is None or row["wall_s"] <= goal)
    return row


def seconds_word(seconds):
    return "-" if seconds is None else f"{seconds:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--match", default="")
    options = parser.parse_args()
    measure(options.program, "--version")  # builds it, if need be
    rows = []
    print(f"{'result':>7} {'progress':>8} {'all':>7} {'CPU':>7} {'goal':>5}")
    for command, goal in asked():
        if options.match not in command:
            continue
        row = row_of(options.program, command, goal)
        rows.append(row)
        print(f"{seconds_word(row['first_result_s']):>7} {seconds_word(row['first_progress_s']):>8}"
              f" {row['wall_s']:7.2f} {row['cpu_s']:7.2f} {seconds_word(goal):>5}"
              f"  {'' if row['met'] else 'MISSED '}{command}", flush=True)
    missed = [row for row in rows if not row["met"]]
    print(f"{len(rows)} questions, first result within {GOAL_FIRST:g} s and those with a goal"
          f" within it: {len(missed)} missed")
    if options.report:
        write_report(__file__, rows, machine())


if __name__ == "__main__":
    main()
