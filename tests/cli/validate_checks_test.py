"""zplan validate in people's own CI: --most-off, --most-mean-off, --baseline."""

import json
import os

from cli_support import BAD_INPUT, CHECK_FAILED, OK, ROOT, CliTest, main
from run_records import record


class Checks(CliTest):
    def runs(self, *records):
        lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
        return self.write("runs.jsonl", "\n".join(lines) + "\n")

    def predicted(self, **changes):
        """A record whose measured time is what is predicted for it."""
        run = record(**changes)
        name = self.write("one.jsonl", json.dumps(run) + "\n")
        run["measured"]["step_time_s"] = self.good_json("validate", name)["rows"][0]["predicted_s"]
        return run

    def off_by(self, run, share, **changes):
        """The same run, predicted `share` above what it measured."""
        off = json.loads(json.dumps({**run, **changes}))
        off["measured"]["step_time_s"] /= 1 + share
        return off

    def check(self, code, *arguments):
        """The lines of stderr and the answer of `zplan validate runs.jsonl ..`."""
        result = self.zplan("validate", "runs.jsonl", *arguments, "--json")
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr.splitlines(), json.loads(result.stdout)

    def baseline(self, *arguments):
        text = self.zplan("validate", "runs.jsonl", *arguments, "--json").stdout
        return self.write("base.json", text)

    def findings(self, answer):
        return [(f["kind"], f["run"]) for f in answer["checks"]["findings"]]


class Limits(Checks):
    def setUp(self):
        super().setUp()
        run = self.predicted()
        self.runs(self.off_by(run, 0.02), self.off_by(run, -0.08, id="a/2"),
                  self.off_by(run, 0.12, id="a/3"))  # fmt: skip

    def test_each_run_that_is_off_by_more_is_named_the_worst_first(self):
        lines, answer = self.check(CHECK_FAILED, "--most-off", "5%")
        self.assertEqual(self.findings(answer), [("off", "a/3"), ("off", "a/2")])
        self.assertRegex(lines[0], r"^zplan: run a/3: predicted \S+ \S+, measured \S+ \S+: off by \+12\.0 %")
        self.assertIn("off by -8.0 %", lines[1])
        self.assertFalse(answer["checks"]["passed"])

    def test_runs_within_it_pass(self):
        for most in ("12.1%", "12.1 %", "100%"):
            lines, answer = self.check(OK, "--most-off", most)
            self.assertEqual((lines, answer["checks"]["passed"]), ([], True))
        self.assertIn("Checks (--most-off 50%): passed", self.good("validate", "runs.jsonl", "--most-off", "50%"))

    def test_runs_that_are_not_predicted_are_counted_beside_the_verdict(self):
        run = self.predicted()
        refused = json.loads(json.dumps({**run, "id": "a/4"}))
        refused["model"]["experts"] = 8
        self.runs(run, refused)
        text = self.good("validate", "runs.jsonl", "--most-off", "5%")
        self.assertIn("Checks (--most-off 5%): passed, 1 of 2 runs not predicted\n", text)
        self.runs(run)
        self.assertIn("Checks (--most-off 5%): passed\n", self.good("validate", "runs.jsonl", "--most-off", "5%"))

    def test_the_mean_of_a_group_is_a_limit_of_its_own(self):
        lines, answer = self.check(CHECK_FAILED, "--most-mean-off", "7%")
        self.assertEqual(self.findings(answer), [("mean_off", None)])
        self.assertIn("group a: off by 7.3 % on average over its 3 runs", lines[0])
        self.check(OK, "--most-mean-off", "7.4%")

    def test_without_any_measured_time_the_limit_says_so(self):
        self.runs(record(measured__step_time_s=None))
        lines, answer = self.check(CHECK_FAILED, "--most-off", "10%")
        self.assertEqual(self.findings(answer), [("nothing_measured", None)])
        self.assertIn("no run has a step time both measured and predicted", lines[0])

    def test_what_is_no_percentage_is_refused(self):
        for option in ("--most-off", "--most-mean-off", "--most-worse"):
            for word in ("10", "0.1", "ten", "-1%", "nan%", "inf%", "10%%", "1e9%", "%"):
                with self.subTest(option=option, word=word):
                    self.bad(BAD_INPUT, "validate", "runs.jsonl", "--baseline", "runs.jsonl",
                             f"{option}={word}", says=[option, "expected a percentage such as 10%"])  # fmt: skip


