"""How sure answers are: intervals, what nobody measured, and runs of the user's own (--anchor)."""

import json
import os

from cli_support import BAD_INPUT, ROOT, CliTest, main

SMALL = ("--model", "gpt2-124m", "--cluster", "dgx-h100", "--simulations", "4")
RUNS = os.path.join(ROOT, "tests", "data", "published_runs.jsonl")


def record(group, index=0):
    with open(RUNS, encoding="utf-8") as lines:
        return [line for line in lines if json.loads(line)["group"] == group][index]


class Intervals(CliTest):
    def step(self, *arguments):
        return self.good_json(*arguments)["time"]

    def test_an_answer_has_an_interval_around_its_step(self):
        time = self.step("plan", *SMALL, "--stack", "fsdp2023")
        interval = time["interval"]
        self.assertEqual(interval["share"], 0.8)
        self.assertLess(interval["low_s"], time["step_s"])
        self.assertGreater(interval["high_s"], time["step_s"])

    def test_it_says_what_the_time_rests_on(self):
        rests_on = {row["constant"]: row["elasticity"] for row in self.step("plan", *SMALL)["rests_on"]}
        self.assertGreater(rests_on["gemm"], 0.2)
        self.assertEqual(rests_on["overall"], 1)

    def test_an_unknown_stack_widens_it_and_is_named(self):
        never = self.step("plan", *SMALL, "--stack", "hf")
        self.assertEqual(never["unknown"], ["no run of hf was ever measured"])
        known = self.step("plan", *SMALL, "--stack", "fsdp2023")
        width = [time["interval"]["high_s"] / time["step_s"] for time in (never, known)]
        self.assertGreater(*width)
        self.assertIn("no run of hf was ever measured", self.good("plan", *SMALL, "--stack", "hf", "--details"))

    def test_what_was_measured_of_our_own_stack_is_not_called_unknown(self):
        """reports/plan_runs.md: one rank on an H100, with recomputation and without."""
        one = (*SMALL, "--for", "zplan", "--dp", "1", "--tp", "1", "--pp", "1", "--zero", "0")
        for more in ((), ("--recompute", "full")):
            answer = self.zplan("plan", *one, *more, "--json").stdout  # it says that GPUs stay idle
            self.assertEqual(json.loads(answer)["time"]["unknown"], [])
        spread = self.step("plan", *SMALL, "--for", "zplan", "--dp", "8", "--tp", "1", "--pp", "1", "--zero", "3")
        self.assertEqual(spread["unknown"], ["no run of own with data parallelism",
                                             "no run of own with ZeRO 3",
                                             "no run of own on more than one device"])

    def test_an_unknown_device_is_named(self):
        time = self.step("plan", "--model", "gpt2-124m", "--cluster", "dgx2", "--simulations", "4",
                         "--stack", "nemo2024")  # fmt: skip
        self.assertIn("no run of nemo2024 on V100-SXM3-32GB", time["unknown"])

    def test_people_read_in_one_sentence_what_no_run_speaks_for(self):
        question = ("plan", "--model", "gpt2-1.5b", "--cluster", "dgx2", "--simulations", "1",
                    "--for", "zplan", "--details")
        text = " ".join(self.good(*question).split())
        self.assertIn("Certainty no run of own on V100-SXM3-32GB, in fp16", text)
        self.assertEqual(text.count("no run of own"), 1)

    def test_more_than_was_ever_measured_is_said_and_the_interval_reaches_down_to_it(self):
        asked = ("plan", "--model", "opt-30b", "--cluster", "dgx2x4", "--simulations", "1")
        question = (*asked, "--for", "zplan")
        time = self.step(*question)
        best = time["exceeds"]
        self.assertEqual((best["device"], best["format"]), ("V100-SXM3-32GB", "fp16"))
        self.assertGreater(time["mfu"], best["mfu"])
        at_best = time["step_s"] * time["mfu"] / best["mfu"]
        self.assertGreaterEqual(time["interval"]["high_s"], at_best * (1 - 1e-9))
        headline = " ".join(self.good(*question).split()[:60])
        self.assertIn("above the best ever measured on V100-SXM3-32GB", headline)
        self.assertIsNone(self.step(*asked, "--stack", "deepspeed2020")["exceeds"])

    def test_the_same_question_has_the_same_interval(self):
        one = self.good("plan", *SMALL, "--threads", "1", "--json")
        self.assertEqual(one, self.good("plan", *SMALL, "--threads", "2", "--json"))


