"""Writes the options of Megatron-LM: keys_megatron.py > planner/foreign/keys/megatron.json

Every option string with its default. Needs megatron-core 0.17 or later, whose wheel has
megatron/training, and Python 3.12.
"""

import argparse
import os
import sys

os.environ.update(CUDA_VISIBLE_DEVICES="", WORLD_SIZE="1", RANK="0", LOCAL_RANK="0")

import megatron.core  # noqa: E402
import megatron.training.arguments as arguments  # noqa: E402

from key_file import plain, refused, write  # noqa: E402


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser = arguments.add_megatron_arguments(parser)
    keys = {}
    for action in parser._actions:
        for option in action.option_strings:
            if option.startswith("--") and option != "--help":
                # A switch is off unless it is given, whichever way it turns what it is about.
                is_switch = action.nargs == 0
                keys[option] = False if is_switch else plain(action.default)
    write("Megatron-Core", megatron.core.__version__, {"": refused(dict(sorted(keys.items())))})


if __name__ == "__main__":
    sys.exit(main())
