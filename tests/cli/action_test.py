""".github/actions/zplan: which lines it marks, and that it fails where zplan does."""

import json
import os
import re
import subprocess
import sys
import unittest

from cli_support import BAD_INPUT, CHECK_FAILED, INFEASIBLE, OK, PROGRAM, ROOT, CliTest, main

FOLDER = os.path.join(ROOT, ".github", "actions", "zplan")
sys.path.insert(0, FOLDER)
import annotate  # pylint: disable=wrong-import-position

BATCH = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}


class Action(CliTest):
    def run_it(self, command, arguments, **more):
        environment = dict(os.environ, ZPLAN=PROGRAM, ZPLAN_COMMAND=command,
                           ZPLAN_ARGUMENTS=arguments, GITHUB_OUTPUT=self.path("output"),
                           GITHUB_STEP_SUMMARY=self.path("summary"), **more)
        result = subprocess.run([sys.executable, os.path.join(FOLDER, "annotate.py")],
                                cwd=self.folder, env=environment, capture_output=True, text=True,
                                check=False)
        return result.returncode, re.findall(r"^::.*$", result.stdout, re.MULTILINE)

    def check(self, config, model="gpt2"):
        self.write("ds.json", json.dumps(config, indent=1))
        return self.run_it("check", f"ds.json --model {model} --cluster dgx-a100")

    def test_a_misspelt_key_is_marked_where_it_stands(self):
        config = dict(BATCH, bf16={"enabled": True}, zero_optimization={"stage": 1},
                      gradient_cliping=1.0)
        code, marks = self.check(config)
        self.assertEqual(code, OK)
        text = self.read("ds.json").splitlines()
        line = 1 + next(i for i, row in enumerate(text) if "gradient_cliping" in row)
        marked = [mark for mark in marks if "gradient_cliping" in mark]
        self.assertEqual(len(marked), 1, marks)
        self.assertRegex(marked[0], rf"\A::warning file=ds\.json,line={line},col=\d+::")
        answer = "\n".join(self.read("output").split("\n")[1:-2])
        self.assertEqual(json.loads(answer)["schema"], "zplan.check/1")
        self.assertIn("ds.json", self.read("summary"))

    def test_what_does_not_fit_is_an_error_of_the_file(self):
        config = dict(BATCH, bf16={"enabled": True}, zero_optimization={"stage": 0})
        code, marks = self.check(config, model="llama3-70b")
        self.assertEqual(code, INFEASIBLE)
        self.assertTrue([m for m in marks if m.startswith("::error file=ds.json::")], marks)

    def test_what_cannot_be_read_is_marked_at_line_and_column(self):
        self.write("ds.json", '{"zero_optimization": {\n  "stage": one\n}}')
        code, marks = self.run_it("check", "ds.json --model gpt2 --cluster dgx-a100")
        self.assertEqual(code, BAD_INPUT)
        self.assertEqual(len(marks), 1)
        self.assertRegex(marks[0], r"\A::error file=ds\.json,line=2,col=\d+::")

    def test_lines_of_runs_that_are_no_records_are_marked(self):
        self.write("runs.jsonl", '{"schema": "zplan.runs/1"\n')
        code, marks = self.run_it("validate", "runs.jsonl")
        self.assertEqual(code, CHECK_FAILED)
        self.assertRegex(marks[0], r"\A::error file=runs\.jsonl,line=1")

    def test_a_measured_step_too_far_off_fails(self):
        plan = self.tiny_plan()
        self.good("simulate", plan, "--timeline", "sim.json")
        result = self.zplan("run", plan, "--steps", "6", "--timeline", "run.json")
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertEqual(self.run_it("compare", "sim.json run.json"), (OK, []))
        self.assertEqual(self.run_it("compare", "sim.json run.json --most-off 1e9"), (OK, []))
        code, marks = self.run_it("compare", "sim.json run.json --most-off 0")
        self.assertEqual(code, CHECK_FAILED)
        self.assertRegex(marks[0], r"\A::error file=sim\.json::the measured step is [0-9.]+%25 ")

    def test_other_commands_and_missing_files_are_refused(self):
        code, marks = self.run_it("plan", "--model gpt2 --cluster dgx2")
        self.assertEqual((code, len(marks)), (BAD_INPUT, 1))
        code, marks = self.run_it("check", "none.json --model gpt2 --cluster dgx2")
        self.assertEqual((code, len(marks)), (BAD_INPUT, 1))
        self.assertTrue(marks[0].startswith("::error::none.json"), marks)

    def test_every_kind_of_finding_has_a_level(self):
        with open(os.path.join(ROOT, "planner/foreign/frameworks/setup.cpp"),
                  encoding="utf-8") as file:
            names = re.search(r"kNames\[\] = \{([^}]*)\}", file.read())[1]
        self.assertEqual(set(re.findall(r'"(\w+)"', names)), set(annotate.LEVELS))

    def test_what_would_end_a_command_is_escaped(self):
        self.assertEqual(annotate.annotation("error", "50 %\nmore", ("a,b:c.json", 3, None)),
                         "::error file=a%2Cb%3Ac.json,line=3::50 %25%0Amore")


class Yaml(unittest.TestCase):
    def test_the_action_passes_what_the_script_reads(self):
        with open(os.path.join(FOLDER, "action.yml"), encoding="utf-8") as file:
            text = file.read()
        with open(os.path.join(FOLDER, "annotate.py"), encoding="utf-8") as file:
            wanted = set(re.findall(r'environ\.get\("(ZPLAN\w*)"', file.read()))
        self.assertEqual(wanted, set(re.findall(r"^ +(ZPLAN\w*): \$", text, re.MULTILINE)))
        try:
            import yaml  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("no PyYAML")
        self.assertEqual(yaml.safe_load(text)["runs"]["using"], "composite")


if __name__ == "__main__":
    main()
