"""export --to X of a question: the plan is one that X runs, and its files are that plan."""

import json
import os
import sys

from cli_support import BAD_INPUT, OK, PROGRAM, ROOT, CliTest, main

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import exports  # noqa: E402

SMALL = "--model llama3-8b --cluster dgx-h100"


class Exports(CliTest):
    def outcome(self, target, question):
        row = exports.row_of(PROGRAM, target, question)
        return row["outcome"], row["words"]

    def test_what_is_written_for_each_framework_is_what_was_answered(self):
        for target in exports.TARGETS:
            with self.subTest(target=target):
                self.assertEqual(self.outcome(target, SMALL), ("ok", ""))

    def test_a_plan_for_the_software_is_the_one_that_is_exported(self):
        plan = json.loads(self.good("plan", "--for", "deepspeed", *SMALL.split(), "--json"))
        export = json.loads(self.good("export", "--to", "deepspeed", *SMALL.split(), "--json"))
        self.assertEqual(plan["software"][0]["step_s"], export["plan"]["step_s"])
        self.assertIsNone(export["check"])

    def test_kernels_of_older_devices_are_those_that_the_framework_calls(self):
        for target in ("deepspeed", "megatron"):
            with self.subTest(target=target):
                self.assertEqual(self.outcome(target, "--model gpt2-355m --cluster dgx2"), ("ok", ""))

    def test_the_trainer_runs_whole_replicas_and_those_of_zero_2(self):
        for stage in ("0", "2"):
            with self.subTest(zero=stage):
                question = f"--model gpt2-355m --cluster dgx-a100 --zero {stage}"
                self.assertEqual(self.outcome("hf", question), ("ok", ""))

    def test_factors_are_told_to_the_check(self):
        question = "--model llama3.2-1b --cluster rtx4090-workstation --train lora --seq 2048"
        for target in ("hf",):
            with self.subTest(target=target):
                self.assertEqual(self.outcome(target, question), ("ok", ""))

    def test_a_model_or_a_pin_that_a_framework_lacks_is_declined_in_a_line(self):
        for target, question, says in (
                ("torchtitan", "--model gpt2 --cluster dgx-h100", "torchtitan does not have the model"),
                ("fsdp", f"{SMALL} --tp 2", "has no --tp 2"),
                ("megatron", f"{SMALL} --precision lean", "has no --precision lean")):
            with self.subTest(target=target, question=question):
                result = self.zplan("export", "--to", target, *question.split(), "-o", "out")
                self.assertEqual(result.returncode, BAD_INPUT)
                self.assertIn(says, result.stderr)
                self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
                self.assertFalse(os.path.exists(self.path("out")))

    def test_constraints_hold_for_exports(self):
        result = self.zplan("export", "--to", "torchtitan", *SMALL.split(), "--not", "offload",
                            "-o", "out", "--json")
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn('enable_cpu_offload = false', self.read("out/train.toml"))
        check = json.loads(result.stdout)["check"]
        self.assertIn("zplan check out/train.toml --model llama3-8b --cluster dgx-h100", check)
        self.good(*SMALL.split(), "--simulations", "1", "-o", "plan.json")
        self.bad(BAD_INPUT, "export", "plan.json", "--to", "hf", "--not", "offload", says="--not")


if __name__ == "__main__":
    main()
