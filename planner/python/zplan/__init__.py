"""zplan from Python: every function is a subcommand, every keyword one of its options, and the answer
is what the program prints with --json, as its JSON Schemas say (`zplan schema`).

    import zplan
    answer = zplan.plan(model="1T", cluster="dgx2x32", global_batch=2560)
    print(answer["verdict"])
    zplan.simulate(answer["plan"])["time"]["step_s"]

global_batch=256 is --global-batch 256, timing=True is --timing, a list is the option several times,
None and False are left out; an underscore behind a word of Python's is dropped: not_="offload".
A plan is the path of a file or the plan of an answer. What the program refuses raises zplan.Error
with its line; a plan that does not fit is an answer. What it remarks is a warning, zplan.Remark.
The program runs as a process of its own, so that other threads go on and Ctrl-C ends it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

__all__ = ["Error", "Remark", "call", "check", "clusters", "export", "main", "memory", "models",
           "plan", "program", "simulate"]

# What exits with these has an answer: done, does not fit, a check failed.
_ANSWERED = (0, 1, 5)
_PROGRESS = re.compile(r"zplan: [a-z]+ing: ")  # "zplan: searching: .."


class Error(Exception):
    """What the program refused: its line; `code` is its exit code."""

    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


class Remark(UserWarning):
    """A line of the program beside an answer."""


def program():
    """The path of the program: ZPLAN_PROGRAM, the one in this package, or one on the PATH."""
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "zplan")
    found = os.environ.get("ZPLAN_PROGRAM") or (own if os.path.exists(own) else
                                                shutil.which("zplan"))
    if not found:
        raise Error("there is no zplan program in this package or on the PATH", 4)
    return found


def _options(keywords):
    words = []
    for key, value in keywords.items():
        name = "--" + key.rstrip("_").replace("_", "-")
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is None or one is False:
                continue
            words += [name] if one is True else [name, str(one)]
    return words


def _absolute(name):
    is_path = "/" in name or ".json" in name
    return os.path.abspath(name) if is_path else name


class _PlanFile:
    """The path of a plan: its own or, of a plan that an answer holds, one of a while."""

    def __init__(self, plan):
        self.path = plan
        self.is_ours = isinstance(plan, dict)
        if self.is_ours:
            names = {key: _absolute(plan[key]) for key in ("model", "hardware") if key in plan}
            handle, self.path = tempfile.mkstemp(suffix=".json")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({**plan, **names}, file)

    def __enter__(self):
        return [] if self.path is None else [os.fspath(self.path)]

    def __exit__(self, *_):
        if self.is_ours:
            os.unlink(self.path)


def call(command, *arguments, **options):
    """The answer of any subcommand that has --json."""
    words = [program(), command, *map(os.fspath, arguments), *_options(options), "--json"]
    result = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            check=False)
    lines = [line.removeprefix("zplan: ")
             for line in result.stderr.splitlines()
             if line.startswith("zplan: ") and not _PROGRESS.match(line)]
    if result.returncode not in _ANSWERED or not result.stdout:
        said = lines[-1] if lines else result.stderr.strip() or "it said nothing"
        raise Error(said, result.returncode)
    for line in lines:
        warnings.warn(line, Remark, stacklevel=3)
    return json.loads(result.stdout)


def plan(**options):
    """zplan.answer/1: the plan that is recommended, the fastest, and why the others lost."""
    return call("plan", **options)


def simulate(plan, **options):  # pylint: disable=redefined-outer-name
    """zplan.simulation/1: the step of a plan in detail."""
    with _PlanFile(plan) as path:
        return call("simulate", *path, **options)


def memory(plan=None, **options):  # pylint: disable=redefined-outer-name
    """zplan.memory/1: what a plan holds; without one, of the plan that is found."""
    with _PlanFile(plan) as path:
        return call("memory", *path, **options)


def check(config, **options):
    """zplan.check/1: whether a framework's configuration fits, and what is wrong with it."""
    return call("check", config, **options)


def export(plan=None, **options):  # pylint: disable=redefined-outer-name
    """zplan.export/1: a plan as a framework's configuration, export(plan, to="deepspeed")."""
    with _PlanFile(plan) as path:
        return call("export", *path, **options)


def models(name=None, **options):
    """zplan.models/1: the catalogue, or one model."""
    return call("models", *([] if name is None else [name]), **options)


def clusters(name=None, **options):
    """zplan.clusters/1: the kinds of nodes, or a cluster."""
    return call("clusters", *([] if name is None else [name]), **options)


def main():
    """The program itself, at a prompt."""
    os.execv(program(), ["zplan", *sys.argv[1:]])
