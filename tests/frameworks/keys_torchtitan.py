"""Writes which keys torchtitan's TOML files have: keys_torchtitan.py > planner/foreign/keys/torchtitan.json

Needs torchtitan 0.2.2, the last version that reads TOML; its names of sections and keys are those
of the options of 0.3, but for what the reader says.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""

from torchtitan.config.job_config import JobConfig  # noqa: E402

from key_file import dataclass_objects, write  # noqa: E402

if __name__ == "__main__":
    write("torchtitan", "0.2.2", dataclass_objects(JobConfig))
