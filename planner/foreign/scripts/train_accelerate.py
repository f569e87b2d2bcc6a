#!/usr/bin/env python3
"""Trains the model of config.json as accelerate.yaml says, on random tokens.

Replace `batches` by your data. Needs accelerate, torch and transformers:

  accelerate launch --config_file accelerate.yaml train.py --micro-batch M --accumulation A --sequence S
"""

import argparse
import os
import time

import torch
from accelerate import Accelerator
from transformers import AutoConfig, AutoModelForCausalLM

HERE = os.path.dirname(os.path.abspath(__file__))


def batches(vocabulary, micro_batch, sequence, device, seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(vocabulary, (micro_batch, sequence), generator=generator).to(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro-batch", type=int, required=True, help="sequences of a replica")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--sequence", type=int, required=True, help="tokens")
    parser.add_argument("--recompute", action="store_true", help="the layers, in backward")
    parser.add_argument("--clip", type=float, default=1.0, help="norm of gradients; 0: any")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=arguments.accumulation)
    config = AutoConfig.from_pretrained(HERE)
    model = AutoModelForCausalLM.from_config(config)
    if arguments.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model = accelerator.prepare(model)
    optimizer = accelerator.prepare(torch.optim.AdamW(model.parameters(), lr=1e-4))
    data = batches(config.vocab_size, arguments.micro_batch, arguments.sequence,
                   accelerator.device, accelerator.process_index)
    for step in range(arguments.steps):
        start = time.perf_counter()
        for _ in range(arguments.accumulation):
            with accelerator.accumulate(model):
                tokens = next(data)
                loss = model(input_ids=tokens, labels=tokens).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients and arguments.clip > 0:
                    accelerator.clip_grad_norm_(model.parameters(), arguments.clip)
                optimizer.step()
                optimizer.zero_grad()
        accelerator.print(f"step {step + 1} loss {loss.item():.4f} "
                          f"{time.perf_counter() - start:.3f} s", flush=True)


if __name__ == "__main__":
    main()
