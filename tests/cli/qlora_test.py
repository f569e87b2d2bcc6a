"""4-bit LoRA as the tools that do it measure it, and configurations that do not say what is trained."""

import json
import pathlib
import statistics

from cli_support import CliTest, main, zplan

RUNS = pathlib.Path(__file__).resolve().parents[1] / "data" / "qlora_runs.jsonl"


class PublishedMemory(CliTest):
    """What two GPUs of 24 GB need for LoRA and QLoRA of 7B, 34B and 70B [FsdpQlora].

    Figures are reserved bytes of PyTorch's allocator. Micro-batches of 16-bit LoRA that fill the
    GPU are predicted up to a fifth too low: why is not known.
    """

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        answer = json.loads(zplan("validate", str(RUNS), "--json").stdout)
        cls.rows = {row["id"].removeprefix("fsdp_qlora/"): row for row in answer["rows"]}

    def error(self, name):
        row = self.rows[name]
        return 100 * (row["predicted_gib"] / row["measured_gib"] - 1)

    def test_each_is_within_a_quarter_and_fits_as_it_did(self):
        self.assertEqual(len(self.rows), 15)
        for name, row in self.rows.items():
            with self.subTest(name=name):
                self.assertLess(abs(self.error(name)), 25)
                self.assertTrue(row["fits"])

    def test_of_four_bits_half_are_within_seven_per_cent(self):
        errors = [abs(self.error(name)) for name in self.rows if "qlora" in name]
        self.assertEqual(len(errors), 9)
        self.assertLess(statistics.median(errors), 7)
        self.assertLess(max(errors), 16)

    def test_34b_and_70b_of_codes_on_the_cpu_are_within_three_per_cent(self):
        for name in ("34b_qlora_b2", "34b_qlora_offload_b4", "70b_qlora_offload_b2"):
            self.assertLess(abs(self.error(name)), 3, name)


class SingleGpu(CliTest):
    """[Dettmers23] trains 65B in 48 GB; without 4 bits it does not fit, nor with them in 24 GB."""

    def fits(self, model, cluster, *more):
        result = self.zplan("plan", "--model", model, "--cluster", cluster, "--train", "lora",
                            "--lora-rank", "64", "--global-batch", "16", "--micro-batch", "1",
                            "--seq", "512", "--recompute", "full", "--dp", "1", "--tp", "1", "--pp",
                            "1", "--params", "gpu", "--json", *more)
        return json.loads(result.stdout)["feasible"] if result.stdout else False

    def test_what_fits_is_what_the_paper_trains(self):
        nf4 = ("--lora-base", "nf4-double")
        self.assertTrue(self.fits("llama3-8b", "rtx3090-workstation", *nf4))
        self.assertTrue(self.fits("llama3-70b", "rtx-a6000-workstation", *nf4))
        self.assertFalse(self.fits("llama3-70b", "rtx-a6000-workstation"))
        self.assertFalse(self.fits("llama3-70b", "rtx3090-workstation", *nf4))


class WhatIsTrained(CliTest):
    """DeepSpeed's and Accelerate's configurations have no key for it."""

    def test_lora_is_taken_from_the_command_line(self):
        self.write("ds.json", json.dumps({
            "bf16": {"enabled": True}, "zero_optimization": {"stage": 3},
            "train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4}))  # fmt: skip
        answer = self.good_json("check", "ds.json", "--model", "llama3-70b", "--cluster", "dgx-h100",
                                "--seq", "2048", "--recompute", "full", "--train", "lora")
        self.assertEqual(answer["plan"]["train"]["what"], "lora")
        self.assertNotIn("--train", [each["key"] for each in answer["findings"]])
        # 64 GB of 80 are published for it (PEFT's documentation of DeepSpeed).
        self.assertTrue(answer["fits"])

    def test_an_adapter_config_stands_beside(self):
        self.write("ds.json", json.dumps({
            "bf16": {"enabled": True}, "zero_optimization": {"stage": 3},
            "train_micro_batch_size_per_gpu": 1}))  # fmt: skip
        self.write("adapter_config.json", json.dumps({
            "peft_type": "LORA", "r": 4, "lora_alpha": 8, "use_rslora": True,
            "target_modules": ["q_proj", "v_proj"]}))  # fmt: skip
        answer = self.good_json("check", "ds.json", "--model", "llama3-8b", "--cluster", "dgx-h100",
                                "--adapter", "adapter_config.json")
        self.assertEqual(answer["plan"]["train"], {"what": "lora", "rank": 4, "alpha": 8,
                                                   "targets": "qkv", "by_root": True})
        keys = [each["key"] for each in answer["findings"]]
        self.assertIn("target_modules", keys)

    def test_an_export_of_lora_is_read_as_it_is(self):
        for target in ("hf", "accelerate", "deepspeed", "fsdp"):
            with self.subTest(target=target):
                answer = self.good_json(
                    "export", "--to", target, "-o", target, "--model", "llama3-8b", "--cluster",
                    "dgx-h100", "--train", "lora", "--lora-base", "nf4-double", "--zero", "3",
                    "--global-batch", "64", "--tp", "1", "--pp", "1", "--ep", "1")
                lost = [each["pointer"] if "pointer" in each else each for each in answer["dropped"]]
                self.assertNotIn("/train", json.dumps(lost))
                lora = json.loads((pathlib.Path(self.path(target)) / "lora.json").read_text())
                self.assertEqual(lora["quantization"]["bnb_4bit_quant_type"], "nf4")


if __name__ == "__main__":
    main()
