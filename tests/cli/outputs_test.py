"""Outputs that are closed, full or gone: a training finishes and is kept, an answer is not lost for
a line of progress, and what cannot be written is one line and an exit code.
"""

import json
import os
import pty
import signal
import subprocess
import time

from cli_support import BAD_INPUT, DEVICE, INTERRUPTED, OK, PROGRAM, TIMEOUT_S, CliTest, main
from launched import Processes

KEPT = "kept"
FULL = "/dev/full"


class Outputs(Processes):
    def shell(self, command, *arguments):
        """A command of bash in which "$@" is a call of zplan."""
        return subprocess.run(
            ["bash", "-c", command, "bash", PROGRAM, *arguments],
            cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=TIMEOUT_S, check=False,
        )

    def kept(self):
        return sorted(name for name in os.listdir(self.path(KEPT)) if name != ".lock")

    def goes_on(self, step):
        """What is kept is whole: training goes on from it."""
        text = self.good("run", "plan.json", "--steps", str(step + 1), "--resume-from", KEPT)
        self.assertIn(f"Goes on after step {step} of", text)


class Trainings(Outputs):
    def setUp(self):
        super().setUp()
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "1")
        self.run = ("run", "plan.json", "--save", KEPT)

    def test_it_finishes_and_is_kept_whatever_became_of_its_outputs(self):
        gone = "> >(exec true)"  # a pipe whose reader ends at once
        for outputs in ("<&- >&- 2>&-", f"> {FULL} 2> {FULL}", f"{gone} 2{gone}", ">&- 2>&-"):
            with self.subTest(outputs=outputs):
                subprocess.run(["rm", "-rf", KEPT], cwd=self.folder, check=True)
                # The line of the log that is lost is told of on an output that is lost, too.
                result = self.shell(f'"$@" {outputs}', *self.run, "--steps", "40", "--log", FULL)
                self.assertIn(result.returncode, (OK, DEVICE), result.stderr)
                self.assertEqual(self.kept(), ["step-000040"])
                for name in os.listdir(self.path(KEPT + "/step-000040")):
                    with open(self.path(f"{KEPT}/step-000040/{name}"), "rb") as file:
                        self.assertNotIn(b"zplan: ", file.read())
                self.goes_on(40)

    def test_a_result_that_cannot_be_shown_is_one_line_after_the_training(self):
        result = self.shell(f'"$@" > {FULL}', *self.run, "--steps", "2")
        self.assertEqual(result.returncode, DEVICE)
        self.one_line(result.stderr, "standard output cannot be written: No space left on device")
        self.assertEqual(self.kept(), ["step-000002"])

    def test_a_file_that_cannot_be_written_does_not_take_the_answer_along(self):
        result = self.zplan(*self.run, "--steps", "2", "--timeline", FULL)
        self.assertEqual(result.returncode, BAD_INPUT)
        self.one_line(result.stderr, f"{FULL}: cannot be written: No space left on device")
        self.assertIn("Step time: measured", result.stdout)
        self.assertEqual(self.kept(), ["step-000002"])

    def start_on(self, stderr):
        process = subprocess.Popen(
            [PROGRAM, *self.run, "--steps", "1000000"],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            start_new_session=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_lines_of_progress_that_are_lost_end_nothing(self):
        """On a disk that is full, and on a terminal that is closed while lines come."""
        leader, terminal = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = self.start_on(terminal)
        self.assertIn(b"training: step", os.read(leader, 200))
        os.close(leader)
        time.sleep(0.5)  # some lines come in it
        self.stops(process)
        subprocess.run(["rm", "-rf", KEPT], cwd=self.folder, check=True)
        with open(FULL, "wb") as full:
            process = self.start_on(full)
        time.sleep(6)  # a line comes after five seconds
        self.stops(process)

    def stops(self, process):
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=TIMEOUT_S), INTERRUPTED)
        self.assertEqual(len(self.kept()), 1)

    def test_a_lost_terminal_ends_no_training(self):
        process = self.start_on(subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.assertIn(b"training: step", process.stderr.readline())
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        self.stops(process)

    def test_no_file_takes_the_place_of_an_output_that_is_closed(self):
        process = subprocess.Popen(
            ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", PROGRAM, *self.run, "--steps", "1000000",
             "--every", "1"],
            cwd=self.folder,
        )  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + TIMEOUT_S
        while not (os.path.isdir(self.path(KEPT)) and self.kept()):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        for descriptor in range(3):
            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{descriptor}"), "/dev/null")

    def test_processes_without_outputs_finish_and_are_kept(self):
        processes = []
        for rank, environment in enumerate(self.places(2)):
            processes.append(subprocess.Popen(
                ["bash", "-c", '"$@" <&- >&- 2>&-', "bash", PROGRAM, *self.run, "--steps", "5"],
                cwd=self.folder, env=environment,
            ))
            self.addCleanup(processes[rank].kill)
        codes = [process.wait(timeout=TIMEOUT_S) for process in processes]
        self.assertEqual(codes, [DEVICE, OK])  # the first one has an answer to show
        self.goes_on(5)

    def places(self, world):
        """The environment of each process of a job."""
        return [process.environment for process in self.start(world, "--help")]

    def test_a_log_is_never_waited_for(self):
        os.mkfifo(self.path("pipe"))
        self.bad(BAD_INPUT, "run", "plan.json", "--log", "pipe", says="nobody reads")
        # A reader that never reads: 64 KiB fit into its pipe.
        command = '"$@" --log >(exec sleep 60 > /dev/null 2>&1)'
        result = self.shell(command, "run", "plan.json", "--steps", "400", "--json")
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn("training goes on without it", result.stderr)
        self.assertEqual(len(json.loads(result.stdout)["steps"]), 400)


