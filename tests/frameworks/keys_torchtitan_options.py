"""Writes the options of torchtitan 0.3 that are read:
keys_torchtitan_options.py > planner/foreign/keys/torchtitan_options.json

Needs torchtitan 0.3.0. The way of recomputation, a word of its own there, has the name that it had
in TOML.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""

from torchtitan.config.configs import ParallelismConfig, TrainingConfig  # noqa: E402

from key_file import dataclass_objects, refused, write  # noqa: E402

if __name__ == "__main__":
    objects = {"": refused(dict.fromkeys(("training", "parallelism", "activation_checkpoint"))),
               "activation_checkpoint": refused({"mode": "selective",
                                                 "selective_ac_option": "op"})}
    dataclass_objects(TrainingConfig, "training", objects)
    dataclass_objects(ParallelismConfig, "parallelism", objects)
    write("torchtitan", "0.3.0", objects)
