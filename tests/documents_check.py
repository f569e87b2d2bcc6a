"""Checks what documents and comments point to.

  documents_check.py [ROOT]       prints one line per breach; exit code 1 if there is any
  documents_check.py --self-test  proves on made-up trees that each rule can fail

In *.md: the targets of links, and paths in backquotes that begin with a folder of the project
(`sim/engine.h`, `tests/golden/pytorch_*_test.cpp`; a NAME in it stands for anything). In comments of
the sources: "law 3" must be a row of the laws in planner/README.md.
"""

import glob
import os
import re
import sys

from support import tree_check

TOPS = ("planner", "sim", "exec", "hwprofiles", "models", "tests", "reports")
LAW_FILE = "planner/README.md"
SOURCE_SUFFIXES = (".h", ".cpp", ".cu", ".cuh")

LINK = re.compile(r"\]\(([^)#\s]+)")
PATH = re.compile(r"`((?:%s)/[\w.*/-]*)`" % "|".join(TOPS))
LAW_ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)
LAW_CITED = re.compile(r"\b[Ll]aw (\d+)\b")


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def files_of(root, suffixes):
    for name in sorted(os.listdir(root)):
        if name.endswith(suffixes):
            yield name
    for top in TOPS:
        for folder, subfolders, names in os.walk(os.path.join(root, top)):
            subfolders.sort()
            for name in sorted(names):
                if name.endswith(suffixes):
                    yield os.path.relpath(os.path.join(folder, name), root)


def is_there(root, path):
    return bool(glob.glob(os.path.join(root, path.replace("NAME", "*"))))


def check_document(root, path, text):
    for number, line in enumerate(text.split("\n"), 1):
        for target in LINK.findall(line):
            beside = os.path.join(os.path.dirname(path), target)
            if "://" not in target and not os.path.exists(os.path.join(root, beside)):
                yield f"{path}:{number}: link to {target}, which is not there"
        for named in PATH.findall(line):
            if not is_there(root, named):
                yield f"{path}:{number}: {named} is not there"


def check_laws(root):
    there = os.path.isfile(os.path.join(root, LAW_FILE))
    laws = set(LAW_ROW.findall(read(root, LAW_FILE))) if there else set()
    for path in files_of(root, SOURCE_SUFFIXES):
        for number, line in enumerate(read(root, path).split("\n"), 1):
            for law in LAW_CITED.findall(line):
                if law not in laws:
                    yield f"{path}:{number}: law {law} is not among those of {LAW_FILE}"


def check_tree(root):
    """All breaches in the tree at root, as lines of text."""
    breaches = []
    for path in files_of(root, (".md",)):
        breaches += check_document(root, path, read(root, path))
    return breaches + list(check_laws(root))


# (file, its text, words that must be in the report; None: no breach)
SELF_TEST = [
    ("README.md", "See [a](sim/a.h#L3), [b](https://nowhere.example/x) and `sim/a.h`.", None),
    ("README.md", "\nSee [a](sim/b.h).", "README.md:2: link to sim/b.h"),
    ("sim/README.md", "See [a](a.h) and [b](../planner/README.md).", None),
    ("sim/README.md", "See [a](sim/a.h).", "link to sim/a.h"),
    ("README.md", "Look at `sim/b.h`.", "README.md:1: sim/b.h is not there"),
    ("README.md", "Look at `sim/*.h`, `sim/NAME.h`, `sim/`, `other/b.h`, `sim.h`.", None),
    ("README.md", "Look at `sim/*.cpp`.", "sim/*.cpp is not there"),
    ("sim/b.h", "// By law 3.\n", None),
    ("sim/b.h", "// Text\n// (Law 4).\n", "sim/b.h:2: law 4"),
    ("sim/b.h", "// lawful 4, law4, outlaw 4\n", None),
]


SELF_TEST_FILES = [("sim/a.h", ""), (LAW_FILE, "| 3 | a law |\n")]


if __name__ == "__main__":
    sys.exit(tree_check.main("documents", check_tree, SELF_TEST, SELF_TEST_FILES, sys.argv[1:]))
