"""Homes of what is kept for backward: what simulate --homes says, and that its words are a plan."""

import json

from cli_support import OK, CliTest, main

# GPT-2 355M on one RTX 4090: a batch of 64 sequences keeps more than its memory.
QUESTION = (
    *("--model", "gpt2-355m", "--cluster", "rtx4090-12ssd", "--gpu-indices", "0"),
    *("--dp", "1", "--tp", "1", "--pp", "1", "--global-batch", "64", "--micro-batch", "64"),
    *("--zero", "0", "--gather", "layer", "--params", "gpu", "--grads", "gpu"),
    *("--optimizer", "gpu", "--for", "zplan"),
)
FAMILIES = ["-", "Chen16", "Korthikanti22", "Jain20", "Huang20", "Pudipeddi20", "Liao24", "-"]


class HomesTest(CliTest):
    def plan(self, *more):
        result = self.zplan(*QUESTION, *more, "--json", "-o", "plan.json")
        self.assertEqual(result.returncode, OK, result.stderr)
        return json.loads(result.stdout)

    def homes(self, *more):
        result = self.zplan("simulate", "plan.json", "--homes", "--json", *more)
        self.assertEqual(result.returncode, OK, result.stderr)
        return json.loads(result.stdout)["homes"]

    def test_the_best_is_no_slower_than_any_named_family(self):
        self.plan("--recompute", "full", "--activations", "gpu")
        homes = self.homes()
        rows = homes["families"]
        self.assertEqual([row["source"] for row in rows], FAMILIES)
        best = rows[-1]["step_s"]
        for row in rows:
            if row["step_s"] is not None:
                self.assertLessEqual(best, row["step_s"], row["homes"])
        self.assertIsNone(rows[0]["step_s"])  # all kept does not fit
        self.assertLess(best, rows[1]["step_s"])
        self.assertGreaterEqual(homes["seconds_per_gib_less"], 0)
        self.assertGreaterEqual(homes["seconds_per_gib_more"], 0)

    def test_its_words_are_the_plan(self):
        self.plan("--recompute", "full", "--activations", "gpu")
        best = self.homes()["families"][-1]
        again = self.plan(
            "--recompute", best["recompute"], "--activations", best["activations"]
        )
        self.assertAlmostEqual(again["time"]["step_s"] / best["step_s"], 1, delta=0.02)

    def test_the_search_chooses_them_where_memory_is_short(self):
        full = self.plan("--recompute", "full", "--activations", "gpu")
        free = self.plan()
        self.assertLess(free["time"]["step_s"], full["time"]["step_s"])

    def test_pins_are_respected(self):
        self.plan("--activations", "gpu")
        with open(self.path("plan.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["placement"]["activations"], "gpu")

    def test_less_memory_is_not_faster(self):
        self.plan("--recompute", "full", "--activations", "cpu")
        roomy = self.homes()["families"][-1]["step_s"]
        tight = self.homes("--headroom", "0.4")["families"][-1]["step_s"]
        self.assertLessEqual(roomy, tight * 1.001)

    def test_plans_of_many_homes_train(self):
        plan = self.tiny_plan(
            *("--zero", "3", "--activations", "cpu", "--recompute"),
            "norm+qkv@nvme+attention+projection@nvme+fc1@nvme+activation:2,norm+qkv@cpu:1,norm",
        )
        ran = self.good_json(
            "run", plan, "--steps", "3", "--check", "--dtype", "f64", "--nvme-dir", "."
        )
        self.assertIs(ran["check"]["agrees"], True)

    def test_tiles_have_no_homes_to_choose(self):
        result = self.zplan(
            *("--model", "tiny", "--cluster", "workstation", "--zero", "3"),
            *("--gather", "tiles:2", "--recompute", "full", "-o", "plan.json"),
        )
        self.assertEqual(result.returncode, OK, result.stderr)
        result = self.zplan("simulate", "plan.json", "--homes")
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn("no homes to choose", result.stdout)


if __name__ == "__main__":
    main()
