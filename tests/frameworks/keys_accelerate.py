"""Writes the keys of Accelerate's configuration: keys_accelerate.py > planner/foreign/keys/accelerate.json

Of the file itself the fields of its class; of the sections the options of `accelerate launch`, of
which each is an argument of the same name. Needs accelerate and torch.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import accelerate  # noqa: E402
from accelerate.commands.config.config_args import ClusterConfig  # noqa: E402
from accelerate.commands.launch import launch_command_parser  # noqa: E402

from key_file import dataclass_objects, ignored, plain, write  # noqa: E402

# Sections, and how their options begin.
SECTIONS = {"fsdp_config": "fsdp_", "parallelism_config": "parallelism_config_"}
# Of `deepspeed_config` options have no common beginning.
DEEPSPEED = ("deepspeed_config_file", "deepspeed_exclusion_filter", "deepspeed_hostfile",
             "deepspeed_inclusion_filter", "deepspeed_moe_layer_cls_names",
             "deepspeed_multinode_launcher", "gradient_accumulation_steps", "gradient_clipping",
             "offload_optimizer_device", "offload_optimizer_nvme_path", "offload_param_device",
             "offload_param_nvme_path", "zero3_init_flag", "zero3_save_16bit_model", "zero_stage")


def main():
    options = {action.dest: plain(action.default)
               for action in launch_command_parser()._actions if action.dest != "help"}
    objects = dataclass_objects(ClusterConfig)
    for section, beginning in SECTIONS.items():
        objects[section] = ignored({k: v for k, v in options.items() if k.startswith(beginning)})
    objects["deepspeed_config"] = ignored({k: options.get(k) for k in DEEPSPEED})
    write("Accelerate", accelerate.__version__, objects)


if __name__ == "__main__":
    main()
