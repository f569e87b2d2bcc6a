"""Trainings that are kept, gone on with and validated, as their user sees them."""

import json
import math
import os
import random
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time

from cli_support import (BAD_INPUT, CHECK_FAILED, DEVICE, INTERRUPTED, OK, PROGRAM, ROOT, TIMEOUT_S,
                         CliTest, main, tiny_plan_text)

KEPT = "kept"


class KeepTest(CliTest):
    def setUp(self):
        super().setUp()
        self.plan = self.tiny_plan("--dp", "2", "--zero", "1")
        with open(self.path("other.txt"), "w", encoding="utf-8") as file:
            file.write("All that is trained on is something else than this. " * 99)

    def train(self, *more, steps=6):
        return json.loads(self.good("run", self.plan, "--steps", str(steps), "--json", *more))

    def checkpoints(self, folder=KEPT):
        return sorted(name for name in os.listdir(self.path(folder)) if name != ".lock")

    def losses(self, answer):
        return [step["loss"] for step in answer["steps"]]

    def validations(self, answer):
        return [(each["step"], each["loss"]) for each in answer["validations"]]

    def logged(self, name):
        if not os.path.exists(self.path(name)):
            return []
        with open(self.path(name), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if line.endswith("\n")]
        return [(line["step"], line.get("loss"), line.get("validation_loss")) for line in lines]

    def start(self, *more, steps=1000000, **options):
        process = subprocess.Popen(
            [PROGRAM, "run", self.plan, "--steps", str(steps), *more],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        self.addCleanup(process.kill)
        return process

    def end_of(self, process):
        out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err


class Keeping(KeepTest):
    def test_a_training_in_two_runs_is_that_in_one(self):
        whole = self.train()
        self.train("--save", KEPT, steps=4)
        rest = self.train("--save", KEPT, "--resume")
        self.assertEqual(rest["first_step"], 5)
        self.assertEqual(self.losses(rest), self.losses(whole)[4:])
        self.assertEqual([saved["step"] for saved in rest["checkpoints"]["saved"]], [6])

    def test_every_keep_and_what_is_said(self):
        text = self.good("run", self.plan, "--save", KEPT, "--every", "2", "--keep", "2",
                         "--steps", "7")
        self.assertEqual(self.checkpoints(), ["step-000006", "step-000007"])
        self.assertRegex(text, r"Kept: wrote 4 checkpoints to kept, the last of .* in ")
        text = self.good("run", self.plan, "--resume-from", KEPT + "/step-000006", "--steps", "7")
        self.assertIn("Goes on after step 6 of kept/step-000006", text)
        self.assertRegex(text, r"(?m)^ +7  ")

    def test_what_is_no_longer_kept_makes_room_before_the_next_checkpoint(self):
        self.train("--save", KEPT, "--every", "1", steps=3)
        self.train("--save", KEPT, "--resume", "--keep", "1", steps=3)
        self.assertEqual(self.checkpoints(), ["step-000003"])

    def test_a_folder_without_checkpoints_begins_the_training(self):
        code, out, err = self.end_of(self.start("--save", KEPT, "--resume", "--json", steps=6))
        self.assertEqual(code, OK, err)
        self.assertIn("kept holds no checkpoint: training begins at its first step", err)
        self.assertEqual(self.losses(json.loads(out)), self.losses(self.train()))
        again = self.train("--save", KEPT, "--resume", steps=6)  # nothing is left to do
        self.assertEqual((again["first_step"], again["steps"]), (7, []))

    def test_a_folder_of_another_run_is_not_saved_into(self):
        self.train("--save", KEPT, steps=2)
        self.bad(BAD_INPUT, "run", self.plan, "--save", KEPT, "--steps", "3",
                 says="kept: has checkpoints of a run, up to step 2: expected --resume")
        self.train("--save", KEPT + "2", steps=1)  # a name that begins alike
        self.bad(BAD_INPUT, "run", self.plan, "--save", KEPT, "--resume-from", KEPT + "2",
                 says="kept: has checkpoints of a run, up to step 2: expected --resume")
        self.assertEqual(self.checkpoints(), ["step-000002"])
        for start in (KEPT, KEPT + "/", KEPT + "/step-000002"):
            self.good("run", self.plan, "--save", KEPT, "--resume-from", start, "--steps", "2")

    def test_a_folder_that_is_named_has_to_have_checkpoints(self):
        os.mkdir(self.path("empty"))
        for folder in ("nowhere", "empty"):
            self.bad(BAD_INPUT, "run", self.plan, "--resume-from", folder,
                     says=f"{folder}: holds no checkpoint")

    def test_a_checkpoint_of_another_model_is_refused(self):
        self.train("--save", KEPT, steps=2)
        with open(os.path.join(ROOT, "models/catalogue/tiny-gpt.json"), encoding="utf-8") as file:
            model = {**json.load(file), "name": "shallow", "aliases": [], "layers": 2}
        self.write("shallow.json", json.dumps(model))
        self.good("plan", "--model", "shallow.json", "--cluster", "workstation", "--dp", "4",
                  "--tp", "1", "--pp", "1", "-o", "shallow_plan.json")
        self.bad(BAD_INPUT, "run", "shallow_plan.json", "--resume-from", KEPT + "/step-000002",
                 says="which this model does not have: it is of another")

    def test_a_log_that_cannot_be_written_ends_no_training(self):
        result = self.zplan("run", self.plan, "--steps", "3", "--save", KEPT, "--log", "/dev/full")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.one_line(result.stderr, "/dev/full: cannot be written: No space left on device")
        self.assertEqual(self.checkpoints(), ["step-000003"])

    def test_a_log_that_was_cut_short_goes_on_in_a_line_of_its_own(self):
        self.write("log", '{"step": 1, "lo')
        self.good("run", self.plan, "--steps", "1", "--log", "log")
        first, second = self.read("log").splitlines()
        self.assertEqual(first, '{"step": 1, "lo')
        self.assertEqual(json.loads(second)["step"], 1)

    def test_a_changed_plan_is_noticed_and_goes_on(self):
        self.train("--save", KEPT, steps=2)
        other = self.tiny_plan("--dp", "1", "--tp", "2", "--zero", "0", "--optimizer", "cpu")
        result = self.zplan("run", other, "--steps", "3", "--save", KEPT, "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.one_line(result.stderr, "the plan has changed since kept/step-000002 was saved")
        self.assertIn("Goes on after step 2", result.stdout)

    def test_a_gradient_that_another_plan_does_not_wait_for_is_told_of(self):
        late = self.tiny_plan("--dp", "2", "--optimizer", "cpu", "--delayed-update",
                              "--simulations", "1", name="late")
        self.good("run", late, "--steps", "2", "--save", KEPT)
        for plan, is_lost in ((late, False), (self.plan, True)):
            result = self.zplan("run", plan, "--steps", "3", "--resume-from", KEPT)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual("gradients of a delayed update" in result.stderr, is_lost)

    def test_damaged_ones_are_named_and_the_one_before_is_taken(self):
        self.train("--save", KEPT, "--every", "2", steps=4)
        name = os.path.join(KEPT, "step-000004", "rank-00001.bin")
        with open(self.path(name), "r+b") as file:
            file.seek(100)
            byte = file.read(1)[0]
            file.seek(100)
            file.write(bytes([byte ^ 64]))
        result = self.zplan("run", self.plan, "--steps", "4", "--resume-from", KEPT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.one_line(result.stderr, name)
        self.assertIn("Goes on after step 2", result.stdout)
        self.bad(BAD_INPUT, "run", self.plan, "--resume-from", KEPT + "/step-000004", says=name)

    def test_a_pipe_in_place_of_a_file_keeps_nobody_waiting(self):
        self.train("--save", KEPT, "--every", "2", steps=4)
        name = os.path.join(KEPT, "step-000004", "rank-00001.bin")
        os.remove(self.path(name))
        os.mkfifo(self.path(name))
        result = self.zplan("run", self.plan, "--steps", "4", "--resume-from", KEPT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.one_line(result.stderr, f"{name}: expected a file, got a pipe; the checkpoint before it is tried")

    def test_the_seed_stays_that_of_the_checkpoint(self):
        self.train("--save", KEPT, "--seed", "5", steps=2)
        expected = self.train("--seed", "5", steps=3)
        result = self.zplan("run", self.plan, "--steps", "3", "--json", "--seed", "6",
                            "--resume-from", KEPT)
        self.one_line(result.stderr, "--seed has no effect")
        self.assertEqual(self.losses(json.loads(result.stdout)), self.losses(expected)[2:])

    def test_options_that_need_others(self):
        for options, says in (
            (("--every", "2"), "--save"),
            (("--keep", "2"), "--save"),
            (("--resume",), "--save"),
            (("--save", KEPT, "--resume", "--resume-from", KEPT), "--resume-from"),
            (("--save", KEPT, "--resume", "--check"), "--check"),
            (("--save", KEPT, "--every", "0"), "--every"),
        ):
            self.bad(BAD_INPUT, "run", self.plan, *options, says=says)
        self.assertFalse(os.path.exists(self.path(KEPT)))

    def test_a_log_has_a_line_for_each_step(self):
        self.train("--log", "log.jsonl", "--save", KEPT, steps=2)
        answer = self.train("--log", "log.jsonl", "--save", KEPT, "--resume", steps=3)
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines], [1, 2, 3])
        self.assertAlmostEqual(lines[-1]["loss"], answer["steps"][-1]["loss"], places=5)
        for line in lines:
            self.assertLess(line["exposed_s"], line["wall_s"])
            self.assertGreaterEqual(line["exposed_s"], 0)
            # Each step is held against the same limit, which a profile states that nobody measured.
            self.assertAlmostEqual(line["limit_share"] * line["wall_s"],
                                   lines[0]["limit_share"] * lines[0]["wall_s"], places=9)
            self.assertLess(line["limit_share"] * line["wall_s"], answer["predicted_step_s"])
            self.assertEqual((line["limit"], line["limit_is_measured"]), ("stage 0 compute", False))
            self.assertGreater(line["limit_share"], 0)


class Validating(KeepTest):
    def test_training_is_as_it_was_and_its_states_are_validated(self):
        plain = self.train(steps=5)
        self.assertEqual(plain["validations"], [])
        options = ("--validate", "other.txt", "--validate-every", "2", "--validate-batches", "2")
        answer = self.train(*options, "--log", "log.jsonl", "--save", KEPT, "--every", "2", steps=5)
        self.assertEqual(self.losses(answer), self.losses(plain))
        found = self.validations(answer)
        self.assertEqual([step for step, _ in found], [2, 4, 5])
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines], [1, 2, 2, 3, 4, 4, 5, 5])
        logged = [line["validation_loss"] for line in lines if "validation_loss" in line]
        for loss, (_, expected) in zip(logged, found, strict=True):
            self.assertAlmostEqual(loss, expected, places=5)
        again = self.train(*options, "--resume-from", KEPT + "/step-000004", steps=4)
        self.assertEqual((again["steps"], self.validations(again)), ([], found[1:2]))

    def test_the_text_that_a_person_reads(self):
        text = self.good("run", self.plan, "--steps", "1", "--validate", "other.txt")
        self.assertRegex(text, r"after step +validation loss +time\n +1 +5\.\d{6} ")

    def test_no_step_validates_what_is_there(self):
        trained = self.train("--data", "other.txt", steps=1)
        options = ("--validate", "other.txt", "--validate-batches", "1")
        self.assertEqual(self.validations(self.train(*options, steps=0)),
                         [(0, self.losses(trained)[0])])

    def test_several_batches_have_the_mean_of_their_losses(self):
        with open(self.path("train.json"), "w", encoding="utf-8") as file:
            json.dump({"schema": "zplan.train/1", "learning_rate": 0.0}, file)
        steps = self.losses(self.train("--data", "other.txt", "--train", "train.json", steps=2))
        self.assertNotEqual(*steps)
        options = ("--validate", "other.txt", "--validate-batches", "2")
        ((_, loss),) = self.validations(self.train(*options, steps=0))
        self.assertAlmostEqual(loss, sum(steps) / 2, places=9)

    def test_ctrl_c_in_the_last_validation_finds_the_training_kept(self):
        process = self.start("--save", KEPT, "--validate", "other.txt", "--validate-batches",
                             "100000", "--export", "out", steps=2)
        while not os.path.exists(self.path(os.path.join(KEPT, "step-000002"))):
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        code, _, err = self.end_of(process)
        self.assertEqual(code, INTERRUPTED, err)
        self.assertIn("interrupted in the validation after 2 steps of 2; kept in", err)
        self.assertIn("model.safetensors", os.listdir(self.path("out")))

    def test_a_validation_that_ctrl_c_ended_is_made_up(self):
        options = ("--validate", "other.txt", "--validate-every", "2", "--validate-batches", "300")
        self.train(*options, "--log", "whole.jsonl", steps=4)
        process = self.start(*options, "--log", "parts.jsonl", "--save", KEPT, steps=4)
        self.wait_for_log("parts.jsonl", process, lines=2)
        process.send_signal(signal.SIGINT)
        code, _, err = self.end_of(process)
        self.assertEqual(code, INTERRUPTED, err)
        self.assertIn("interrupted after 2 steps of 4; kept in kept/step-000002", err)
        self.assertEqual(len(self.logged("parts.jsonl")), 2)
        rest = self.train(*options, "--log", "parts.jsonl", "--save", KEPT, "--resume", steps=4)
        self.assertEqual([step for step, _ in self.validations(rest)], [2, 4])
        self.assertEqual(self.logged("parts.jsonl"), self.logged("whole.jsonl"))
        again = self.train(*options, "--save", KEPT, "--resume", steps=5)  # that of step 4 is done
        self.assertEqual([step for step, _ in self.validations(again)], [5])

    def test_what_cannot_be_validated(self):
        for options, says in (
            (("--validate-every", "2"), "--validate FILE"),
            (("--validate-batches", "2"), "--validate FILE"),
            (("--validate", "other.txt", "--steps", "9", "--validate-every", "1",
              "--validate-batches", "200000"), "10 validations of 200000"),
            (("--validate", "nowhere.txt"), "nowhere.txt"),
            (("--validate", "/dev/zero"), "/dev/zero"),
            (("--steps", "0"), "--validate"),
        ):
            self.bad(BAD_INPUT, "run", self.plan, *options, says=says)


