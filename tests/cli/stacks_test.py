"""--stack: whose software a plan is made for, or simulated with."""

import json
import os

from cli_support import BAD_INPUT, OK, CliTest, main

QUESTION = ("--model", "gpt3-175b", "--cluster", "dgx-a100x8", "--dp", "1", "--tp", "8", "--pp", "8",
            "--micro-batch", "1", "--global-batch", "64", "--recompute", "full", "--simulations", "1")


class Stacks(CliTest):
    def test_planning_writes_the_defaults_as_ordinary_fields(self):
        plan = self.good_json("plan", *QUESTION, "--stack", "megatron2022")["plan"]
        self.assertEqual(plan["kernel_set"], "cuda.sm80.bf16.unfused")
        self.assertIs(plan["overlap"]["gradients"], False)
        self.assertIs(plan["dropout"], True)

    def test_our_own_has_two_names(self):
        question = ("plan", "--model", "gpt2-124m", "--cluster", "dgx2", "--dp", "2",
                    "--simulations", "1", "--json")  # fmt: skip
        self.assertEqual(self.good(*question, "--for", "zplan"),
                         self.good(*question, "--stack", "own"))

    def test_what_is_pinned_stays(self):
        plan = self.good_json("plan", *QUESTION, "--stack", "megatron2022", "--kernel-set",
                              "cuda.sm80.bf16")["plan"]
        self.assertEqual(plan["kernel_set"], "cuda.sm80.bf16")

    def test_simulating_changes_costs_only(self):
        self.good("plan", *QUESTION, "--for", "zplan", "-o", "plan.json")
        own = self.good_json("simulate", "plan.json")
        result = self.zplan("simulate", "plan.json", "--stack", "megatron2022", "--json")
        self.assertEqual(result.returncode, OK)
        self.one_line(result.stderr, "megatron2022 computes with cuda.sm80.bf16.unfused")
        other = json.loads(result.stdout)
        self.assertEqual(own["fingerprint"], other["fingerprint"])
        self.assertGreater(other["time"]["step_s"], own["time"]["step_s"])

    def test_heads_without_a_fused_kernel_store_their_scores_and_the_answer_says_why(self):
        question = ("plan", "--model", "gemma2-9b", "--cluster", "dgx-a100", "--zero", "3", "--pp",
                    "1", "--micro-batch", "1", "--global-batch", "64", "--for", "zplan")
        text = self.good(*question)
        self.assertIn("cuda.sm80.bf16.unfused: ", self.good(*question, "--details"))
        self.assertIn("cuDNN has no fused attention for heads of 256", " ".join(text.split()))
        answer = self.good_json(*question)
        self.assertTrue(answer["time"]["attention"].startswith("scores of attention are stored"))
        fused = self.good_json(*question, "--kernel-set", "cuda.sm80.bf16")
        self.assertTrue(fused["time"]["attention"].startswith("SLOW attention on vector units"))
        self.assertLess(answer["time"]["step_s"], fused["time"]["step_s"])
        self.good(*question, "-o", "plan.json")
        self.assertEqual(self.good_json("simulate", "plan.json")["time"]["attention"],
                         answer["time"]["attention"])

    def test_a_file_with_unknown_decisions_or_recipes_is_refused(self):
        stack = {"schema": "zplan.stack/1", "name": "mine", "description": "mine", "software": [],
                 "fused": True, "rates": {}}  # fmt: skip
        for part, says in (({"plan": {"/gather/unti": "layer"}}, '"/gather/unit"'),
                           ({"plan": {"/gather/unit": "block"}}, "operator, layer"),
                           ({"recipe": "fsdpp"}, '"fsdp"')):
            with self.subTest(part=part):
                file = self.write("mine.json", json.dumps(stack | part))
                self.bad(BAD_INPUT, "plan", *QUESTION, "--stack", file, says=('stack "mine"', says))
                runs = self.write("runs.jsonl", "")
                self.bad(BAD_INPUT, "validate", runs, "--stack", file, says=says)

    def test_a_plan_file_finds_the_file_of_its_software_again(self):
        stack = {"schema": "zplan.stack/1", "name": "mine", "description": "mine", "software": [],
                 "fused": True,
                 "rates": {"gemm": {"value": 1.5, "source": "assumed", "ref": "r"}}}  # fmt: skip
        self.write("mine.json", json.dumps(stack))
        os.mkdir(self.path("plans"))
        question = ("plan", "--model", "tiny-gpt", "--cluster", "workstation", "--simulations", "1")
        planned = self.good_json(*question, "--for", "mine.json", "-o", "plans/plan.json")
        self.assertEqual(json.loads(self.read("plans/plan.json"))["made_with"]["software"],
                         "../mine.json")
        simulated = self.good_json("simulate", "plans/plan.json")
        self.assertEqual(simulated["time"]["step_s"], planned["time"]["step_s"])

    def test_what_its_modules_hold_has_a_line_each(self):
        question = ("memory", "--model", "llama3.2-1b", "--cluster", "dgx-h100", "--dp", "8",
                    "--zero", "3", "--micro-batch", "1", "--global-batch", "8", "--recompute",
                    "none", "--simulations", "1")  # fmt: skip
        text = self.good(*question, "--stack", "hf")
        for words in ("held there beside the Job's buffers", "copies of what RMSNorms read",
                      "what gates of MLPs give", "logits of the loss", "embedding and head"):
            self.assertIn(words, text)
        allocator = self.good_json(*question, "--stack", "hf")["memory"]["allocator"]
        held = allocator["held"]
        self.assertEqual(sum(held.values()), allocator["live_bytes"])
        tokens, hidden, ffn, layers = 8192, 2048, 8192, 16
        self.assertEqual(held["rms_norm"], 4 * tokens * hidden * (2 * layers + 1))
        self.assertEqual(held["gated"], 2 * tokens * ffn * layers)
        self.assertEqual(held["gelu"], 0)
        self.assertLessEqual(allocator["before_update_bytes"], allocator["live_bytes"])
        own = self.good_json(*question, "--for", "zplan")["memory"]["allocator"]
        self.assertEqual(own["held"]["job"], own["live_bytes"])
        self.assertNotIn("held there beside", self.good(*question, "--for", "zplan"))

    def test_an_unknown_one_is_named(self):
        self.bad(BAD_INPUT, "plan", *QUESTION, "--stack", "megatron2023",
                 says=("--for: expected a software", "did you mean", "zplan software"))


if __name__ == "__main__":
    main()
