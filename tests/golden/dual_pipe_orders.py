#!/usr/bin/env python3
"""The passes of the published DualPipe, rank by rank.

  dual_pipe_orders.py DUALPIPE_PY --write FILE  writes the golden file of dual_pipe_orders_test.cpp
  dual_pipe_orders.py DUALPIPE_PY --check FILE  compares it with that source

DUALPIPE_PY is dualpipe/dualpipe.py of the repository deepseek-ai/DualPipe (MIT), at the commit that
the golden file names. Its step() runs on ranks whose computation and communication write a log and
do nothing; torch is not needed. A pass is named by its way, its kind and its micro-batch among
those of that way: way 0 is of the micro-batches that enter at the rank's end of the pipeline, way 1
of the others. Passes that are overlapped follow each other, forward first.
"""

import argparse
import json
import sys
import types
from pathlib import Path

COMMIT = "3da1bbea53606543d7f5f232338fc58096db30e3"
# (ranks, micro-batches of both ways)
CASES = [(4, 8), (4, 10), (4, 26), (6, 12), (6, 18), (8, 16), (8, 40), (16, 34)]


class Queue:
    def __init__(self, log):
        self.log, self.waiting = log, []

    def empty(self):
        return not self.waiting


def stub(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module
    return module


def load(path):
    dist = stub("torch.distributed", ProcessGroup=object)
    nn = stub("torch.nn", Module=object)
    stub("torch", nn=nn, distributed=dist, Tensor=object, is_grad_enabled=lambda: True,
         stack=lambda losses: losses)  # fmt: skip
    comm = stub("dualpipe.comm", TENSOR_SHAPES=[], TENSOR_DTYPE=0)
    nothing = lambda *args, **kwargs: []  # noqa: E731
    store = types.SimpleNamespace(clear=nothing)
    stub("dualpipe.utils", WeightGradStore=store, run_backward=nothing, scatter=nothing,
         gather=nothing)  # fmt: skip
    stub("dualpipe", comm=comm)
    source = {"__name__": "published"}
    exec(compile(path.read_text(), str(path), "exec"), source)
    return source["DualPipe"], store


def passes(published, store, rank, ranks, micros):
    log, counts = [], {}
    store.funcs_queue = Queue(log)

    def add(way, kind):
        # Backward is counted once, whole or by its first part.
        of = "B" if kind == "I" else kind
        number = counts.get((way, of), 0)
        counts[way, of] = number + 1
        log.append(f"{kind}{way}.{number}")
        return number

    class Rank(published):
        def __init__(self):
            self.rank, self.num_ranks, self.batch_dim = rank, ranks, 0
            self.is_first_rank, self.is_last_rank = rank == 0, rank == ranks - 1
            self.is_in_second_half = rank >= ranks // 2
            self.is_middle_rank = rank in (ranks // 2 - 1, ranks // 2)
            self.overlapped_forward_backward = False

        def _forward_compute_chunk(self, phase):
            add(phase, "F")

        def _backward_compute_chunk(self, phase, enable_zb=False):
            number = add(phase, "I" if enable_zb else "B")
            if enable_zb:
                store.funcs_queue.waiting.append((phase, number))

        def _weight_chunk(self):
            way, number = store.funcs_queue.waiting.pop(0)
            log.append(f"W{way}.{number}")

        def _send_forward(self, phase):
            pass

        _recv_forward = _send_backward = _recv_backward = _send_forward

        def _commit_and_wait_comm(self):
            pass

    Rank().step(num_chunks=micros, criterion=lambda: None)
    return " ".join(log)


def golden(path):
    published, store = load(path)
    return {
        "schema": "zplan.golden-dualpipe/1",
        "source": f"deepseek-ai/DualPipe, dualpipe/dualpipe.py, commit {COMMIT}, MIT",
        "schedules": [
            {
                "ranks": ranks,
                "micro_batches": micros,
                "passes": [passes(published, store, r, ranks, micros) for r in range(ranks)],
            }
            for ranks, micros in CASES
        ],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--check", type=Path)
    args = parser.parse_args()
    text = json.dumps(golden(args.source), indent=1) + "\n"
    if args.write:
        args.write.write_text(text)
    if args.check and args.check.read_text() != text:
        sys.exit(f"{args.check} is not what {args.source} gives")


if __name__ == "__main__":
    main()
