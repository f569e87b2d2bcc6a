"""--measured: one number of a run calibrates plan, check, simulate, memory and report."""

import json

from cli_support import BAD_INPUT, CliTest, main

MODEL = ("--model", "gpt2-124m", "--cluster", "dgx-h100")
STACK = ("--stack", "megatron_core")
GIB = 2**30


class Measured(CliTest):
    def make_plan(self, name, *pins, cluster="dgx-h100"):
        self.zplan("plan", "--model", "gpt2-124m", "--cluster", cluster, "--simulations", "2", "-o", name,
                   *STACK, *pins)  # fmt: skip
        self.assertIn(name, self.files())
        return name

    def setUp(self):
        super().setUp()
        self.make_plan("plan.json", "--dp", "8", "--tp", "1", "--pp", "1", "--zero", "1", "--micro-batch", "2")
        self.make_plan("other.json", "--dp", "4", "--tp", "2", "--pp", "1", "--zero", "2", "--micro-batch", "4")

    def told(self, *arguments):
        """Simulated with other software than the file keeps, which is said."""
        return json.loads(self.zplan("simulate", *arguments, "--json").stdout)

    def simulated(self, *arguments):
        return self.good_json("simulate", *arguments)

    def width(self, time):
        return time["interval"]["high_s"] / time["interval"]["low_s"]


