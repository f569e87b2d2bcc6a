"""zplan schema: the published forms of --json, and that the check against them can fail."""

import copy
import glob
import json
import os
import re
import unittest

import schemas
from cli_support import BAD_INPUT, ROOT, CliTest, main

try:
    import jsonschema
except ImportError:
    jsonschema = None


RUNS = "zplan.runs/2"  # made of a table, not of a file
FOLDER = os.path.join(ROOT, schemas.FOLDER, "inputs")
INPUTS = sorted(os.listdir(FOLDER))
CATALOGUES = ("models/catalogue", "hwprofiles/catalogue", "hwprofiles/catalogue/clusters",
              "hwprofiles/catalogue/hardware")


def tag_of(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file)["$id"]


def faults(document):
    """What of a file is not as its schema says."""
    name = schemas.file_of(document["schema"])
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        validator = jsonschema.Draft202012Validator(json.load(file))
    return [error.message for error in validator.iter_errors(document)]


class Schemas(CliTest):
    def tags(self):
        """Of answers."""
        inputs = [tag_of(name) for name in INPUTS] + [RUNS]
        every = self.good("schema").split()
        self.assertEqual(every[-len(inputs):], inputs)
        return every[:-len(inputs)]

    def test_every_tag_of_the_help_has_one_and_no_other(self):
        texts = [self.good(name, "--help") for name in self.subcommands()]
        texts.append(self.good("calibrate", "--suggest", "--help"))
        printed = " ".join(re.sub(r"\s+", " ", text) for text in texts)
        answers = {tag for part in re.findall(r"Print JSON \(([^)]*)\)", printed)
                   for tag in re.findall(r"zplan\.[a-z_]+/1", part)}
        self.assertEqual(sorted(answers), self.tags())

    def test_prints_the_published_file(self):
        for tag in self.tags():
            word = schemas.file_of(tag).removesuffix(".json")
            with open(os.path.join(ROOT, schemas.FOLDER, word + ".json"), encoding="utf-8") as file:
                text = file.read()
            self.assertEqual(self.good("schema", tag), text)
            self.assertEqual(self.good("schema", word), text)
            self.assertEqual(json.loads(text)["$id"], tag)
            self.assertEqual(json.loads(text)["properties"]["schema"], {"const": tag})
        self.bad(BAD_INPUT, "schema", "swep", says='did you mean "sweep"?')

    def test_prints_the_schemas_of_files_that_are_read(self):
        for name in INPUTS:
            with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
                text = file.read()
            tag = json.loads(text)["$id"]
            self.assertEqual(json.loads(text)["properties"]["schema"], {"const": tag})
            self.assertEqual(self.good("schema", tag), text)

    def test_describes_runs_by_their_table(self):
        schema = json.loads(self.good("schema", RUNS))
        self.assertEqual(schema, json.loads(self.good("schema", "runs")))
        self.assertEqual(schema["$id"], RUNS)
        self.assertEqual(schema["properties"]["schema"], {"const": RUNS})
        self.assertIn("lora", schema["properties"]["trained"]["properties"])

    @unittest.skipUnless(jsonschema and hasattr(jsonschema, "Draft202012Validator"),
                         "no jsonschema")
    def test_runs_of_today_are_as_their_schema_says(self):
        validator = jsonschema.Draft202012Validator(json.loads(self.good("schema", RUNS)))
        old = os.path.join(ROOT, "tests/data/published_runs.jsonl")
        lines = self.good("runs", "--convert", old).splitlines()
        self.assertGreater(len(lines), 400)
        experts = os.path.join(ROOT, "tests/data/expert_runs.jsonl")
        lines += self.good("runs", "--convert", experts).splitlines()
        with open(experts, encoding="utf-8") as file:
            lines += file.read().splitlines()
        for line in lines:
            run = json.loads(line)
            self.assertEqual([error.message for error in validator.iter_errors(run)], [])
        run["parallel"]["dpp"] = 2
        self.assertNotEqual(list(validator.iter_errors(run)), [])

    @unittest.skipUnless(jsonschema and hasattr(jsonschema, "Draft202012Validator"),
                         "no jsonschema")
    def test_every_file_of_the_catalogues_is_as_its_schema_says(self):
        files = [path for folder in CATALOGUES
                 for path in glob.glob(os.path.join(ROOT, folder, "*.json"))]
        self.assertGreater(len(files), 80)
        for path in files:
            with open(path, encoding="utf-8") as file:
                self.assertEqual(faults(json.load(file)), [], path)

    @unittest.skipUnless(jsonschema and hasattr(jsonschema, "Draft202012Validator"),
                         "no jsonschema")
    def test_templates_are_as_their_schemas_say_and_need_no_base(self):
        for kind, names in (("models", ("gpt2", "llama3-8b", "deepseek-v3", "t5-3b", "12B")),
                            ("clusters", ("dgx2", "workstation", "aws-p5", "gb200-nvl72"))):
            for name in names:
                made = json.loads(self.good(kind, name, "--template"))
                self.assertEqual(faults(made), [], name)
                self.assertNotIn("base", made)

    @unittest.skipUnless(jsonschema and hasattr(jsonschema, "Draft202012Validator"),
                         "no jsonschema")
    def test_the_schemas_of_files_refuse_what_the_reader_refuses(self):
        model = json.loads(self.good("models", "tiny-gpt", "--template"))
        node = json.loads(self.good("clusters", "dgx2", "--template"))
        for made, path, value in ((model, ("layers",), 0), (model, ("laeyrs",), 1),
                                  (model, ("hidden",), None), (node, ("device", "memory"), 5),
                                  (node, ("host", "memory"), {"value": "1 GiB"}),
                                  (node, ("topology", "links", "nics"), {}),
                                  (node, ("device", "gemm_efficiency"), 2), (node, ("latency",), None)):
            broken = copy.deepcopy(made)
            at = broken
            for key in path[:-1]:
                at = at[key]
            at[path[-1]] = value
            if value is None:
                del at[path[-1]]
            self.assertNotEqual(faults(broken), [], path)
            self.write("broken.json", json.dumps(broken))
            command = "models" if made is model else "clusters"
            self.bad(BAD_INPUT, command, "broken.json", says=path[-1])

    def test_the_check_notices_what_is_gone_new_or_of_another_type(self):
        answer = self.good_json("plan", "--model", "tiny-gpt", "--cluster", "workstation")
        schema = schemas.published(ROOT, answer["schema"])
        self.assertEqual(schemas.breaches(answer, schema), [])
        broken = copy.deepcopy(answer)
        del broken["time"]["step_s"]
        broken["time"]["new"] = 1
        broken["model"]["layers"] = "two"
        broken["memory"]["gpu"]["peak_bytes"] += 0.5
        broken["schema"] = "zplan.answer/2"
        self.assertEqual(sorted(schemas.breaches(broken, schema)), sorted([
            "/time/step_s: missing", "/time/new: not in the schema",
            "/model/layers: expected integer, got string",
            "/memory/gpu/peak_bytes: expected integer, got number",
            "/schema: expected 'zplan.answer/1', got 'zplan.answer/2'"]))

    def test_made_schemas_are_as_strict_as_their_samples(self):
        schema = schemas.schema_of([{"a_s": 1, "b": None}, {"a_s": 1.5, "b": [{"c": "x"}]}])
        for good in ({"a_s": 2, "b": []}, {"a_s": 0.5, "b": None}):
            self.assertEqual(schemas.breaches(good, schema), [])
        for bad in ({"a_s": "2", "b": []}, {"b": None}, {"a_s": 1, "b": [{"c": 1}]},
                    {"a_s": 1, "b": None, "d": 1}, {"a_s": True, "b": None}):
            self.assertEqual(len(schemas.breaches(bad, schema)), 1, bad)
        self.assertEqual(schema["properties"]["a_s"], {"type": "number", "description": "seconds"})

    @unittest.skipUnless(jsonschema and hasattr(jsonschema, "Draft202012Validator"),
                         "no jsonschema")
    def test_another_validator_agrees(self):
        answer = self.good_json("plan", "--model", "tiny-gpt", "--cluster", "workstation")
        for tag in self.tags():
            jsonschema.Draft202012Validator.check_schema(schemas.published(ROOT, tag))
        validator = jsonschema.Draft202012Validator(schemas.published(ROOT, answer["schema"]))
        self.assertEqual(list(validator.iter_errors(answer)), [])
        answer["model"]["layers"] = "two"
        self.assertEqual(len(list(validator.iter_errors(answer))), 1)


if __name__ == "__main__":
    main()
