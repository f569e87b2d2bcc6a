"""zplan diff: two plans beside each other."""

from cli_support import BAD_INPUT, CliTest, main

FIXED = ("--model", "gpt2-1.5b", "--cluster", "dgx2", "--zero", "2", "--global-batch", "64",
         "--micro-batch", "1", "--simulations", "2")


class Diff(CliTest):
    def setUp(self):
        super().setUp()
        for name, recompute in (("with.json", "full"), ("without.json", "none")):
            self.zplan("plan", *FIXED, "--recompute", recompute, "-o", name)

    def test_says_what_differs_and_what_it_costs(self):
        answer = self.good_json("diff", "with.json", "without.json")
        self.assertEqual(answer["schema"], "zplan.diff/1")
        self.assertIn("/recompute", [row["decision"] for row in answer["decisions"]])
        self.assertIn("it does not recompute", answer["verdict"])
        faster = answer["before"]["step_s"] / answer["after"]["step_s"]
        self.assertGreater(faster, 1.01)
        self.assertIn(f"without.json is {faster:.2f} times as fast as with.json", answer["verdict"])
        for side in ("before", "after"):
            parts = {row["part"]: row[side + "_s"] for row in answer["split"]}
            step = parts.pop("step")
            self.assertAlmostEqual(sum(parts.values()), step, delta=1e-9 * step)
            self.assertEqual(step, answer[side]["step_s"])
        for role in answer["roles"]:
            if role["role"].startswith("recompute."):
                self.assertEqual((role["after_operations"], role["after_s"]), (0, 0))
        changes = [abs(role["after_s"] - role["before_s"]) for role in answer["roles"]]
        self.assertEqual(changes, sorted(changes, reverse=True), "the largest first, either way")
        peaks = {row["tier"]: row for row in answer["memory"] if row["category"] == "peak"}
        self.assertLess(peaks["gpu"]["before_bytes"], peaks["gpu"]["after_bytes"])

    def test_the_other_way_round_it_is_slower(self):
        answer = self.good_json("diff", "without.json", "with.json")
        self.assertIn("times as slow", answer["verdict"])
        self.assertIn("it recomputes", answer["verdict"])

    def test_a_plan_is_no_different_from_itself(self):
        text = self.good("diff", "with.json", "with.json")
        self.assertIn("with.json is as fast as with.json", text)
        self.assertIn("The plans decide the same.", text)
        answer = self.good_json("diff", "with.json", "with.json")
        self.assertEqual(answer["decisions"], [])
        for role in answer["roles"]:
            self.assertEqual(role["before_s"], role["after_s"])

    def test_cluster_and_bad_input(self):
        answer = self.good_json("diff", "with.json", "without.json", "--cluster", "dgx2x2")
        self.assertEqual(answer["after"]["cluster"], "dgx2x2")
        self.bad(BAD_INPUT, "diff", "with.json", says=("expected two plans",))
        self.bad(BAD_INPUT, "diff", "with.json", "none.json", says=("none.json",))


if __name__ == "__main__":
    main()
