"""Writes the fields of Megatron-Bridge's configuration:

  keys_megatron_bridge.py > planner/foreign/keys/megatron_bridge.json

Needs megatron-bridge with its megatron-core, and Python 3.12; what else it imports may be missing
(bridge_stubs.py). Fields that a file names and a class does not have are skipped with a warning.
"""

import contextlib
import dataclasses
import importlib.metadata
import os
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", WORLD_SIZE="1", RANK="0", LOCAL_RANK="0")

import bridge_stubs  # noqa: E402

bridge_stubs.stand_in()

with contextlib.redirect_stdout(sys.stderr):  # imports of models print
    import megatron.bridge.training.config as config
    from megatron.bridge.models.mla_provider import MLAModelProvider
    from megatron.bridge.training.comm_overlap import CommOverlapConfig
    from megatron.bridge.training.mixed_precision import MixedPrecisionConfig

from key_file import ignored, plain, write  # noqa: E402

# Of sections that several classes may fill the one that has all the fields.
SECTIONS = {
    "model": MLAModelProvider,
    "train": config.TrainingConfig,
    "validation": config.ValidationConfig,
    "optimizer": config.OptimizerConfig,
    "scheduler": config.SchedulerConfig,
    "ddp": config.DistributedDataParallelConfig,
    "dataset": config.GPTDatasetConfig,
    "tokenizer": config.TokenizerConfig,
    "logger": config.LoggerConfig,
    "checkpoint": config.CheckpointConfig,
    "dist": config.DistributedInitConfig,
    "rng": config.RNGConfig,
    "comm_overlap": CommOverlapConfig,
    "mixed_precision": MixedPrecisionConfig,
}
# What a whole configuration that was saved says of the class of a section.
CLASS = "_target_"


def fields(cls):
    out = {CLASS: None}
    for field in dataclasses.fields(cls):
        if not field.name.startswith("_"):
            missing = field.default is dataclasses.MISSING
            out[field.name] = None if missing else plain(field.default)
    return out


def main():
    root = {CLASS: None} | {field.name: None for field in dataclasses.fields(config.ConfigContainer)
                            if not field.name.startswith("_")}
    objects = {"": ignored(root)}
    for section, cls in SECTIONS.items():
        objects[section] = ignored(fields(cls))
    write("Megatron-Bridge", importlib.metadata.version("megatron-bridge"), objects)


if __name__ == "__main__":
    sys.exit(main())
