"""zplan run: the round trip from a plan to training steps, its check, and Ctrl-C."""

import json
import os
import re
import signal
import subprocess

from cli_support import (
    BAD_INPUT, CHECK_FAILED, DEVICE, INFEASIBLE, INTERRUPTED, PROGRAM, TIMEOUT_S, CliTest, main,
)

LOG = "steps.jsonl"
QUICK = ("--simulations", "1")  # of many plans with these pins the search tries one


class RoundTrip(CliTest):
    def test_plan_simulate_run_check(self):
        planned = self.good_json(
            "plan", "--model", "tiny-gpt", "--cluster", "workstation", "-o", "plan.json"
        )
        simulated = self.good_json("simulate", "plan.json", "--trace", "simulated.json")
        ran = self.good_json(
            "run", "plan.json", "--steps", "4", "--check", "--trace", "ran.json",
            "--timeline", "timeline.json",
        )
        self.assertEqual(ran["schema"], "zplan.run/1")
        self.assertEqual(planned["fingerprint"], simulated["fingerprint"])
        self.assertEqual(planned["fingerprint"], ran["fingerprint"])
        self.assertEqual(len(ran["steps"]), 4)
        self.assertIs(ran["check"]["agrees"], True)
        self.assertGreater(ran["measured_step_s"], 0)
        self.assertEqual(ran["predicted_step_s"], simulated["time"]["step_s"])
        timeline = json.loads(self.read("timeline.json"))
        self.assertEqual(timeline["schema"], "zplan.timeline/1")
        self.assertEqual(timeline["fingerprint"], ran["fingerprint"])
        self.same_operations()

    def same_operations(self):
        """Simulated and real traces show the same operations on the same lanes."""
        seen = []
        for name in ("simulated.json", "ran.json"):
            events = json.loads(self.read(name))["traceEvents"]
            spans = [event for event in events if event["ph"] == "X"]
            lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
            seen.append({(e["name"], lanes[e["tid"]]) for e in spans})
        self.assertEqual(seen[0], seen[1])

    def test_double_precision(self):
        self.tiny_plan("--dp", "2", "--pp", "2", "--zero", "3", "--recompute", "full", *QUICK)
        ran = self.good_json("run", "plan.json", "--steps", "3", "--check", "--dtype", "f64")
        self.assertEqual(ran["kernel_set"], "cpu.f64")
        self.assertIs(ran["check"]["agrees"], True)
        for row in ran["check"]["rows"]:
            self.assertEqual(row["tolerance"], 1e-10)
        self.assertNotEqual(
            ran["fingerprint"], self.good_json("simulate", "plan.json")["fingerprint"]
        )

    def checked(self, model, *pins):
        """The rows of a check of four ranks in double precision, by their quantity."""
        self.good(
            "plan", "--model", model, "--cluster", "workstation", "--dp", "4", "--tp", "1",
            "--pp", "1", "--global-batch", "4", "--micro-batch", "1", *pins, "-o", "plan.json",
        )
        ran = self.good_json("run", "plan.json", "--steps", "2", "--check", "--dtype", "f64")
        self.assertIs(ran["check"]["agrees"], True)
        return {row["quantity"]: row for row in ran["check"]["rows"]}, ran

    def test_double_precision_rounds_to_fp8_where_the_plan_does(self):
        _, ran = self.checked("tiny-gpt", "--kernel-set", "cpu.f32.fp8")
        self.assertEqual(ran["kernel_set"], "cpu.f64.fp8")
        self.good("run", "plan.json", "--steps", "4", "--check")  # in single precision it agrees, too

    def test_what_experts_drop_and_their_auxiliary_loss_are_checked(self):
        rows, ran = self.checked(
            "tiny-deepseek", "--ep", "2", "--capacity-factor", "0.5", "--recompute", "full"
        )
        self.assertGreater(ran["steps"][0]["dropped"], 0)
        self.assertEqual(rows["dropped choices"]["difference"], 0)
        self.assertIn("auxiliary losses", rows)

    def test_gradients_that_are_rounding_alone_are_no_difference(self):
        """Biases of keys of cross-attention, routers with one choice of weight 1."""
        model = {
            "schema": "zplan.model/1", "name": "odd", "architecture": "llama", "layers": 2,
            "hidden": 32, "heads": 4, "kv_heads": 4, "ffn": 48, "vocab": 128, "sequence": 16,
            "rope_theta": 10000, "global_batch": 4, "tied_embeddings": False,
            "source": "assumed: a test",
        }
        for name, features in (
            ("encoder", {"encoder_layers": 1, "biases": "qkv"}),
            ("router", {"experts": 4, "experts_per_token": 1}),
        ):
            self.write(f"{name}.json", json.dumps({**model, **features}))
            self.checked(f"{name}.json", "--optimizer-kind", "adafactor")

    def test_loss_falls(self):
        self.tiny_plan()
        steps = self.good_json("run", "plan.json", "--steps", "30")["steps"]
        self.assertLess(steps[-1]["loss"], 0.9 * steps[0]["loss"])

    def test_test_mode_gives_the_same_numbers(self):
        self.tiny_plan("--dp", "2", "--zero", "2")
        losses = []
        for options in ((), ("--test-mode",)):
            ran = self.good_json("run", "plan.json", "--steps", "2", *options)
            losses.append([step["loss"] for step in ran["steps"]])
        self.assertEqual(losses[0], losses[1])

    def test_seed_data_and_train_config_matter(self):
        self.tiny_plan()
        self.write("text.txt", "the quick brown fox jumps over the lazy dog. " * 50)
        self.write("train.json", '{"schema": "zplan.train/1", "learning_rate": 1e-4}')
        losses = set()
        for options in (
            (), ("--seed", "1"), ("--data", "text.txt"), ("--train", "train.json"),
        ):
            ran = self.good_json("run", "plan.json", "--steps", "3", *options)
            losses.add(ran["steps"][-1]["loss"])
        self.assertEqual(len(losses), 4)

    def test_without_clipping_there_is_no_gradient_norm(self):
        self.tiny_plan("--no-clip")
        ran = self.good_json("run", "plan.json", "--steps", "2")
        self.assertEqual([step["gradient_norm"] for step in ran["steps"]], [None, None])
        rows = [line.split() for line in self.good("run", "plan.json").splitlines()]
        self.assertIn(["10", "-"], [[row[0], row[2]] for row in rows if len(row) > 3])
        self.assertNotIn("0.000000", self.good("run", "plan.json", "--steps", "2"))

    def test_people_are_told_the_main_things(self):
        self.tiny_plan()
        text = self.good("run", "plan.json", "--steps", "2", "--check")
        for word in (
            "loss", "gradient norm", "tokens/s", "measured", "predicted", "losses", "parameters",
            "tolerance", "Fingerprint",
        ):
            self.assertIn(word, text)


