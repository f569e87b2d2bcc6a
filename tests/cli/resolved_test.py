"""Exports are, letter for letter, configurations that the real frameworks have resolved.

tests/frameworks/resolve.py had each framework's own parser read them and kept what it built, in
tests/data/resolved; here a part of the same plans is exported again. Where a configuration is a new
one, resolve.py must run again with the framework installed.
"""

import hashlib
import json
import os
import sys

from cli_support import OK, ROOT, CliTest, main

sys.path.insert(0, os.path.join(ROOT, "tests", "frameworks"))

import resolve  # noqa: E402

EVERY = 12  # of so many plans one is exported


class Resolved(CliTest):
    def test_configurations_are_those_that_the_frameworks_resolved(self):
        self.good("--model", "llama3-8b", "--cluster", resolve.CLUSTER, "--zero", "3", "--tp", "1",
                  "--pp", "1", "--gather", "layer", "--seq", "4096", "--global-batch", "128",
                  "-o", "base.json")
        base = json.loads(self.read("base.json"))
        for target, file in resolve.FILES.items():
            with open(os.path.join(ROOT, "tests", "data", "resolved", target + ".json"),
                      encoding="utf-8") as saved:
                known = json.load(saved)
            self.assertGreaterEqual(known["plans"], 40)
            for number, plan in enumerate(resolve.plans(base)):
                if number % EVERY != 0:
                    continue
                self.write("plan.json", json.dumps(plan))
                result = self.zplan("export", "plan.json", "--to", target, "-o", target, "--json")
                self.assertEqual(result.returncode, OK, result.stderr)
                dropped = {each["decision"]: each["framework"]
                           for each in json.loads(result.stdout)["dropped"]}
                text = self.read(os.path.join(target, file))
                key = hashlib.sha256(text.encode()).hexdigest()[:16]
                with self.subTest(target=target, number=number):
                    self.assertIn(key, known["resolved"], text)
                    want = resolve.expected(plan, dropped)
                    for field, value in known["resolved"][key].items():
                        self.assertEqual(want.get(field, value), value, field)


if __name__ == "__main__":
    main()
