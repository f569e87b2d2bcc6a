"""Records of training runs: the template, their two forms, and the rewriting of transcriptions."""

import json
import os
import subprocess
import sys

from cli_support import BAD_INPUT, CHECK_FAILED, ROOT, CliTest, main
from run_records import record

REWRITE = os.path.join(ROOT, "tests/data/rewrite_runs.py")
PUBLISHED = os.path.join(ROOT, "tests/data/published_runs.jsonl")


def first_record():
    with open(PUBLISHED, encoding="utf-8") as file:
        return json.loads(file.readline())


class Runs(CliTest):
    def test_the_template_is_a_run_with_every_key(self):
        text = self.good("runs", "--template")
        self.write("run.jsonl", text)
        answer = self.good_json("validate", "run.jsonl")
        self.assertEqual((answer["runs"], answer["unsupported"], answer["malformed"]), (1, [], []))
        self.assertGreater(answer["rows"][0]["predicted_s"], 0)

        def names(schema):
            for name, below in schema.get("properties", {}).items():
                yield name
                yield from names(below)
        for name in names(json.loads(self.good("schema", "zplan.runs/2"))):
            self.assertIn(json.dumps(name), text)

    def test_the_template_calibrates_the_software(self):
        self.write("run.jsonl", self.good("runs", "--template"))
        answer = self.good_json("plan", "--model", "llama3-8b", "--cluster", "dgx-h100",
                                "--simulations", "1", "--stack", "megatron_core",
                                "--anchor", "run.jsonl")
        self.assertEqual([one["run"] for one in answer["anchors"]], ["mine/llama-8b-8gpu"])

    def test_converts_records_of_the_first_form_and_leaves_those_of_the_second(self):
        self.write("old.jsonl", json.dumps(first_record()) + "\n{\"id\": 1}\n")
        done = self.zplan("runs", "--convert", "old.jsonl")
        self.assertEqual(done.returncode, CHECK_FAILED)
        self.assertIn("old.jsonl:2:", done.stderr)
        record = json.loads(done.stdout)
        self.assertEqual(record["schema"], "zplan.runs/2")
        self.assertEqual(record["software"]["name"], "megatron2020")
        self.write("new.jsonl", done.stdout)
        self.assertEqual(self.good("runs", "--convert", "new.jsonl"), done.stdout)

    def test_says_no_more_than_the_first_form(self):
        self.write("old.jsonl", json.dumps(record()) + "\n")
        new = json.loads(self.good("runs", "--convert", "old.jsonl"))
        self.assertNotIn("offload", new)
        self.assertNotIn("out_of_memory", new["measured"])
        self.write("old.jsonl", json.dumps(record(offload__optimizer="cpu", offload__delayed_update=True,
                                                  measured__out_of_memory=True)) + "\n")  # fmt: skip
        new = json.loads(self.good("runs", "--convert", "old.jsonl"))
        self.assertEqual(new["offload"], {"optimizer": "cpu", "delayed_update": True})
        self.assertTrue(new["measured"]["out_of_memory"])

    def test_a_record_without_schema_that_the_first_form_does_not_hold_names_the_key_and_the_way(self):
        def complaint(text):
            self.write("old.jsonl", text + "\n")
            return self.zplan("runs", "--convert", "old.jsonl").stderr
        said = complaint(json.dumps({**record(), "extra": {"qk_norm": True}}))
        self.assertRegex(said, r'^zplan: old\.jsonl:1:\d+: /extra: expected a key of zplan\.runs/1, .* got "extra"')
        self.assertIn("zplan runs --template", said)
        template = json.loads("".join(line for line in self.good("runs", "--template").splitlines()
                                      if not line.strip().startswith("#")))  # fmt: skip
        del template["schema"]
        self.assertIn('"schema": "zplan.runs/2"', complaint(json.dumps(template)))
        self.assertIn('"schema": "zplan.runs/2"', complaint('{"id": "a/1"}'))

    def test_says_what_it_expects(self):
        self.bad(BAD_INPUT, "runs", says="zplan runs --template")
        self.bad(BAD_INPUT, "runs", "--template", "--convert", "a.jsonl", says="expected one of")
        self.bad(BAD_INPUT, "runs", "--convert", "none.jsonl", says="none.jsonl")


class Rewriting(CliTest):
    def rewritten(self, extra):
        record = first_record() | {"extra": extra}
        self.write("transcribed.jsonl", json.dumps(record))
        return subprocess.run([sys.executable, REWRITE, self.path("transcribed.jsonl")],
                              capture_output=True, text=True, check=False)

    def test_places_facts_in_keys(self):
        done = self.rewritten({"lora": {"rank": 16, "alpha": 32, "targets": "q, v projections"},
                               "optimizer": {"kind": "adam", "moments": "bfloat16"},
                               "pipeline_layout": None, "mfu_printed": 41})
        record = json.loads(done.stdout)
        self.assertEqual(record["trained"]["lora"]["targets"], ["q", "v"])
        self.assertEqual(record["precision"]["moments"], "bf16")
        self.assertEqual(record["measured"]["also_printed"], ["41 % MFU"])
        self.assertNotIn("extra", record)

    def test_ends_where_a_fact_has_no_place(self):
        for extra in ({"colour": "red"}, {"routing": "by dice"}, {"optimizer": {"size": 1}},
                      {"mla": {"r": 1}}):
            done = self.rewritten(extra)
            self.assertNotEqual(done.returncode, 0, extra)
            self.assertIn("no place for", done.stderr)

    def test_every_record_of_experts_is_read(self):
        answer = self.good_json("validate", os.path.join(ROOT, "tests/data/expert_runs.jsonl"),
                                "--group", "mcore_moe_golden")
        self.assertEqual(answer["malformed"], [])


if __name__ == "__main__":
    main()
