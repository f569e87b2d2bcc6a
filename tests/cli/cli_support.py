"""Runs the zplan program the way a user does. Standard library only.

A test script gets the program and the source root as its two arguments:
  python3 errors_test.py build/tests/bin/zplan .
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import schemas

PROGRAM = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(sys.argv[2])
TIMEOUT_S = 300
EVERYTHING = os.environ.get("ZPLAN_TESTS") == "all"  # of `tests/run --all`

OK, INFEASIBLE, BAD_INPUT, DEVICE, CHECK_FAILED, INTERRUPTED = 0, 1, 2, 4, 5, 130


# What slow calls say of their progress on a stderr that is no terminal.
PROGRESS = re.compile(
    r"^zplan: (searching|sizing|training|reference|validating|sweeping|pricing): [^\n]*\n",
    re.MULTILINE,
)

# How large a trace becomes.
WRITING = re.compile(r"^zplan: writing [^\n]*\n", re.MULTILINE)

# Sizes pinned below those of the cluster.
IDLE = re.compile(r"^zplan: [^\n]* GPUs stay idle: [^\n]*\n", re.MULTILINE)


def zplan(*arguments, cwd=None):
    """Exit code, stdout and stderr of one call, the latter without progress."""
    result = subprocess.run(
        [PROGRAM, *arguments],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    result.stderr = WRITING.sub("", PROGRESS.sub("", result.stderr))
    if "--json" in arguments and result.stdout.startswith("{"):
        check_schema(json.loads(result.stdout))
    return result


@functools.cache
def tiny_plan_text(*pins):
    """A plan of the tiny model as it is written, and what is told of it; searched for once."""
    with tempfile.TemporaryDirectory() as folder:
        result = zplan("plan", "--model", "tiny-gpt", "--cluster", "workstation", "-o", "plan.json",
                       *pins, cwd=folder)
        if result.returncode != OK:
            raise AssertionError((pins, result.returncode, result.stderr))
        with open(os.path.join(folder, "plan.json"), encoding="utf-8") as file:
            return file.read(), IDLE.sub("", result.stderr)


def check_schema(answer):
    """Every answer is as its published schema says."""
    if schemas.keep(answer):
        return
    schema = schemas.published(ROOT, answer["schema"])
    found = schemas.breaches(answer, schema) if schema else []
    if found:
        raise AssertionError(f"{answer['schema']} is not as {schemas.FOLDER} says; is the schema "
                             "old (tests/cli/schemas.py)? " + "; ".join(found[:5]))


class CliTest(unittest.TestCase):
    """Each test runs in an empty folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        mode = "wb" if isinstance(text, bytes) else "w"
        with open(self.path(name), mode) as file:
            file.write(text)
        return name

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def files(self):
        return sorted(os.listdir(self.folder))

    def zplan(self, *arguments):
        return zplan(*arguments, cwd=self.folder)

    def good(self, *arguments):
        """stdout of a call that succeeds in silence."""
        result = self.zplan(*arguments)
        self.assertEqual((result.returncode, result.stderr), (OK, ""), arguments)
        return result.stdout

    def good_json(self, *arguments):
        return json.loads(self.good(*arguments, "--json"))

    def subcommands(self):
        """Their names, as the help lists them."""
        text = self.good("help", "all")
        return re.findall(r"^  ([a-z-]+) +[A-Z]", text[text.index("Subcommands"):], re.MULTILINE)

    def options(self, *subcommand):
        """Those of a subcommand that its help has, and the page of pins where it names that."""
        text = self.good(*subcommand, "--help")
        if "zplan help pins lists" in text:
            text += self.good("help", "pins")
        names = re.findall(r"^  ((?:-[a-z-]+, ?)*--[a-z0-9-]+)", text, re.MULTILINE)
        return {name for row in names for name in row.split(",") if name.startswith("--")}

    def bad(self, code, *arguments, says=()):
        """A call that fails with one clear line and leaves nothing behind."""
        before = self.files()
        result = self.zplan(*arguments)
        self.assertEqual(result.returncode, code, (arguments, result.stderr))
        self.assertEqual(result.stdout, "", arguments)
        self.one_line(result.stderr, says)
        self.assertEqual(self.files(), before, arguments)

    def one_line(self, stderr, says=()):
        self.assertRegex(stderr, r"\Azplan: [^\n]+\n\Z")
        for words in [says] if isinstance(says, str) else says:
            self.assertIn(words, stderr)

    def tiny_plan(self, *pins, name="plan.json"):
        """Writes a plan of the tiny model; returns its file name."""
        text, told = tiny_plan_text(*pins)
        self.assertEqual(told, "", pins)
        return self.write(name, text)

    def oversized_plan(self, name):
        """Writes a plan of the tiny model that exceeds the memory of its cluster."""
        plan = json.loads(self.read(self.tiny_plan(name=name)))
        plan["batch"]["micro_batch"] = 4096
        plan["batch"]["global_batch"] = 4096 * plan["parallel"]["dp"]
        self.write(name, json.dumps(plan))
        return name

    def wait_for_log(self, name, *processes, lines=1):
        """Waits until a log has so many lines; the processes must go on until then."""
        deadline = time.monotonic() + TIMEOUT_S
        while name not in self.files() or self.read(name).count("\n") < lines:
            ended = [process.stderr.read() for process in processes if process.poll() is not None]
            self.assertEqual(ended, [])
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def has(self, value, keys):
        """keys: "a.b.c" paths that must exist in a parsed JSON value."""
        for key in keys:
            at = value
            for part in key.split("."):
                self.assertIn(part, at, key)
                at = at[part]


def main():
    unittest.main(argv=[sys.argv[0]], verbosity=1)
