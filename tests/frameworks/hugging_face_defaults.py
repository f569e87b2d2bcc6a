#!/usr/bin/env python3
"""What a config.json leaves out: the defaults of transformers' classes, by model_type.

  hugging_face_defaults.py --write FILE  writes planner/foreign/hugging_face/defaults.json
  hugging_face_defaults.py --check FILE  compares it with the transformers that is installed, which
                                         must be of the version in the file; exit code 77 where
                                         there is none (pip install transformers torch)
  hugging_face_defaults.py --count DIR   parameters of the model that transformers builds from each
                                         *.json of a folder, on the meta device; with those of its
                                         counts.json that differ the exit code is 1
  hugging_face_defaults.py --save DIR    writes each file of DIR/transformers5 anew, as transformers
                                         writes what it has read from DIR

The types are the rows of families.cpp in planner/foreign/hugging_face, the keys the words that its
readers and spellings.h quote. The defaults are those of the classes' fields: what a class derives
from other fields is null there, and is derived by planner/foreign/hugging_face itself.
"""

import argparse
import dataclasses
import json
import math
import os
import re
import sys
import tempfile

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
READERS = os.path.normpath(os.path.join(HERE, "../../planner/foreign/hugging_face"))
USUAL_THETA = 10000.0  # of a class that names none


def source(names):
    text = ""
    for name in names:
        with open(os.path.join(READERS, name), encoding="utf-8") as file:
            text += file.read()
    return text


def family_files():
    return [name for name in sorted(os.listdir(READERS)) if name.endswith("families.cpp")]


def model_types(classes):
    """Of those that have the layers of another type the ones that have a class of their own."""
    rows = re.findall(r'\{"([\w-]+)",\s+"\w+",\s+read_\w+(?:,\s+"(\w+)")?\}', source(family_files()))
    return sorted(name for name, like in rows
                  if not like or (name in classes and not classes[name].sub_configs))  # fmt: skip


def spelt_keys():
    files = [name for name in os.listdir(READERS) if name.startswith(("positions.", "spellings."))]
    return sorted(set(re.findall(r'"([a-z]\w*)"', source(files + family_files()))))


def theta_of(kind):
    theta = getattr(kind, "default_theta", USUAL_THETA)
    if isinstance(theta, dict):  # of layers without and with a window
        return {"rope_theta": theta["global"], "rope_local_base_freq": theta["local"]}
    return {"rope_theta": theta}


def share_of(kind):
    """Of a head what turns, where the class itself says it."""
    rope = kind().rope_parameters or {}
    return {key: rope[key] for key in ("partial_rotary_factor",) if key in rope}


def is_unbounded(value):
    """Whether JSON has no number for it, as for the limits of steps of Mamba."""
    parts = value if isinstance(value, (list, tuple)) else (value,)
    return any(isinstance(part, float) and math.isinf(part) for part in parts)


def defaults_of(kind, keys):
    from transformers import PretrainedConfig

    general = {field.name for field in dataclasses.fields(PretrainedConfig)}
    fields = {field.name: field.default for field in dataclasses.fields(kind)
              if field.name not in general - {"tie_word_embeddings"}}  # fmt: skip
    found = {key: fields[key] for key in keys
             if key in fields and fields[key] is not dataclasses.MISSING
             and not is_unbounded(fields[key])}  # fmt: skip
    if "rope_parameters" in fields:
        found |= theta_of(kind) | share_of(kind)
    return dict(sorted(found.items()))


def document():
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    keys = spelt_keys()
    return {
        "schema": "zplan.hugging_face/1",
        "transformers": transformers.__version__,
        "model_types": {name: defaults_of(CONFIG_MAPPING[name], keys) for name in model_types(CONFIG_MAPPING)},
    }


def text_of(found):
    types = found["model_types"].items()
    rows = ",\n".join(f'  "{name}": {json.dumps(row)}' for name, row in types)
    return (f'{{\n "schema": "{found["schema"]}",\n "transformers": "{found["transformers"]}",\n'
            f' "model_types": {{\n{rows}\n }}\n}}\n')  # fmt: skip


def check(path):
    with open(path, encoding="utf-8") as file:
        there = json.load(file)
    found = document()
    if found["transformers"] != there["transformers"]:
        print(f"skipped: {path} is of transformers {there['transformers']}, "
              f"{found['transformers']} is installed")  # fmt: skip
        return SKIPPED
    wrong = [name for name, row in found["model_types"].items()
             if there["model_types"].get(name) != row]  # fmt: skip
    for name in wrong:
        print(f"{path}: {name}: expected {json.dumps(found['model_types'][name])}")
    return 1 if wrong else 0


def count_of(path):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
    from transformers import AutoModelForSeq2SeqLM

    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    fields = fields.get("text_config") or fields
    fields.pop("quantization_config", None)
    fields.pop("auto_map", None)
    config = AutoConfig.for_model(**fields)
    masked = ("bert", "camembert", "modernbert", "roberta", "xlm-roberta")
    kind = dict.fromkeys(masked, AutoModelForMaskedLM) | dict.fromkeys(
        ("blenderbot", "mt5", "t5"), AutoModelForSeq2SeqLM)  # fmt: skip
    kind = kind.get(fields["model_type"], AutoModelForCausalLM)
    with torch.device("meta"):
        model = kind.from_config(config)
    tensors = {id(tensor): tensor for tensor in model.parameters()}
    # Of a router: a parameter in the published weights, a buffer in the class.
    for name, tensor in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            tensors[id(tensor)] = tensor
    head, table = model.get_output_embeddings(), model.get_input_embeddings()
    # T5's class ties both since transformers 5, whatever the file says.
    apart = fields.get("tie_word_embeddings") is False and head.weight is table.weight
    return sum(tensor.numel() for tensor in tensors.values()) + apart * table.weight.numel()


def count(folder):
    with open(os.path.join(folder, "counts.json"), encoding="utf-8") as file:
        published = json.load(file)["parameters"]
    wrong = 0
    for name in sorted(published):
        found = count_of(os.path.join(folder, name + ".json"))
        same = found == published[name]
        wrong += not same
        told = "" if same else f", counts.json has {published[name]}"
        print(f"{name}: {found}{told}", flush=True)
    return 1 if wrong else 0


def save(folder):
    from transformers import AutoConfig

    target = os.path.join(folder, "transformers5")
    for name in sorted(os.listdir(target)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            fields = json.load(file)
        for key in ("auto_map", "quantization_config"):  # which it would look into
            fields.pop(key, None)
        with tempfile.TemporaryDirectory() as written:
            AutoConfig.for_model(**fields).save_pretrained(written)
            with open(os.path.join(written, "config.json"), encoding="utf-8") as file:
                fields = json.load(file)
        with open(os.path.join(target, name), "w", encoding="utf-8") as file:
            json.dump(fields, file, indent=2, sort_keys=True)
            file.write("\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    action = parser.add_mutually_exclusive_group(required=True)
    for option in ("--write", "--check", "--count", "--save"):
        action.add_argument(option)
    arguments = parser.parse_args()
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED
    if arguments.write:
        with open(arguments.write, "w", encoding="utf-8") as file:
            file.write(text_of(document()))
        return 0
    if arguments.save:
        return save(arguments.save)
    return check(arguments.check) if arguments.check else count(arguments.count)


if __name__ == "__main__":
    sys.exit(main())
