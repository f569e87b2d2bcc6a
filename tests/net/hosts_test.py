"""A job on four hosts, each a network namespace of its own with an address on a common bridge.
Needs root and `ip netns`; is skipped where they are not to be had.
"""

import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))

from cli_support import BAD_INPUT, DEVICE, OK, PROGRAM, TIMEOUT_S, CliTest, main

HOSTS = 4
PORT = 29500
NAME = f"zp{os.getpid() % 100000}"


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


def address(host):
    return f"10.173.0.{host + 1}"


class Hosts(CliTest):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.remove)
        commands = [["netns", "add", f"{NAME}x"]]
        inside = ["-n", f"{NAME}x"]
        commands += [[*inside, "link", "add", "bridge", "type", "bridge"]]
        commands += [[*inside, "link", "set", "bridge", "up"]]
        for host in range(HOSTS):
            there = ["-n", f"{NAME}h{host}"]
            commands += [
                ["netns", "add", f"{NAME}h{host}"],
                [*there, "link", "add", "net", "type", "veth", "peer", "name", f"port{host}",
                 "netns", f"{NAME}x"],
                [*inside, "link", "set", f"port{host}", "master", "bridge", "up"],
                [*there, "address", "add", f"{address(host)}/24", "dev", "net"],
                [*there, "link", "set", "net", "up"],
                [*there, "link", "set", "lo", "up"],
            ]
        for command in commands:
            try:
                made = ip(*command)
            except FileNotFoundError:
                self.skipTest("there is no program ip here")
            if made.returncode != 0:
                self.skipTest(f"no network namespaces here: ip {' '.join(command)}: {made.stderr}")
        self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "2", "--zero", "1")

    def remove(self):
        for name in [f"{NAME}x", *(f"{NAME}h{host}" for host in range(HOSTS))]:
            ip("netns", "delete", name)

    def start(self, homes, **environment):
        processes = []
        for host in range(HOSTS):
            variables = {
                **os.environ,
                "RANK": str(host),
                "WORLD_SIZE": str(HOSTS),
                "LOCAL_RANK": "0",
                "MASTER_ADDR": address(0),
                "MASTER_PORT": str(PORT),
                "HOME": homes[host],
                **environment,
            }
            process = subprocess.Popen(
                ["ip", "netns", "exec", f"{NAME}h{host}", PROGRAM, "run", "plan.json",
                 "--steps", "3", "--json", "--comm-timeout", "30"],
                cwd=self.folder,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
            processes.append(process)
        texts = [process.communicate(timeout=TIMEOUT_S) for process in processes]
        return [(p.returncode, *text) for p, text in zip(processes, texts)]

    def trained_as_one(self, ends):
        one = self.good_json("run", "plan.json", "--steps", "3")
        self.assertEqual([end[0] for end in ends], [OK] * HOSTS, ends)
        (report,) = [json.loads(out) for _, out, _ in ends if out]
        self.assertEqual(
            [step["loss"] for step in report["steps"]], [step["loss"] for step in one["steps"]]
        )

    def folders(self, count):
        made = [tempfile.TemporaryDirectory() for _ in range(count)]
        for folder in made:
            self.addCleanup(folder.cleanup)
        return [folder.name for folder in made]

    def test_the_token_is_in_the_home_folder_that_they_share(self):
        (home,) = self.folders(1)
        self.trained_as_one(self.start([home] * HOSTS))
        self.assertEqual(os.listdir(os.path.join(home, ".local/state/zplan")), [])

    def test_the_token_is_given(self):
        self.trained_as_one(
            self.start(self.folders(HOSTS), ZPLAN_JOB_TOKEN="a token of four hosts")
        )

    def test_without_a_token_they_do_not_meet_and_say_what_to_set(self):
        ends = self.start(self.folders(HOSTS))
        self.assertEqual(ends[0][0], DEVICE, ends)
        for code, _, told in ends[1:]:
            self.assertIn(code, (BAD_INPUT, DEVICE))
            self.assertIn("set ZPLAN_JOB_TOKEN", told)


if __name__ == "__main__":
    main()
