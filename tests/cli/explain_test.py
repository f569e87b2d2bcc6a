#!/usr/bin/env python3
"""zplan explain and zplan why-not: terms give the number, differences the difference."""

import json
import math
import re

from cli_support import BAD_INPUT, INFEASIBLE, CliTest, main

TINY = ("--model", "tiny-gpt", "--cluster", "workstation")
BIG = ("--model", "10B", "--cluster", "dgx2", "--simulations", "4")


# Plans of each kind: (model, cluster, pins).
PLANS = {
    "dense": ("tiny-gpt", "workstation", ("--dp", "2", "--zero", "3", "--optimizer", "cpu")),
    "experts": ("tiny-moe", "workstation", ("--dp", "2", "--ep", "2", "--expert-imbalance", "1.5")),
    "offload": ("tiny-gpt", "dgx2", ("--dp", "4", "--zero", "3", "--optimizer", "nvme")),
    "pipeline": ("tiny-gpt", "dgx2", ("--pp", "2", "--tp", "2", "--dp", "2")),
}
INDEX = re.compile(r"\[\d+\]")


def numbers(value, path=""):
    """(path, number) of all that are in an answer, as jq writes paths."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from numbers(item, f"{path}[{i}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, value


class Explain(CliTest):
    def number(self, answer):
        values = [term["value"] for term in answer["terms"]]
        if answer["combine"] == "sum":
            return sum(values)
        divisors = [term["value"] for term in answer["divisors"]]
        return answer["factor"] * math.prod(values) / math.prod(divisors)

    def explained(self, *source):
        """By each of their names the explanations of a plan, whose terms give the number."""
        listed = self.good_json("explain", *source)
        self.assertEqual(listed["schema"], "zplan.explanations/1")
        names = {}
        for row in listed["explanations"]:
            sizes = [abs(term["value"]) for term in row["terms"]] or [0]
            scale = max(sizes) if row["combine"] == "sum" else abs(row["value"])
            self.assertAlmostEqual(self.number(row), row["value"], delta=1e-9 * scale,
                                   msg=row["what"])
            for term in row["terms"] + row["divisors"] + row["made_of"]:
                self.assertTrue(term["name"] and term["unit"] and term["source"], row["what"])
            for name in [row["what"], *row["also"]]:
                self.assertNotIn(name, names)
                names[name] = row
        return names, listed["without"]

    def check(self, answer, names, without):
        """Every number is explained as it is printed, or it is said why not."""
        missing, reasons = [], set()
        for path, number in numbers(answer):
            if path in names:
                value = names[path]["value"]
                self.assertAlmostEqual(value, number, delta=1e-9 * abs(number), msg=path)
                continue
            key = INDEX.sub("[]", path)
            rows = [row for row in without
                    if key == row["keys"] or
                    row["keys"].endswith("*") and key.startswith(row["keys"][:-1])]
            if not rows:
                missing.append(path)
            reasons.update(row["why"] for row in rows)
        self.assertEqual(missing, [])
        return reasons

    def test_every_number_of_an_answer_is_explained_or_said_why_not(self):
        for kind, (model, cluster, pins) in PLANS.items():
            with self.subTest(kind):
                question = ("--model", model, "--cluster", cluster, "--simulations", "4", *pins)
                # Pins that leave devices idle say so.
                answer = json.loads(self.zplan("plan", *question, "--top", "2", "--pareto",
                                               "-o", kind, "--json").stdout)
                names, without = self.explained(kind)
                for command in (("simulate", kind), ("memory", kind, "--deepspeed")):
                    self.check(self.good_json(*command), names, without)
                del answer["search"]  # which a file knows nothing of
                self.check(answer, names, without)

    def test_a_question_has_the_numbers_of_its_search_explained(self):
        question = ("--model", "10B", "--cluster", "dgx2", "--simulations", "4")
        names, without = self.explained(*question)
        answer = self.good_json("plan", *question)
        self.check(answer, names, without)
        self.assertEqual(names["search.gap"]["value"], answer["search"]["gap"])
        self.assertGreater(names["search.gap"]["value"], 0)
        gap = names["search.gap"]
        self.assertAlmostEqual(gap["terms"][0]["value"],
                               gap["divisors"][0]["value"] - names["search.least_bound_s"]["value"],
                               places=9)
        self.assertRegex(names["search.least_bound_s"]["formula"], r"ZeRO-\d gpu.*dp \d+ x tp")

    def test_why_a_plan_has_its_kernel_set(self):
        """cuDNN takes no heads of 20."""
        question = ("--model", "tiny-mla", "--cluster", "dgx-a100", "--dp", "8", "--simulations", "4",
                    "--for", "zplan")
        lack = "cuDNN has no fused attention for heads of 20"
        for kernels, says in (("cuda.sm80.bf16", "SLOW attention on vector units: "),
                              ("cuda.sm80.bf16.unfused", "scores of attention are stored: ")):
            answer = self.good_json("explain", *question, "--kernel-set", kernels)
            self.assertIn(f"{kernels}: {says}{lack}", answer["kernel_set"])
        text = self.good("explain", *TINY)
        self.assertIn("\nKernel set\n  cpu.f32 is the usual kernel set of ", text)

    def test_an_interval_is_a_factor_for_each_constant(self):
        one = self.good_json("explain", *BIG, "time.interval.high_s")
        self.assertGreater(len(one["terms"]), 4)
        shares = [float(share) for term in one["terms"][1:]
                  for share in re.findall(r": (-?[0-9.]+) % of the way$", term["name"])]
        self.assertEqual(len(shares), len(one["terms"]) - 1)
        self.assertAlmostEqual(sum(shares), 100, delta=0.05 * len(shares))
        text = self.good("explain", *BIG, "time.interval.high_s")
        for word in ("matrix products", "[assumed]", "of the step follows it", "+-"):
            self.assertIn(word, text)

    def test_what_has_no_explanation_is_said_why(self):
        result = self.zplan("explain", *TINY, "rejected[0].step_s")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn("it is of another plan", result.stderr)
        answer = self.good_json("explain", *TINY, ".time.step_split.parts[0].time_s")
        self.assertEqual(answer["what"], "time.step_split.products")

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

    def test_a_family_is_asked_about_as_the_answer_prints_it(self):
        printed = self.good_json("why-not", *BIG, "ZeRO-3 gpu+nvme")
        words = self.good_json("why-not", *BIG, "ZeRO-3", "gpu+nvme")
        self.assertEqual(printed, words)
        plan = printed["pinned"]["plan"]
        self.assertEqual(plan["zero_stage"], 3)
        self.assertIn("nvme", json.dumps(plan["placement"]))
        self.assertEqual((plan["parallel"]["tp"], plan["parallel"]["pp"]), (1, 1))
        self.assertRegex(printed["verdict"], r"the lane behind it is \S+")
        lane = re.search(r"the lane behind it is (\S+): busy", printed["verdict"]).group(1)
        holds = {row["lane"]: row["pinned_holds_s"] - row["free_holds_s"]
                 for row in printed["lanes"]}
        self.assertEqual(max(holds, key=holds.get), lane)

    def test_words_leave_the_rest_of_a_family_open(self):
        answer = self.good_json("why-not", *BIG, "pipeline")
        self.assertGreater(answer["pinned"]["plan"]["parallel"]["pp"], 1)
        answer = self.good_json("why-not", *BIG, "nvme", "tensor")
        self.assertIn("nvme", json.dumps(answer["pinned"]["plan"]["placement"]))
        self.assertGreater(answer["pinned"]["plan"]["parallel"]["tp"], 1)

    def test_a_family_that_does_not_fit_names_the_smallest_change(self):
        result = self.zplan("why-not", "--model", "100B", "--cluster", "dgx2", "ZeRO-2 gpu", "--json",
                            "--simulations", "4")
        self.assertEqual(result.returncode, INFEASIBLE)
        why = json.loads(result.stdout)["infeasible"]
        self.assertGreater(why["needed_bytes"], why["available_bytes"])
        self.assertIn("smallest_change", why)

    def test_an_unknown_family_names_the_nearest_word(self):
        result = self.zplan("why-not", *BIG, "pipelines")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn('did you mean "pipeline"', result.stderr)

    def test_pins_are_asked_for(self):
        result = self.zplan("why-not", *BIG, "--global-batch", "512")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn("expected a family or pins", result.stderr)


if __name__ == "__main__":
    main()
