"""Writes the arguments of Hugging Face's Trainer: keys_trainer.py > planner/foreign/keys/trainer.json

Needs transformers and torch.
"""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import transformers  # noqa: E402

from key_file import dataclass_objects, write  # noqa: E402

if __name__ == "__main__":
    objects = dataclass_objects(transformers.TrainingArguments)
    write("Transformers", transformers.__version__, objects)
