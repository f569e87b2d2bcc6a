"""What a sceptic asks of a recommended plan: pin the plain alternative, and look whether it is as fast.

An answer that offloads or uses ZeRO 3 is right only where ZeRO 0, 1 and 2 with everything on the
GPU do not fit or take more than 2 % longer."""

import functools
import json

from cli_support import OK, CliTest, main, zplan

TOLERANCE = 1.02
ON_GPU = ("--params", "gpu", "--grads", "gpu", "--optimizer", "gpu", "--activations", "gpu")
# Of most of these a plan of ZeRO 3 is the fastest that the search simulates.
QUESTIONS = (
    ("gpt2", "dgx-h100"), ("gpt2", "dgx2"), ("gpt2-xl", "dgx2"), ("gpt2-xl", "dgx-h100x8"),
    ("tiny", "workstation"), ("llama3-8b", "dgx-h100"), ("llama3-8b", "dgx-h100x64"),
    ("22B", "dgx-a100"), ("100B", "dgx-h100x4"),
)


def is_plain(plan):
    return plan["zero_stage"] < 3 and set(plan["placement"].values()) == {"gpu"}


@functools.cache
def asked(model, cluster):
    """Once, for both test cases."""
    return zplan("plan", "--model", model, "--cluster", cluster, "--for", "zplan", "--json")


class Recommended(CliTest):
    def answer(self, model, cluster):
        result = asked(model, cluster)
        self.assertEqual((result.returncode, result.stderr), (OK, ""), (model, cluster))
        return json.loads(result.stdout)

    def test_no_plain_plan_is_as_fast_as_one_that_is_not(self):
        for model, cluster in QUESTIONS:
            question = ("plan", "--model", model, "--cluster", cluster, "--for", "zplan")
            answer = self.answer(model, cluster)
            if is_plain(answer["plan"]):
                continue
            for stage in ("0", "1", "2"):
                plain = self.zplan(*question, "--json", "--zero", stage, *ON_GPU)
                if plain.returncode != OK:
                    continue
                step = json.loads(plain.stdout)["time"]["step_s"]
                self.assertGreater(
                    step, TOLERANCE * answer["time"]["step_s"], f"{model} {cluster} ZeRO {stage}"
                )

    def test_what_is_recommended_is_within_two_percent_of_the_fastest(self):
        beside = 0
        for model, cluster in QUESTIONS:
            answer = self.answer(model, cluster)
            if "fastest" not in answer:
                continue
            beside += 1
            fastest = answer["fastest"]["step_s"]
            self.assertLess(fastest, answer["time"]["step_s"])
            self.assertLessEqual(answer["time"]["step_s"], TOLERANCE * fastest)
        self.assertGreater(beside, 0)


if __name__ == "__main__":
    main()