class Anchors(CliTest):
    def anchor(self, group, index=0, **measured):
        run = json.loads(record(group, index))
        run["measured"].update(measured)
        return self.write("anchor.jsonl", json.dumps(run) + "\n")

    def test_a_run_moves_the_rates_of_its_stack_and_narrows_the_interval(self):
        run = json.loads(record("llmq"))
        alone = self.write("alone.jsonl", json.dumps(run) + "\n")
        before = self.good_json("validate", alone)["rows"][0]
        slow = self.anchor("llmq", step_time_s=1.3 * before["predicted_s"])
        answer = self.good_json("validate", alone, "--anchor", slow)
        after = answer["rows"][0]
        self.assertGreater(after["predicted_s"], 1.02 * before["predicted_s"])
        self.assertLess(after["predicted_s"], 1.3 * before["predicted_s"])
        width = [row["high_s"] / row["low_s"] for row in (before, after)]
        self.assertGreater(*width)
        told = answer["anchors"][0]
        self.assertAlmostEqual(told["before_s"], before["predicted_s"], 9)
        self.assertAlmostEqual(told["after_s"], after["predicted_s"], 9)
        self.assertTrue(any(rate["after"] > rate["before"] for rate in told["moved"]))

    def test_runs_of_other_stacks_stay_as_they_are(self):
        other = self.write("other.jsonl", record("megatron2020"))
        anchor = self.anchor("llmq", step_time_s=100.0)
        self.assertEqual(self.good_json("validate", other)["rows"],
                         self.good_json("validate", other, "--anchor", anchor)["rows"])  # fmt: skip

    def test_plans_and_simulations_follow_it(self):
        question = ("plan", *SMALL, "--stack", "fsdp2023")
        before = self.good_json(*question, "-o", "plan.json")["time"]["step_s"]
        slow = self.anchor("mosaic_v2", 60, step_time_s=1000.0)
        self.assertGreater(self.good_json(*question, "--anchor", slow)["time"]["step_s"], before)
        simulated = self.good_json("simulate", "plan.json", "--stack", "fsdp2023", "--anchor", slow)
        self.assertGreater(simulated["time"]["step_s"], before)
        self.assertIn("calibrated on mosaic_v2/", self.good(*question, "--anchor", slow))

    def test_what_is_no_measured_run_is_refused(self):
        for text, says in (("", "expected a measured run (zplan.runs/2), got none"),
                           ("{}\n", "anchor.jsonl:1:1: /: expected \"schema\""),
                           ("nonsense\n", "anchor.jsonl:1:1")):
            with self.subTest(text=text):
                self.write("anchor.jsonl", text)
                self.bad(BAD_INPUT, "plan", *SMALL, "--anchor", "anchor.jsonl", says=says)
        self.anchor("llmq", step_time_s=None, step_time_kind=None)
        self.bad(BAD_INPUT, "plan", *SMALL, "--anchor", "anchor.jsonl", says="expected a time, got null")
        self.bad(BAD_INPUT, "plan", *SMALL, "--anchor", "none.jsonl", says="none.jsonl")

    def test_runs_of_two_stacks_are_refused_unless_one_is_named(self):
        self.write("anchor.jsonl", record("llmq") + record("megatron2020"))
        self.bad(BAD_INPUT, "plan", *SMALL, "--anchor", "anchor.jsonl", says="expected runs of one stack")


if __name__ == "__main__":
    main()
