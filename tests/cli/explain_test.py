#!/usr/bin/env python3
"""zplan explain and zplan why-not: terms give the number, differences the difference."""

import math

from cli_support import BAD_INPUT, INFEASIBLE, CliTest, main

TINY = ("--model", "tiny-gpt", "--cluster", "workstation")
BIG = ("--model", "10B", "--cluster", "dgx2", "--simulations", "4")


class Explain(CliTest):
    def number(self, answer):
        values = [term["value"] for term in answer["terms"]]
        if answer["combine"] == "sum":
            return sum(values)
        divisors = [term["value"] for term in answer["divisors"]]
        return answer["factor"] * math.prod(values) / math.prod(divisors)

    def test_terms_give_every_number(self):
        plan = self.tiny_plan("--dp", "2", "--zero", "3", "--optimizer", "cpu")
        answer = self.good_json("simulate", plan)
        listed = self.good_json("explain", plan)
        self.assertEqual(listed["schema"], "zplan.explanations/1")
        self.assertGreater(len(listed["explanations"]), 10)
        for row in listed["explanations"]:
            one = self.good_json("explain", plan, row["what"])
            self.assertEqual(one["schema"], "zplan.explanation/1")
            self.assertEqual(one["value"], row["value"])
            scale = max(abs(term["value"]) for term in one["terms"])
            tolerance = 1e-9 * (scale if one["combine"] == "sum" else abs(one["value"]))
            self.assertAlmostEqual(self.number(one), one["value"], delta=tolerance, msg=row["what"])
        values = {row["what"]: row["value"] for row in listed["explanations"]}
        for key in ("step_s", "tokens_per_s", "mfu", "hfu", "model_tflops_per_gpu"):
            self.assertAlmostEqual(values["time." + key] / answer["time"][key], 1, places=9)
        self.assertEqual(values["memory.gpu.peak_bytes"], answer["memory"]["gpu"]["peak_bytes"])

    def test_people_read_formula_terms_and_sources(self):
        text = self.good("explain", *TINY, "time.mfu")
        self.assertRegex(text.split("\n")[0], r"^time.mfu = [0-9.]+ %: flop / ")
        for word in ("GPUs", "peak of the products", "time.step_s", "plan"):
            self.assertIn(word, text)
        text = self.good("explain", *TINY, "memory.gpu.peak_bytes")
        self.assertIn("The largest", text)
        self.assertIn("alive at", text)

    def test_unknown_numbers_name_those_there_are(self):
        result = self.zplan("explain", *TINY, "time.mfuu")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn("time.mfu", result.stderr)


class WhyNot(CliTest):
    def test_differences_add_up_to_that_of_the_steps(self):
        answer = self.good_json("why-not", *BIG, "--optimizer", "nvme")
        self.assertEqual(answer["schema"], "zplan.why_not/1")
        behind = answer["pinned"]["step_s"] - answer["free"]["step_s"]
        self.assertGreater(behind, 0)
        self.assertAlmostEqual(sum(row["difference_s"] for row in answer["split"]), behind, places=6)
        self.assertRegex(answer["verdict"], r"behind \([0-9.]+ %\): .* a step; most of it .* more of")

    def test_bytes_that_are_missing_name_the_operation_and_a_change(self):
        pins = ("--zero", "0", "--tp", "1", "--pp", "1")
        result = self.zplan("why-not", *BIG, *pins)
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertRegex(result.stdout, r"^does not fit: [0-9.]+ [GT]iB missing: ")

    def test_pins_are_asked_for(self):
        result = self.zplan("why-not", *BIG, "--global-batch", "512")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn("expected pins", result.stderr)


if __name__ == "__main__":
    main()