class Answers(Outputs):
    MAX = ("max", "--cluster", "dgx2", "--family", "zero-3")

    def test_an_answer_does_not_wait_for_messages(self):
        expected = self.zplan(*self.MAX)
        self.assertEqual(expected.returncode, OK, expected.stderr)
        for stderr in (f"2> {FULL}", "2>&-", "2> >(exec true)"):
            result = self.shell(f'"$@" {stderr}', *self.MAX)
            self.assertEqual((result.returncode, result.stdout), (OK, expected.stdout), stderr)

    def test_sweeps_and_needs_do_not_either(self):
        sweep = ("sweep", "--model", "tiny-gpt", "--cluster", "workstation", "--over", "batch=8..16")
        need = ("need", "--model", "gpt2", "--cluster", "dgx-h100", "--tokens", "1B")
        for question in (sweep, need):
            expected = self.zplan(*question)
            self.assertEqual(expected.returncode, OK, expected.stderr)
            result = self.shell(f'"$@" 2> {FULL}', *question)
            self.assertEqual((result.returncode, result.stdout), (OK, expected.stdout), question)

    def test_an_answer_that_cannot_be_shown_is_one_line(self):
        for stdout, says in (
            (f"> {FULL}", "No space left on device"),
            (">&-", "it is closed"),
            ("> >(exec <&-; sleep 1)", "Broken pipe"),
        ):
            result = self.shell(f'sleep 0.2; "$@" {stdout}', "models", "--json")
            self.assertEqual(result.returncode, DEVICE, stdout)
            self.one_line(result.stderr, ["standard output cannot be written", says])

    def test_its_file_is_written_where_it_cannot_be_shown_and_the_other_way_round(self):
        plan = ("plan", "--model", "tiny-gpt", "--cluster", "workstation", "-o")
        result = self.shell(f'"$@" > {FULL}', *plan, "plan.json")
        self.assertEqual(result.returncode, DEVICE)
        self.good("simulate", "plan.json")
        result = self.zplan(*plan, FULL)
        self.assertEqual(result.returncode, BAD_INPUT)
        self.one_line(result.stderr, f"{FULL}: cannot be written")
        self.assertIn("s a step", result.stdout)

    def test_a_pipe_that_nobody_reads_is_not_waited_for(self):
        os.mkfifo(self.path("pipe"))
        self.tiny_plan()
        for question in (("lower", "plan.json", "-o", "pipe"),
                         ("plan", "--model", "tiny-gpt", "--cluster", "workstation", "-o", "pipe"),
                         ("simulate", "plan.json", "--timeline", "pipe")):
            result = self.zplan(*question)
            self.assertEqual(result.returncode, BAD_INPUT, question)
            self.one_line(result.stderr, "pipe: cannot be written: it is a pipe that nobody reads")

    def test_devices_and_pipes_with_a_reader_are_written(self):
        self.tiny_plan()
        self.good("lower", "plan.json", "-o", "job.zprog")
        self.good("lower", "plan.json", "-o", "/dev/null")
        for target in ("/dev/stdout", ">(cat)"):
            result = self.shell(f'"$@" -o {target} | cat', "lower", "plan.json")
            self.assertEqual(result.stdout, self.read("job.zprog"), target)


if __name__ == "__main__":
    main()
