"""The model of config.json, and what train.py trains it on: random tokens.

Replace `batches` by your data. Needs torch and transformers.
"""

import os

import torch
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM,
                          AutoModelForSeq2SeqLM)

HERE = os.path.dirname(os.path.abspath(__file__))


def batches(vocabulary, micro_batch, sequence, device, seed):
    """Of one replica, without end: the ranks that share its sequences share the seed."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(vocabulary, (micro_batch, sequence), generator=generator).to(device)


def make_config():
    return AutoConfig.from_pretrained(HERE)


def make_model(config, dtype, recompute=False):
    kind = AutoModelForCausalLM
    if getattr(config, "is_encoder_decoder", False):
        kind = AutoModelForSeq2SeqLM
    elif config.model_type == "bert":
        kind = AutoModelForMaskedLM
    model = kind.from_config(config, dtype=dtype)
    if recompute:
        model.config.use_cache = False
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    # Of parameters that DeepSpeed has sharded as they were made it has the number.
    count = sum(getattr(one, "ds_numel", one.numel()) for one in model.parameters())
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"parameters {count}", flush=True)
    return model