class Offload(CliTest):
    PINS = (
        "--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3", "--micro-batch", "2",
        "--gather", "layer", "--recompute", "full", "--activations", "gpu", "--prefetch", "1",
        "--params", "nvme", "--grads", "nvme", "--optimizer", "nvme",
    )

    def test_states_on_nvme_give_the_same_numbers(self):
        nvme = self.tiny_plan(*self.PINS, name="nvme.json")
        cpu = self.tiny_plan(*["cpu" if pin == "nvme" else pin for pin in self.PINS])
        os.mkdir(self.path("drive"))
        losses = []
        for plan, options in (
            (nvme, ("--nvme-dir", "drive")),
            (nvme, ("--nvme-dir", "drive", "--io", "posix")),
            (cpu, ()),
        ):
            ran = self.good_json("run", plan, "--steps", "3", *options)
            losses.append([step["loss"] for step in ran["steps"]])
            self.assertEqual(ran["nvme"] is not None, plan == nvme)
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(losses[0], losses[2])
        self.assertEqual(os.listdir(self.path("drive")), [])

    def test_the_engine_is_named(self):
        nvme = self.tiny_plan(*self.PINS, name="nvme.json")
        text = self.good("run", nvme, "--nvme-dir", ".", "--io", "posix", "--steps", "2", "--check")
        self.assertRegex(text, "NVMe: .*(pread|posix)")

    def test_a_folder_without_use_is_told(self):
        result = self.zplan("run", self.tiny_plan(), "--steps", "1", "--nvme-dir", ".")
        self.assertEqual(result.returncode, 0)
        self.one_line(result.stderr, "--nvme-dir has no effect")


