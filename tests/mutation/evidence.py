"""What is known of each fault: which test noticed it, in which time, and when.

Each trial adds a line to build/mutation/results.jsonl, which a fresh clone lacks; the latest of each
fault are kept in reports/mutation.json, from which reports/mutation.md is made. A trial is of one
source and one entry of the list, whose hash it has as its key. What was tried before either of them
changed still says which test noticed the fault, and is marked as older.
"""

import collections
import json

KEPT = ("name", "key", "outcome", "test", "case", "seconds", "date")
HEAD = """# Deliberate faults

command: `tests/mutation/run`, then `tests/mutation/run --report`  
date: {date}

Each fault is a small change of a source that compiles. It is killed when one of the tests that its
entry in `tests/mutation/faults/` names fails: the first of them that does is its killer, with the
case that failed and the seconds of that run. `tests/run` says whether the killer is part of it, and
not of `tests/run --all` alone. A trial is "older" where the source or the entry has changed since.
"""


def trials(*paths):
    """Of each fault its trials, the latest last; a trial is as it stands in a line or in the report."""
    known = collections.defaultdict(list)
    for path in paths:
        for trial in read(path):
            known[trial["name"]].append(trial)
    return known


def read(path):
    if not path.is_file():
        return []
    if path.suffix == ".json":
        return json.loads(path.read_text())["trials"]
    return [json.loads(line) for line in path.read_text().splitlines()]


def latest(tried, key):
    """The last trial of what a fault is now; else the last one of all, or nothing."""
    return next((each for each in reversed(tried) if each["key"] == key), tried[-1] if tried else None)


def write(faults, known, key_of, listed, folder):
    """reports/mutation.json and .md. LISTED(test): whether `tests/run` runs it."""
    found = {}
    for fault in faults:
        trial = latest(known.get(fault["name"], []), key_of(fault))
        if trial is not None and trial["outcome"] != "not tried":
            found[fault["name"]] = {key: trial[key] for key in KEPT}
    lines = ",\n".join(f"  {json.dumps(each)}" for each in found.values())
    (folder / "mutation.json").write_text(
        f'{{"schema": "zplan.mutation/1", "trials": [\n{lines}\n]}}\n')
    page = HEAD.format(date=max((each["date"] for each in found.values()), default="none tried"))
    page += "\n" + "\n".join(summary(faults, found, key_of)) + "\n"
    for part in sorted({fault["part"] for fault in faults}):
        own = [fault for fault in faults if fault["part"] == part]
        page += f"\n## {part}\n\n" + "\n".join(table(own, found, key_of, listed)) + "\n"
    (folder / "mutation.md").write_text(page)


def summary(faults, found, key_of):
    columns = ("killed", "older", "survived", "not tried")
    yield f"| part | faults | {' | '.join(columns)} |\n|---|{'---|' * (len(columns) + 1)}"
    total = collections.Counter()
    for part in sorted({fault["part"] for fault in faults}):
        counts = collections.Counter(
            state(fault, found, key_of) for fault in faults if fault["part"] == part)
        total += counts
        yield f"| {part} | {counts.total()} | {' | '.join(str(counts[each]) for each in columns)} |"
    yield f"| all | {total.total()} | {' | '.join(str(total[each]) for each in columns)} |"


def state(fault, found, key_of):
    """A trial of what was there before counts only where it killed."""
    trial = found.get(fault["name"])
    if trial is None or (trial["key"] != key_of(fault) and trial["outcome"] != "killed"):
        return "not tried"
    return trial["outcome"] if trial["key"] == key_of(fault) else "older"


def table(faults, found, key_of, listed):
    yield "| fault | file | killer | s | `tests/run` |\n|---|---|---|---|---|"
    for fault in faults:
        now = state(fault, found, key_of)
        row = [fault["fault"], f"`{fault['file']}`"]
        if now in ("killed", "older"):
            trial = found[fault["name"]]
            killer = f"`{trial['test'].split()[0]}`: {cell(trial['case'])}"
            row += [killer + (f" (older, {trial['date']})" if now == "older" else ""),
                    f"{trial['seconds']:g}", "yes" if listed(trial["test"]) else "**no**"]
        else:
            row += [f"**{now}**", "", ""]
        yield f"| {' | '.join(row)} |"


def cell(text):
    return text.replace("|", "\\|").replace("<", "\\<").replace("](", "]\\(")  # no link


def all_only(registered, test):
    """Whether tests/CMakeLists.txt gives a test the label `all`: only `tests/run --all` runs it."""
    program = test.split()[0]
    for call in registered.split("zplan_test(")[1:] + registered.split("zplan_script_test(")[1:]:
        words = call[:call.index(")")].split()
        if program in words[:2]:
            return "all" in words[words.index("LABELS"):] if "LABELS" in words else False
    return False

