#!/usr/bin/env python3
"""What evidence.py says of trials: the latest counts, an older one is marked, a killer that only
`tests/run --all` runs is none of `tests/run`."""

import pathlib
import tempfile
import unittest

import evidence

LISTS = """
zplan_test(unit_sim
  SOURCES unit/sim/x_test.cpp
  LIBS zplan_sim LABELS threads)
zplan_test(cover SOURCES cover_test.cpp LIBS zplan_exec LABELS long all TIMEOUT 600)
zplan_script_test(cli_answers cli/answers_test.py TIMEOUT 900)
"""


def fault(name):
    return {"name": f"sim/{name}", "part": "sim", "file": f"sim/{name}.cpp", "fault": f"{name} is lost"}


def trial(name, key, outcome="killed", test="unit_sim", date="2026-01-02"):
    return {"name": f"sim/{name}", "key": key, "outcome": outcome, "test": test, "case": "Sim.Case",
            "seconds": 1.5, "date": date}


class Evidence(unittest.TestCase):
    def test_the_latest_trial_of_what_there_is_now_counts(self):
        tried = [trial("a", "new", "survived"), trial("a", "new"), trial("a", "old")]
        self.assertEqual(evidence.latest(tried, "new"), tried[1])
        self.assertEqual(evidence.latest(tried, "newer"), tried[2])
        self.assertIsNone(evidence.latest([], "new"))

    def test_a_label_of_the_longer_list_is_found(self):
        self.assertFalse(evidence.all_only(LISTS, "unit_sim Sim.*"))
        self.assertTrue(evidence.all_only(LISTS, "cover"))
        self.assertFalse(evidence.all_only(LISTS, "cli/answers_test.py"))

    def test_the_report_keeps_what_was_tried_before(self):
        faults = [fault(name) for name in ("a", "b", "c", "d")]
        known = {"sim/a": [trial("a", "now")], "sim/b": [trial("b", "before", test="cover")],
                 "sim/c": [trial("c", "before", "survived")], "sim/d": []}
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            evidence.write(faults, known, lambda each: "now",
                           lambda test: not evidence.all_only(LISTS, test), folder)
            page = (folder / "mutation.md").read_text()
            kept = evidence.trials(folder / "mutation.json")
        self.assertIn("| all | 4 | 1 | 1 | 0 | 2 |", page)
        self.assertIn("| a is lost | `sim/a.cpp` | `unit_sim`: Sim.Case | 1.5 | yes |", page)
        self.assertIn("| `cover`: Sim.Case (older, 2026-01-02) | 1.5 | **no** |", page)
        self.assertIn("| c is lost | `sim/c.cpp` | **not tried** |", page)
        self.assertEqual(kept["sim/a"], known["sim/a"])


if __name__ == "__main__":
    unittest.main()