class NewPlans(CliTest):
    def test_they_agree_with_one_rank(self):
        for pins in (
            ("--dp", "1", "--tp", "2", "--pp", "2", "--sp"),
            ("--dp", "2", "--tp", "2", "--partition-activations", "--zero", "3"),
            ("--dp", "4", "--zero", "2", "--shards", "2", "--optimizer", "cpu"),
            ("--dp", "2", "--zero", "3", "--gather", "tiles:2"),
            ("--dp", "1", "--pp", "2", "--schedule", "gpipe", "--stages", "3,1"),
            ("--dp", "2", "--optimizer", "cpu", "--delayed-update"),
            ("--dp", "4", "--gather", "owned", "--params", "cpu", "--optimizer", "cpu"),
            ("--dp", "2", "--pp", "2", "--gather", "owned", "--optimizer", "cpu", "--delayed-update"),
            ("--dp", "2", "--kernel-set", "cpu.f32.unfused", "--recompute", "selective"),
        ):
            plan = self.tiny_plan(*pins, *QUICK, name="new.json")
            ran = self.good_json("run", plan, "--steps", "3", "--check", "--dtype", "f64")
            self.assertIs(ran["check"]["agrees"], True, pins)


class Check(CliTest):
    def rows(self, *options):
        ran = self.good_json("run", "plan.json", "--check", *options)
        self.assertIs(ran["check"]["agrees"], True, ran["check"])
        return {row["quantity"]: row for row in ran["check"]["rows"]}

    def test_losses_are_held_against_those_of_one_rank(self):
        self.tiny_plan("--dp", "2", "--tp", "2", "--zero", "3", "--micro-batch", "2")
        ran = self.good_json("run", "plan.json", "--steps", "4", "--check")
        self.tiny_plan("--dp", "1", "--tp", "1", "--pp", "1", "--micro-batch", "2", "--zero", "0",
                       name="one.json")  # ZeRO 2 adds gradients up in another order
        alone = self.good_json("run", "one.json", "--steps", "4")
        pairs = zip(ran["steps"], alone["steps"])
        differences = [abs(a["loss"] - b["loss"]) / b["loss"] for a, b in pairs]
        row = ran["check"]["rows"][0]
        self.assertEqual(row["quantity"], "losses")
        self.assertGreater(row["difference"], 0)
        self.assertAlmostEqual(row["difference"], max(differences), delta=1e-3 * max(differences))
        self.assertEqual(row["where"], f"step {differences.index(max(differences)) + 1}")

    def test_many_steps_and_short_sequences_agree(self):
        """Biases of keys go where rounding takes them, a learning rate in every step."""
        self.tiny_plan("--dp", "2", "--zero", "3")
        self.rows("--steps", "100")
        self.tiny_plan("--dp", "2", "--tp", "2", "--zero", "2", "--no-clip")
        plan = json.loads(self.read("plan.json"))
        plan["batch"] = {"global_batch": 12, "micro_batch": 3, "sequence": 4}
        self.write("plan.json", json.dumps(plan))
        row = self.rows("--steps", "2")["parameters"]
        self.assertGreater(row["difference"], 0)
        self.assertIn("without key biases", row["unit"])

    def test_16_bit_tolerances_are_below_what_updates_move(self):
        for kernel_set in ("cpu.bf16", "cpu.fp16"):
            self.tiny_plan("--dp", "2", "--tp", "2", "--kernel-set", kernel_set, *QUICK)
            for steps in ("1", "5"):
                row = self.rows("--steps", steps)["parameters"]
                self.assertLess(row["tolerance"], 1)  # that of no update
                self.assertGreater(row["difference"], 0)

    def test_gradients_of_a_delayed_update(self):
        self.tiny_plan("--dp", "2", "--tp", "2", "--optimizer", "cpu", "--delayed-update", *QUICK)
        row = self.rows("--steps", "3", "--dtype", "f64")["first gradients"]
        self.assertIs(row["only_zeros"], False)
        self.assertGreater(row["difference"], 0)

    def test_gradients_that_are_all_skipped_are_no_agreement(self):
        self.tiny_plan("--dp", "2", "--kernel-set", "cpu.fp16", *QUICK)
        self.write("train.json", '{"schema": "zplan.train/1", "initial_loss_scale": 1e12}')
        result = self.zplan("run", "plan.json", "--steps", "2", "--check", "--train", "train.json")
        self.assertEqual(result.returncode, CHECK_FAILED)
        self.assertIn("nothing but zeros to compare", result.stdout)
        self.one_line(result.stderr, ["no step updated", "more --steps"])
        self.write("train.json", '{"schema": "zplan.train/1", "initial_loss_scale": 1e6}')
        self.rows("--steps", "5", "--train", "train.json")

    def test_models_without_key_biases_have_no_row_of_them(self):
        result = self.zplan(
            "plan", "--model", "tiny-llama", "--cluster", "workstation", "--dp", "2",
            "-o", "plan.json",
        )
        self.assertEqual(result.returncode, 0)
        self.assertEqual(
            list(self.rows("--steps", "2")), ["losses", "first gradients", "parameters"]
        )


