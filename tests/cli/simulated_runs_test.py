"""Steps that are printed as measured, and that a simulator composed.

Two runs that differ in nothing but their data parallel degree differ by the all-reduce of their
gradients. On a machine the difference would vary from pair to pair: equal runs of 64 nodes from the
same source differ by 0.05 %, 53.9096 and 53.9379 s. In tests/data/simulated_runs.jsonl it is one number, to the microsecond, whatever the
micro-batch and however many of them: a table's entry that was added to a sum (tests/data/README.md).
"""

import collections
import itertools
import json
import os

from cli_support import ROOT, CliTest, main

DATA = os.path.join(ROOT, "tests", "data")
RECORDED_S = 1e-6  # to which the records round the printed times


def records(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def differences(runs):
    """By shape and pair of data parallel degrees: of steps with equal micro-batches."""
    steps = collections.defaultdict(dict)
    for run in runs:
        parallel, model, time = run["parallel"], run["model"], run["measured"]["printed"]
        if parallel["pp"] > 1 or time is None:
            continue
        shape = run["group"], parallel["tp"], model["hidden"], model["layers"]
        batch = run["micro_batch"], run["global_batch"] // parallel["dp"]
        steps[shape + batch][parallel["dp"]] = time["value"]
    found = collections.defaultdict(list)
    for key, times in steps.items():
        for few, many in itertools.combinations(sorted(times), 2):
            found[key[:4] + (few, many)].append((times[many] - times[few], times[few]))
    return found


class SimulatedRuns(CliTest):
    def test_differences_of_steps_are_one_number(self):
        sets = [pairs for pairs in differences(records("simulated_runs.jsonl")).values()
                if len(pairs) > 1]
        self.assertGreater(len(sets), 30)
        for pairs in sets:
            lengths = [step for _, step in pairs]
            self.assertGreater(max(lengths) / min(lengths), 1.05)
            changes = [change for change, _ in pairs]
            self.assertLess(max(changes) - min(changes), 2 * RECORDED_S)

    def test_none_of_them_counts_as_measured(self):
        simulated = records("simulated_runs.jsonl")
        self.assertEqual({run["measured"]["step_time_kind"] for run in simulated}, {"simulated"})
        for name in ("published_runs.jsonl", "blind_runs.jsonl", "nanotron_runs.jsonl"):
            kinds = {run["measured"].get("step_time_kind") for run in records(name)}
            self.assertNotIn("simulated", kinds, name)


if __name__ == "__main__":
    main()
