#!/usr/bin/env python3
"""The search chooses the better kernel set: pinning either one of a device gains next to nothing.

  kernel_sets_test.py PROGRAM ROOT           a few questions
  kernel_sets_test.py PROGRAM ROOT --all     every gemma and T5 model of the catalogue and every
                                             model whose heads a library has no fused kernel for, on
                                             V100, A100 and H100; prints a table
"""

import json
import sys

from cli_support import INFEASIBLE, OK, CliTest, main

LIMIT = 1.5  # of the answer's step over that of the better set pinned
FASTEST_LIMIT = 1.005  # the same of the fastest plans that were found

QUICK = (
    ("gemma3-1b", "dgx-a100"),  # heads of 256, for which cuDNN has no kernel on an A100
    ("t5-base", "dgx2"),  # cuDNN has no kernel for a V100
    ("gemma3-1b", "dgx-h100"),
)
# By size: V100, A100 and H100 clusters that such models are trained on.
CLUSTERS = {
    "small": ("dgx2", "aws-p4d", "dgx-h100"),
    "medium": ("dgx2x2", "aws-p4dx2", "dgx-h100x2"),
    "large": ("dgx2x8", "dgx-a100x8", "dgx-h100x8"),
    "largest": ("dgx2x64", "dgx-a100x64", "dgx-h100x64"),
}
MODELS = {
    "small": """gemma3-1b gemma3-4b t5-small t5-base t5-large t5-3b flan-t5-small flan-t5-base
        flan-t5-large flan-t5-xl""",
    "medium": "gemma2-9b gemma3-12b t5-11b flan-t5-xxl",
    "large": "gemma2-27b gemma3-27b deepseek-v2",
    "largest": "1T megatron-530b megatron-1t deepseek-v3",
}
DEVICE_SETS = {"dgx2": "cuda.sm70.fp16", "aws-p4d": "cuda.sm80.bf16", "dgx-a100": "cuda.sm80.bf16",
               "dgx-h100": "cuda.sm90.bf16"}


def all_questions():
    return [(model, cluster) for size, models in MODELS.items()
            for model in models.split() for cluster in CLUSTERS[size]]


def sets_of(cluster):
    device = max((name for name in DEVICE_SETS if cluster.startswith(name)), key=len)
    return DEVICE_SETS[device], DEVICE_SETS[device] + ".unfused"


def fastest_step(answer):
    """Of the fastest plan found, which is not always the one answered."""
    fastest = answer.get("fastest") or {}
    return fastest.get("step_s", answer["time"]["step_s"])


class KernelSets(CliTest):
    def answer(self, model, cluster, *pins):
        """None: nothing fits."""
        result = self.zplan("plan", "--for", "zplan", "--model", model, "--cluster", cluster,
                            "--json", *pins)
        self.assertIn(result.returncode, (OK, INFEASIBLE), result.stderr)
        return json.loads(result.stdout) if result.returncode == OK else None

    def compare(self, model, cluster):
        """The free answer over the better pinned one, by their answers and by their fastest plans;
        None: nothing fits with either set."""
        pinned = {kernels: self.answer(model, cluster, "--kernel-set", kernels)
                  for kernels in sets_of(cluster)}
        fitting = {kernels: answer for kernels, answer in pinned.items() if answer}
        free = self.answer(model, cluster)
        self.assertEqual(free is None, not fitting, "the choice of the set decides what fits")
        if not fitting:
            return None
        answered = free["time"]["step_s"] / min(a["time"]["step_s"] for a in fitting.values())
        fastest = fastest_step(free) / min(map(fastest_step, fitting.values()))
        if "--all" in sys.argv:
            steps = [f"{a['time']['step_s']:.4g}" if a else "-" for a in pinned.values()]
            print(f"{model:16} {cluster:12} {free['time']['step_s']:10.4g}"
                  f" {free['plan']['kernel_set']:24} {steps[0]:>10} {steps[1]:>10}"
                  f" {answered:7.3f} {fastest:7.3f}", flush=True)
        return answered, fastest

    def test_pinning_a_set_gains_next_to_nothing(self):
        if "--all" in sys.argv:
            print(f"{'model':16} {'cluster':12} {'free, s':>10} {'its set':24} {'fused':>10}"
                  f" {'stored':>10} {'answer':>7} {'fastest':>7}", flush=True)
        for model, cluster in all_questions() if "--all" in sys.argv else QUICK:
            with self.subTest(model=model, cluster=cluster):
                ratios = self.compare(model, cluster)
                if ratios is None:
                    continue
                self.assertLess(ratios[0], LIMIT)
                self.assertLess(ratios[1], FASTEST_LIMIT)


if __name__ == "__main__":
    main()
