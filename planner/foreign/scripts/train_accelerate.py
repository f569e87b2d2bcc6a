#!/usr/bin/env python3
"""Trains the model of config.json as accelerate.yaml says, on random tokens.

model_and_data.py has the model and the data. Needs accelerate, torch and transformers; launch.sh
starts it.
"""

import argparse
import time

import torch
from accelerate import Accelerator

from model_and_data import batches, make_config, make_model


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--micro-batch", type=int, required=True, help="sequences of a replica")
    parser.add_argument("--accumulation", type=int, default=1, help="micro-batches of a step")
    parser.add_argument("--sequence", type=int, required=True, help="tokens")
    parser.add_argument("--recompute", action="store_true",
                        help="the layers, in backward; with FSDP accelerate.yaml says it")
    parser.add_argument("--clip", type=float, default=1.0, help="norm of gradients; 0: any")
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    accelerator = Accelerator(gradient_accumulation_steps=arguments.accumulation)
    fsdp = getattr(accelerator.state, "fsdp_plugin", None)
    config = make_config()
    model = make_model(config, torch.float32,
                       arguments.recompute and not (fsdp and fsdp.activation_checkpointing))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-4))
    degrees = accelerator.parallelism_config
    shared = degrees.tp_size * degrees.cp_size if degrees else 1
    data = batches(config.vocab_size, arguments.micro_batch, arguments.sequence,
                   accelerator.device, accelerator.process_index // shared)
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
