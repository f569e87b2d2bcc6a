"""--objective: what the best plan is, for zplan plan, sweep and what-if."""

import json

from cli_support import BAD_INPUT, INFEASIBLE, CliTest, main

SMALL = ("--model", "gpt2", "--cluster", "dgx2x2", "--tp", "1", "--pp", "1")
ON_GPUS = ("--model", "10B", "--not", "offload", "--simulations", "4")


class Objectives(CliTest):
    def ask(self, objective, *question):
        answer = self.good_json("plan", *question, "--objective", objective)
        self.assertEqual(answer["objective"]["name"], objective)
        self.assertIn(f"; {objective}: ", answer["verdict"])
        return answer, answer["objective"]

    def refuses(self, *arguments, says):
        result = self.zplan(*arguments)
        self.assertEqual(result.returncode, BAD_INPUT, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn(says, result.stderr)

    def test_fastest_is_what_is_asked_for_anyway(self):
        usual = self.good("plan", *SMALL)
        self.assertNotIn("fastest:", usual.split("\n")[0])
        named = self.good("plan", *SMALL, "--objective", "fastest")
        same = named.replace("\\", "").replace(" --objective fastest", "")
        self.assertEqual(usual.replace("\\", "").split(), same.split())
        self.assertEqual(self.good_json("plan", *SMALL)["objective"]["name"], "fastest")

    def test_cheapest_counts_gpu_hours_and_money(self):
        answer, cost = self.ask("cheapest", *SMALL, "--price", "2.5/h", "--tokens", "1B")
        hours = cost["gpus"] * answer["time"]["step_s"] / 3600
        self.assertAlmostEqual(cost["gpu_hours_per_step"], hours)
        self.assertAlmostEqual(cost["money_per_step"], 2.5 * hours)
        batch = answer["model"]["global_batch"] * answer["model"]["sequence"]
        self.assertEqual(cost["run"]["steps"], -(-10**9 // batch))
        self.assertAlmostEqual(cost["run"]["gpu_hours"], hours * cost["run"]["steps"])
        self.assertAlmostEqual(cost["run"]["money"], 2.5 * cost["run"]["gpu_hours"])
        self.assertEqual([row["gpus"] for row in cost["tried"]], [1, 2, 4, 8, 16, 32])
        for row in cost["tried"]:
            if row["gpu_hours_per_step"] is not None:
                self.assertGreaterEqual(row["gpu_hours_per_step"], hours * (1 - 1e-9))
        self.assertIn("proven", cost["proof"])

    def test_cheapest_is_the_best_of_the_answers_for_each_number(self):
        question = ("--model", "gpt2", "--tp", "1", "--pp", "1")
        _, cost = self.ask("cheapest", *question, "--cluster", "dgx2")
        for gpus in (1, 4, 16):
            own = json.loads(self.zplan("plan", *question, "--cluster", "dgx2", "--dp", str(gpus),
                                        "--json").stdout)
            hours = gpus * own["time"]["step_s"] / 3600
            self.assertLessEqual(cost["gpu_hours_per_step"], hours * 1.02)

    def test_fewest_gpus_are_enough_and_fewer_are_not(self):
        answer, found = self.ask("fewest-gpus", *ON_GPUS, "--cluster", "dgx2")
        gpus = found["gpus"]
        self.assertGreater(gpus, 1)
        self.assertIs(found["proven"], True)
        shape = answer["plan"]["parallel"]
        self.assertEqual(shape["dp"] * shape["tp"] * shape["pp"], gpus)
        fewer = self.zplan("plan", *ON_GPUS, "--cluster", "dgx2", "--dp", "1", "--tp", "1", "--pp",
                           str(gpus - 1))
        self.assertEqual(fewer.returncode, INFEASIBLE)
        self.assertRegex(self.good("plan", *ON_GPUS, "--cluster", "dgx2", "--objective",
                                   "fewest-gpus"), rf"\({gpus} GPUs\): [^;]*;\s+fewest-gpus: {gpus} GPUs")

    def test_fewest_gpus_of_what_fits_nowhere(self):
        result = self.zplan("plan", "--model", "1T", "--cluster", "dgx2", "--not", "offload",
                            "--zero", "3", "--tp", "1", "--pp", "1", "--objective", "fewest-gpus")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertRegex(result.stdout, r"^No: .*does not fit")

    def test_longest_sequence_fits_and_the_next_does_not(self):
        question = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--global-batch", "8", "--not",
                    "offload", "--zero", "3", "--pp", "1", "--micro-batch", "1", "--simulations",
                    "4", "--for", "zplan")
        answer, found = self.ask("longest-sequence", *question)
        self.assertEqual(answer["model"]["sequence"], found["sequence"])
        self.assertGreater(found["sequence"], 8192)
        self.assertEqual(found["sequence"] % 1024, 0)
        longer = self.zplan("plan", *question, "--seq", str(found["sequence"] + 1024))
        self.assertEqual(longer.returncode, INFEASIBLE, longer.stderr)

    def test_longest_sequence_stops_at_learned_positions(self):
        _, found = self.ask("longest-sequence", *SMALL)
        self.assertEqual(found["sequence"], 1024)
        self.assertIn("1,024 learned positions", found["proof"])

    def test_most_headroom_is_not_much_slower(self):
        usual = self.good_json("plan", *SMALL)
        fastest = (usual.get("fastest") or usual["time"])["step_s"]
        free = {}
        for within in ("1%", "10%", "0.5"):
            answer, found = self.ask("most-headroom", *SMALL, "--within", within)
            self.assertLessEqual(answer["time"]["step_s"], found["limit_s"] * (1 + 1e-9))
            self.assertAlmostEqual(found["limit_s"], fastest * (1 + found["within"]), 6)
            free[within] = found["gpu_free_bytes"]
        self.assertLessEqual(free["1%"], free["10%"])
        self.assertLess(free["1%"], free["0.5"])
        self.assertGreater(free["10%"], usual["objective"]["gpu_free_bytes"] - 1)

    def test_same_answer_on_any_number_of_threads(self):
        for objective in ("cheapest", "fewest-gpus", "longest-sequence", "most-headroom"):
            one = self.good_json("plan", *SMALL, "--objective", objective, "--threads", "1")
            self.assertEqual(one, self.good_json("plan", *SMALL, "--objective", objective,
                                                 "--threads", "3"))

    def test_what_contradicts_an_objective_is_refused(self):
        plan = ("plan", *SMALL, "--objective")
        self.refuses(*plan, "best", says="--objective: expected")
        self.refuses(*plan, "longest-sequence", "--seq", "512", says="--seq")
        self.refuses(*plan, "cheapest", "--within", "5%", says="--objective most-headroom")
        self.refuses(*plan, "cheapest", "--gpus", "4", says="--gpus")
        self.refuses(*plan, "most-headroom", "--within", "much", says="10%")
        self.refuses(*plan, "cheapest", "--ignore-capacity", says="--ignore-capacity")

    def test_sweep_has_a_column_for_it(self):
        call = ("sweep", "--model", "gpt2", "--cluster", "dgx2", "--tp", "1", "--pp", "1", "--over",
                "nodes=1,2", "--objective", "cheapest")
        rows = self.good_json(*call)["rows"]
        self.assertEqual(len(rows), 2)
        for row in rows:
            self.assertRegex(row["objective"], r"GPU-hours a step$")
        self.assertIn("cheapest", self.good(*call))

    def test_what_if_compares_what_is_asked_for(self):
        call = ("what-if", *SMALL, "--set", "gpu.memory=x0.5", "--objective", "most-headroom")
        answer = self.good_json(*call)
        self.assertRegex(answer["verdict"], r"^most-headroom: .* as it is, .* with the change$")
        self.assertEqual(answer["after"]["objective"]["name"], "most-headroom")


if __name__ == "__main__":
    main()
