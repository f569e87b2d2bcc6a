"""zplan run by several processes, a rank each: the same numbers, and a common end."""

import json
import os
import re
import signal
import socket
import time

from cli_support import BAD_INPUT, DEVICE, EVERYTHING, INTERRUPTED, OK, main
from launched import ENDLESS, Processes, free_port

QUICK = ("--simulations", "1")  # of many pipelines the search tries one


SEVERAL = (
    (4, ("--dp", "2", "--tp", "1", "--pp", "2", "--zero", "1", *QUICK)),
    (4, ("--dp", "2", "--tp", "2", "--pp", "1", "--zero", "2")),
    (4, ("--dp", "1", "--cp", "4", "--tp", "1", "--pp", "1", "--zero", "3")),
    (4, ("--dp", "1", "--cp", "4", "--ring", "2", "--tp", "1", "--pp", "1", "--zero", "1")),
)
MORE = (
    (2, ("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3")),
    (2, ("--dp", "1", "--tp", "1", "--pp", "2", *QUICK)),
)


class SameNumbers(Processes):
    def test_losses_are_those_of_one_process(self):
        for world, pins in SEVERAL + (MORE if EVERYTHING else ()):
            self.tiny_plan(*pins)
            one = self.good_json("run", "plan.json", "--steps", "3")
            ends = self.ends(self.start(world, "--steps", "3", "--json"))
            self.assertEqual([end[0] for end in ends], [OK] * world, (pins, ends))
            reports = [out for _, out, _ in ends if out]
            self.assertEqual(len(reports), 1, pins)  # of the rank that has the loss
            several = json.loads(reports[0])
            self.assertEqual(several["fingerprint"], one["fingerprint"])
            for key in ("loss", "gradient_norm"):
                self.assertEqual(
                    [step[key] for step in several["steps"]], [step[key] for step in one["steps"]]
                )


class Unlike(Processes):
    def test_what_is_not_alike_in_all_is_refused_by_name(self):
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1")
        self.write("text.txt", "What one of them trains on. " * 99)
        self.write("train.json", '{"schema": "zplan.train/1", "learning_rate": 0.5}')
        for words, says in (
            (("--data", "text.txt"), "rank 1 at 127.0.0.1 has data 60187 tokens"),
            (("--seed", "7"), "rank 1 at 127.0.0.1 has seed 0, rank 0 has 7"),
            (("--train", "train.json"), "rank 1 at 127.0.0.1 has training values"),
            (("--save", "kept"), "has checkpoints none, rank 0 has kept, every 0, keep 0"),
            (("--export", "out"), "rank 1 at 127.0.0.1 has export none, rank 0 has out"),
        ):
            processes = self.start(2, "--steps", "2", *words, ranks=[0])
            port = processes[0].environment["MASTER_PORT"]
            processes += self.start(2, "--steps", "2", ranks=[1], MASTER_PORT=port)
            for code, out, err in self.ends(processes):
                self.assertEqual((code, out), (BAD_INPUT, ""), err)
                self.assertIn(says, self.last_line(err))


class Checks(Processes):
    def test_the_process_with_the_loss_finds_what_one_process_finds(self):
        for world, pins in (
            (2, ("--dp", "1", "--tp", "1", "--pp", "2", *QUICK)),
            (4, ("--dp", "2", "--tp", "2", "--pp", "1", "--zero", "3")),
            (4, ("--dp", "2", "--tp", "1", "--pp", "2", "--zero", "1", *QUICK)),
        ):
            self.tiny_plan(*pins)
            one = self.good_json("run", "plan.json", "--steps", "3", "--check")
            ends = self.ends(self.start(world, "--steps", "3", "--check", "--json"))
            self.assertEqual([end[0] for end in ends], [OK] * world, (pins, ends))
            (report,) = [json.loads(out) for _, out, _ in ends if out]
            self.assertEqual(report["check"], one["check"], pins)
            self.assertGreaterEqual(len(one["check"]["rows"]), 4)


