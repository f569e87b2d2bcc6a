"""Adds to a table of keys those that earlier versions of the framework had, as "removed":

  keys_earlier.py planner/foreign/keys/trainer.json TrainingArguments training_args.py
  keys_earlier.py planner/foreign/keys/torchtitan.json JobConfig config_manager.py job_config.py

The sources are those of earlier versions (transformers 4.57.1; torchtitan 0.1.0 and 0.2.0); only
their text is read. A key of RENAMED has another name now.
"""

import ast
import json
import sys

import key_file

RENAMED = {
    "warmup_ratio": "warmup_steps, which may be a share",
    "evaluation_strategy": "eval_strategy",
    "no_cuda": "use_cpu",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "group_by_length": "train_sampling_strategy",
    "fsdp_transformer_layer_cls_to_wrap": "fsdp_config.transformer_layer_cls_to_wrap",
    "fsdp_min_num_params": "fsdp_config.min_num_params",
    "checkpoint.enable_checkpoint": "checkpoint.enable",
    "checkpoint.last_save_model_weights_only": "checkpoint.last_save_model_only",
    "checkpoint.initial_load_model_weights_only": "checkpoint.initial_load_model_only",
    "memory_estimation.enabled": "memory_estimation.enable",
    "training.compile": "compile.enable",
    "training.seed": "debug.seed",
    "training.deterministic": "debug.deterministic",
    "training.debug_moe_force_load_balance": "debug.moe_force_load_balance",
    "lr_scheduler.lr_min": "lr_scheduler.min_lr_factor",
    "float8": "quantize.linear.float8",
    "mx": "quantize.linear.mx",
}
# Fields that no file has.
PRIVATE = "_"


def classes_of(path):
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return {node.name: [(field.target.id, getattr(field.annotation, "id", ""))
                        for field in node.body if isinstance(field, ast.AnnAssign)]
            for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def keys_of(classes, name, path=""):
    for field, of in classes[name]:
        if field.startswith(PRIVATE):
            continue
        whole = f"{path}.{field}".strip(".")
        yield whole
        # What is in a section that is no more goes with it.
        if of in classes and whole not in RENAMED:
            yield from keys_of(classes, of, whole)


def main(table, name, *sources):
    with open(table, encoding="utf-8") as file:
        old = json.load(file)
    now = {f"{path}.{key}".strip(".") for path, each in old["objects"].items() for key in each["keys"]}
    earlier = {key for source in sources for key in keys_of(classes_of(source), name)} - now
    removed = {**old["removed"], **{key: RENAMED.get(key, "") for key in earlier}}
    with open(table, "w", encoding="utf-8") as file:
        key_file.write(old["framework"], old["version"], old["objects"], removed, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
