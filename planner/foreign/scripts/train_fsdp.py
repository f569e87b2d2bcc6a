#!/usr/bin/env python3
"""Trains the model of config.json with PyTorch's FSDP2 as fsdp.json says, on random tokens.

model_and_data.py has the model and the data. Needs torch and transformers; launch.sh starts it.
"""

import argparse
import json
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

from model_and_data import HERE, batches, make_config, make_model


def read_settings():
    with open(os.path.join(HERE, "fsdp.json"), encoding="utf-8") as file:
        return json.load(file)


def policies(settings):
    """What fully_shard takes but for the mesh."""
    mixed = {key: getattr(torch, value) if isinstance(value, str) else value
             for key, value in settings["mixed_precision"].items()}
    offload = CPUOffloadPolicy() if settings["offload"]["to_cpu"] else OffloadPolicy()
    return {"reshard_after_forward": settings["fully_shard"]["reshard_after_forward"],
            "mp_policy": MixedPrecisionPolicy(**mixed), "offload_policy": offload}


def shard(model, settings, device):
    """Layer by layer, then what is left; a layer that recomputes does so within its gathering."""
    sizes = settings["mesh"]["replicate"], settings["mesh"]["shard"]
    how = policies(settings) | {
        "mesh": init_device_mesh(device, sizes, mesh_dim_names=("replicate", "shard"))}
    for name, layer in list(model.named_modules()):
        if type(layer).__name__ != settings["fully_shard"]["layer"]:
            continue
        if settings["training"]["recompute"]:
            parent, _, child = name.rpartition(".")
            layer = checkpoint_wrapper(layer)
            setattr(model.get_submodule(parent), child, layer)
        fully_shard(layer, **how)
    fully_shard(model, **how)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    settings = read_settings()
    training = settings["training"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Gradients on the CPU are reduced there, too.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")
    config = make_config()
    model = make_model(config, torch.float32)
    shard(model, settings, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = batches(config.vocab_size, training["micro_batch"], training["sequence"], device,
                   dist.get_rank())
    for step in range(arguments.steps):
        start = time.perf_counter()
        for number in range(training["accumulation"]):
            tokens = next(data)
            loss = model(input_ids=tokens, labels=tokens).loss
            model.set_is_last_backward(number + 1 == training["accumulation"])
            (loss / training["accumulation"]).backward()
        if training["clip"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), training["clip"])
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(f"step {step + 1} loss {loss.item():.4f} {time.perf_counter() - start:.3f} s",
                  flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
