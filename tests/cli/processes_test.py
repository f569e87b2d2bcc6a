"""zplan run by several processes, a rank each: the same numbers, and a common end."""

import json
import os
import re
import signal
import socket
import subprocess

from cli_support import BAD_INPUT, DEVICE, INTERRUPTED, OK, PROGRAM, TIMEOUT_S, CliTest, main

ENDLESS = ("--steps", "1000000")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Processes(CliTest):
    def start(self, world, *options, ranks=None, plan="plan.json", **environment):
        """One process for each rank; `plan` may name another one for some of them."""
        port = free_port()
        processes = []
        for rank in range(world) if ranks is None else ranks:
            process = subprocess.Popen(
                [PROGRAM, "run", plan[rank] if isinstance(plan, list) else plan, *options],
                cwd=self.folder,
                env={
                    **os.environ,
                    "RANK": str(rank),
                    "WORLD_SIZE": str(world),
                    "LOCAL_RANK": str(rank),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": str(port),
                    **environment,
                },
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def ends(self, processes):
        """(exit code, stdout, stderr) of each."""
        texts = [process.communicate(timeout=TIMEOUT_S) for process in processes]
        return [(p.returncode, *text) for p, text in zip(processes, texts)]

    def wait_until_training(self, processes):
        """The process that has the loss tells of its steps."""
        for process in processes:
            os.set_blocking(process.stderr.fileno(), True)
        told = processes[-1].stderr.readline()
        self.assertIn("training: step", told)

    def last_line(self, stderr):
        return stderr.splitlines()[-1] if stderr else ""


class SameNumbers(Processes):
    def test_losses_are_those_of_one_process(self):
        for world, pins in (
            (2, ("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3")),
            (2, ("--dp", "1", "--tp", "1", "--pp", "2")),
            (4, ("--dp", "2", "--tp", "1", "--pp", "2", "--zero", "1")),
            (4, ("--dp", "2", "--tp", "2", "--pp", "1", "--zero", "2")),
            (4, ("--dp", "1", "--cp", "4", "--tp", "1", "--pp", "1", "--zero", "3")),
            (4, ("--dp", "1", "--cp", "4", "--ring", "2", "--tp", "1", "--pp", "1", "--zero", "1")),
        ):
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


class CommonEnd(Processes):
    def setUp(self):
        super().setUp()
        self.tiny_plan("--dp", "1", "--tp", "1", "--pp", "2")  # rank 1 has the loss

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

    def test_processes_with_different_plans_do_not_start(self):
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "1")
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3", name="other.json")
        processes = self.start(2, plan=["plan.json", "other.json"])
        self.all_say(processes, BAD_INPUT, ["rank 1 at", "has plan", "rank 0 has"])

    def test_the_number_of_processes_is_that_of_the_plan(self):
        self.all_say(self.start(3, ranks=[0]), BAD_INPUT, "has 2 ranks, but 3 processes")

    def test_what_needs_all_ranks_in_one_process_is_refused(self):
        for option in (("--check",), ("--test-mode",), ("--trace", "t"), ("--timeline", "t")):
            self.all_say(self.start(2, *option, ranks=[0]), BAD_INPUT, option[0])

    def test_variables_that_make_no_sense_are_named(self):
        self.all_say(self.start(2, ranks=[5]), BAD_INPUT, "RANK")
        self.all_say(self.start(2, ranks=[1], MASTER_PORT="x"), BAD_INPUT, "MASTER_PORT")


if __name__ == "__main__":
    main()
