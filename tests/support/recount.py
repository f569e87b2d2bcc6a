"""Recounts the live bytes of a placed Job from its text form, independently of planner/place.

  recount.py JOB.zprog     prints {class: {tier: {"peak_bytes": n, "by_category": {..}}}} as JSON,
                           the class named by its stage; exit code 1 and one line per breach on
                           stderr when two live buffers share a byte, a buffer leaves its slab or an
                           access its slot, or the ranks of a class do not agree

Walks every instance of one step in program order (nothing is folded here) and applies the rules of
ARCHITECTURE.md "Lifetimes" and planner/place/lifetime.h as a person would read them:
  - a persistent buffer is live always; any other occupies all its slots while it lives
  - its scope is the innermost block around all its accesses; each run of that block is a life of
    its own, from the first access to the last
  - a loop around the scope that carries the buffer from one iteration to the next makes one life of
    all its iterations: an iteration reads a byte it has not written, or a buffer of several slots
    is accessed at a slot that changes with the loop
  - an access inside a loop within the scope holds the buffer during the whole run of that loop
A loop is a block that repeats more than once. A class is one for all its ranks: each buffer must
live alike at every place of the mesh that its accesses depend on. The peak of a tier is the most
bytes live at one instance, the first such instance gives the split by category.
"""

import itertools
import json
import re
import sys

SIZES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i32": 4, "u8": 1}
WORD = r'(?:"(?:\\.|[^"\\])*"|[A-Za-z0-9_][-A-Za-z0-9_./{}]*)'
BUFFER = re.compile(
    rf"buffer @(?P<id>\d+) (?P<name>{WORD}) (?P<tier>\w+) (?P<category>\w+) \w+"
    r" slot (?P<slot>\d+) slots (?P<slots>\d+)(?P<persistent> persistent)?"
    r"(?: unpadded \d+ shards \d+)? at (?P<at>\d+)"
)
AXIS = re.compile(r" (?P<name>[a-z]+(?:\.\d+)?) (?P<size>\d+) every \d+")
STEP = re.compile(r"\+([a-z]+(?:\.\d+)?)\*(-?\d+)")
REPEAT = re.compile(
    r"repeat (?P<count>\d+)"
    r"(?: (?P<var>micro|layer|tile)(?P<relative> relative| mirrored)? from (?P<first>-?\d+) step (?P<step>-?\d+))? {"
)
VIEW = re.compile(
    rf" (?P<access>r|w|u|scratch) {WORD}@(?P<id>\d+)(?:\[(?P<slot>[^\]]*)\])?(?:\+(?P<offset>\d+))?"
    r"(?P<steps>(?:\+[a-z]+(?:\.\d+)?\*-?\d+)*):(?P<dtype>\w+)\[(?P<shape>[\d,]*)\]"
)
TERM = re.compile(r"([-+]?)(\d*)([mlt]?)")


class Buffer:
    def __init__(self, match):
        self.name = match["name"]
        self.tier = match["tier"]
        self.category = match["category"]
        self.slots = int(match["slots"])
        self.slot_size = int(match["slot"])
        self.size = self.slot_size * self.slots
        self.persistent = match["persistent"] is not None
        self.begin = int(match["at"])
        self.end = self.begin + self.size
        self.accesses = []  # in program order


class View:
    def __init__(self, match):
        self.buffer = int(match["id"])
        self.reads = match["access"] in ("r", "u")
        self.writes = match["access"] != "r"
        self.slot = {"m": 0, "l": 0, "t": 0, "": 0}
        for sign, digits, letter in TERM.findall(match["slot"] or ""):
            if digits or letter:
                self.slot[letter] = int(digits or 1) * (-1 if sign == "-" else 1)
        elements = 1
        for dim in filter(None, match["shape"].split(",")):
            elements *= int(dim)
        self.offset = int(match["offset"] or 0)
        self.size = elements * SIZES[match["dtype"]]
        self.steps = {axis: int(step) for axis, step in STEP.findall(match["steps"])}

    def piece(self, rank):
        """First and last byte within the slot; rank: its place along each axis."""
        first = self.offset + sum(step * rank[axis] for axis, step in self.steps.items())
        return first, first + self.size


class Block:
    def __init__(self, parent=None, count=1, var=None, relative=False, first=0, step=0):
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.count, self.var, self.relative = count, var, relative
        self.first, self.step = first, step
        self.mirrored = False
        self.items = []  # Block, or the list of views of a node


