"""Checks the borders between the folders, and the source keys in brackets.

  layering_check.py [ROOT]       prints one line per breach; exit code 1 if there is any
  layering_check.py --self-test  proves on made-up trees that each rule can fail

Looks at #include lines and at the DEPS of zplan_library() calls; tests/ may include anything.
Source keys are looked for in comments and strings of the code, in *.json and in *.md: each must be
explained in models/REFERENCES.md, and each explained there must be used.
"""

import os
import re
import sys

from support import tree_check

# Module -> its folder. A longer folder wins over a shorter one.
FOLDERS = {
    "core": "planner/core",
    "plan": "planner/plan",
    "program": "planner/program",
    "lower": "planner/lower",
    "place": "planner/place",
    "trace": "planner/trace",
    "cost": "planner/cost",
    "certainty": "planner/certainty",
    "search": "planner/search",
    "validate": "planner/validate",
    "foreign": "planner/foreign",
    "software": "planner/software",
    "cli": "planner/cli",
    "models": "models",
    "hw": "hwprofiles",
    "sim": "sim",
    "exec": "exec",
}

# Module -> the modules it may use directly. What is not listed is forbidden.
ALLOWED = {
    "core": [],
    "models": ["core"],
    "hw": ["core"],
    "plan": ["core", "program"],
    "program": ["core"],
    "lower": ["core", "plan", "models", "program"],
    "place": ["core", "program"],
    "trace": ["core", "program", "place"],
    "cost": ["core", "program", "hw"],
    "certainty": ["core", "plan", "program", "hw", "cost"],
    "sim": ["core", "program", "hw", "cost"],
    "exec": ["core", "program"],
    "search": ["core", "plan", "models", "hw", "program", "lower", "place", "cost", "sim"],
    "validate": ["core", "plan", "models", "hw", "program", "lower", "place", "cost", "certainty",
                 "search", "sim"],
    "foreign": ["core", "hw", "models", "plan", "program"],
    "software": ["core", "hw", "models", "plan", "program", "certainty", "foreign"],
    "cli": [module for module in FOLDERS if module != "cli"],
}

# These slow every file down that sees them, so no header of ours includes them. nvcc must not meet
# them at all.
HEAVY = re.compile(r"(nlohmann|fmt|boost|CLI)/")
NO_HEAVY_SUFFIXES = (".h", ".cu", ".cuh")

# The readers of a Job know no framework.
FRAMEWORK = re.compile(
    r"(?i:deepspeed|megatron|fsdp)|NEMO|NeMo|Nemo(?![a-z])|(?<![A-Za-z])nemo(?![a-z])"
)
FRAMEWORK_FREE = ("sim", "exec")

SOURCE_SUFFIXES = (".h", ".cpp", ".cu", ".cuh")
KEY_FILE = "models/REFERENCES.md"
NOT_PROSE = "tests/fuzz/corpus/"  # inputs of parsers, broken ones among them: they cite nothing
CITING = SOURCE_SUFFIXES + (".json", ".md")
# [Korthikanti22 Table 2], also several: [Korthikanti22 Table 2; Narayanan21]. What follows a name is
# an index, what precedes a parenthesis a link.
BRACKET = re.compile(r"(?<![A-Za-z0-9_\])])\[([^\[\]\n]+)\](?!\()")
DATED_KEY = re.compile(r"[A-Z][A-Za-z-]*\d\d[a-z]?")  # an author and a year
OTHER_KEY = re.compile(
    r"(?=[a-z]*[A-Z])[A-Za-z]{3,}(-[A-Za-z]{2,})*"  # a product or a term of ours
    r"|[a-z]{2,}(-[a-z]{2,})+"  # a repository
    r"|derived|measured|fitted|assumed|datasheet"
)
# Number formats, enumerators and constants, a word of the grammar of *.zprog, an argument in a line
# of usage.
NOT_A_KEY = re.compile(r"(BF|FP|TF|INT|UINT|SM|GB|MB|KB)\d\d|k[A-Z].*|SLOT|RUNS")
KEY_ROW = re.compile(r"\| \[([^\]]+)\] \|")

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
TOKEN = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)'
    r'|R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)


def module_of(path):
    """The module that owns a path relative to the root, or None."""
    for module, folder in FOLDERS.items():
        if path.startswith(folder + "/"):
            return module
    return None


def module_of_target(target):
    """zplan_exec_kernels -> exec; None for targets that are not ours."""
    for module in FOLDERS:
        if re.fullmatch(f"zplan_{module}(_.*)?", target):
            return module
    return None


def blank(text):
    """The same number of lines, nothing on them."""
    return "\n" * text.count("\n")


def split_code(text):
    """(code without comments, comments, strings), all with the line numbers of text."""
    code, comments, strings, position = [], [], [], 0
    for match in TOKEN.finditer(text):
        before = text[position : match.start()]
        token, is_comment = match.group(0), match.group("comment") is not None
        code += [before, blank(token) if is_comment else token]
        comments += [blank(before), token if is_comment else blank(token)]
        strings += [blank(before), blank(token) if is_comment else token]
        position = match.end()
    code.append(text[position:])
    return "".join(code), "".join(comments), "".join(strings)


