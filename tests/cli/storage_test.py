"""The NVMe tier as its user sees it: real files, and what happens when storage fails."""

import json
import os
import random
import resource
import signal
import subprocess

from cli_support import BAD_INPUT, DEVICE, INTERRUPTED, PROGRAM, TIMEOUT_S, CliTest, main

DRIVE = "drive"
LOG = "steps.jsonl"
FOREVER = "1000000"


class StorageTest(CliTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path(DRIVE))
        self.plan = self.tiny_plan("--optimizer", "nvme", "--optimizer-near", "0",
                                   "--simulations", "1")

    def run_arguments(self, *more, steps="3", drive=DRIVE):
        return ["run", self.plan, "--nvme-dir", drive, "--steps", steps, *more]

    def slabs(self):
        return [name for name in os.listdir(self.path(DRIVE)) if name.endswith(".slab")]

    def training(self):
        """A long run that has completed some steps."""
        process = subprocess.Popen(
            [PROGRAM, *self.run_arguments("--json", "--log", LOG, steps=FOREVER)],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(process.kill)
        self.wait_for_log(LOG, process)
        return process

    def end_of(self, process):
        """Exit code and last line of stderr."""
        _, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, err.splitlines()[-1]


class WhatARunDoes(StorageTest):
    def test_it_leaves_no_file_and_says_what_it_used(self):
        text = self.good(*self.run_arguments("--io", "posix"))
        self.assertIn("pread and pwrite (asked for)", text)
        self.assertEqual(os.listdir(self.path(DRIVE)), [])

    def test_it_trains_as_in_memory(self):
        on_drive = self.good_json(*self.run_arguments())
        posix = self.good_json(*self.run_arguments("--io", "posix"))
        self.plan = self.tiny_plan("--optimizer", "cpu", "--simulations", "1", name="memory.json")
        in_memory = self.good_json("run", self.plan, "--steps", "3")
        losses = [[step["loss"] for step in ran["steps"]] for ran in (on_drive, posix, in_memory)]
        self.assertEqual(losses[0], losses[1])
        for a, b in zip(losses[0], losses[2]):
            self.assertAlmostEqual(a, b, delta=1e-5 * b)


    def test_a_step_reads_and_writes_each_state_on_the_drive_once(self):
        ran = self.good_json(*self.run_arguments("--log", "log.jsonl"))
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual(len(lines), 3)
        for line in lines:
            for way in "in", "out":
                moved = line[f"nvme_{way}_bytes_per_s"] * line["wall_s"]
                self.assertLessEqual(moved, ran["nvme"]["bytes"])
                self.assertGreater(moved, 0.9 * ran["nvme"]["bytes"])  # less what blocks round up


class Faults(StorageTest):
    def test_a_folder_that_does_not_exist(self):
        self.bad(
            DEVICE,
            *self.run_arguments(drive="nowhere"),
            says="nowhere: No such file or directory, expected a directory",
        )

    def test_a_full_disk(self):
        drive = self.path(DRIVE)
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", drive]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ["umount", drive], check=False)
        self.bad(DEVICE, *self.run_arguments(), says=["cannot reserve", "No space left on device"])
        self.assertEqual(os.listdir(drive), [])

    def test_a_limit_of_file_sizes(self):
        """By the shell's ulimit -f: no signal ends the program, and no file stays."""

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        for arguments in (self.run_arguments(), ["lower", self.plan, "-o", "job.zprog"]):
            before = self.files()
            result = subprocess.run(
                [PROGRAM, *arguments],
                cwd=self.folder,
                preexec_fn=limit,
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            self.assertIn(result.returncode, (BAD_INPUT, DEVICE), (arguments, result.stderr))
            self.one_line(result.stderr, "File too large")
            self.assertEqual(self.files(), before)
            self.assertEqual(self.slabs(), [])

    def test_two_runs_in_one_folder_are_kept_apart(self):
        alone = self.good_json(*self.run_arguments())
        long = self.training()
        beside = self.good_json(*self.run_arguments())
        self.assertEqual(
            [step["loss"] for step in beside["steps"]], [step["loss"] for step in alone["steps"]]
        )
        self.assertGreater(len(self.slabs()), 0)  # of the long one
        long.send_signal(signal.SIGINT)
        self.assertEqual(self.end_of(long)[0], INTERRUPTED)
        self.assertEqual(os.listdir(self.path(DRIVE)), [])

    def test_a_file_that_is_removed(self):
        process = self.training()
        slab = self.slabs()[0]
        os.remove(os.path.join(self.path(DRIVE), slab))
        code, line = self.end_of(process)
        self.assertEqual(code, DEVICE, line)
        self.assertIn(f"{slab}: was removed during the run, expected to keep it", line)
        self.assertEqual(os.listdir(self.path(DRIVE)), [])

    def test_bits_that_change_in_a_file(self):
        process = self.training()
        path = os.path.join(self.path(DRIVE), self.slabs()[0])
        draw = random.Random(1)
        with open(path, "r+b", buffering=0) as slab:
            size = os.path.getsize(path)
            while process.poll() is None:  # most are written over before they are read
                place = draw.randrange(size)
                byte = os.pread(slab.fileno(), 1, place)[0]
                os.pwrite(slab.fileno(), bytes([byte ^ 4]), place)
        code, line = self.end_of(process)
        self.assertEqual(code, DEVICE, line)
        self.assertRegex(line, r"the 4096 bytes at byte \d+ are not those that were written there")
        self.assertIn(os.path.basename(path), line)
        self.assertEqual(os.listdir(self.path(DRIVE)), [])

    def test_interruptions(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            self.write(LOG, "")
            process = self.training()
            self.assertGreater(len(self.slabs()), 0)
            process.send_signal(number)
            code, line = self.end_of(process)
            self.assertEqual(code, INTERRUPTED, line)
            self.assertEqual(os.listdir(self.path(DRIVE)), [])

    def test_what_a_killed_run_leaves_goes_with_the_next(self):
        process = self.training()
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
        self.assertGreater(len(self.slabs()), 0)
        self.good(*self.run_arguments())
        self.assertEqual(os.listdir(self.path(DRIVE)), [])


if __name__ == "__main__":
    main()