class Access:
    """One operand of one instance. path: (run, iteration) from below the root down."""

    def __init__(self, position, path, view, slot):
        self.position, self.path, self.view, self.slot = position, path, view, slot


class Run:
    """One execution of a block, all its iterations."""

    def __init__(self, block, begin):
        self.block, self.begin, self.end = block, begin, begin


class RankClass:
    def __init__(self, stage, mesh):
        self.stage, self.mesh = stage, mesh  # the latter: {axis: places}
        self.slabs = {}
        self.buffers = []
        self.root = Block()
        self.instances = 0


def parse(text):
    classes, open_blocks = [], []
    mesh = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        word = line.split(None, 1)[0]
        if word == "mesh":
            mesh = {axis["name"]: int(axis["size"]) for axis in AXIS.finditer(line)}
        elif word == "class":
            classes.append(RankClass(int(line.split()[2]), mesh))
        elif word == "slab":
            _, tier, size = line.split()[:3]
            classes[-1].slabs[tier] = int(size)
        elif word == "buffer":
            match = BUFFER.match(line)
            if not match:
                sys.exit(f"recount: not a placed buffer: {line}")
            classes[-1].buffers.append(Buffer(match))
        elif word == "step":
            open_blocks = [classes[-1].root]
        elif word == "repeat":
            open_blocks.append(repeat_block(REPEAT.match(line), open_blocks[-1]))
        elif word == "}":
            open_blocks.pop()
        elif word.startswith("%"):
            open_blocks[-1].items.append([View(match) for match in VIEW.finditer(line)])
    return classes


def repeat_block(match, parent):
    block = Block(parent, int(match["count"]))
    if match["var"]:
        block.var = match["var"][0]
        block.relative = match["relative"] is not None
        block.mirrored = match["relative"] == " mirrored"
        block.first, block.step = int(match["first"]), int(match["step"])
    parent.items.append(block)
    return block


def walk(rank_class, block, env, path):
    """Issues one iteration of block. path: tuple of (Run, iteration)."""
    for item in block.items:
        if not isinstance(item, Block):
            for view in item:
                buffer = rank_class.buffers[view.buffer]
                slot = view.slot[""] + sum(view.slot[var] * env[var] for var in env)
                access = Access(rank_class.instances, path, view, slot % buffer.slots)
                buffer.accesses.append(access)
            rank_class.instances += 1
            continue
        run = Run(item, rank_class.instances)
        for i in range(item.count):
            inner = dict(env)
            if item.var:
                outer = env[item.var] if item.relative else 0
                outer = -outer if item.mirrored else outer
                inner[item.var] = outer + item.first + item.step * i
            walk(rank_class, item, inner, path + ((run, i),))
        run.end = rank_class.instances - 1


def scope_depth(accesses):
    """How many blocks of their paths all accesses have in common."""
    blocks = [[run.block for run, _ in access.path] for access in accesses]
    depth = 0
    while all(len(b) > depth and b[depth] is blocks[0][depth] for b in blocks):
        depth += 1
    return depth


def groups_of(accesses, depth):
    """The accesses of each run of the block at this depth, by iteration, in order."""
    groups = {}
    for access in accesses:
        groups.setdefault(tuple((id(run), i) for run, i in access.path[:depth]), []).append(access)
    return list(groups.values())


def is_covered(done, first, last):
    for begin, end in sorted(done):
        if begin > first:
            return False
        if end > first:
            first = end
        if first >= last:
            return True
    return first >= last


def reads_unwritten(accesses, rank):
    """Whether an access reads a byte that no earlier instance among these wrote."""
    written, position, pending = {}, None, []
    for access in accesses:
        if access.position != position:  # operands of one node read before they write
            for slot, piece in pending:
                written.setdefault(slot, set()).add(piece)
            position, pending = access.position, []
        piece = access.view.piece(rank)
        if access.view.reads and not is_covered(written.get(access.slot, ()), *piece):
            return True
        if access.view.writes:
            pending.append((access.slot, piece))
    return False


def moves_slots(buffer, loop_depth):
    """Whether an access changes its slot from one iteration of the loop to the next."""
    seen = {}
    for access in buffer.accesses:
        rest = tuple(
            (id(run.block) if d > loop_depth else id(run), i)
            for d, (run, i) in enumerate(access.path)
            if d != loop_depth
        )
        key = (id(access.view), id(access.path[loop_depth][0]), rest)
        if seen.setdefault(key, access.slot) != access.slot:
            return True
    return False


