"""zplan schema: the published forms of --json, and that the check against them can fail."""

import copy
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


class Schemas(CliTest):
    def tags(self):
        return self.good("schema").split()

    def test_every_tag_of_the_help_has_one_and_no_other(self):
        top = self.good("--help")
        names = re.findall(r"^  ([a-z-]+) +[A-Z]", top[top.index("Subcommands"):], re.MULTILINE)
        texts = [self.good(name, "--help") for name in names]
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
