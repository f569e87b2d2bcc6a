#!/usr/bin/env python3
"""Parameters of the published config.json files, as transformers builds the models.

  count_published.py --write [DIR]  writes the counts into DIR/index.jsonl
  count_published.py --check [DIR]  compares them with those that are there; exit code 1 where one
                                    differs, 77 where torch or transformers is not installed, or
                                    transformers is another version
  count_published.py --only NAMES   counts these files alone (with --write or --check)

DIR is tests/data/published_configs unless given. A line of the index has, beside the file, its
model_type, the model's name, its source and what kind of copy it is:

  parameters         of the whole model, its modality encoders too; tensors that are tied count once
  text_parameters    of the language model with its output head, where there are encoders
  active_parameters  of what one token passes: all, less the experts that it does not choose
  router_bias        buffers of the class that the published weights hold as parameters: the
                     correction of a router's choice; in none of the other numbers
  frozen             of parameters: those that the class keeps from the optimizer
  note               why there is no number, or what the file is

The model is built on the meta device, so nothing of its size is ever in memory.
"""

import argparse
import json
import os
import re
import sys

SKIPPED = 77
VERSION = "5.24.0"  # as planner/foreign/README.md names it
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      "..", "data", "published_configs")  # fmt: skip
COUNTED = ("parameters", "text_parameters", "active_parameters", "router_bias", "frozen", "note")
# model_type of a file, where transformers builds it under another name.
ALSO_CALLED = {"kimi_k2": "deepseek_v3"}
# Zamba2's keys before the model was in transformers, and today's.
EARLIER_KEYS = {"zamba2": {"state_size": "mamba_d_state", "conv_dimension": "mamba_d_conv",
                           "expansion_factor": "mamba_expand", "ffn_hidden_size": "intermediate_size",
                           "lora_rank": "adapter_rank"}}  # fmt: skip
HEADS = ("ForCausalLM", "ForMaskedLM", "ForConditionalGeneration", "LMHeadModel")
EXPERT = re.compile(r"\.experts?\.|\.experts$")


def builders():
    from transformers.models.auto import modeling_auto as auto

    return (auto.AutoModelForMaskedLM, auto.AutoModelForCausalLM, auto.AutoModelForMultimodalLM,
            auto.AutoModelForSeq2SeqLM, auto.AutoModelForSpeechSeq2Seq)  # fmt: skip


def config_of(fields):
    from transformers import AutoConfig

    fields = {key: value for key, value in fields.items()
              if key not in ("auto_map", "quantization_config")}  # fmt: skip
    for earlier, today in EARLIER_KEYS.get(fields["model_type"], {}).items():
        if earlier in fields:
            fields[today] = fields.pop(earlier)
    if fields["model_type"] == "zamba2" and "n_mamba_heads" not in fields:
        width = fields["mamba_expand"] * fields["hidden_size"]
        fields["n_mamba_heads"] = width // fields["mamba_headdim"]
    fields["model_type"] = ALSO_CALLED.get(fields["model_type"], fields["model_type"])
    return AutoConfig.for_model(**fields)


def class_of(config, fields):
    """The class that the file names if it has a language model's head, else the usual one."""
    import transformers

    for name in fields.get("architectures") or ():
        if name.endswith(HEADS) and hasattr(transformers, name):
            return getattr(transformers, name)
    for builder in builders():
        if type(config) in builder._model_mapping:
            return builder._model_mapping[type(config)]
    raise ValueError(f"transformers {VERSION} has no class with a language model's head")


def built(kind, config):
    import torch

    with torch.device("meta"):
        model = kind._from_config(config)
    model.tie_weights()
    return model


def size_of(tensors):
    return sum(tensor.numel() for tensor in {id(one): one for one in tensors}.values())


def chosen_experts(config):
    for key in ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts"):
        chosen = getattr(config, key, None)
        if isinstance(chosen, int):
            return chosen
    return None


def idle_share(model, config):
    """Parameters of the experts that a token does not choose."""
    chosen = chosen_experts(config)
    idle = 0
    for name, parameter in model.named_parameters():
        if EXPERT.search(name) and parameter.dim() == 3 and chosen:
            idle += parameter.numel() // parameter.shape[0] * (parameter.shape[0] - chosen)
    return idle


def untied(model, fields):
    """Parameters of a head that the class ties, though the file says that it is apart: T5's since
    transformers 5."""
    head, table = model.get_output_embeddings(), model.get_input_embeddings()
    says = fields.get("text_config", fields).get("tie_word_embeddings")
    says = fields.get("tie_word_embeddings", says)
    tied = head is not None and getattr(head, "weight", None) is table.weight
    return table.weight.numel() if says is False and tied else 0


def counts_of(fields):
    config = config_of(fields)
    model = built(class_of(config, fields), config)
    row = {"parameters": size_of(model.parameters()) + untied(model, fields)}
    text = config.get_text_config(decoder=True)
    if text is not config and not config.is_encoder_decoder:
        row["text_parameters"] = text_count(model)
    idle = idle_share(model, text)
    if idle:
        row["active_parameters"] = row["parameters"] - idle
    biases = size_of(tensor for name, tensor in model.named_buffers()
                     if name.endswith("e_score_correction_bias"))  # fmt: skip
    if biases:
        row["router_bias"] = biases
    frozen = size_of(one for one in model.parameters() if not one.requires_grad)
    if frozen:
        row["frozen"] = frozen
    return row


def text_count(model):
    """The decoder with its head, as they stand in the whole model."""
    decoder, head = model.get_decoder(), model.get_output_embeddings()
    tensors = list(decoder.parameters()) + list(head.parameters())
    inside = {id(one) for one in model.parameters()}
    return size_of(one for one in tensors if id(one) in inside)


def count_file(path):
    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    try:
        return counts_of(fields)
    except Exception as error:  # of whatever a class says of a file that it does not build
        told = " ".join(str(error).split())
        remote = "auto_map" in fields and "should be one of" in told.lower()
        if "Unrecognized model identifier" in told or remote:
            told = f"transformers {VERSION} has no class of this model_type"
        return {"parameters": None, "note": told[:200]}


def read_index(folder):
    with open(os.path.join(folder, "index.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_index(folder, rows):
    with open(os.path.join(folder, "index.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", nargs="?", const=FOLDER)
    action.add_argument("--check", nargs="?", const=FOLDER)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED
    if transformers.__version__ != VERSION:
        print(f"skipped: the counts are of transformers {VERSION}, "
              f"{transformers.__version__} is installed")  # fmt: skip
        return SKIPPED
    transformers.logging.set_verbosity_error()
    folder = arguments.write or arguments.check
    rows, wrong = read_index(folder), 0
    for row in rows:
        if arguments.only and row["file"] not in arguments.only:
            continue
        found = count_file(os.path.join(folder, row["file"]))
        there = {key: row[key] for key in COUNTED if key in row}
        if arguments.check and found != there:
            wrong += 1
            print(f"{row['file']}: {json.dumps(found)}, the index has {json.dumps(there)}")
        for key in COUNTED:
            row.pop(key, None)
        row.update(found)
        if arguments.write:
            print(f"{row['file']}: {json.dumps(found)}", flush=True)
    if arguments.write:
        write_index(folder, rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