def edge_breach(module, target):
    """What is wrong with module using target, or None."""
    if target == module or target in ALLOWED[module]:
        return None
    allowed = ", ".join(ALLOWED[module]) or "nothing of ours"
    return f"{module} may not use {target} (allowed: {allowed})"


def check_include(root, path, style, name):
    module = module_of(path)
    if path.endswith(NO_HEAVY_SUFFIXES) and HEAVY.match(name):
        return f"<{name}> belongs in a .cpp file"
    if style != '"':
        return None
    target = module_of(name)
    if target is None or not os.path.isfile(os.path.join(root, name)):
        return f'"{name}" is not a file of this project, named from the root'
    return edge_breach(module, target)


def check_code(root, path, code):
    for number, line in enumerate(code.split("\n"), 1):
        include = INCLUDE.match(line)
        if include:
            breach = check_include(root, path, include.group(1), include.group(2))
            if breach:
                yield f"{path}:{number}: {breach}"
        if module_of(path) in FRAMEWORK_FREE and FRAMEWORK.search(line):
            yield f"{path}:{number}: framework name '{FRAMEWORK.search(line).group(0)}'"


def keys_file(root):
    """Source key -> the line of models/REFERENCES.md that explains it."""
    if not os.path.isfile(os.path.join(root, KEY_FILE)):
        return {}
    rows = enumerate(map(KEY_ROW.match, read(root, KEY_FILE).split("\n")), 1)
    return {row.group(1): number for number, row in rows if row}


def cited_keys(text):
    """(line number, key) for every source key in square brackets."""
    for number, line in enumerate(text.split("\n"), 1):
        for bracket in BRACKET.findall(line):
            for citation in bracket.split(";"):
                words = [part.split()[0] for part in citation.split(",") if part.split()]
                keys = [word for word in words if DATED_KEY.fullmatch(word)]
                keys += [word for word in words[:1] if OTHER_KEY.fullmatch(word)]
                yield from ((number, key) for key in keys if not NOT_A_KEY.fullmatch(key))


def keys_of_code(text, known):
    """Comments as they are; a string may hold other words in brackets, such as usage."""
    _, comments, strings = split_code(text)
    yield from cited_keys(comments)
    for number, key in cited_keys(strings):
        if key in known or DATED_KEY.fullmatch(key):
            yield number, key


def check_keys(root, paths):
    """Keys that nothing explains, and explained ones that none of the files uses."""
    known, used = keys_file(root), set()
    for path in paths:
        text = read(root, path)
        is_code = path.endswith(SOURCE_SUFFIXES)
        for number, key in keys_of_code(text, known) if is_code else cited_keys(text):
            used.add(key)
            if key not in known:
                yield f"{path}:{number}: source key [{key}] is not in {KEY_FILE}"
    for key, number in known.items():
        if key not in used:
            yield f"{KEY_FILE}:{number}: key [{key}] is used nowhere"


def check_cmake(path, text):
    """The DEPS of zplan_library() follow the same table as the includes."""
    text = re.sub(r"#[^\n]*", "", text)
    for call in re.finditer(r"zplan_library\(([^)]*)\)", text):
        words = call.group(1).split()
        deps = words[words.index("DEPS") + 1 :] if "DEPS" in words else []
        for dep in deps:
            target = module_of_target(dep)
            breach = target and edge_breach(module_of(path), target)
            if breach:
                number = text[: call.start()].count("\n") + 1
                yield f"{path}:{number}: {breach}"


def files_of(root, folders, wanted):
    for top in folders:
        for folder, subfolders, names in os.walk(os.path.join(root, top)):
            subfolders.sort()
            for name in sorted(names):
                if wanted(name):
                    yield os.path.relpath(os.path.join(folder, name), root)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check_tree(root):
    """All breaches in the tree at root, as lines of text."""
    breaches = []
    tops = sorted({folder.split("/")[0] for folder in FOLDERS.values()})
    for path in files_of(root, tops, lambda name: name.endswith(SOURCE_SUFFIXES)):
        if module_of(path) is None:
            breaches.append(f"{path}:1: lies in no folder of the layering table")
            continue
        breaches += check_code(root, path, split_code(read(root, path))[0])
    citing = [name for name in sorted(os.listdir(root)) if name.endswith(".md")]
    citing += files_of(root, tops + ["tests", "reports"], lambda name: name.endswith(CITING))
    prose = [path for path in citing if path != KEY_FILE and not path.startswith(NOT_PROSE)]
    breaches += check_keys(root, prose)
    for path in files_of(root, tops, lambda name: name == "CMakeLists.txt"):
        if module_of(path):
            breaches += check_cmake(path, read(root, path))
    return breaches


