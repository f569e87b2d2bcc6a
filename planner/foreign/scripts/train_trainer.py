#!/usr/bin/env python3
"""Trains the model of config.json as training_arguments.json says, on random tokens.

Replace `RandomTokens` by your data. Needs torch, transformers and accelerate, and deepspeed where
the arguments name it; launch.sh starts it.
"""

import argparse
import json
import os

import torch
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments

HERE = os.path.dirname(os.path.abspath(__file__))


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
        settings = json.load(file)
    training = TrainingArguments(max_steps=arguments.steps, logging_steps=1, **settings)
    config = AutoConfig.from_pretrained(HERE)
    model = AutoModelForCausalLM.from_config(config)
    sequences = training.train_batch_size * training.world_size * \
        training.gradient_accumulation_steps * arguments.steps
    Trainer(model=model, args=training,
            train_dataset=RandomTokens(config.vocab_size, arguments.sequence, sequences)).train()


if __name__ == "__main__":
    main()
