#!/usr/bin/env python3
"""Questions as a user asks them, each answered by one command: writes the page of their answers.

  tests/golden/questions.py [--report] [--program PATH]

Asks all of tests/data/questions.json, where each has its command and a pattern of the line that
answers it. --report also writes reports/questions.json and reports/questions.md. CPU seconds are
those of one run, for reading beside the goal; tests/cli/questions_test.py asserts the answers.
"""

import datetime
import json
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, machine, report_options, tree_hash, write_report  # noqa: E402

QUESTIONS = ROOT / "tests" / "data" / "questions.json"
GOAL_S = 5.0
# Of an answer the page shows its first lines, the line that answers the question with those around
# it, and `..` for what is left out.
FIRST_LINES = 6
AROUND = 2
LONGEST = 110  # characters of a line


def questions():
    return json.loads(QUESTIONS.read_text(encoding="utf-8"))["questions"]


def arguments(question):
    """Of the program, without its name."""
    return shlex.split(question["command"])[1:]


def ask(program, question):
    """The answer, its exit code, and the seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run([str(program), *arguments(question)], capture_output=True, text=True,
                              cwd=folder, check=False)
        wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"text": done.stdout or done.stderr, "exit": done.returncode, "wall_s": wall,
            "cpu_s": cpu}


def answering(question, text):
    """Number of the line that the question's pattern finds; None: there is none."""
    for number, line in enumerate(text.split("\n")):
        if re.search(question["answer"], line):
            return number
    return None


def shortened(question, text):
    lines = text.rstrip("\n").split("\n")
    at = answering(question, text)
    shown = set(range(min(FIRST_LINES, len(lines))))
    if at is not None:
        shown |= set(range(max(0, at - AROUND), min(len(lines), at + AROUND + 1)))
    out, last = [], -1
    for number in sorted(shown):
        if number > last + 1:
            out.append("..")
        out.append(lines[number][:LONGEST])
        last = number
    if last + 1 < len(lines):
        out.append("..")
    return out


def row_of(program, question):
    answer = ask(program, question)
    at = answering(question, answer["text"])
    return {
        "question": question["question"],
        "command": question["command"],
        "exit": answer["exit"],
        "answered": at is not None and answer["exit"] == question.get("exit", 0),
        "cpu_s": round(answer["cpu_s"], 2),
        "wall_s": round(answer["wall_s"], 2),
        "goal_s": GOAL_S,
        "goal_met": answer["wall_s"] <= GOAL_S,
        "shown": shortened(question, answer["text"]),
    }


def markdown(rows, where):
    slow = [row for row in rows if not row["goal_met"]]
    lines = ["# Questions, each answered by one command", "",
             "command: `tests/golden/questions.py --report`  ",
             f"date: {datetime.date.today().isoformat()}  ",
             f"sources: `{tree_hash()}`  ",
             f"machine: {where['processor']}, {where['cores']} cores, one run of each", "",
             f"{len(rows)} questions; goal {GOAL_S:g} s each, missed by {len(slow)}. Of an answer"
             f" the first {FIRST_LINES} lines are shown and the line that answers the question with"
             f" {AROUND} lines before and behind it; `..` stands for lines left out."]
    for number, row in enumerate(rows, 1):
        missed = "" if row["goal_met"] else f", goal {GOAL_S:g} s missed"
        lines += ["", f"## {number}. {row['question']}", "", "```", "$ ./" + row["command"],
                  *row["shown"], "```", "",
                  f"{row['wall_s']:.1f} s, {row['cpu_s']:.1f} s of CPU{missed}"]
    return "\n".join(lines) + "\n"


def main():
    options = report_options(__doc__.splitlines()[0])
    rows = []
    for question in questions():
        row = row_of(options.program, question)
        rows.append(row)
        print(f"{row['wall_s']:6.2f} s {row['cpu_s']:6.2f} CPU  {row['exit']}"
              f"  {'answered' if row['answered'] else 'NOT ANSWERED'}  {row['question']}", flush=True)
    if options.report:
        where = machine()
        write_report(__file__, rows, where)
        path = ROOT / "reports" / "questions.md"
        path.write_text(markdown(rows, where), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
