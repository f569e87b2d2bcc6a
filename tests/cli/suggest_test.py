"""zplan calibrate --suggest: which measurement would change the choice of a plan."""

import os

from cli_support import BAD_INPUT, INFEASIBLE, OK, ROOT, CliTest, main

SMALL = ("calibrate", "--suggest", "--model", "gpt2-1.5b", "--cluster", "dgx-a100x2",
         "--simulations", "4")  # fmt: skip


class Suggest(CliTest):
    def test_says_what_would_change_the_choice(self):
        answer = self.good_json(*SMALL, "--stack", "megatron2022")
        self.assertEqual((answer["schema"], answer["worlds"]), ("zplan.suggestions/1", 100))
        contenders = answer["contenders"]
        self.assertGreater(len(contenders), 1)
        self.assertLessEqual(len(contenders), 8)
        least = min(row["expected_s"] for row in contenders)
        self.assertEqual(contenders[answer["choice"]]["expected_s"], least)
        for row in contenders:
            self.assertLess(row["step_s"], 1.3 * contenders[0]["step_s"])
        self.assertEqual(sum(row["fastest_in_worlds"] for row in contenders), 100)
        plan = self.good_json("plan", *SMALL[2:], "--stack", "megatron2022")
        self.assertAlmostEqual(contenders[0]["step_s"], plan["time"]["step_s"], 9)

    def test_measurements_are_worth_less_than_knowing_everything(self):
        answer = self.good_json(*SMALL)
        all_rows = answer["measurements"]
        savings = [row["saves_share"] for row in all_rows]
        self.assertEqual(savings, sorted(savings, reverse=True))
        self.assertGreater(savings[0], 0)
        for row in all_rows:
            self.assertLessEqual(row["saves_share"], 1.2 * answer["perfect"]["saves_share"])
            self.assertLessEqual(row["changes_in_worlds"], 100)
            self.assertEqual(row["changes_in_worlds"] == 0, row["saves_share"] == 0, row)
            self.assertTrue(row["run"] and row["minutes"] > 0, row)
        steps = [row["step_of"] for row in all_rows if row["step_of"] is not None]
        self.assertEqual(sorted(steps), list(range(len(answer["contenders"]))))
        self.assertLessEqual(len(answer["suggestions"]), 5)

    def test_kernels_of_our_own_are_calibrated_at_once(self):
        runs = {row["measure"]: row["run"] for row in self.good_json(*SMALL, "--for", "zplan")["measurements"]}
        calibrated = [what for what, run in runs.items() if "calibrate --device cuda" in run[0]]
        alone = [what for what in calibrated if what.startswith("one device alone")]
        self.assertEqual(len(alone), 1)
        self.assertEqual(len(runs[alone[0]]), 1)
        nccl = {what: run for what, run in runs.items() if "_perf " in run[-2:][0]}
        self.assertTrue(nccl)
        for what, run in nccl.items():
            self.assertIn("./zplan calibrate --import", run[-1])
            # On two GPUs or more the first command measures the collectives of a node, too.
            self.assertEqual(what in calibrated, what.endswith("on 1 node"), what)
            self.assertEqual(len(run), 3 if what in calibrated else 2)

    def test_kernels_of_a_stack_are_timed_one_by_one(self):
        rows = self.good_json(*SMALL, "--stack", "megatron2022")["measurements"]
        products = [row for row in rows if row["measure"].startswith("matrix product [")]
        self.assertEqual([row["tells"] for row in products], [["gemm"]])
        self.assertIn("predicted: ", products[0]["run"][0])

    def test_the_base_is_the_node_that_was_asked_about(self):
        measured = os.path.join(ROOT, "tests", "data", "measured", "nccl_all_reduce_2x8_h100.txt")
        self.good("calibrate", "--import", measured, "--base", "dgx-a100", "-o", "mine.json")
        rows = self.good_json(*SMALL[:4], "--cluster", "mine.jsonx2", "--simulations", "4")
        bases = {line.split(" --base ")[1].split(" ")[0] for row in rows["measurements"]
                 for line in row["run"] if " --base " in line}  # fmt: skip
        self.assertEqual(bases, {'"mine.json"'})

    def test_the_same_question_has_the_same_answer(self):
        one = self.good(*SMALL, "--threads", "1", "--json")
        self.assertEqual(one, self.good(*SMALL, "--threads", "2", "--json"))

    def test_text_says_what_to_run_or_that_nothing_helps(self):
        text = " ".join(self.good(*SMALL).split())
        self.assertIn("changes the choice in ", text)
        self.assertIn("Knowing everything would save", text)
        alone = ("--model", "tiny-gpt", "--cluster", "workstation", "--dp", "1", "--tp", "1", "--pp",
                 "1", "--zero", "0", "--optimizer", "gpu")  # fmt: skip
        result = self.zplan("calibrate", "--suggest", *alone)
        self.assertEqual(result.returncode, OK)
        self.assertIn("no measurement would change the choice", " ".join(result.stdout.split()))

    def test_drives_are_measured_where_a_plan_uses_them(self):
        rows = self.good_json("calibrate", "--suggest", "--model", "1T", "--cluster", "dgx2",
                              "--simulations", "2", "--for", "zplan")["measurements"]  # fmt: skip
        fio = [row for row in rows if row["run"][0].startswith("fio ")]
        self.assertEqual([row["tells"] for row in fio], [["drive_rates"]])

    def test_what_does_not_fit_is_said(self):
        result = self.zplan(*SMALL[:2], "--model", "1T", "--cluster", "dgx2", "--optimizer", "gpu")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.one_line(result.stderr, "does not fit")

    def test_questions_are_whole(self):
        self.bad(BAD_INPUT, "calibrate", "--suggest", says="expected --model and --cluster")
        self.bad(BAD_INPUT, "calibrate", "--suggest", "--cluster", "dgx2", says="expected --model,")
        self.bad(BAD_INPUT, *SMALL, "--quick", says="unknown option \"--quick\"")
        self.bad(BAD_INPUT, "calibrate", "--model", "gpt2-1.5b", says="unknown option \"--model\"")


if __name__ == "__main__":
    main()
