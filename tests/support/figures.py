"""Figures of documents and the reports they come from.

A mark is an HTML comment behind the figures, which a reader of the page does not see:

  .. 2.13 and 1.75 times as fast as PyTorch, goal 2.6
  (`reports/executor_speed.json`).<!-- figures reports/executor_speed.json: row("sequence 64").ratio;
  row("sequence 256").ratio; row("sequence 64").goal -->

A mark has an entry for each number before it in its paragraph, list item or row of a table, back to
the mark before, in their order; `;` stands between entries, and a path with a colon before those of
its file:

  EXPRESSION     over the members of that JSON file, with row(TEXT) for the one object of a list
                 that has this text in a member, number(PATTERN) for what the group of a regular
                 expression finds in the text of any file, count(PATTERN) for how often it is
                 there, and FUNCTIONS below
  EXPRESSION ~N  rounded to N digits; else to the decimals that the document has
  = NUMBER ..    figures of no report, a definition or a goal say: as they are written, one or several

Every number with a unit of measurement, and every decimal that is no version, must stand before a
mark. A report of an older program
(sources.py) must be called so where it is cited: "of an older program (DATE)" behind its name.
"""

import json
import os
import re
import statistics

from support import sources

# Documents whose figures are published ones, each with its source beside it, or a report.
EXEMPT = ("models/REFERENCES.md", "hwprofiles/SOURCES.md", "hwprofiles/kernels/README.md",
          "tests/data/README.md", "planner/cli/foreign/EXAMPLES.md", "reports/")

COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
TARGET = re.compile(r"\]\([^)\s]*\)")  # of a link
MARK = re.compile(r"<!-- figures\b(.*?)-->", re.DOTALL)
CODE = re.compile(r"`[^`\n]*(?:\n[^`\n]+)*`")
# A number that stands for itself: not a part of a word, a path, a version or a date.
ALONE = r"(?<![\w.,/#^])(?<![\w^]-)(?:%s)(?!-?[A-Za-z\d])(?!\.\d)"
NUMBER = re.compile(ALONE % r"\d{1,3}(?:,\d{3})+(?:\.\d+)?" + "|"
                    + ALONE % r"\d+(?:\.\d+)?(?:e-\d+)?(?!,\d{3})")
VERSION = re.compile(r"(?:PyTorch|CUDA|cuDNN|MPI|NCCL|driver|capability)[ \n]+$")
UNIT = re.compile(r"(?: |\n *)?(?:%|(?:(?:[KMGT]i?B|[KMGT]bit|[TG]FLOP|[TGM]flop|tokens)(?:/s)?"
                  r"|s|ms|us|min|minutes?|hours?|days?|seconds?|times|million|cases|executions"
                  r"|plans|runs|grids|nodes per|questions|kernels|points|answers|faults|published"
                  r"|first steps)\b|of (?:the |\d))")
CITATION = re.compile(r"\[[A-Z][\w-]*\d\d[^\]\n]*\]")
DATE = re.compile(r"\b(?:2\d{3}-\d\d-\d\d)\b")
CITED = re.compile(r"reports/([\w.-]+\.(?:json|md))")
OLDER = " of an older program ({})"
OLDER_WORDS = re.compile(r"\s+of\s+an\s+older\s+program\s+\((\d{4}-\d\d-\d\d)\)")
FENCE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
ENTRY_PATH = re.compile(r"\s*((?:[\w.-]+/)+[\w.-]+|[\w-]+\.md):\s")


class Node(dict):
    """An object of a report, whose members are attributes too."""

    def __getattr__(self, name):
        if name not in self:
            raise KeyError(f"no member {name}")
        return self[name]


