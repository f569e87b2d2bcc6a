"""Jobs of several processes, a rank each, as a launcher starts them: for tests of their meeting,
their numbers and their ends.
"""

import json
import os
import selectors
import socket
import subprocess

from cli_support import PROGRAM, TIMEOUT_S, CliTest

LOG = "steps.jsonl"
ENDLESS = ("--steps", "1000000", "--log", LOG)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Processes(CliTest):
    def start(self, world, *options, ranks=None, plan="plan.json", **environment):
        """One process for each rank; `plan` may name another one for some of them."""
        port = free_port()
        if ranks is None and LOG in self.files():
            os.remove(self.path(LOG))  # of the job before this one
        processes = []
        for rank in range(world) if ranks is None else ranks:
            variables = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(world),
                "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                **environment,
            }
            process = subprocess.Popen(
                [PROGRAM, "run", plan[rank] if isinstance(plan, list) else plan, *options],
                cwd=self.folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            process.environment = variables
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            processes.append(process)
        return processes

    def ends(self, processes):
        """(exit code, stdout, stderr) of each."""
        texts = [process.communicate(timeout=TIMEOUT_S) for process in processes]
        return [(p.returncode, *text) for p, text in zip(processes, texts)]

    def wait_until_training(self, processes):
        """The process that has the loss logs its first step: sooner than it tells of one."""
        self.wait_for_log(LOG, *processes)

    def wait_until_told(self, processes):
        """The process that has the loss tells of its steps, once it has trained for some seconds."""
        with selectors.DefaultSelector() as selector:
            for process in processes:
                selector.register(process.stderr, selectors.EVENT_READ)
            told = [key.fileobj.readline() for key, _ in selector.select(TIMEOUT_S)]
        self.assertTrue(any("training: step" in line for line in told), told)

    def last_line(self, stderr):
        return stderr.splitlines()[-1] if stderr else ""

    def assert_alike(self, one, several, ranks):
        """Two timelines have the same operations on each of so many ranks."""
        one, several = (json.loads(self.read(name))["ranks"] for name in (one, several))
        self.assertEqual([rank["rank"] for rank in several], list(range(ranks)))
        self.assertEqual([rank["rank"] for rank in one], list(range(ranks)))
        for own, other in zip(one, several):
            self.assertEqual(self.operations(own), self.operations(other))

    def operations(self, rank):
        return sorted((span["step"], span["op"]) for span in rank["spans"])
