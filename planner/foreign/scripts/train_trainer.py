#!/usr/bin/env python3
"""Trains the model of config.json as training_arguments.json says, on random tokens.

model_and_data.py has the model; replace `RandomTokens` by your data. Needs torch, transformers and
accelerate, and deepspeed where the arguments name it; launch.sh starts it.
"""

import argparse
import json
import os

import torch
from transformers import Trainer, TrainingArguments

from model_and_data import HERE, make_config, make_model


class RandomTokens(torch.utils.data.Dataset):
    def __init__(self, vocabulary, sequence, length):
        self.vocabulary, self.sequence, self.length = vocabulary, sequence, length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(self.vocabulary, (self.sequence,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequence", type=int, required=True, help="tokens")
    parser.add_argument("--recompute", action="store_true", help="as gradient_checkpointing says")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    with open(os.path.join(HERE, "training_arguments.json"), encoding="utf-8") as file:
        settings = {"save_strategy": "no"} | json.load(file)
    # Before the model: with stage 3 its parameters are sharded as they are made.
    training = TrainingArguments(max_steps=arguments.steps, logging_steps=1,
                                 use_cpu=not torch.cuda.is_available(), **settings)
    config = make_config()
    # DeepSpeed keeps the parameters in fp32 itself, FSDP and the Trainer alone in the model.
    low = torch.bfloat16 if training.bf16 else torch.float16 if training.fp16 else torch.float32
    model = make_model(config, low if training.deepspeed else torch.float32)
    sequences = training.train_batch_size * training.world_size * \
        training.gradient_accumulation_steps * arguments.steps
    Trainer(model=model, args=training,
            train_dataset=RandomTokens(config.vocab_size, arguments.sequence, sequences)).train()


if __name__ == "__main__":
    main()