# ---- self-test: (file, its text, words that must be in the report; None: no breach) -----------
SELF_TEST = [
    ("sim/a.cpp", '#include "planner/cost/c.h"\n', None),
    ("sim/a.cpp", '#include "exec/e.h"\n', "sim may not use exec"),
    ("sim/a.cpp", '#include "planner/plan/p.h"\n', "sim may not use plan"),
    ("exec/cpu/a.cpp", '#include "sim/s.h"\n', "exec may not use sim"),
    ("exec/cuda/a.cu", '#include "planner/lower/l.h"\n', "exec may not use lower"),
    ("exec/cuda/a.cuh", "#include <nlohmann/json.hpp>\n", "belongs in a .cpp"),
    ("exec/cuda/a.cu", "#include <fmt/format.h>\n", "belongs in a .cpp"),
    ("planner/core/a.h", "#include <fmt/format.h>\n", "belongs in a .cpp"),
    ("hwprofiles/a.h", "#include <boost/graph/graph_traits.hpp>\n", "belongs in a .cpp"),
    ("planner/core/a.cpp", "#include <fmt/format.h>\n", None),
    ("planner/core/a.cpp", '#include "planner/plan/p.h"\n', "core may not use plan"),
    ("planner/place/a.cpp", '#include "hwprofiles/h.h"\n', "place may not use hw"),
    ("planner/cli/a.cpp", '#include "exec/e.h"\n', None),
    ("planner/cli/a.cpp", '#include "e.h"\n', "named from the root"),
    ("planner/cli/a.cpp", '#include "exec/missing.h"\n', "named from the root"),
    ("planner/cli/a.cpp", '/*\n#include "e.h"\n*/\n', None),
    ("planner/other/a.cpp", "\n", "no folder"),
    ("sim/a.cpp", 'auto x = "megatron2021";\n', "framework name"),
    ("exec/a.cpp", "int nemo_mode = 1;\n", "framework name"),
    ("exec/a.cpp", "auto mode = kNemo;\n", "framework name"),
    ("exec/a.cpp", "int mnemonic = 1;  // like DeepSpeed\n", None),
    ("planner/lower/a.cpp", "int fsdp = 1;\n", None),
    ("sim/a.cpp", "// [Known22 Table 2]\n", None),
    ("sim/a.cpp", "// [Known22; Wrong99 eq. 3]\n", "[Wrong99]"),
    ("sim/a.cpp", "/* text\n [Wrong99] */\n", "sim/a.cpp:2:"),
    ("tests/unit/a_test.cpp", "// [Wrong99]\n", "[Wrong99]"),
    ("sim/a.cpp", 'int a = t[Wrong99];  // [BF16] [b, s/t, h] [Vp] y[Wrong99] "x"\n', None),
    ("sim/a.cpp", 'auto source = "[Wrong99 sec 2]";\n', "[Wrong99]"),
    ("sim/a.cpp", 'auto usage = "[OPTIONS]";  // [kFirst] [Known22 Fig. 2, Table 1]\n', None),
    ("sim/a.cpp", "// [Torch], as its manual says\n", "[Torch]"),
    ("sim/a.cpp", "// [ABC]\n", "[ABC]"),
    ("sim/a.cpp", "// [oneABC]\n", "[oneABC]"),
    ("sim/a.cpp", "// [some-tests]\n", "[some-tests]"),
    ("sim/a.cpp", "// [measured]\n", "[measured]"),
    ("hwprofiles/a.json", '{"value": ["Wrong99"], "ref": "as in [Known22], [Wrong98]"}\n', "Wrong98"),
    ("tests/fuzz/corpus/json/a.json", '"[Wrong99]"\n', None),
    ("README.md", "See [Licence](LICENSE) and [Wrong99 Fig. 2].\n", "README.md:1: source key [Wrong99]"),
    (KEY_FILE, "| [Known22] | a paper |\n| [Idle21] | another |\n", "md:2: key [Idle21] is used"),
    ("sim/CMakeLists.txt", "zplan_library(sim SOURCES a.cpp\n DEPS zplan_cost fmt::fmt)\n", None),
    ("sim/CMakeLists.txt", "zplan_library(sim SOURCES a.cpp DEPS zplan_plan)\n", "not use plan"),
    ("exec/CMakeLists.txt", "zplan_library(exec DEPS zplan_exec_cpu zplan_dnnl)\n", None),
]
SELF_TEST_HEADERS = (
    "planner/cost/c.h",
    "planner/plan/p.h",
    "planner/lower/l.h",
    "hwprofiles/h.h",
    "exec/e.h",
    "sim/s.h",
)


SELF_TEST_FILES = [(h, "// [Known22]\n#pragma once\n") for h in SELF_TEST_HEADERS] + [
    (KEY_FILE, "| [Known22] | a paper |\n")]


if __name__ == "__main__":
    sys.exit(tree_check.main("layering", check_tree, SELF_TEST, SELF_TEST_FILES, sys.argv[1:]))
