"""zplan validate: published runs beside predictions."""

import json
import os
import statistics
import subprocess

from cli_support import BAD_INPUT, CHECK_FAILED, OK, PROGRAM, ROOT, CliTest, main, zplan
from run_records import record

FUYOU_MEAN, FUYOU_MOST = 3.5, 8  # per cent; one setting measured twice differs by 5


class Validate(CliTest):
    def runs(self, *records):
        lines = [r if isinstance(r, str) else json.dumps(r) for r in records]
        return self.write("runs.jsonl", "\n".join(lines) + "\n")

    def answer(self, *arguments, code=OK):
        result = zplan("validate", *arguments, "--json", cwd=self.folder)
        self.assertEqual(result.returncode, code, result.stderr)
        return json.loads(result.stdout), result

    def test_a_file_never_seen_before(self):
        answer, _ = self.answer(self.runs(
            record(),
            record(id="a/2", measured__step_time_s=2.0, micro_batch=1),
            record(id="b/1", group="b", model__experts=8),
            record(id="b/2", group="b", measured__memory_gib=10.0,
                   measured__memory_kind="allocator_peak", measured__step_time_s=None),
        ))  # fmt: skip
        self.assertEqual(answer["schema"], "zplan.validation/1")
        self.assertEqual(answer["runs"], 4)
        self.assertEqual(answer["time"]["n"], 2)
        self.assertEqual(answer["time"]["pairs"], 1)
        self.assertEqual(answer["memory"]["n"], 1)
        self.assertEqual(answer["groups"]["a"]["time"]["n"], 2)
        self.assertEqual(answer["unsupported"],
                         [{"id": "b/1",
                           "reason": "not modelled: experts whose routing nobody states"}])
        self.assertEqual(len(answer["worst"]), 2)
        row = answer["rows"][0]
        expected = 100 * (row["predicted_s"] / row["measured_s"] - 1)
        self.assertAlmostEqual(row["error_pct"], expected)
        self.assertEqual(row["stack"], "megatron2020")

    def test_refusals_name_the_records(self):
        refused = [record(id=f"b/{i}", model__experts=8) for i in range(5)]
        text = self.good("validate", self.runs(record(), *refused[:1]))
        self.assertIn("not supported, 1 run (b/0): not modelled: experts", text)
        text = self.good("validate", self.runs(record(), *refused))
        self.assertIn("not supported, 5 runs (b/0, b/1, b/2 and 2 more): not modelled: experts", text)

    def test_malformed_lines_are_told_and_the_others_read(self):
        bad = record(id="a/2")
        del bad["note"]
        answer, result = self.answer(self.runs(record(), "{", bad), code=CHECK_FAILED)
        self.assertEqual(answer["runs"], 1)
        self.assertEqual(len(answer["malformed"]), 2)
        lines = result.stderr.splitlines()
        self.assertTrue(lines[0].startswith("zplan: runs.jsonl:2:"), lines)
        self.assertTrue(lines[1].startswith("zplan: runs.jsonl:3:"), lines)

    def test_group(self):
        file = self.runs(record(), record(id="b/1", group="bravo"))
        answer, _ = self.answer(file, "--group", "bravo")
        self.assertEqual([row["id"] for row in answer["rows"]], ["b/1"])
        self.bad(BAD_INPUT, "validate", file, "--group", "brovo", says=['"brovo"', '"bravo"'])

    def test_stack(self):
        file = self.runs(record())
        answer, _ = self.answer(file, "--stack", "nemo2024")
        self.assertEqual(answer["rows"][0]["stack"], "nemo2024")
        self.bad(BAD_INPUT, "validate", file, "--stack", "nemo2025", says='"nemo2024"')

    def test_threads_change_no_byte(self):
        runs = [record(id=f"a/{i}", micro_batch=2**i) for i in range(5)]
        file = self.runs(*runs)
        one = self.answer(file, "--threads", "1")[1].stdout
        self.assertEqual(one, self.answer(file, "--threads", "4")[1].stdout)

    def test_text_and_page(self):
        file = self.runs(record(id="a/<1>"))
        result = zplan("validate", file, "--html", "page.html", cwd=self.folder)
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn("all runs", result.stdout)
        with open(self.path("page.html")) as page:
            text = page.read()
        self.assertIn("<circle", text)
        self.assertIn("a/&lt;1&gt;", text)
        self.assertNotIn("a/<1>", text)

    def test_fuyou_follows_the_number_of_drives(self):
        """From 88 to 27 s with 1 to 6 drives, and 175B with 12: what its rates are fitted on."""
        rows = self.answer(os.path.join(ROOT, "tests", "data", "fuyou_drives.jsonl"))[0]["rows"]
        errors = [abs(row["error_pct"]) for row in rows]
        self.assertEqual(len(errors), 14)
        self.assertLess(statistics.mean(errors), FUYOU_MEAN)
        self.assertLess(max(errors), FUYOU_MOST)

    def test_an_empty_file_and_one_that_is_not_there(self):
        empty = self.write("none.jsonl", "")
        answer, _ = self.answer(empty)
        self.assertEqual(answer["runs"], 0)
        self.assertNotIn("0.0", self.good("validate", empty), "no errors of no runs")
        self.bad(BAD_INPUT, "validate", "missing.jsonl", says="missing.jsonl")
        self.bad(BAD_INPUT, "validate", says="expected a file of runs")

    def test_ctrl_c_ends_it_without_an_answer(self):
        runs = [record(id=f"a/{i}", model__layers=96, global_batch=4096) for i in range(2000)]
        file = self.runs(*runs)
        process = subprocess.Popen([PROGRAM, "validate", file], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        try:
            process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            process.terminate()
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(out, b"")


main()
