"""Checks what documents and comments point to.

  documents_check.py [ROOT]       prints one line per breach; exit code 1 if there is any
  documents_check.py --self-test  proves on made-up trees that each rule can fail
  documents_check.py --mark       writes into the documents what the reports they cite say today

In *.md: the targets of links, and paths in backquotes that begin with a folder of the project
(`sim/engine.h`, `tests/golden/pytorch_*_test.cpp`; a NAME in it stands for anything). In comments of
the sources: "law 3" must be a row of the laws in planner/README.md. Figures of documents must be
those of the reports that their marks name (support/figures.py).
"""

import glob
import json
import os
import re
import sys
import tempfile

from support import figures, sources, tree_check

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


def documents_of(root):
    return [(path, read(root, path)) for path in files_of(root, (".md",))]


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
    documents = documents_of(root)
    breaches = []
    for path, text in documents:
        breaches += check_document(root, path, text)
    breaches += figures.check_documents(root, documents)
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


# A report of today's program, and one of a program whose sim/a.h was another one.
REPORT = json.dumps({"rate": 1834.4, "rows": [{"what": "gpt2, 64", "ratio": 2.134, "steps": [1, 3, 2]},
                                              {"what": "gpt2, 256", "ratio": 1.752}]})
A_HEADER = "int a = 1;  // one\n"
TABLE = {"now.json": {"date": "2026-01-02", "sources": ["sim/a.h"],
                      "hash": sources.hash_of({"sim/a.h": sources.digest_of("sim/a.h", A_HEADER)})},
         "old.json": {"date": "2025-03-04", "sources": ["sim/a.h"], "hash": "another"}}
NOW, OLD = "<!-- figures reports/now.json: ", "<!-- figures reports/old.json: "

# What stands in README.md, and a word of its one breach.
FIGURES = [
    (f"It is 2.1 times as fast.{NOW}row('64').ratio -->", None),
    (f"It is 2.13 and 1.75 times as fast.{NOW}row('64').ratio; row('256').ratio -->", None),
    (f"It is 2.2 times as fast.{NOW}row('64').ratio -->", "2.2 where reports/now.json has 2.134"),
    (f"It is 1.75 and 2.13 times.{NOW}row('64').ratio; row('64').ratio -->", "1.75 where"),
    ("It is 2.1 times as fast.", '"2.1 times a.." has no mark'),
    ("It is at 0.64 of the bound.", '"0.64 of the.." has no mark'),
    ("It runs on CUDA 13.0 by sm_90, gpt2-1.5b, `2.1 s` [Ren21 Fig. 2.1 s] of 2026-11-23.", None),
    ("```\nstep 2.1 s\n```", None),
    (f"It moves 1,834 and 1,800 MB/s.{NOW}rate; rate ~2 -->", None),
    (f"It moves 1,844 MB/s.{NOW}rate -->", "1,844 where"),
    (f"It moves 1.83 GB/s in 2 s.{NOW}rate / 1e3; median(row('64').steps) -->", None),
    (f"It takes 2 of 3 s.{NOW}median(row('64').steps) -->", "1 entries of a mark, 2 numbers before it: 2 3"),
    (f"It takes 2 s, goal 3 s.{NOW}median(row('64').steps); = 3 -->", None),
    (f"It takes 2 s, goal 4 s.{NOW}median(row('64').steps); = 3 -->", "4 where its mark states 3"),
    (f"- It takes 2 s.\n- Or 2 s.{NOW}median(row('64').steps) -->", 'README.md:1: "2 s..'),
    (f"| 2 s {NOW}len(rows('gpt2')) --> |", None),
    (f"It is 2 times.{NOW}row('gpt2').ratio -->", "expected one object, found 2"),
    (f"It is 2 times.{NOW}row('64').ratios -->", "no member ratios"),
    ("It is 2 times.<!-- figures reports/none.json: x -->", "reports/none.json"),
    ("It is 2 times.<!-- figures x -->", "expected the path of a report"),
    ("Within 2 %.<!-- figures sim/a.h: 2 * number('a = (\\d)') -->", None),
    ("Within 3 %.<!-- figures sim/a.h: 2 * number('a = (\\d)') -->", "3 where sim/a.h has 2"),
    ("See `reports/now.json`.", None),
    ("See `reports/new.json`.", "reports/new.json has no row"),
    ("See `reports/old.json`.", "is of an older program"),
    ("See `reports/old.json` of an older program (2025-03-04).", None),
    ("See `reports/now.json` of an older program (2026-01-02).", "where no report of that date"),
    (f"It is 2.1 times as fast.{OLD}row('64').ratio -->", "is of an older program"),
    ("It is 2.1 times as fast (`reports/old.md`\nof an older\nprogram (2025-03-04))."
     f"{OLD}row('64').ratio -->", None),
]
SELF_TEST += [("README.md", text, expected) for text, expected in FIGURES]
SELF_TEST += [
    ("sim/a.h", "// Two ones.\n\nint a = 1;\n", None),
    ("sim/a.h", 'int a = 1;  const char* b = "// one";\n', "reports/now.json is of an older program"),
]

SELF_TEST_FILES = [("sim/a.h", A_HEADER), (LAW_FILE, "| 3 | a law |\n\n`reports/now.json`\n"),
                   ("reports/now.json", REPORT), ("reports/old.json", REPORT), ("reports/old.md", ""),
                   ("reports/new.json", "{}"),
                   (sources.TABLE, json.dumps(TABLE))]


def self_test_of_marking():
    """--mark makes each text of FIGURES whose figure or age alone is wrong right; 1 where it does not."""
    mended = 0
    for text, expected in FIGURES:
        with tempfile.TemporaryDirectory() as root:
            for path, content in (*SELF_TEST_FILES, ("README.md", text)):
                tree_check.write(root, path, content)
            figures.mark_documents(root, documents_of(root), quiet=True)
            breaches = list(figures.check_documents(root, documents_of(root)))
        by_a_report = expected is None or re.search("older program|of that date|^[\\d.,]+ where(?! its)",
                                                    expected)
        if bool(breaches) == bool(by_a_report):
            print(f"self-test: {text!r}: after --mark {breaches}")
        else:
            mended += 1
    print(f"self-test: {mended} of {len(FIGURES)} texts are as expected after --mark")
    return 0 if mended == len(FIGURES) else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--mark"]:
        project = os.path.join(os.path.dirname(__file__), "..")
        sys.exit(figures.mark_documents(project, documents_of(project)))
    if sys.argv[1:] == ["--self-test"] and self_test_of_marking():
        sys.exit(1)
    sys.exit(tree_check.main("documents", check_tree, SELF_TEST, SELF_TEST_FILES, sys.argv[1:]))
