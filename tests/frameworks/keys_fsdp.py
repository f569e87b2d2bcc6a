"""Writes the keys of train_fsdp.py's options: keys_fsdp.py > planner/foreign/keys/fsdp.json

Those of a section that PyTorch takes are the ones of its class; `mesh`, `training` and `to_cpu` are
the script's own. Needs torch.
"""

import inspect

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from key_file import dataclass_objects, refused, write


def main():
    reshards = inspect.signature(fully_shard).parameters["reshard_after_forward"].default
    objects = {
        "": refused(dict.fromkeys(("mesh", "fully_shard", "mixed_precision", "offload",
                                   "training"))),
        "mesh": refused({"replicate": 1, "shard": 1}),
        # None: all but the root, whose parameters backward needs first.
        "fully_shard": refused({"layer": None,
                                "reshard_after_forward": True if reshards is None else reshards}),
        "offload": refused({"to_cpu": False}),
        "training": refused({"micro_batch": 1, "accumulation": 1, "sequence": 1,
                             "recompute": False, "clip": 1.0}),
    }
    dataclass_objects(MixedPrecisionPolicy, "mixed_precision", objects)
    del objects["mixed_precision"]["keys"]["param_dtype_override_fn"]  # a function
    write("PyTorch", torch.__version__.split("+")[0], objects)


if __name__ == "__main__":
    main()
