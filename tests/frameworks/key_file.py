"""How the scripts beside this one write the keys of a framework: JSON, "zplan.keys/1"."""

import dataclasses
import json
import sys


def plain(value):
    """A default as JSON has it; None for what is more than a word or a number."""
    if isinstance(value, bool) or value is None or isinstance(value, (float, str)):
        return value if value != float("inf") else None
    if isinstance(value, int):
        return int(value)
    return plain(value.value) if hasattr(value, "value") else None


def ignored(keys, also=None):
    """`also`: other names of keys, with what they stand for."""
    return {"unknown": "ignored", "keys": keys, "deprecated": {}, "also": also or {}}


def refused(keys):
    return {"unknown": "refused", "keys": keys, "deprecated": {}, "also": {}}


def dataclass_objects(cls, path="", out=None):
    """Of nested dataclasses, by dotted path."""
    out = {} if out is None else out
    keys = {}
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(field.type):
            dataclass_objects(field.type, f"{path}.{field.name}".strip("."), out)
        default = field.default
        if default is dataclasses.MISSING and field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        keys[field.name] = None if default is dataclasses.MISSING else plain(default)
    out[path] = refused(keys)
    return out


def write(framework, version, objects, removed=None, file=sys.stdout):
    """A key a line, so that a new version shows what it changed. `removed`: keys of earlier versions,
    with what to say instead."""
    def one(path, each):
        keys = ",\n".join(f"    {json.dumps(k)}: {json.dumps(v)}" for k, v in each["keys"].items())
        return (f'  {json.dumps(path)}: {{\n   "unknown": "{each["unknown"]}", '
                f'"deprecated": {json.dumps(each["deprecated"])},\n'
                f'   "also": {json.dumps(each["also"])},\n   "keys": {{\n{keys}\n   }}\n  }}')

    body = ",\n".join(one(path, each) for path, each in objects.items())
    text = (f'{{\n "schema": "zplan.keys/1", "framework": "{framework}", "version": "{version}",\n'
            f' "objects": {{\n{body}\n }},\n "removed": {json.dumps(dict(sorted((removed or {}).items())), indent=2)}\n}}\n')
    json.loads(text)
    file.write(text)
