#!/usr/bin/env python3
"""The passes of PyTorch's own pipeline schedules, rank by rank.

  pipeline_schedules.py --write FILE  writes the golden file of pytorch_schedules_test.cpp
  pipeline_schedules.py --check FILE  compares it with the PyTorch that is installed; exit code 77
                                      where there is none (pip install torch)

The lists of ScheduleInterleaved1F1B, ScheduleZBVZeroBubble and ScheduleDualPipeV are what their
constructors compute on stages that are stubs; passes that the last one overlaps follow each other. ScheduleGPipe and Schedule1F1B compute no list that they run: theirs is
the order in which they call a stub. No process group is made.
"""

import argparse
import json
import sys

SKIPPED = 77
# (schedule, ranks, chunks per rank, micro-batches)
CASES = (
    [("ScheduleGPipe", 3, 1, 4)]
    + [("Schedule1F1B", p, 1, m) for p, m in ((1, 2), (2, 2), (4, 4), (4, 9))]
    + [("ScheduleInterleaved1F1B", p, v, m)
       for p, v, m in ((1, 2, 2), (2, 1, 4), (2, 2, 4), (2, 3, 6), (3, 2, 3), (4, 2, 4), (4, 2, 8),
                       (4, 3, 12), (4, 2, 10), (4, 2, 3), (8, 2, 16))]
    + [("ScheduleZBVZeroBubble", p, 2, m)
       for p, m in ((1, 1), (1, 4), (2, 1), (2, 3), (2, 8), (3, 4), (3, 7), (4, 4), (4, 12),
                    (8, 16))]
    + [("ScheduleDualPipeV", p, 2, m)
       for p, m in ((1, 2), (1, 5), (2, 4), (2, 7), (3, 6), (3, 9), (4, 8), (4, 20), (8, 17))]
)  # fmt: skip


class Stage:
    """What a schedule asks of a stage. Passes are written to the log; all else does nothing."""

    def __init__(self, index, ranks, stages, log):
        self.stage_index, self.num_stages = index, stages
        self.group_rank, self.group_size = index % ranks, ranks
        self.is_first, self.is_last = index == 0, index == stages - 1
        self.submod, self.log = None, log

    def forward_one_chunk(self, micro, *args, **kwargs):
        self.log.append(f"{self.stage_index}F{micro}")

    def backward_one_chunk(self, micro, *args, **kwargs):
        self.log.append(f"{self.stage_index}B{micro}")

    def __getattr__(self, name):
        return lambda *args, **kwargs: []


def of_one_stage(cls, rank, ranks, micros):
    log = []
    schedule = cls(Stage(rank, ranks, ranks, log), micros)
    schedule._initialize_stage = lambda *args: None
    schedule._step_microbatches([()] * micros, [{}] * micros)
    return " ".join(log)


def of_several_stages(cls, ranks, chunks, micros):
    stages = [Stage(c * ranks, ranks, ranks * chunks, []) for c in range(chunks)]
    orders = cls(stages, micros).pipeline_order
    return [" ".join(str(single) for action in orders[rank] if action is not None
                     for single in action.sub_actions or [action])
            for rank in range(ranks)]  # fmt: skip


def passes(name, ranks, chunks, micros):
    from torch.distributed.pipelining import schedules

    cls = getattr(schedules, name)
    if chunks == 1 and "Interleaved" not in name:
        return [of_one_stage(cls, rank, ranks, micros) for rank in range(ranks)]
    return of_several_stages(cls, ranks, chunks, micros)


def golden(version):
    rows = [{"schedule": name, "ranks": ranks, "chunks": chunks, "micro_batches": micros,
             "passes": passes(name, ranks, chunks, micros)}
            for name, ranks, chunks, micros in CASES]  # fmt: skip
    return {"schema": "zplan.golden-schedules/1", "torch": version, "schedules": rows}


def differences(written, now):
    for row in now["schedules"]:
        key = {k: v for k, v in row.items() if k != "passes"}
        same = [r for r in written["schedules"] if {k: r[k] for k in key} == key]
        if [r["passes"] for r in same] != [row["passes"]]:
            yield key
    if len(written["schedules"]) != len(now["schedules"]):
        yield "the number of schedules"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", metavar="FILE")
    action.add_argument("--check", metavar="FILE")
    options = parser.parse_args()
    try:
        import torch
        import torch.distributed.pipelining.schedules  # noqa: F401
    except ImportError as error:
        print(f"skipped: PyTorch with pipeline schedules cannot be imported ({error})")
        return SKIPPED
    now = golden(torch.__version__.split("+")[0])
    if options.write:
        with open(options.write, "w") as file:
            file.write(json.dumps(now, indent=1) + "\n")
        return 0
    with open(options.check) as file:
        written = json.load(file)
    different = list(differences(written, now))
    for what in different:
        print(f"PyTorch {now['torch']} differs from the golden file: {what}")
    if not different:
        print(f"PyTorch {now['torch']}: {len(CASES)} schedules as in the golden file")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
