"""The model of config.json, and what train.py trains it on: random tokens.

Replace `batches` by your data. Needs torch and transformers; where lora.json is beside it, peft and
for 4 bits bitsandbytes.
"""

import json
import os
import tempfile

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


def read_lora():
    """Arguments of LoraConfig and BitsAndBytesConfig; nothing: all parameters are trained."""
    path = os.path.join(HERE, "lora.json")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def make_base(kind, config, dtype, quantization):
    """Put from_pretrained of your checkpoint here: it alone quantises, so random weights go there
    by a folder."""
    if quantization is None:
        return kind.from_config(config, dtype=dtype)
    from transformers import BitsAndBytesConfig
    with tempfile.TemporaryDirectory() as folder:
        kind.from_config(config, dtype=dtype).save_pretrained(folder)
        return kind.from_pretrained(folder, dtype=dtype,
                                    quantization_config=BitsAndBytesConfig(**quantization))


def with_factors(model, settings):
    from peft import LoraConfig, get_peft_model
    model.enable_input_require_grads()
    return get_peft_model(model, LoraConfig(**settings))


def make_model(config, dtype, recompute=False):
    kind = AutoModelForCausalLM
    if getattr(config, "is_encoder_decoder", False):
        kind = AutoModelForSeq2SeqLM
    elif config.model_type == "bert":
        kind = AutoModelForMaskedLM
    lora = read_lora()
    if lora and torch.cuda.is_available():  # what is frozen needs no more bits than kernels read
        dtype = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    model = make_base(kind, config, dtype, lora["quantization"] if lora else None)
    if lora:
        model = with_factors(model, lora["lora"])
    if recompute:
        model.config.use_cache = False
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    # Of parameters that DeepSpeed has sharded as they were made it has the number.
    count = sum(getattr(one, "ds_numel", one.numel()) for one in model.parameters())
    if int(os.environ.get("RANK", 0)) == 0:
        print(f"parameters {count}", flush=True)
    return model