class Timelines(Processes):
    def test_the_process_with_the_loss_writes_the_timeline_of_all(self):
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "2", *QUICK)
        self.good("run", "plan.json", "--steps", "3", "--timeline", "one.json")
        ends = self.ends(self.start(4, "--steps", "3", "--timeline", "all.json", "--trace", "t"))
        self.assertEqual([end[0] for end in ends], [OK] * 4, ends)
        self.assert_alike("one.json", "all.json", ranks=4)
        self.assertGreater(len(self.read("t")), 1000)


class CommonEnd(Processes):
    def setUp(self):
        super().setUp()
        self.tiny_plan("--dp", "1", "--tp", "1", "--pp", "2", *QUICK)  # rank 1 has the loss

    def test_a_process_that_is_killed_is_named_by_the_others(self):
        for lost in (0, 1):
            processes = self.start(2, *ENDLESS)
            self.wait_until_training(processes)
            processes[lost].send_signal(signal.SIGKILL)
            code, out, err = self.ends(processes)[1 - lost]
            self.assertEqual((code, out), (DEVICE, ""), err)
            self.assertIn(f"rank {lost} is lost", self.last_line(err))

    def test_an_interruption_of_one_ends_all_after_the_same_step(self):
        for interrupted in (0, 1):
            processes = self.start(2, *ENDLESS)
            self.wait_until_training(processes)
            processes[interrupted].send_signal(signal.SIGINT)
            ends = self.ends(processes)
            self.assertEqual([end[0] for end in ends], [INTERRUPTED] * 2, ends)
            steps = [re.search(r"interrupted after ([\d,]+) step", err) for _, _, err in ends]
            self.assertTrue(all(steps), ends)
            self.assertEqual(steps[0].group(1), steps[1].group(1))

    def test_a_long_step_is_given_up_by_all(self):
        self.tiny_plan("--dp", "1", "--tp", "1", "--pp", "2", "--micro-batch", "1",
                       "--global-batch", "65536", *QUICK)
        for interrupted in (0, 1) if EVERYTHING else (1,):
            processes = self.start(2, *ENDLESS)
            self.wait_until_told(processes)
            processes[interrupted].send_signal(signal.SIGTERM)
            for code, _, err in self.ends(processes):
                self.assertEqual(code, INTERRUPTED, err)
                self.assertIn("interrupted after 0 steps of", self.last_line(err))
                self.assertIn("the next one is given up", self.last_line(err))


class Waiting(Processes):
    def test_whoever_waits_says_for_whom(self):
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1")
        for early in (0, 1):
            processes = self.start(2, "--steps", "1", ranks=[early])
            port = processes[0].environment["MASTER_PORT"]
            said = processes[0].stderr.readline()
            awaited = f"rank 0 at 127.0.0.1:{port}" if early else "rank 1 of 2"
            self.assertIn(f"waits for {awaited}", said)
            processes += self.start(2, "--steps", "1", ranks=[1 - early], MASTER_PORT=port)
            self.assertEqual([end[0] for end in self.ends(processes)], [OK] * 2)


