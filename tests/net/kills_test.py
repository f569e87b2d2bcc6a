"""Processes that are killed, stopped or told to end at moments drawn by seed: the others end in
time, and say who was lost and what they were doing; and where states are saved at every step, or
read again, whoever goes on ends with the bits of a training that nothing disturbed. ZPLAN_KILLS
sets how many [4, of `tests/run --all` 10], of the second kind a quarter besides, ZPLAN_KILLS_SEED which.
"""

import os
import random
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

from cli_support import DEVICE, EVERYTHING, INTERRUPTED, main
from launched import ENDLESS, Processes

KILLS = int(os.environ.get("ZPLAN_KILLS", "10" if EVERYTHING else "4"))
SEED = int(os.environ.get("ZPLAN_KILLS_SEED", "1"))

WAIT_S = 8  # --comm-timeout; a process that says nothing for so long is lost
SLACK_S = 25  # for a machine that does other things, too

# (name, processes, pins of the plan, options of the run)
JOBS = [
    ("sharded", 2, ("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3"), ()),
    ("staged", 2, ("--dp", "1", "--tp", "1", "--pp", "2"), ()),
    ("both", 4, ("--dp", "2", "--tp", "1", "--pp", "2", "--zero", "1"), ()),
    (
        "sweeping",
        2,
        ("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "2", "--optimizer", "nvme",
         "--optimizer-near", "0"),
        ("--nvme-dir", "."),
    ),
]
# (name, whether steps have begun, seconds after that)
MOMENTS = [("start", False, 1.0), ("step", True, 0.5)]
SIGNALS = [signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM]


class Kills(Processes):
    def test_the_others_end_in_time_and_say_why(self):
        for number in range(KILLS):
            drawn = random.Random(f"{SEED}/{number}")
            job, moment = drawn.choice(JOBS), drawn.choice(MOMENTS)
            sent = SIGNALS[number % len(SIGNALS)]
            with self.subTest(number=number, job=job[0], moment=moment[0], signal=sent.name):
                self.kill_one(job, moment, sent, drawn)

    def kill_one(self, job, moment, sent, drawn):
        _, world, pins, options = job
        _, in_steps, most_s = moment
        self.tiny_plan(*pins)
        processes = self.start(world, *ENDLESS, "--comm-timeout", str(WAIT_S), *options)
        if in_steps:
            self.wait_until_training(processes)
        time.sleep(drawn.uniform(0, most_s))
        victim = drawn.randrange(world)
        processes[victim].send_signal(sent)
        begin = time.monotonic()
        others = [p for rank, p in enumerate(processes) if rank != victim]
        texts = [process.communicate(timeout=WAIT_S + SLACK_S)[1] for process in others]
        self.assertLess(time.monotonic() - begin, WAIT_S + SLACK_S)
        processes[victim].kill()
        for process, told in zip(others, texts):
            self.judge(sent, in_steps, victim, process.returncode, self.last_line(told))

    def judge(self, sent, in_steps, victim, code, line):
        if sent == signal.SIGTERM and (in_steps or code == INTERRUPTED):
            self.assertEqual(code, INTERRUPTED, line)
            return
        # Of one that ends before all have come the others learn that, or that it does not come.
        self.assertEqual(code, DEVICE, line)
        self.assertRegex(
            line, rf"rank {victim}\b|rank 0 at |ranks? \d.* did not come|does not reach rank \d"
        )
        if in_steps:
            self.assertIn(f"rank {victim} is lost: ", line)
            self.assertRegex(line, r"was in step \d+, .* waiting for rank|waiting for nobody")


class KillsOfSavedTrainings(Processes):
    STEPS = 60

    def setUp(self):
        super().setUp()
        self.undisturbed = {}

    def test_who_goes_on_ends_with_the_bits_of_an_undisturbed_training(self):
        for number in range((KILLS + 3) // 4):
            drawn = random.Random(f"saved {SEED}/{number}")
            job, sent = drawn.choice(JOBS), SIGNALS[number % len(SIGNALS)]
            loads = drawn.random() < 0.5
            with self.subTest(number=number, job=job[0], loads=loads, signal=sent.name):
                self.kill_one(job, f"kept{number}", sent, loads, drawn)

    def kill_one(self, job, folder, sent, loads, drawn):
        name, world, pins, _ = job
        self.tiny_plan(*pins)
        if name not in self.undisturbed:
            begin = time.monotonic()
            self.assertEqual(self.train(job, "whole-" + name), [0] * world)
            took = time.monotonic() - begin
            self.undisturbed[name] = (took, self.states("whole-" + name, world))
        took, states = self.undisturbed[name]
        if loads:
            self.assertEqual(self.train(job, folder, steps=self.STEPS // 2), [0] * world)
        processes = self.begin(job, folder)
        time.sleep(drawn.uniform(0.2, 1.0) * took * (0.5 if loads else 1))
        victim = drawn.choice(processes)
        victim.send_signal(sent)
        for process in processes:
            if process is not victim:
                process.communicate(timeout=WAIT_S + SLACK_S)
        victim.kill()
        victim.communicate()
        self.assertEqual(self.train(job, folder), [0] * world)
        self.assertEqual(self.states(folder, world), states)

    def begin(self, job, folder, steps=STEPS):
        _, world, _, options = job
        return self.start(world, "--steps", str(steps), "--save", folder, "--every", "1",
                          "--keep", "2", "--resume", "--comm-timeout", str(WAIT_S), *options)

    def train(self, job, folder, **more):
        """Returns the exit codes."""
        return [code for code, _, _ in self.ends(self.begin(job, folder, **more))]

    def states(self, folder, world):
        """Of all ranks after the last step: where each piece is, and its checksum."""
        last = os.path.join(folder, f"step-{self.STEPS:06}")
        texts = []
        for rank in range(world):
            with open(self.path(os.path.join(last, f"rank-{rank:05}.json")), encoding="utf-8") as f:
                texts.append(f.read())
        return texts


if __name__ == "__main__":
    main()