def ranks_of(rank_class, buffer):
    """The places along the axes with which the accesses of a buffer may differ."""
    used = {axis for access in buffer.accesses for axis in access.view.steps}
    places = [range(size if axis in used else 1) for axis, size in rank_class.mesh.items()]
    return [dict(zip(rank_class.mesh, at)) for at in itertools.product(*places)]


def lives(rank_class, buffer, problems):
    """[(first instance, last instance)] of a buffer that is not persistent."""
    ranks = ranks_of(rank_class, buffer)
    result = lives_of_rank(buffer, ranks[0], problems)
    for rank in ranks[1:]:
        if lives_of_rank(buffer, rank, problems) != result:
            problems.append(f"{buffer.name} lives differently at {rank}")
    return result


def lives_of_rank(buffer, rank, problems):
    depth = scope_depth(buffer.accesses)
    while True:
        loop = depth  # the nearest loop at or above the scope; 0: the steps
        path = buffer.accesses[0].path
        while loop > 0 and path[loop - 1][0].block.count == 1:
            loop -= 1
        carried = any(reads_unwritten(group, rank) for group in groups_of(buffer.accesses, loop))
        if loop > 0 and buffer.slots > 1:
            carried = carried or moves_slots(buffer, loop - 1)
        if not carried:
            break
        if loop == 0:
            problems.append(f"{buffer.name} is read before the step has written it")
            break
        depth = loop - 1
    return [hull(group, depth) for group in groups_of(buffer.accesses, depth)]


def hull(accesses, depth):
    first, last = accesses[0].position, accesses[0].position
    for access in accesses:
        begin = end = access.position
        for run, _ in access.path[depth:]:
            if run.block.count > 1:
                begin, end = run.begin, run.end
                break
        first, last = min(first, begin), max(last, end)
    return first, last


def recount(rank_class, problems):
    walk(rank_class, rank_class.root, {"m": 0, "l": 0, "t": 0}, ())
    starts, stops = {}, {}
    for buffer in rank_class.buffers:
        if buffer.end > rank_class.slabs[buffer.tier]:
            problems.append(f"{buffer.name} ends at {buffer.end} beyond its slab")
        views = {id(access.view): access.view for access in buffer.accesses}.values()
        for rank in ranks_of(rank_class, buffer):
            if any(view.piece(rank)[1] > buffer.slot_size for view in views):
                problems.append(f"{buffer.name} is accessed beyond its slot")
        if buffer.persistent:
            spans = [(0, max(rank_class.instances - 1, 0))]
        else:
            spans = lives(rank_class, buffer, problems) if buffer.accesses else []
        for first, last in spans:
            starts.setdefault(first, []).append(buffer)
            stops.setdefault(last, []).append(buffer)
    result = {tier: {"peak_bytes": 0, "by_category": {}} for tier in rank_class.slabs}
    live = []
    for position in range(max(rank_class.instances, 1)):
        for buffer in starts.get(position, ()):
            problems.extend(
                f"{buffer.name} and {other.name} are live together and share bytes"
                for other in live
                if other.tier == buffer.tier
                and other.begin < buffer.end
                and buffer.begin < other.end
            )
            live.append(buffer)
        if position in starts:
            for tier, peak in result.items():
                raise_peak(peak, [buffer for buffer in live if buffer.tier == tier])
        for buffer in stops.get(position, ()):
            live.remove(buffer)
    return result


def raise_peak(peak, live):
    total = sum(buffer.size for buffer in live)
    if total <= peak["peak_bytes"]:
        return
    split = {}
    for buffer in live:
        split[buffer.category] = split.get(buffer.category, 0) + buffer.size
    peak["peak_bytes"], peak["by_category"] = total, dict(sorted(split.items()))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: recount.py JOB.zprog")
    with open(sys.argv[1], encoding="ascii") as file:
        classes = parse(file.read())
    if not classes:
        sys.exit("recount: no class in this file")
    result = {}
    failed = False
    for rank_class in classes:
        problems = []
        result[str(rank_class.stage)] = recount(rank_class, problems)
        for problem in dict.fromkeys(problems):
            print(f"stage {rank_class.stage}: {problem}", file=sys.stderr)
        failed = failed or bool(problems)
    print(json.dumps(result, indent=2))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
