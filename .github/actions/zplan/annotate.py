#!/usr/bin/env python3
"""Runs `zplan check`, `validate` or `compare` and says what it finds as annotations of GitHub.

  ZPLAN_COMMAND=check ZPLAN_ARGUMENTS="ds_config.json --model llama3-8b .." annotate.py

ZPLAN names the program; else it is the launcher of the tree that this file lies in. Lines of stderr
with a place, "zplan: file:line:column: message", become errors there, and what `check` finds becomes
errors, warnings and notices. The answer goes to the output "answer" of the step, the verdict to its
summary. The exit code is zplan's; of `compare` also 5 where --most-off is exceeded.

  --most-off SHARE  among the arguments of compare: fail where the measured step is further than that
                    from the predicted one
"""

import json
import os
import re
import shlex
import subprocess
import sys
import uuid

COMMANDS = ("check", "validate", "compare")
BAD_INPUT, CHECK_FAILED = 2, 5
PLACE = re.compile(r"\Azplan: (?P<file>[^:\n]+):(?P<line>\d+)(:(?P<col>\d+))?: (?P<message>.*)\Z")
# Kinds of findings of `check` that stop a training, that change it, and that only say something.
LEVELS = {"error": "error", "unknown": "warning", "removed": "warning", "no_effect": "warning",
          "contradicts": "warning", "not_modelled": "notice", "assumed": "notice"}


def escaped(text, more=""):
    """As workflow commands want it: properties also without : and ,"""
    for char in "%\r\n" + more:
        text = text.replace(char, f"%{ord(char):02X}")
    return text


def annotation(level, message, place=None):
    """place: (file, line, column), the latter two perhaps None"""
    where = []
    for key, value in zip(("file", "line", "col"), place or ()):
        if value is not None:
            where.append(f"{key}={escaped(str(value), ':,')}")
    return f"::{level}{' ' if where else ''}{','.join(where)}::{escaped(message)}"


def of_stderr(text, failed):
    for line in text.splitlines():
        found = PLACE.match(line)
        if found:
            yield annotation("error", found["message"], found.group("file", "line", "col"))
        elif failed and line.startswith("zplan: ") and not re.match(r"zplan: \w+: \d+ of", line):
            yield annotation("error", line.removeprefix("zplan: "))


def of_findings(answer, config):
    for finding in answer.get("findings", []):
        parts = finding["place"].rsplit(":", 2)
        has_place = len(parts) == 3 and parts[1].isdigit()
        message = f"{finding['key']}: {finding['message']}" if finding["key"] else finding["message"]
        yield annotation(LEVELS[finding["kind"]], message, parts if has_place else (config,))
    if answer.get("illegal"):
        yield annotation("error", answer["illegal"], (config,))
    elif not answer.get("fits", True):
        yield annotation("error", answer["verdict"], (config,))


def off_by(answer):
    """How far the measured step is from the predicted one, as a share."""
    step = answer["step"]
    return abs(step["measured_s"] / step["predicted_s"] - 1)


def taken(arguments, option):
    """Removes an option with a value; returns the value or None."""
    if option not in arguments[:-1]:
        return None
    at = arguments.index(option)
    value = arguments[at + 1]
    del arguments[at:at + 2]
    return value


def tell(config, answer, text):
    """Outputs and summary of the step, where there is one."""
    output, summary = os.environ.get("GITHUB_OUTPUT"), os.environ.get("GITHUB_STEP_SUMMARY")
    if output:
        end = uuid.uuid4().hex
        with open(output, "a", encoding="utf-8") as file:
            file.write(f"answer<<{end}\n{text}\n{end}\n")
    if summary and answer.get("verdict"):
        with open(summary, "a", encoding="utf-8") as file:
            file.write(f"{config}: {answer['verdict']}\n")


def main():
    command = os.environ.get("ZPLAN_COMMAND", "")
    arguments = shlex.split(os.environ.get("ZPLAN_ARGUMENTS", ""))
    if command not in COMMANDS:
        print(annotation("error", f"zplan: expected {', '.join(COMMANDS)}, got {command!r}"))
        return BAD_INPUT
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
    program = os.environ.get("ZPLAN") or os.path.join(root, "zplan")
    most_off = taken(arguments, "--most-off")
    result = subprocess.run([program, command, *arguments, "--json"], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, check=False)
    sys.stderr.write(result.stderr)
    sys.stdout.write(result.stdout)
    for line in of_stderr(result.stderr, result.returncode != 0):
        print(line)
    if not result.stdout.startswith("{"):
        return result.returncode
    answer = json.loads(result.stdout)
    config = next((word for word in arguments if not word.startswith("-")), None)
    if command == "check":
        for line in of_findings(answer, config):
            print(line)
    tell(config, answer, result.stdout.strip())
    if most_off is not None and off_by(answer) > float(most_off):
        print(annotation("error", f"the measured step is {off_by(answer):.1%} from the predicted "
                                  f"one, more than {float(most_off):.1%}", (config,)))
        return CHECK_FAILED
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