class Strangers(Processes):
    """Whoever connects without the job's token."""

    def setUp(self):
        super().setUp()
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1")

    def test_a_silent_one_and_a_loud_one_change_nothing_and_are_told_of_once(self):
        processes = self.start(2, "--steps", "2", ranks=[0])
        port = int(processes[0].environment["MASTER_PORT"])
        strangers = []
        while len(strangers) < 20:
            try:
                strangers.append(socket.create_connection(("127.0.0.1", port), timeout=1))
            except OSError:
                continue  # it does not listen yet
            if len(strangers) % 2:
                strangers[-1].sendall(b"nlpz" + bytes([0, 0, 0, 0]) + bytes(16))
        processes += self.start(2, "--steps", "2", ranks=[1], MASTER_PORT=str(port))
        ends = self.ends(processes)
        self.assertEqual([end[0] for end in ends], [OK, OK], ends)
        told = [line for _, _, err in ends for line in err.splitlines() if "token" in line]
        self.assertEqual(len(told), 1, ends)
        self.assertIn("a connection from 127.0.0.1 does not know this job's token", told[0])
        for stranger in strangers:
            stranger.close()

    def test_processes_with_other_tokens_do_not_meet(self):
        tokens = ["a token of one job", "and one of another"]
        processes = []
        for rank, token in enumerate(tokens):
            port = processes[0].environment["MASTER_PORT"] if processes else str(free_port())
            processes += self.start(
                2, "--comm-timeout", "3", ranks=[rank], ZPLAN_JOB_TOKEN=token, MASTER_PORT=port
            )
        ends = self.ends(processes)
        self.assertEqual([end[0] for end in ends], [DEVICE, DEVICE], ends)
        self.assertIn("rank 1 of 2 did not come", self.last_line(ends[0][2]))
        self.assertIn("does not know this job's token", self.last_line(ends[1][2]))

    def test_a_token_that_can_be_guessed_is_refused(self):
        processes = self.start(2, ranks=[0], ZPLAN_JOB_TOKEN="short")
        for code, out, err in self.ends(processes):
            self.assertEqual((code, out), (BAD_INPUT, ""), err)
            self.one_line(err, "ZPLAN_JOB_TOKEN: expected at least 16 characters, got 5")

    def test_the_token_of_a_run_lies_in_a_file_until_all_have_come(self):
        folder = self.path("runtime")
        os.mkdir(folder, 0o700)
        processes = self.start(2, "--steps", "2", ranks=[0], XDG_RUNTIME_DIR=folder)
        port = processes[0].environment["MASTER_PORT"]
        name = os.path.join(folder, "zplan", f"job-127.0.0.1-{port}.token")
        while not os.path.exists(name):
            self.assertIsNone(processes[0].poll())
        self.assertEqual(os.stat(name).st_mode & 0o777, 0o600)
        processes += self.start(
            2, "--steps", "2", ranks=[1], XDG_RUNTIME_DIR=folder, MASTER_PORT=port
        )
        ends = self.ends(processes)
        self.assertEqual([end[0] for end in ends], [OK, OK], ends)
        self.assertEqual(os.listdir(os.path.join(folder, "zplan")), [])


class Start(Processes):
    def setUp(self):
        super().setUp()
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1")

    def all_say(self, processes, code, words):
        for returned, out, err in self.ends(processes):
            self.assertEqual((returned, out), (code, ""), err)
            self.one_line(err, words)

    def test_a_process_that_does_not_come_is_named_at_the_deadline(self):
        processes = self.start(2, "--comm-timeout", "1", ranks=[0])
        self.all_say(processes, DEVICE, "rank 1 of 2 did not come within 1 s")

    def test_a_silent_process_is_waited_for_as_long_as_is_said(self):
        processes = self.start(2, *ENDLESS, "--comm-timeout", "5")
        self.wait_until_training(processes)
        processes[1].send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        code, _, err = self.ends(processes[:1])[0]
        # It may have said something up to a second before it was stopped.
        self.assertGreater(time.monotonic() - begin, 3.9)
        self.assertEqual(code, DEVICE, err)
        self.assertIn("rank 1 is lost: no sign of life for 5 s", self.last_line(err))

    def test_processes_with_different_plans_do_not_start(self):
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "1")
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3", name="other.json")
        processes = self.start(2, plan=["plan.json", "other.json"])
        self.all_say(processes, BAD_INPUT, ["rank 1 at", "has plan", "rank 0 has"])

    def test_the_number_of_processes_is_that_of_the_plan(self):
        self.all_say(self.start(3, ranks=[0]), BAD_INPUT, "has 2 ranks, but 3 processes")

    def test_what_needs_all_ranks_in_one_process_is_refused(self):
        self.all_say(self.start(2, "--test-mode", ranks=[0]), BAD_INPUT, "--test-mode")

    def test_variables_that_make_no_sense_are_named(self):
        self.all_say(self.start(2, ranks=[5]), BAD_INPUT, "RANK")
        self.all_say(self.start(2, ranks=[1], MASTER_PORT="x"), BAD_INPUT, "MASTER_PORT")


if __name__ == "__main__":
    main()
