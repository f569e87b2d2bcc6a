"""planner/python: the module against the program, and the wheel where what builds it is there."""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import venv
import warnings

from cli_support import BAD_INPUT, PROGRAM, ROOT, CliTest, check_schema, main

FOLDER = os.path.join(ROOT, "planner", "python")
sys.path.insert(0, FOLDER)
os.environ["ZPLAN_PROGRAM"] = PROGRAM
import zplan  # pylint: disable=wrong-import-position

ON_DGX2 = {"model": "gpt2", "cluster": "dgx2"}


class Module(CliTest):
    def setUp(self):
        super().setUp()
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        warnings.simplefilter("error", zplan.Remark)
        self.addCleanup(warnings.resetwarnings)

    def test_answers_are_those_of_the_program(self):
        answer = zplan.plan(**ON_DGX2, global_batch=256, zero=1, only=["recompute=none"])
        said = self.good_json("plan", "--model", "gpt2", "--cluster", "dgx2", "--global-batch",
                              "256", "--zero", "1", "--only", "recompute=none")
        self.assertEqual(answer, said)
        check_schema(answer)

    def test_a_plan_of_an_answer_is_one_to_ask_on_with(self):
        answer = zplan.plan(**ON_DGX2, output="plan.json")
        for function, more in ((zplan.simulate, {}), (zplan.memory, {"deepspeed": True}),
                               (zplan.export, {"to": "deepspeed"})):
            of_answer, of_file = function(answer["plan"], **more), function("plan.json", **more)
            self.assertEqual(of_answer["fingerprint"] if "fingerprint" in of_answer else None,
                             of_file["fingerprint"] if "fingerprint" in of_file else None)
            check_schema(of_answer)
        self.assertEqual(os.listdir(self.folder), ["plan.json"])

    def test_catalogues_and_checks(self):
        self.assertIn("llama3-70b", json.dumps(zplan.models()))
        self.assertIn("dgx-h100", json.dumps(zplan.clusters("dgx-h100")))
        self.write("ds.json", json.dumps({"train_micro_batch_size_per_gpu": 1,
                                          "bf16": {"enabled": True}}))
        self.assertEqual(zplan.check("ds.json", model="gpt2", cluster="dgx-a100")["schema"],
                         "zplan.check/1")

    def test_what_is_refused_raises_its_line_and_what_does_not_fit_is_an_answer(self):
        with self.assertRaises(zplan.Error) as caught:
            zplan.plan(model="gpt22", cluster="dgx2")
        self.assertEqual(caught.exception.code, BAD_INPUT)
        self.assertRegex(str(caught.exception), r"\Aunknown model[^\n]*\Z")
        with self.assertRaises(zplan.Error) as caught:
            zplan.plan(**ON_DGX2, globl_batch=3)
        self.assertIn("--global-batch", str(caught.exception))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the answer says why, and no remark says it again
            answer = zplan.plan(model="1T", cluster="workstation", not_="offload")
        self.assertEqual((answer["schema"], answer["feasible"]), ("zplan.answer/1", False))
        self.assertIn("does not fit", answer["reason"])

    def test_remarks_are_warnings(self):
        self.write("m.json", self.good("models", "tiny-gpt", "--template"))
        zplan.plan(model="m.json", cluster="workstation", output="plan.json")
        self.write("m.json", re.sub(r'"ffn": \d+', '"ffn": 512', self.read("m.json")))
        with self.assertWarnsRegex(zplan.Remark, "is not as it was"):
            zplan.memory("plan.json")

    def test_two_threads_ask_at_once(self):
        wanted = {zero: zplan.plan(**ON_DGX2, zero=zero) for zero in (1, 3)}
        found = {}

        def ask(zero):
            found[zero] = zplan.plan(**ON_DGX2, zero=zero)

        threads = [threading.Thread(target=ask, args=(zero,)) for zero in wanted]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, wanted)


class Wheel(unittest.TestCase):
    def test_is_built_installed_and_used(self):
        try:
            import scikit_build_core  # pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            self.skipTest("no scikit-build-core")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps",
                            "--no-build-isolation", "-w", folder, FOLDER,
                            f"-Ccmake.define.ZPLAN_PROGRAM={PROGRAM}"], check=True, timeout=300)
            wheel, = glob.glob(os.path.join(folder, "zplan-*-py3-none-*.whl"))
            home = os.path.join(folder, "venv")
            venv.create(home, with_pip=True)
            python = os.path.join(home, "bin", "python")
            subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", wheel], check=True,
                           timeout=300)
            clean = {"PATH": os.path.join(home, "bin")}
            text = subprocess.run(
                [python, "-c", "import zplan; print(zplan.plan(model='tiny-gpt', "
                               "cluster='workstation')['schema'])"],
                cwd=folder, env=clean, capture_output=True, text=True, check=True).stdout
            self.assertEqual(text, "zplan.answer/1\n")
            text = subprocess.run(["zplan", "--version"], cwd=folder, env=clean, check=True,
                                  capture_output=True, text=True).stdout
            self.assertRegex(text, r"\Azplan [0-9.]+\n\Z")


if __name__ == "__main__":
    main()
