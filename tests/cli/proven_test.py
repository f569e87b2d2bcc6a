"""No plan is faster than the gap of an answer lets it be: some random plans of the space of a few
questions. tests/perf/proof_attack.py tries many more."""

import os
import random
import sys

from cli_support import PROGRAM, ROOT, CliTest, main

sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from proof_attack import Attack  # noqa: E402

PLANS = 40
# Those that the search ends with a gap, and those that it proves.
QUESTIONS = (
    "--model gpt2-1.5b --cluster dgx2x4 --for zplan",
    "--model megatron-22b --cluster dgx-a100 --for zplan",
    "--model mixtral-8x7b --cluster dgx-a100x2 --for zplan",
    "--model llama3-8b --cluster rtx4090-12ssd --for zplan",
)


class Proven(CliTest):
    def test_no_random_plan_beats_the_gap(self):
        for question in QUESTIONS:
            attack = Attack(PROGRAM, question.split(), random.Random(2))
            attack.try_plans(PLANS)
            self.assertEqual(attack.faster, [], question)
            self.assertGreater(attack.fitting, PLANS // 10, question)

    def test_no_number_of_context_parallel_ranks_beats_the_answer_for_long_sequences(self):
        question = ("plan", "--model", "llama3-8b", "--cluster", "dgx-h100x2", "--seq", "131072",
                    "--global-batch", "16", "--for", "zplan")

        def fastest(*pins):
            answer = self.good_json(*question, *pins)
            return (answer.get("fastest") or answer["time"])["step_s"], answer["search"]["gap"]

        step, gap = fastest()
        names = "outside the space: rings or context parallelism between nodes"
        self.assertIn(names, " ".join(self.good(*question).split()))
        self.assertNotIn(names, " ".join(self.good(*question, "--cp", "2").split()))
        for ranks in (1, 2, 4, 8):
            self.assertLess(step * (1 - gap - 0.01), fastest("--cp", str(ranks))[0], ranks)

    def test_an_attack_sees_what_is_faster(self):
        """With a gap of nothing a search that was cut short is found out."""
        question = "--model gpt2-1.5b --cluster dgx2x4 --dp 64 --tp 1 --pp 1 --for zplan".split()
        attack = Attack(PROGRAM, question, random.Random(2), ["--simulations", "1"])
        attack.answer["search"]["gap"] = 0
        attack.answer["time"]["step_s"] *= 10
        attack.answer.pop("fastest", None)
        attack.try_plans(PLANS)
        self.assertNotEqual(attack.faster, [])


if __name__ == "__main__":
    main()
