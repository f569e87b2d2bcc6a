#!/usr/bin/env python3
"""Trains the model of config.json as ds_config.json says, on random tokens.

model_and_data.py has the model and the data. Needs deepspeed, torch and transformers; launch.sh
starts it.
"""

import argparse
import json
import os
import time

import deepspeed
import torch
from transformers.integrations import HfDeepSpeedConfig

from model_and_data import HERE, batches, make_config, make_model


def element_type(settings):
    if settings.get("bf16", {}).get("enabled"):
        return torch.bfloat16
    return torch.float16 if settings.get("fp16", {}).get("enabled") else torch.float32


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequence", type=int, required=True, help="tokens")
    parser.add_argument("--recompute", action="store_true", help="the layers, in backward")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    with open(os.path.join(HERE, "ds_config.json"), encoding="utf-8") as file:
        settings = json.load(file)
    deepspeed.init_distributed()
    # Kept alive: with stage 3 parameters are sharded as they are made.
    _sharded = HfDeepSpeedConfig(settings) if settings["zero_optimization"]["stage"] == 3 else None
    config = make_config()
    model = make_model(config, element_type(settings), arguments.recompute)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=settings)
    rank = torch.distributed.get_rank()
    shared = settings.get("tensor_parallel", {}).get("autotp_size", 1)
    data = batches(config.vocab_size, settings["train_micro_batch_size_per_gpu"],
                   arguments.sequence, engine.device, rank // shared)
    for step in range(arguments.steps):
        start = time.perf_counter()
        for _ in range(settings["gradient_accumulation_steps"]):
            tokens = next(data)
            loss = engine(input_ids=tokens, labels=tokens).loss
            engine.backward(loss)
            engine.step()
        if rank == 0:
            print(f"step {step + 1} loss {loss.item():.4f} {time.perf_counter() - start:.3f} s",
                  flush=True)


if __name__ == "__main__":
    main()