def objects_of(value):
    """All objects below a value that stand in lists."""
    if isinstance(value, list):
        for each in value:
            if isinstance(each, Node):
                yield each
            yield from objects_of(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from objects_of(each)


def strings_of(node):
    return [value for value in node.values() if isinstance(value, str)]


class Source:
    """A file that figures come from, and what expressions may say of it."""

    FUNCTIONS = {"median": statistics.median, "mean": statistics.mean, "min": min, "max": max, "len": len,
                 "sum": sum, "abs": abs, "sorted": sorted, "any": any, "all": all}

    def __init__(self, root, path):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.text = file.read()
        self.root = json.loads(self.text, object_hook=Node) if path.endswith(".json") else None
        members = self.root.items() if isinstance(self.root, Node) else ()
        self.names = {name: value for name, value in members if name.isidentifier()}
        self.names |= {"__builtins__": {}, **self.FUNCTIONS, "row": self.row, "rows": self.rows,
                       "number": self.number, "count": self.count}

    def rows(self, *texts):
        found = [each for each in objects_of(self.root)
                 if all(any(text in value for value in strings_of(each)) for text in texts)]
        exact = [each for each in found if all(text in strings_of(each) for text in texts)]
        return exact or found

    def row(self, *texts):
        found = self.rows(*texts)
        if len(found) != 1:
            raise ValueError(f"{' and '.join(texts)}: expected one object, found {len(found)}")
        return found[0]

    def number(self, pattern):
        found = {re.sub("[,'_]", "", each) for each in re.findall(pattern, self.text)}
        if len(found) != 1:
            raise ValueError(f"{pattern}: expected one number, found {sorted(found)}")
        return float(found.pop())

    def count(self, pattern):
        return len(re.findall(pattern, self.text))

    def value(self, expression):
        result = eval(expression, self.names)  # pylint: disable=eval-used
        if isinstance(result, bool) or not isinstance(result, (int, float)):
            raise ValueError(f"expected a number, got {result!r}")
        return float(result)


class Entry:
    def __init__(self, text, path, stated=None):
        self.path = path
        self.stated = stated
        match = re.fullmatch(r"(.*?)\s*~(\d)", text, re.DOTALL)
        self.expression = match.group(1) if match else text
        self.digits = int(match.group(2)) if match else None


def entries_of(mark):
    """The entries between "figures" and the end of a comment. Throws ValueError."""
    entries, path = [], None
    for part in mark.split(";"):
        named = ENTRY_PATH.match(part)
        if named:
            path, part = named.group(1), part[named.end():]
        text = " ".join(part.split())
        if not text:
            raise ValueError("expected an entry between two ';', found none")
        if path is None and not text.startswith("="):
            raise ValueError(f"{text}: expected the path of a report with a colon before it")
        if text.startswith("="):
            entries += [Entry(text, path, number) for number in text[1:].split()]
        else:
            entries.append(Entry(text, path))
    return entries


def decimals(text):
    return len(text.split(".")[1]) if "." in text else 0


def rounded(value, entry, places):
    if entry.digits is None:
        return round(value, places)
    return float(f"{value:.{entry.digits - 1}e}")


def agrees(text, value, entry):
    """Whether a document's number is the value, rounded to the digits it has."""
    if "e-" in text:
        return abs(float(text) - value) <= 1e-9 * value
    shown = float(text.replace(",", ""))
    if entry.digits is not None:
        return abs(shown - rounded(value, entry, 0)) <= 1e-9 * abs(value)
    return abs(shown - value) <= 0.5 * 10 ** -decimals(text) * (1 + 1e-6)


def written(value, text, entry):
    """The value as a number of the document that has stood as `text`."""
    if "e-" in text:
        return f"{value:.0e}".replace("e-0", "e-")
    places = decimals(text)
    grouped = "," in text or value >= 10000
    return f"{rounded(value, entry, places):{',' if grouped else ''}.{places}f}"


def blanked(text):
    """The text with code, comments, links and dates as blanks: the same length."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())

    for pattern in (FENCE, COMMENT, CODE, TARGET, CITATION, DATE):
        text = pattern.sub(blank, text)
    return text


def blocks_of(text):
    """(start, end) of paragraphs, list items and rows of tables; code in fences is none of them."""
    hidden = FENCE.sub(lambda m: re.sub(r"[^\n]", "\0", m.group()), text)
    hidden = MARK.sub(lambda m: m.group().replace("\n", " "), hidden)
    start, at = None, 0
    for line in hidden.split("\n"):
        end = at + len(line)
        begins = re.match(r"\s*(?:[-*] |\d+\. |\||#)", line)
        apart = not line.strip() or "\0" in line
        if start is not None and (apart or begins):
            yield start, at
            start = None
        if start is None and not apart:
            start = at
        at = end + 1
    if start is not None:
        yield start, len(text)


class Document:
    """A document's marks against its sources; `fixed` is its text as the reports say it."""

    def __init__(self, root, path, text, shared):
        self.root, self.path, self.text, self.shared = root, path, text, shared
        self.breaches = []
        self.edits = []  # (start, end, new text)
        self.plain = blanked(text)
        for start, end in blocks_of(text):
            self.check_block(start, end)

    def fixed(self):
        text = self.text
        for start, end, new in sorted(self.edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def say(self, at, words):
        line = self.text.count("\n", 0, at) + 1
        self.breaches.append(f"{self.path}:{line}: {words}")

    def check_block(self, start, end):
        numbers = list(NUMBER.finditer(self.plain, start, end))
        marked = set()
        for mark in MARK.finditer(self.text, start, end):
            before = [n for n in numbers if n.end() <= mark.start() and n.start() not in marked]
            marked.update(n.start() for n in before)
            try:
                entries = entries_of(mark.group(1))
            except ValueError as error:
                self.say(mark.start(), error)
                continue
            if len(entries) != len(before):
                found = " ".join(n.group() for n in before)
                self.say(mark.start(), f"{len(entries)} entries of a mark, {len(before)} numbers before "
                         f"it: {found}")
                continue
            for number, entry in zip(before, entries):
                self.check_number(number, entry)
        for number in numbers:
            if number.start() not in marked and self.is_figure(number, start, end):
                unit = " ".join(self.text[number.start():number.end() + 8].split("\n")[0].split())
                self.say(number.start(), f'"{unit}.." has no mark that names its report')
        self.check_age(start, end)

    def is_figure(self, number, start, end):
        if UNIT.match(self.plain, number.end(), end) or "e-" in number.group():
            return True
        return "." in number.group() and not VERSION.search(self.plain, start, number.start())

    def check_number(self, number, entry):
        text = number.group()
        if entry.stated is not None:
            if entry.stated != text:
                self.say(number.start(), f"{text} where its mark states {entry.stated}")
            return
        try:
            value = self.shared.source(entry.path).value(entry.expression)
        except FileNotFoundError:
            self.say(number.start(), f"{entry.path}, which a mark names, is not there")
        except Exception as error:  # what an expression of a document may do wrong is anything
            self.say(number.start(), f"{entry.path}: {entry.expression}: {error}")
        else:
            if not agrees(text, value, entry):
                self.say(number.start(), f"{text} where {entry.path} has {value:.6g} ({entry.expression})")
                self.edits.append((number.start(), number.end(), written(value, text, entry)))

    def check_age(self, start, end):
        """What a block cites of older programs is called so, once each, and nothing else is."""
        cited = {}
        for match in CITED.finditer(self.text, start, end):
            name = self.shared.row_name(match.group(1))
            if name is None and self.shared.is_unstated(match.group()):
                self.say(match.start(), f"reports/{match.group(1)} has no row in {sources.TABLE}")
            elif name is not None:
                cited.setdefault(name, match)
        wanted = {self.shared.date(name): match for name, match in reversed(list(cited.items()))
                  if self.shared.is_older(name)}
        for words in OLDER_WORDS.finditer(self.text, start, end):
            if wanted.pop(words.group(1), None) is None:
                self.say(words.start(), f'"{" ".join(words.group().split())}" where no report of that date '
                         "and of an older program is cited")
                self.edits.append((words.start(), words.end(), ""))
        for date, match in wanted.items():
            self.say(match.start(), f"{match.group()} is of an older program: expected "
                     f'"{OLDER.format(date).strip()}" where it is cited')
            self.edits.append(self.insertion(match, date))

    def insertion(self, match, date):
        """The words behind the name of a report, or behind the mark where it is named in one alone."""
        inside = next((m for m in MARK.finditer(self.text) if m.start() <= match.start() < m.end()), None)
        if inside:
            return inside.end(), inside.end(), f" (`{match.group()}`{OLDER.format(date)})"
        close = re.compile(r"`?(?:\]\([^)]*\))?\)?").match(self.text, match.end())
        at = match.end() + len(re.match(r"`?(?:\]\([^)]*\))?", close.group()).group())
        return at, at, OLDER.format(date)


class Shared:
    """Reports and hashes, read once for all documents."""

    def __init__(self, root):
        self.root = root
        self.table = sources.read_table(root)
        self.tree = sources.Tree(root)
        self.read = {}
        self.older = {}

    def source(self, path):
        if path not in self.read:
            self.read[path] = Source(self.root, path)
        return self.read[path]

    def row_name(self, name):
        """The row of a report, of its page, or of the profile that it rests on."""
        stem = name.rsplit(".", 1)[0].removesuffix("_profile")
        return next((each for each in (name, f"{stem}.json", f"{stem}.md") if each in self.table), None)

    def is_unstated(self, path):
        return path != sources.TABLE and os.path.isfile(os.path.join(self.root, path))

    def date(self, name):
        return self.table[name]["date"]

    def is_older(self, name):
        if name not in self.older:
            row = self.table[name]
            self.older[name] = row.get("hash") != self.tree.hash_of(row["sources"])
        return self.older[name]


def is_exempt(path):
    return path.startswith(EXEMPT)


def check_documents(root, documents):
    """Breaches of (path, text) pairs."""
    shared = Shared(root)
    for path, text in documents:
        if not is_exempt(path):
            yield from Document(root, path, text, shared).breaches


def mark_documents(root, documents, quiet=False):
    """Writes the figures and the ages that the reports have into the documents."""
    shared = Shared(root)
    for path, text in documents:
        if is_exempt(path):
            continue
        fixed = Document(root, path, text, shared).fixed()
        if fixed != text:
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(fixed)
            if not quiet:
                print(f"{path}: rewritten by its reports")