class Baselines(Checks):
    def setUp(self):
        super().setUp()
        run = self.predicted()
        self.run_a = self.off_by(run, 0.02)
        self.runs(self.run_a, self.off_by(run, -0.03, id="a/2"))

    def slower_stack(self, rate, factor):
        """The stack of the runs with one rate changed."""
        with open(os.path.join(ROOT, "hwprofiles", "stacks", "megatron2020.json"), encoding="utf-8") as file:
            stack = json.load(file)
        known = stack["rates"].get(rate, {"value": 1, "source": "assumed", "ref": "as the hardware"})
        stack["rates"][rate] = {**known, "value": known["value"] * factor}
        return self.write("stack.json", json.dumps(stack))

    def test_unchanged_predictions_pass(self):
        base = self.baseline()
        lines, answer = self.check(OK, "--baseline", base, "--most-worse", "0%")
        self.assertEqual((lines, answer["checks"]["findings"]), ([], []))
        self.assertEqual(answer["checks"]["most_worse_points"], 0)

    def test_a_changed_constant_is_caught_with_the_part_that_moved(self):
        base = self.baseline("--stack", "megatron2020")
        for rate, part, words in (("gemm", "products", "matrix products"),
                                  ("elementwise", "memory_bound", "memory-bound kernels")):
            with self.subTest(rate=rate):
                stack = self.slower_stack(rate, 1.3)
                lines, answer = self.check(CHECK_FAILED, "--baseline", base, "--stack", stack)
                found = answer["checks"]["findings"][0]
                self.assertEqual((found["kind"], found["run"], found["part"]), ("time_worse", "a/1", part))
                self.assertGreater(found["part_after_s"], found["part_before_s"])
                self.assertGreater(found["error_pct"], found["before_pct"] + 1)
                self.assertRegex(lines[0], f"^zplan: run a/1 against base.json: off by .* then, .* now .*; most moved: {words}, ")

    def test_a_run_that_becomes_better_is_no_failure(self):
        self.runs(self.off_by(self.run_a, 0.2))
        base = self.baseline()
        self.runs(self.run_a)
        self.check(OK, "--baseline", base)

    def test_the_tolerance_is_in_points_of_percentage(self):
        base = self.baseline()
        self.runs(self.off_by(self.run_a, 0.02), self.off_by(self.run_a, 0.001, id="a/2"))
        lines, answer = self.check(CHECK_FAILED, "--baseline", base)
        self.assertEqual(self.findings(answer), [("time_worse", "a/1")])
        self.assertIn("then", lines[0])
        self.assertIn("no part of the prediction moved", lines[0])  # the measurement is another
        self.check(OK, "--baseline", base, "--most-worse", "3%")

    def test_runs_that_come_and_go_are_named(self):
        self.runs(self.run_a, {**self.run_a, "id": "a/2"}, {**self.run_a, "id": "a/3"})
        base = self.baseline()
        lost = json.loads(json.dumps({**self.run_a, "id": "a/3"}))
        lost["model"]["experts"] = 8
        self.runs(self.run_a, lost, {**self.run_a, "id": "a/4"}, "{")
        lines, answer = self.check(CHECK_FAILED, "--baseline", base)
        self.assertEqual(self.findings(answer),
                         [("gone", "a/2"), ("unsupported", "a/3"), ("new", "a/4"), ("malformed", None)])  # fmt: skip
        self.assertIn("run a/3 against base.json: is not predicted any more: not modelled: experts", "\n".join(lines))
        self.assertEqual([f["fails"] for f in answer["checks"]["findings"]], [True, True, False, True])

    def test_figures_that_are_lost_are_named(self):
        self.run_a["measured"].update(memory_gib=8.0, memory_kind="allocator_peak")
        self.runs(self.run_a, {**self.run_a, "id": "a/2"})
        base = self.baseline()
        no_memory, no_time = ({**self.run_a, "measured": {**self.run_a["measured"], **gone}} for gone in (
            {"memory_gib": None, "memory_kind": None}, {"step_time_s": None, "step_time_kind": None}))  # fmt: skip
        self.runs(no_memory, {**no_time, "id": "a/2"})
        lines, answer = self.check(CHECK_FAILED, "--baseline", base)
        self.assertEqual(self.findings(answer), [("lost", "a/1"), ("lost", "a/2")])
        self.assertEqual(lines, ["zplan: run a/1 against base.json: has no measured memory any more",
                                 "zplan: run a/2 against base.json: has no measured step time any more"])  # fmt: skip

    def test_new_runs_and_known_malformed_lines_fail_no_comparison(self):
        self.runs(self.run_a, "{")
        base = self.baseline()
        self.runs({**self.run_a, "id": "a/0"}, self.run_a, "{")
        answer = self.check(CHECK_FAILED, "--baseline", base)[1]  # for the line itself
        self.assertEqual((self.findings(answer), answer["checks"]["passed"]), ([("new", "a/0")], True))

    def test_a_group_is_compared_with_its_own(self):
        self.runs(self.run_a, {**self.run_a, "id": "b/1", "group": "b"})
        base = self.baseline()
        self.assertEqual(self.check(OK, "--baseline", base, "--group", "b")[1]["checks"]["findings"], [])

    def test_a_group_may_be_new_since_the_baseline(self):
        self.runs(self.run_a)
        base = self.baseline()
        self.runs(self.run_a, {**self.run_a, "id": "b/1", "group": "b"})
        self.assertEqual(self.findings(self.check(OK, "--baseline", base, "--group", "b")[1]), [("new", "b/1")])
        self.runs({**self.run_a, "id": "b/1", "group": "b"})
        self.bad(BAD_INPUT, "validate", "runs.jsonl", "--baseline", base, "--group", "b", says="has none of them")

    def test_memory_that_is_worse_is_named(self):
        kind = {"memory_kind": "allocator_peak", "step_time_s": None, "step_time_kind": None}
        self.runs(record(measured__memory_gib=8.0, **{f"measured__{k}": v for k, v in kind.items()}))
        before = json.loads(self.read(self.baseline()))
        predicted = before["rows"][0]["predicted_gib"]
        self.runs(record(measured__memory_gib=predicted, **{f"measured__{k}": v for k, v in kind.items()}))
        base = self.baseline()
        self.runs(record(measured__memory_gib=predicted / 2, **{f"measured__{k}": v for k, v in kind.items()}))
        lines, answer = self.check(CHECK_FAILED, "--baseline", base)
        self.assertEqual(self.findings(answer), [("memory_worse", "a/1")])
        self.assertIn("memory off by +0.0 % then, +100.0 % now", lines[0])

    def test_hostile_baselines_are_one_clear_line(self):
        good = json.loads(self.read(self.baseline()))

        def broken(change):
            report = json.loads(json.dumps(good))
            change(report)
            return json.dumps(report)

        for text, says in (
            ("", "base.json:1:1"),
            ("[]", "expected an object"),
            ('{"schema": "zplan.answer/1"}', 'expected "zplan.validation/1"'),
            (broken(lambda r: [row.pop("split_s") for row in r["rows"]]), "make it again: zplan validate"),
            (broken(lambda r: r["rows"][0]["split_s"].pop("products")), '/rows/0/split_s: expected key "products"'),
            (broken(lambda r: r["rows"][0]["split_s"].update(magic=1)), "magic"),
            (broken(lambda r: r["rows"][0].update(split_s=None)), "/rows/0/split_s: expected the parts of predicted_s"),
            (broken(lambda r: r["rows"][0].update(measured_s=0)), "/rows/0/measured_s"),
            (broken(lambda r: r["rows"][0].update(predicted_s="1 s")), "/rows/0/predicted_s"),
            (broken(lambda r: r["rows"].append(r["rows"][0])), "expected each id once"),
            (broken(lambda r: r.update(rows=[])), "has none of them"),
            (broken(lambda r: [row.update(id="z" + row["id"]) for row in r["rows"]]), "has none of them"),
        ):  # fmt: skip
            with self.subTest(says=says):
                self.write("base.json", text)
                self.bad(BAD_INPUT, "validate", "runs.jsonl", "--baseline", "base.json", says=["base.json", says])
        self.bad(BAD_INPUT, "validate", "runs.jsonl", "--baseline", "none.json", says="none.json")
        self.bad(BAD_INPUT, "validate", "runs.jsonl", "--most-worse", "1%", says="expected --baseline REPORT.json")


if __name__ == "__main__":
    main()
