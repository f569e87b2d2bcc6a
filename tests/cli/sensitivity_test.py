"""zplan sensitivity: what each quantity of the hardware is worth to a step, held beside what-ifs."""

from cli_support import BAD_INPUT, INFEASIBLE, CliTest, main

# Optimizer states on drives, everything else decided, so that there is little to search.
DRIVES = ("--model", "zero-infinity-10b", "--cluster", "dgx2", "--optimizer", "nvme", "--params",
          "cpu", "--zero", "3", "--recompute", "full", "--gather", "layer", "--simulations", "4")
TINY = ("--model", "tiny-gpt", "--cluster", "workstation")


class Sensitivity(CliTest):
    def step(self, *change):
        return self.good_json("bandwidth", "plan.json", *change)["step_s"]

    def test_prices_foretell_what_other_hardware_brings(self):
        self.zplan("plan", *DRIVES, "-o", "plan.json")
        answer = self.good_json("sensitivity", "plan.json", "--check")
        self.assertEqual(answer["schema"], "zplan.sensitivity/1")
        self.assertFalse(answer["stopped"])
        step = answer["step_s"]
        saved = [price["saved_s"] for price in answer["prices"]]
        self.assertEqual(saved, sorted(saved, reverse=True))
        best = answer["prices"][0]
        self.assertGreater(best["saved_s"], 0.01 * step)
        self.assertIn(best["quantity"], answer["verdict"])
        for price in answer["prices"]:
            for side in (price["better"], price["worse"]):
                if side is None:
                    continue
                off = abs(side["predicted_s"] - side["simulated_s"])
                holds = off <= max(0.1 * abs(side["simulated_s"]), 0.001 * step)
                self.assertEqual(side["agrees"], holds, price["quantity"])
                self.assertEqual(side["kink"] is None, holds, price["quantity"])
        # The same change asked for by another command.
        there = self.step("--set", f"{best['quantity']}=x1.05")
        self.assertAlmostEqual(there - step, best["better"]["simulated_s"], delta=1e-9 * step)

    def test_answers_of_a_plan_file_and_of_its_question_have_the_same_prices(self):
        self.zplan("plan", *TINY, "-o", "plan.json")
        of_file = self.good_json("sensitivity", "plan.json")
        of_question = self.good_json("sensitivity", *TINY)
        self.assertEqual(of_file["prices"], of_question["prices"])
        self.assertFalse(any(tier["asked"] for tier in of_file["tiers"]))
        text = self.good("sensitivity", "plan.json")
        self.assertEqual(text.split("\n")[0], of_file["verdict"])
        for line in text.split("\n"):
            self.assertEqual(line, line.rstrip())

    def test_more_memory_is_a_question_of_the_plan(self):
        self.zplan("plan", *DRIVES, "-o", "plan.json")
        text = self.good("sensitivity", "plan.json")
        self.assertIn("zplan what-if --set gpu.memory=x1.05", text)

    def test_bad_input(self):
        self.bad(BAD_INPUT, "sensitivity", says=("plan file or --model and --cluster",))
        self.bad(BAD_INPUT, "sensitivity", "--model", "tiny-gpt", says=("expected --cluster",))
        self.bad(INFEASIBLE, "sensitivity", "--model", "10B", "--cluster", "dgx2", "--dp", "1",
                 "--tp", "1", "--pp", "1", "--optimizer", "gpu", "--params", "gpu",
                 says=("does not fit",))


if __name__ == "__main__":
    main()