class Failures(CliTest):
    def test_check_that_fails(self):
        """A learning rate that makes training chaotic lets rounding grow into disagreement."""
        self.tiny_plan("--dp", "2")
        self.write("train.json", '{"schema": "zplan.train/1", "learning_rate": 10}')
        result = self.zplan(
            "run", "plan.json", "--steps", "10", "--check", "--train", "train.json"
        )
        self.assertEqual(result.returncode, CHECK_FAILED)
        self.one_line(result.stderr, "differ")
        self.assertIn("DIFFERS", result.stdout)

    def test_threads_of_kernels_wait_briefly_unless_the_user_says_how(self):
        """As the OpenMP library reports its settings when it is loaded."""
        self.tiny_plan()
        for told, expected in (
            ({}, ["300000", "1000"]),
            ({"GOMP_SPINCOUNT": "7"}, ["7"]),
            ({"OMP_WAIT_POLICY": "PASSIVE"}, ["0"]),
        ):
            result = subprocess.run(
                [PROGRAM, "run", "plan.json", "--steps", "1", "--threads-per-rank", "2"],
                cwd=self.folder,
                env={**os.environ, **told, "OMP_DISPLAY_ENV": "VERBOSE"},
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertEqual(result.returncode, 0, result.stderr)
            found = re.findall(r"GOMP_SPINCOUNT = '(\w+)'", result.stderr)
            self.assertEqual(found, expected, told)

    def test_a_loss_that_is_no_number(self):
        """Decay times rate far above 2: parameters grow ninefold in each step."""
        self.tiny_plan("--no-clip")
        self.write(
            "train.json", '{"schema": "zplan.train/1", "learning_rate": 10, "weight_decay": 1}'
        )
        self.bad(
            CHECK_FAILED, "run", "plan.json", "--steps", "300", "--train", "train.json",
            says=["of 300: expected a finite loss", "nan"],
        )

    def test_more_memory_than_the_machine_has(self):
        plan = json.loads(self.read(self.tiny_plan("--dp", "1")))
        plan["model"] = "zero-infinity-1t"
        self.write("huge.json", json.dumps(plan))
        self.bad(INFEASIBLE, "run", "huge.json", says="does not fit on workstation")
        self.bad(DEVICE, "run", "huge.json", "--ignore-capacity", says=["memory", "GiB"])

    def test_more_ranks_than_the_hardware(self):
        self.tiny_plan("--dp", "4")
        plan = json.loads(self.read("plan.json"))
        plan["parallel"]["dp"] = plan["batch"]["global_batch"] = 8
        plan["batch"]["micro_batch"] = 1
        self.write("wide.json", json.dumps(plan))
        self.bad(BAD_INPUT, "run", "wide.json", says=["8 devices", "workstation"])
        ran = self.good_json("run", "wide.json", "--steps", "2", "--ignore-capacity")
        self.assertEqual(ran["ranks"], 8)
        self.assertIsNone(ran["predicted_step_s"])

    def test_timelines_are_bounded(self):
        self.tiny_plan()
        self.bad(2, "run", "plan.json", "--steps", "100000", "--trace", "t.json", says="1000")


class Interruption(CliTest):
    def interrupted(self, *options):
        self.tiny_plan("--dp", "2", "--zero", "1")
        process = subprocess.Popen(
            [PROGRAM, "run", "plan.json", "--steps", "1000000", "--log", LOG, *options],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.kill)
        self.wait_for_log(LOG, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.assertIn("interrupted after", err.splitlines()[-1])
        return out

    def test_steps_done_are_told_and_no_file_is_left(self):
        out = self.interrupted("--json")
        ran = json.loads(out)
        self.assertIs(ran["interrupted"], True)
        self.assertGreater(len(ran["steps"]), 0)
        self.assertLess(len(ran["steps"]), 1000000)
        self.assertEqual(self.files(), ["plan.json", LOG])

    def test_half_done_checks_claim_nothing(self):
        out = self.interrupted("--json", "--check")
        self.assertIsNone(json.loads(out)["check"])


if __name__ == "__main__":
    main()