class Speeds(Measured):
    def test_the_predicted_step_changes_nothing_but_the_interval(self):
        for stack in (STACK, (), ("--stack", "nemo2024")):
            with self.subTest(stack=stack):
                before = self.told("plan.json", *stack)["time"]
                answer = self.told("plan.json", *stack, "--measured", f"{before['step_s']!r}s")
                after = answer["time"]
                self.assertAlmostEqual(after["step_s"] / before["step_s"], 1, 9)
                self.assertLess(self.width(after), self.width(before))
                self.assertEqual(answer["anchors"][0]["interval_after"]["low_s"], after["interval"]["low_s"])
                self.assertEqual(answer["anchors"][0]["interval_before"]["high_s"], before["interval"]["high_s"])

    def test_a_measured_step_is_approached_as_far_as_one_run_deserves(self):
        for stack in (STACK, ()):
            for factor in (0.9, 1.25):
                with self.subTest(stack=stack, factor=factor):
                    before = self.simulated("plan.json", *stack)["time"]["step_s"]
                    measured = factor * before
                    answer = self.simulated("plan.json", *stack, "--measured", f"{measured!r}s")
                    after, told = answer["time"], answer["anchors"][0]
                    low, high = sorted((before, measured))
                    self.assertTrue(low < after["step_s"] < high, (before, after["step_s"], measured))
                    self.assertTrue(after["interval"]["low_s"] < measured < after["interval"]["high_s"])
                    self.assertLess(abs(after["step_s"] - measured), abs(after["step_s"] - before))
                    self.assertAlmostEqual(told["measured_s"], measured, 12)
                    self.assertAlmostEqual(told["before_s"], before, 12)
                    self.assertAlmostEqual(told["after_s"], after["step_s"], 12)
                    self.assertTrue(told["moved"])

    def test_every_unit_says_the_same_step(self):
        time = self.simulated("plan.json", *STACK)["time"]
        words = (f"{1250 * time['step_s']!r}ms", f"{time['model_tflops_per_gpu'] / 1.25!r}TFLOP/s",
                 f"{100 * time['mfu'] / 1.25!r}%MFU", f"{time['tokens_per_s'] / 1.25!r} tok/s",
                 f"{time['tokens_per_s'] / 8 / 1.25!r}tok/s/GPU")  # fmt: skip
        for word in words:
            with self.subTest(word=word):
                told = self.simulated("plan.json", *STACK, "--measured", word)["anchors"][0]
                self.assertAlmostEqual(told["measured_s"] / time["step_s"], 1.25, 9)
                self.assertEqual(told["run"], f"{word} of plan.json")

    def test_another_plan_moves_the_same_way(self):
        before = self.simulated("other.json", *STACK)["time"]["step_s"]
        step = self.simulated("plan.json", *STACK)["time"]["step_s"]
        for factor in (0.9, 1.25):
            answer = self.simulated("other.json", *STACK, "--measured", f"{factor * step!r}s", "--of", "plan.json")
            moved = answer["time"]["step_s"] / before
            self.assertTrue(min(1, factor) < moved < max(1, factor), (factor, moved))

    def test_people_read_what_moved(self):
        step = self.simulated("plan.json", *STACK)["time"]["step_s"]
        text = " ".join(self.good("simulate", "plan.json", *STACK, "--measured", f"{1.25 * step!r}s").split())
        self.assertRegex(text, r"^calibrated on \S+ of plan\.json: a step of \S+ m?s measured, \S+ m?s \(\S+ m?s \.\. "
                               r"\S+ m?s\) predicted before and \S+ m?s \(.*\) after; \w+ \+\d+ %")  # fmt: skip

    def test_a_search_follows_the_rates_of_the_plan_that_was_measured(self):
        question = ("plan", *MODEL, *STACK, "--simulations", "4")
        before = self.good_json(*question)["time"]["step_s"]
        step = self.simulated("plan.json", *STACK)["time"]["step_s"]
        answer = self.good_json(*question, "--measured", f"{1.5 * step!r}s", "--of", "plan.json")
        self.assertGreater(answer["time"]["step_s"], 1.05 * before)
        self.assertEqual(answer["anchors"][0]["run"], f"{1.5 * step!r}s of plan.json")
        self.assertIn("calibrated on", self.good(*question, "--measured", f"{step!r}s", "--of", "plan.json"))

    def test_a_search_finds_the_same_plan_after_what_it_predicted(self):
        for stack in (STACK, ()):
            question = ("plan", *MODEL, *stack, "--simulations", "2")
            before = self.good_json(*question, "-o", "found.json")
            size = before["memory"]["allocator"]["shown"]["expected_bytes"]
            after = self.good_json(*question, "--measured", f"{before['time']['step_s']!r}s",
                                   "--measured", f"{size}B", "--of", "found.json")  # fmt: skip
            self.assertEqual(after["fingerprint"], before["fingerprint"])
            self.assertAlmostEqual(after["time"]["step_s"] / before["time"]["step_s"], 1, 9)

    def test_a_search_refuses_to_guess_which_plan_was_measured(self):
        self.bad(BAD_INPUT, "plan", *MODEL, *STACK, "--measured", "5s", "--dp", "8",
                 says=["--measured: expected the plan that was measured", "--of PLAN.json", "got pins that leave "])  # fmt: skip
        self.bad(BAD_INPUT, "plan", *MODEL, *STACK, "--measured", "5s", "--dp", "8", "--tp", "1", "--pp", "1",
                 "--zero", "1", "--recompute", "none", "--micro-batch", "1",
                 says=["got pins that leave 2 plans; --optimizer is open"])  # fmt: skip

    def test_pins_that_leave_one_plan_name_it(self):
        pins = ("--dp", "8", "--tp", "1", "--pp", "1", "--zero", "1", "--micro-batch", "2", "--recompute", "none",
                "--params", "gpu", "--grads", "gpu", "--optimizer", "gpu", "--activations", "gpu")  # fmt: skip
        question = ("plan", *MODEL, *STACK, *pins)
        before = self.good_json(*question)
        after = self.good_json(*question, "--measured", f"{1.25 * before['time']['step_s']!r}s")
        self.assertGreater(after["time"]["step_s"], 1.05 * before["time"]["step_s"])
        self.assertIn("of the pinned plan", after["anchors"][0]["run"])

    def test_what_no_run_can_have_had_is_refused(self):
        time = self.simulated("plan.json", *STACK)["time"]
        for word, says in ((f"{time['step_s'] * time['hfu'] * 0.9!r}s", "no software beats it"),
                           ("99.9%MFU", "no software beats it"),
                           (f"{time['step_s'] * 21!r}s", "20 times the predicted")):  # fmt: skip
            with self.subTest(word=word):
                self.bad(BAD_INPUT, "simulate", "plan.json", *STACK, "--measured", word,
                         says=["--measured: expected a step of at ", says, f'got "{word}"'])  # fmt: skip


