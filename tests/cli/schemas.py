"""The published forms of what --json prints: planner/cli/schemas, one JSON Schema per tag.

  ZPLAN_JSON_SAMPLES=DIR tests/run ..      keeps what the tests of the program get
  python3 tests/cli/schemas.py DIR [..]    makes the schemas of all that was kept

They are made of real answers: whatever key, type or absence the tests have seen. The tests hold every
answer that they get to them (cli_support.py), so a key that is new, gone or of another type is found
where it is first printed. Of JSON Schema (draft 2020-12) they use type, properties, required,
additionalProperties, items, const and description.
"""

import glob
import hashlib
import json
import os
import sys

FOLDER = os.path.join("planner", "cli", "schemas")
DRAFT = "https://json-schema.org/draft/2020-12/schema"

# Objects whose keys are names of something else, not of facts.
MAPS = {"at", "peak_flop_per_s", "peak"}
# The same where all their values are objects.
MAPS_OF_OBJECTS = {"groups"}
# Documents of a format of their own: their reader says what is in them.
DOCUMENTS = {"zplan.plan/1"}
# By the ends of keys.
UNITS = (
    ("_flop_per_s", "FLOP/s"), ("_bytes_per_s", "bytes per second"), ("_bytes", "bytes"),
    ("tokens_per_s", "tokens per second"), ("tflops_per_gpu", "TFLOP/s per GPU"), ("_s", "seconds"),
)


def type_of(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return {str: "string", list: "array", dict: "object"}[type(value)]


def is_of(value, name):
    return type_of(value) == name or (name == "number" and type_of(value) == "integer")


def breaches(value, schema, path=""):
    """What of a value is not as its schema says."""
    types = schema.get("type")
    types = [types] if isinstance(types, str) else types
    if types and not any(is_of(value, name) for name in types):
        return [f"{path}: expected {' or '.join(types)}, got {type_of(value)}"]
    if "const" in schema and value != schema["const"]:
        return [f"{path}: expected {schema['const']!r}, got {value!r}"]
    found = []
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{path}/{key}: missing" for key in schema.get("required", ()) if key not in value]
        for key, item in value.items():
            rest = schema.get("additionalProperties", {})
            if key not in known and rest is False:
                found.append(f"{path}/{key}: not in the schema")
                continue
            found += breaches(item, known.get(key, rest), f"{path}/{key}")
    if isinstance(value, list):
        for i, item in enumerate(value):
            found += breaches(item, schema.get("items", {}), f"{path}/{i}")
    return found


def schema_of_objects(samples, key):
    if all(sample.get("schema") in DOCUMENTS for sample in samples):
        return {"properties": {"schema": {"const": samples[0]["schema"]}}, "required": ["schema"]}
    values = [value for sample in samples for value in sample.values()]
    objects = key in MAPS_OF_OBJECTS and all(isinstance(value, dict) for value in values)
    if key in MAPS or objects:
        return {"additionalProperties": schema_of(values)}
    keys = list(dict.fromkeys(key for sample in samples for key in sample))
    return {
        "properties": {k: schema_of([s[k] for s in samples if k in s], k) for k in keys},
        "required": [k for k in keys if all(k in s for s in samples)],
        "additionalProperties": False,
    }


def schema_of(samples, key=""):
    """The least that all samples are."""
    if key == "schema":
        return {"const": samples[0]}
    types = sorted({type_of(sample) for sample in samples})
    if "number" in types and "integer" in types:
        types.remove("integer")
    schema = {"type": types[0] if len(types) == 1 else types} if types else {}
    unit = next((unit for end, unit in UNITS if key.endswith(end)), None)
    if unit and {"number", "integer"} & set(types):
        schema["description"] = unit
    objects = [sample for sample in samples if isinstance(sample, dict)]
    if objects:
        schema.update(schema_of_objects(objects, key))
    items = [item for sample in samples if isinstance(sample, list) for item in sample]
    if items:
        schema["items"] = schema_of(items, key)
    return schema


def file_of(tag):
    """ "zplan.what_if/1" -> "what_if.json", "zplan.cluster/2" -> "cluster2.json" """
    return tag.removeprefix("zplan.").removesuffix("/1").replace("/", "") + ".json"


def published(root, tag):
    """The schema of a tag; None where there is none."""
    path = os.path.join(root, FOLDER, file_of(tag))
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def keep(answer):
    """One file per answer, in the folder that the environment names; whether it names one."""
    folder = os.environ.get("ZPLAN_JSON_SAMPLES")
    if folder:
        text = json.dumps(answer)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
            file.write(text)
    return bool(folder)


def pretty(value, indent=0):
    """JSON with what fits on a line on one."""
    line = json.dumps(value)
    if indent + len(line) <= 100 or not isinstance(value, (dict, list)):
        return line
    inner = "\n" + " " * (indent + 1)
    if isinstance(value, list):
        return "[" + ",".join(inner + pretty(item, indent + 1) for item in value) + inner[:-1] + "]"
    parts = (f"{json.dumps(key)}: {pretty(item, indent + 1)}" for key, item in value.items())
    return "{" + ",".join(inner + part for part in parts) + inner[:-1] + "}"


def main():
    by_tag = {}
    for folder in sys.argv[1:]:
        for path in sorted(glob.glob(os.path.join(folder, "*.json"))):
            with open(path, encoding="utf-8") as file:
                answer = json.load(file)
            by_tag.setdefault(answer["schema"], []).append(answer)
    for tag, samples in sorted(by_tag.items()):
        schema = {"$schema": DRAFT, "$id": tag, "title": f"JSON of zplan, {tag}"}
        schema.update(schema_of(samples))
        with open(os.path.join(FOLDER, file_of(tag)), "w", encoding="utf-8") as file:
            file.write(pretty(schema) + "\n")
        print(f"{tag}: {len(samples)} answers")


if __name__ == "__main__":
    main()
