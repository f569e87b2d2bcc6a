"""Which sources each report speaks of, and whether they have changed since: reports/sources.json.

A row of that file is a report: its date, the paths of the project that its figures follow from, and
a hash of these as they were then; no hash where nobody noted it. A report whose hash is another one
today is one of an older program. Comments, blank lines and documents are no part of a program.

  sources.py --stamp REPORT ..  notes today's hash for reports that another program has written
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = "reports/sources.json"

JOB = ["planner/core", "planner/plan", "planner/program", "planner/lower", "planner/place"]
ANSWER = ["models", "hwprofiles", *JOB, "planner/cost", "planner/certainty", "planner/search", "sim"]
RUN = ["exec", *JOB]
PUBLISHED = [*ANSWER, "planner/validate", "tests/data/published_runs.jsonl"]

# The paths that a new report is stamped with; a report that is not here must not be cited.
SOURCES = {
    "answer_time.json": [*ANSWER, "planner/cli"],
    "blind.json": [*PUBLISHED, "tests/fit"],
    "collectives.json": ["hwprofiles", "planner/cost", "tests/data/collectives"],
    "executor_speed.json": [*RUN, "tests/perf/executor_speed.py"],
    "expert_runs.json": [*ANSWER, "planner/validate", "tests/data/expert_runs.jsonl", "tests/golden/expert_runs.py"],
    "fidelity.json": PUBLISHED,
    "first_build.json": ["CMakeLists.txt", "CMakePresets.json", "zplan", "models", "hwprofiles", "planner",
                         "sim", "exec"],
    "fuzz.json": ["models", "hwprofiles", "planner", "exec/checkpoint", "tests/fuzz"],
    "gpu_attention_scratch.md": ["exec/cuda"],
    "gpu_kept_runs.json": [*RUN, "tests/gpu/kept_runs.py"],
    "gpu_shared_device.md": ["exec/cuda", "exec/schedule"],
    "memory_tracker.md": ["models", "hwprofiles/stacks", *JOB, "tests/data/memory_tracker.jsonl"],
    "mutation.md": ["models", "hwprofiles", "planner", "sim", "exec", "tests/mutation/faults"],
    "own_runs.json": [*ANSWER, "exec"],
    "paper_figures.json": [*ANSWER, "tests/data/paper_runs.json"],
    "plan_runs.json": [*ANSWER, "exec"],
    "question_speed.json": [*ANSWER, "planner/cli"],
    "questions.json": [*ANSWER, "planner/cli", "planner/foreign", "tests/data/questions.json"],
    "ring_attention_speed.json": RUN,
    "search_speed.json": ANSWER,
}

# Is written from reports itself (tests/golden/own_measured.py).
FROM_REPORTS = ("hwprofiles/measured/own.json",)
GPU = [*RUN, "tests/gpu"]  # of tests/gpu/run, a report for each kind of device

C_SUFFIXES = (".h", ".cpp", ".cu", ".cuh", ".in")
# A literal stays, a comment goes; a raw string of C++ ends where its delimiter says.
C_COMMENT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/',
                       re.DOTALL)
HASH_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)


def program_of(name, text):
    """What of a file is the program: without comments, indentation and blank lines."""
    if name.endswith(C_SUFFIXES):
        text = C_COMMENT.sub(lambda m: " " if m.group().startswith("/") else m.group(), text)
    elif name.endswith((".py", ".txt", ".cmake", ".toml")):
        text = HASH_COMMENT.sub("", text)
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def files_of(root, path):
    """The files of a folder of sources, or the one file, relative to the root."""
    whole = os.path.join(root, path)
    if not os.path.isdir(whole):
        return [path] if os.path.isfile(whole) else []
    found = []
    for folder, subfolders, names in os.walk(whole):
        subfolders[:] = [name for name in subfolders if name != "__pycache__"]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names
                  if not name.endswith((".md", ".pyc"))]
    return [path for path in found if path not in FROM_REPORTS]


def digest_of(path, text):
    return hashlib.sha256(program_of(path, text).encode("utf-8", "replace")).hexdigest()


def hash_of(digests):
    """Of the digests of files by their paths."""
    listing = "".join(f"{path} {digest}\n" for path, digest in sorted(digests.items()))
    return hashlib.sha256(listing.encode()).hexdigest()[:16]


class Tree:
    """Hashes of paths of a source tree, each file read once."""

    def __init__(self, root):
        self.root = root
        self.digests = {}

    def digest(self, path):
        if path not in self.digests:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                self.digests[path] = digest_of(path, file.read())
        return self.digests[path]

    def hash_of(self, paths):
        files = {file for path in paths for file in files_of(self.root, path)}
        return hash_of({file: self.digest(file) for file in files})


def read_table(root=ROOT):
    path = os.path.join(root, TABLE)
    if not os.path.isfile(path):
        return {}
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def write_table(table, root=ROOT):
    with open(os.path.join(root, TABLE), "w", encoding="utf-8") as file:
        file.write(json.dumps(dict(sorted(table.items())), indent=1) + "\n")


def stamp(name, root=ROOT):
    """Notes that the report of this name speaks of the sources as they are."""
    paths = SOURCES.get(name, GPU if name.startswith("gpu_") and name.endswith(".json") else None)
    if paths is None:
        sys.exit(f"{name}: expected a report of SOURCES in {__file__}, which says what it speaks of")
    table = read_table(root)
    table[name] = {"date": datetime.date.today().isoformat(), "sources": paths,
                   "hash": Tree(root).hash_of(paths)}
    write_table(table, root)


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] != "--stamp":
        sys.exit(__doc__)
    for report in sys.argv[2:]:
        stamp(os.path.basename(report))