class Sizes(Measured):
    def shown(self, *arguments, key="shown"):
        return self.good_json("memory", *arguments)["memory"]["allocator"][key]

    def size(self, size):
        return f"{size / GIB!r}GiB"

    def test_the_predicted_size_changes_nothing(self):
        for stack in (STACK, ()):
            before = self.good_json("simulate", "plan.json", *stack)
            size = before["memory"]["allocator"]["shown"]["expected_bytes"]
            after = self.good_json("simulate", "plan.json", *stack, "--measured", f"{size}B")
            self.assertEqual(after["memory_calibration"]["offset_bytes"], 0)
            for part in ("memory", "time"):
                self.assertEqual(after[part], before[part])

    def test_what_was_read_is_predicted_and_other_plans_hold_as_much_more(self):
        for stack in (STACK, ()):
            for offset in (2 * GIB, -(GIB // 4)):
                with self.subTest(stack=stack, offset=offset):
                    size = self.shown("plan.json", *stack)["expected_bytes"] + offset
                    after = self.shown("plan.json", *stack, "--measured", f"{size}B")
                    self.assertEqual(after["expected_bytes"], size)
                    before = self.shown("other.json", *stack)
                    other = self.shown("other.json", *stack, "--measured", f"{size}B", "--of", "plan.json")
                    self.assertEqual(other["expected_bytes"] - before["expected_bytes"], offset)
                    # One number does not make another plan surer.
                    self.assertGreaterEqual(other["bound_bytes"] - other["expected_bytes"],
                                            before["bound_bytes"] - before["expected_bytes"])  # fmt: skip

    def test_what_the_allocator_says_is_another_reading(self):
        for key in ("allocated", "reserved"):
            before = self.good_json("memory", "plan.json", *STACK)["memory"]["allocator"]
            size = before[key]["expected_bytes"] + GIB
            answer = self.good_json("memory", "plan.json", *STACK, "--measured", f"{size}B:{key}")
            after = answer["memory"]["allocator"]
            self.assertEqual(after[key]["expected_bytes"], size)
            self.assertEqual(after["needed"]["expected_bytes"] - before["needed"]["expected_bytes"], GIB)
            self.assertEqual(answer["memory_calibration"]["reading"], key)

    def test_a_plan_that_no_longer_fits_is_found_out(self):
        for stack in (STACK, ()):
            size = f"{79 * GIB}B"
            self.assertFalse(self.good_json("memory", "plan.json", *stack)["infeasible"])
            result = self.zplan("memory", "other.json", *stack, "--measured", size, "--of", "plan.json", "--json")
            self.assertEqual(result.returncode, 1)
            self.assertEqual(json.loads(result.stdout)["infeasible"]["tier"], "gpu")
            result = self.zplan("simulate", "other.json", *stack, "--measured", size, "--of", "plan.json")
            self.assertEqual(result.returncode, 1)
            self.assertIn("were measured beyond what was predicted", result.stderr)

    def test_another_class_of_devices_keeps_its_memory_and_says_so(self):
        self.make_plan("a100.json", "--dp", "8", "--tp", "1", "--pp", "1", cluster="dgx-a100")
        before = self.shown("a100.json", *STACK)
        size = self.shown("plan.json", *STACK)["expected_bytes"] + GIB
        result = self.zplan("memory", "a100.json", *STACK, "--measured", f"{size}B", "--of", "plan.json", "--json")
        self.assertEqual(json.loads(result.stdout)["memory"]["allocator"]["shown"], before)
        self.assertRegex(result.stderr, r"^zplan: --measured: the memory of H100\S+ says nothing of A100\S+, and is not taken over\n")

    def test_a_time_and_a_size_stand_together(self):
        before = self.simulated("plan.json", *STACK)
        size = before["memory"]["allocator"]["shown"]["expected_bytes"] + GIB
        answer = self.simulated("plan.json", *STACK, "--measured", f"{size}B", "--measured",
                                f"{1.25 * before['time']['step_s']!r}s")  # fmt: skip
        self.assertEqual(answer["memory_calibration"]["offset_bytes"], GIB)
        self.assertEqual(len(answer["anchors"]), 1)

    def test_people_read_what_one_number_teaches(self):
        size = self.shown("plan.json", *STACK)["expected_bytes"] + GIB
        for call in (("simulate", "plan.json"), ("memory", "plan.json")):
            text = " ".join(self.good(*call, *STACK, "--measured", f"{size}B").split())
            self.assertIn(f"calibrated on {size}B of plan.json: ", text)
            self.assertIn("is taken to hold 1.00 GiB more than predicted, since one number cannot tell", text)

    def test_what_no_run_can_have_held_is_refused(self):
        for word, says in (("200GiB", "at most the 79.10 GiB of a H100"), ("1MiB", "parameters and optimizer states")):
            self.bad(BAD_INPUT, "simulate", "plan.json", *STACK, "--measured", word, says=["--measured: expected ", says])


class Checked(Measured):
    CONFIG = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
              "zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}  # fmt: skip

    def checked(self, *arguments):
        self.write("ds.json", json.dumps(self.CONFIG))
        result = self.zplan("check", "ds.json", *MODEL, *arguments, "--json")
        return json.loads(result.stdout)

    def test_a_configuration_is_the_run_that_was_measured(self):
        before = self.checked()
        step = before["time"]["step_s"]
        same = self.checked("--measured", f"{step!r}s")
        self.assertAlmostEqual(same["time"]["step_s"] / step, 1, 9)
        self.assertLess(self.width(same["time"]), self.width(before["time"]))
        slow = self.checked("--measured", f"{1.25 * step!r}s")
        self.assertTrue(1.05 * step < slow["time"]["step_s"] < 1.25 * step)
        self.assertIn("of ds.json", slow["anchors"][0]["run"])
        size = before["memory"]["allocator"]["shown"]["expected_bytes"] + GIB
        full = self.checked("--measured", f"{size}B")
        self.assertEqual(full["memory"]["allocator"]["shown"]["expected_bytes"], size)
        text = self.zplan("check", "ds.json", *MODEL, "--measured", f"{1.25 * step!r}s").stdout
        self.assertIn("calibrated on", text)


class Errors(Measured):
    def test_every_subcommand_refuses_what_is_no_number(self):
        self.write("ds.json", "{}")
        for call in (("plan", *MODEL, "--of", "plan.json"), ("simulate", "plan.json"), ("memory", "plan.json"),
                     ("check", "ds.json", *MODEL), ("simulate", "other.json", "--of", "plan.json")):  # fmt: skip
            for word in ("5.2", "fast", "5.2sec", "38%", "1e999s", "plan.json", "61gib", "5.2s\n"):
                with self.subTest(call=call, word=word):
                    self.bad(BAD_INPUT, *call, f"--measured={word}",
                             says="--measured: expected a number with its unit, as 5.2s")  # fmt: skip
            for word in ("-5s", "0s", "0GiB"):
                self.bad(BAD_INPUT, *call, f"--measured={word}", says="--measured: expected a number above zero")

    def test_a_unit_that_there_is_not_says_what_to_type(self):
        for word, says in (("5.2", "which has no unit"), ("38%", "%MFU"), ("61gb", '"GB"'), ("40mfu", '"%MFU"'),
                           ("9500tps", "tok/s/gpu"), ("40%HFU", "HFU counts recomputation")):  # fmt: skip
            self.bad(BAD_INPUT, "simulate", "plan.json", "--measured", word, says=says)

    def test_two_numbers_of_one_kind_contradict_each_other(self):
        for one, other in (("5s", "38%MFU"), ("61GiB", "60GiB:reserved")):
            self.bad(BAD_INPUT, "simulate", "plan.json", "--measured", one, "--measured", other,
                     says=["--measured: expected one ", f'got "{one}" and "{other}"'])  # fmt: skip

    def test_a_plan_without_a_number_and_a_speed_of_memory_are_refused(self):
        for call in (("plan", *MODEL), ("simulate", "plan.json"), ("memory", "plan.json")):
            self.bad(BAD_INPUT, *call, "--of", "plan.json", says="--of: expected --measured beside it")
        self.bad(BAD_INPUT, "memory", "plan.json", "--measured", "5s", says="expected a size such as 61GiB")
        self.bad(BAD_INPUT, "simulate", "plan.json", "--measured", "5s", "--of", "none.json", says="none.json")

    def test_a_page_says_what_it_was_calibrated_on(self):
        step = self.simulated("plan.json", *STACK)["time"]["step_s"]
        result = self.zplan("report", "plan.json", "other.json", *STACK, "--measured", f"{1.25 * step!r}s", "-o", "page.html")
        if "d3" in result.stderr:
            self.skipTest("the build has no page")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("calibrated on", self.read("page.html"))
        self.bad(BAD_INPUT, "report", "plan.json", "--measured", "5.2", "-o", "x.html", says="has no unit")
        self.bad(BAD_INPUT, "report", "plan.json", "--measured", "none.json", "-o", "x.html", says="none.json")


if __name__ == "__main__":
    main()
