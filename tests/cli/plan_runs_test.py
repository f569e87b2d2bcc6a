"""tests/gpu/plan_runs.py without a GPU: its plans are plans of one rank that fit, and what it
concludes from given times."""

import importlib.util
import os
import subprocess
import sys
import types

from cli_support import PROGRAM, ROOT, CliTest, main

FILE = os.path.join(ROOT, "tests", "gpu", "plan_runs.py")


def load():
    spec = importlib.util.spec_from_file_location("plan_runs", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def row(question, plan, measured, catalogue):
    return {"question": question, "plan": plan, "measured_s": measured,
            "predicted_catalogue_s": catalogue, "predicted_calibrated_s": measured}


ROWS = [row("one", "a", 1.0, 1.1), row("one", "b", 2.0, 0.8), row("two", "a", 4.0, 4.0)]


class PlanRuns(CliTest):
    def setUp(self):
        super().setUp()
        self.script = load()

    def test_the_first_plan_of_each_question_fits_one_gpu(self):
        runs = self.script.Runs(types.SimpleNamespace(program=PROGRAM), self.folder)
        for question, (_, _, _, plans) in self.script.MATRIX.items():
            with self.subTest(question=question):
                runs.plan(question, plans[0])
                self.assertGreater(runs.predicted(self.script.CATALOGUE), 0)

    def test_errors_and_what_a_choice_by_prediction_loses(self):
        s = self.script.summary_of(ROWS, "catalogue")
        self.assertAlmostEqual(s["median_error"], 0.1)
        self.assertAlmostEqual(s["greatest_error"], 0.6)
        self.assertEqual(s["losses_of_choice"], [1.0, 0.0])
        self.assertEqual(self.script.summary_of(ROWS, "calibrated")["greatest_error"], 0)

    def test_the_table_names_every_plan_and_what_is_missing(self):
        summary = {w: self.script.summary_of(ROWS, w) for w in ("catalogue", "calibrated")}
        text = self.script.markdown({
            "made_by": "me", "date": "today", "source_hash": "0", "gpu": "a GPU", "steps": 8,
            "machine": {"processor": "a CPU", "cores": 2}, "summary": summary, "results": ROWS,
            "failed": ["three, a: left out, no time"]})
        self.assertIn("| one | `b` | 2000.00 ms | 800.00 ms | -60.0 % | 2000.00 ms | +0.0 % |", text)
        self.assertIn("- three, a: left out, no time", text)
        self.assertEqual(text.count("| one |") + text.count("| two |"), len(ROWS))


class OwnRuns(CliTest):
    def test_what_answers_say_of_our_own_runs_is_what_their_reports_have(self):
        script = os.path.join(ROOT, "tests", "golden", "own_measured.py")
        subprocess.run([sys.executable, script, "--check"], check=True)


if __name__ == "__main__":
    main()