class Together(KeepTest):
    """Two ranks that are processes, and one folder."""

    def begin_both(self, *options_of, steps):
        """With options of rank 0 and of rank 1."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        processes = []
        for rank, options in zip("01", options_of, strict=True):
            place = {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank,
                     "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            processes.append(self.start(*options, "--json", steps=steps,
                                        env={**os.environ, **place}))
        return processes

    def start_both(self, *options_of, steps):
        return [self.end_of(process) for process in self.begin_both(*options_of, steps=steps)]

    def run_both(self, *options, steps):
        ends = self.start_both(options, options, steps=steps)
        self.assertEqual([end[0] for end in ends], [0, 0], ends)
        return json.loads(ends[0][1] or ends[1][1]), "".join(end[2] for end in ends)

    def setUp(self):
        super().setUp()
        self.plan = self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3")

    def test_they_keep_and_go_on(self):
        whole = self.losses(self.train(steps=5))
        self.run_both("--save", KEPT, "--every", "2", steps=4)
        self.assertEqual(self.checkpoints(), ["step-000002", "step-000004"])
        rest, _ = self.run_both("--save", KEPT, "--resume", steps=5)
        self.assertEqual(self.losses(rest), whole[4:])
        # What one of them finds damaged none of them takes.
        os.truncate(self.path(os.path.join(KEPT, "step-000005", "rank-00001.bin")), 10)
        rest, said = self.run_both("--resume-from", KEPT, steps=5)
        self.assertIn("cut short", said)
        self.assertEqual((rest["first_step"], self.losses(rest)), (5, whole[4:]))
        options = ("--validate", "other.txt", "--validate-every", "1")
        both, _ = self.run_both(*options, steps=2)
        self.assertEqual(self.losses(both), whole[:2])
        self.assertEqual(self.validations(both), self.validations(self.train(*options, steps=2)))
        last = os.path.join(KEPT, "step-000004")  # by one process
        self.assertEqual(self.losses(self.train("--resume-from", last, steps=5)), whole[4:])


    def test_a_validation_that_was_interrupted_is_made_up(self):
        self.plan = self.tiny_plan("--dp", "1", "--tp", "1", "--pp", "2",
                                   "--simulations", "1")  # the second one has losses
        options = ("--validate", "other.txt", "--validate-every", "2", "--validate-batches", "300")
        self.run_both(*options, "--log", "whole.jsonl", steps=4)
        own = (*options, "--log", "parts.jsonl", "--save", KEPT)
        processes = self.begin_both(own, own, steps=4)
        self.wait_for_log("parts.jsonl", processes[0], lines=2)
        processes[0].send_signal(signal.SIGINT)
        for code, _, err in map(self.end_of, processes):
            self.assertEqual(code, INTERRUPTED, err)
        self.assertEqual(len(self.logged("parts.jsonl")), 2)
        self.run_both(*own, "--resume", steps=4)
        self.assertEqual(self.logged("parts.jsonl"), self.logged("whole.jsonl"))

    def test_those_that_validate_otherwise_do_not_start(self):
        validate = ("--validate", "other.txt")
        for other in (), (*validate, "--validate-every", "2"), (*validate, "--validate-batches", "2"):
            for code, _, err in self.start_both(validate, other, steps=3):
                self.assertEqual(code, BAD_INPUT, err)
                self.assertIn("validation", err)


class Spoiled(KeepTest):
    """Trainings whose parameters, or updates, are no numbers."""

    def lines(self, code, *arguments):
        result = self.zplan("run", self.plan, *arguments)
        self.assertEqual(result.returncode, code, result.stderr)
        return result.stderr.splitlines()

    def spoiled_weights(self):
        """Of the model, one of them NaN."""
        self.good("run", self.plan, "--steps", "1", "--export", "weights")
        with open(self.path("weights/model.safetensors"), "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(struct.pack("<f", math.nan))
        return "weights"

    def test_the_end_of_a_training_is_not_kept_either(self):
        lines = self.lines(CHECK_FAILED, "--save", KEPT, "--weights", self.spoiled_weights(),
                           "--steps", "2")
        self.assertRegex(lines[0], "checkpoint of step 2 could not be written: .* has values that are "
                         "not finite; those before it are kept")
        self.assertIn("the end of the training is not kept", lines[-1])
        self.assertEqual(self.checkpoints(), [])

    def test_weights_that_are_no_numbers_are_not_exported(self):
        weights = self.spoiled_weights()
        before = self.files()
        for steps in ("0", "2"):
            lines = self.lines(CHECK_FAILED, "--weights", weights, "--steps", steps, "--export", "out")
            self.assertRegex(lines[-1], r"^zplan: out: not written, for \S+ has values that are not "
                             "finite; .* --resume-from")
        self.assertEqual(self.files(), before)

    def test_a_training_that_diverges_leaves_the_checkpoint_before_it(self):
        """A rate of 10 with a decay of 1 lets parameters grow ninefold in each step, until no gradient
        is finite. What was kept ahead of that goes on as if it had never been."""
        self.plan = self.tiny_plan("--dp", "2", "--zero", "1")
        self.write("train.json",
                   '{"schema": "zplan.train/1", "learning_rate": 10, "weight_decay": 1}')
        wild = ("--train", "train.json", "--save", KEPT, "--every", "1", "--keep", "2")
        lines = self.lines(CHECK_FAILED, *wild, "--steps", "100")
        skipped = re.search(r"step (\d+): every update since step (\d+) was skipped", lines[-1])
        self.assertTrue(skipped, lines[-1])
        self.assertEqual(int(skipped[1]), int(skipped[2]) + 7)
        # The step that nothing goes on from, and the one before it.
        before, last = [int(name.removeprefix("step-")) for name in self.checkpoints()]
        self.assertEqual(before, int(skipped[2]) - 2)
        good = os.path.join(KEPT, f"step-{before:06}")
        self.train("--save", "calm", "--train", "train.json", steps=before)
        expected = self.train("--resume-from", "calm", steps=before + 2)
        found = self.train("--resume-from", good, steps=before + 2)
        self.assertEqual(self.losses(found), self.losses(expected))
        self.assertEqual(found["first_step"], before + 1)
        self.assertGreaterEqual(last, int(skipped[2]) - 1)

    def test_weights_that_are_no_numbers_end_a_training(self):
        weights = self.spoiled_weights()
        lines = self.lines(CHECK_FAILED, "--weights", weights, "--steps", "100", "--save", KEPT)
        self.assertIn("step 8: every update since step 1 was skipped", lines[-1])
        self.assertEqual(self.checkpoints(), [])
        # Fewer steps than it takes to give up.
        lines = self.lines(CHECK_FAILED, "--weights", weights, "--steps", "2")
        self.assertIn("no step updated the parameters: the gradients of all 2 were not finite", lines[-1])


class Ending(KeepTest):
    def test_signals_keep_what_is_trained(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            shutil.rmtree(self.path(KEPT), ignore_errors=True)
            process = self.start("--save", KEPT, "--log", number.name)
            if number == signal.SIGINT:  # what is shown begins after some seconds
                shown = process.stderr.readline()
                self.assertIn("training: step", shown)
                while ", loss " not in shown:  # within the first step
                    shown = process.stderr.readline()
                self.assertRegex(
                    shown, r", \d+ % of the profile's limit \(stage 0 compute\); .* left")
            self.wait_for_log(number.name, process)
            process.send_signal(number)
            code, _, err = self.end_of(process)
            self.assertEqual(code, INTERRUPTED, err)
            said = re.search(r"interrupted after ([\d,]+) steps? of .*; kept in (\S+), --resume",
                             err.splitlines()[-1])
            self.assertTrue(said, err)
            self.assertEqual(self.checkpoints(), [os.path.basename(said[2])])
            done = int(said[1].replace(",", ""))
            more = self.train("--resume-from", KEPT, steps=done + 1)
            self.assertEqual(more["first_step"], done + 1)

    def test_a_long_step_is_given_up_and_done_anew(self):
        self.tiny_plan("--dp", "2", "--zero", "1", "--micro-batch", "1", "--global-batch", "2048")
        whole = self.train(steps=2)
        process = self.start("--save", KEPT, "--log", "log.jsonl", steps=2)
        self.wait_for_log("log.jsonl", process)
        process.send_signal(signal.SIGTERM)
        code, _, err = self.end_of(process)
        self.assertEqual(code, INTERRUPTED, err)
        self.assertIn("interrupted after 1 step of 2, the next one is given up; kept in "
                      "kept/step-000001, --resume goes on", err)
        rest = self.train("--save", KEPT, "--resume", steps=2)
        self.assertEqual(self.losses(rest), self.losses(whole)[1:])

    def test_what_is_given_up_ahead_of_the_first_step_leaves_the_checkpoint(self):
        alone = ("--dp", "1", "--tp", "1", "--pp", "1", "--simulations", "1")  # busy for seconds
        self.write(self.plan, tiny_plan_text(*alone)[0])
        self.train("--save", KEPT, steps=1)
        self.write(self.plan, tiny_plan_text(*alone, "--micro-batch", "1", "--global-batch",
                                             "65536")[0])
        process = self.start("--save", KEPT, "--resume")
        while "training: step" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        code, _, err = self.end_of(process)
        self.assertEqual(code, INTERRUPTED, err)
        self.assertIn("interrupted after 1 step of 1,000,000, the next one is given up; "
                      "kept/step-000001 is as far", err)
        self.assertEqual(self.checkpoints(), ["step-000001"])

    def test_a_second_run_on_a_folder_is_refused(self):
        process = self.start("--save", KEPT, "--log", "log.jsonl")
        self.wait_for_log("log.jsonl", process)
        self.bad(BAD_INPUT, "run", self.plan, "--save", KEPT, says="another run saves there")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end_of(process)[0], INTERRUPTED)

    def test_a_file_that_may_not_grow_is_one_line(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        process = self.start("--save", KEPT, steps=2, preexec_fn=limit)
        code, _, err = self.end_of(process)
        self.assertEqual(code, DEVICE, err)
        self.assertIn("the checkpoint of step 2 could not be written", err)
        self.assertEqual(self.checkpoints(), [])

    def test_killed_runs_end_with_the_same_bits_when_they_go_on(self):
        steps, draw = 120, random.Random(1)
        whole = self.losses(self.train(steps=steps))
        kills = 0
        while True:
            process = self.start("--save", KEPT, "--every", "5", "--keep", "2", "--resume",
                                 "--json", steps=steps)
            try:
                # Longer each time: on a busy machine the start alone may take so long.
                out, err = process.communicate(timeout=0.3 + draw.random() + 0.2 * kills)
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
                self.assertLess(kills, 100)
        self.assertEqual(process.returncode, 0, err)
        answer = json.loads(out)
        self.assertEqual(self.losses(answer), whole[answer["first_step"] - 1:])


if __name__ == "__main__":
    main()
