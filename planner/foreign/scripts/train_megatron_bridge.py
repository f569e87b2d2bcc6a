"""Trains with Megatron-Bridge what config.yaml says, on tokens that Megatron makes up.

  torchrun .. train.py [OVERRIDE..]      train.train_iters=100 checkpoint.save=runs

The sections and fields of config.yaml are those of ConfigContainer; what it leaves out is as recipes
of pre-training begin, else as the classes have it. Put your data into `dataset`.
"""

import os
import sys

import yaml
from megatron.bridge.models.gpt_provider import GPTModelProvider
from megatron.bridge.models.mla_provider import MLAModelProvider
from megatron.bridge.training.config import (
    CheckpointConfig, ConfigContainer, DistributedDataParallelConfig, GPTDatasetConfig,
    LoggerConfig, OptimizerConfig, RNGConfig, SchedulerConfig, TokenizerConfig, TrainingConfig,
    ValidationConfig)
from megatron.bridge.training.mixed_precision import bf16_mixed
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides


def configuration(path, overrides):
    """The ConfigContainer of the file, with the overrides made."""
    with open(path, encoding="utf-8") as file:
        sizes = yaml.safe_load(file)["model"]
    provider = MLAModelProvider if sizes.get("multi_latent_attention") else GPTModelProvider
    model = provider(num_layers=sizes["num_layers"], hidden_size=sizes["hidden_size"],
                     num_attention_heads=sizes["num_attention_heads"])
    base = ConfigContainer(
        model=model,
        train=TrainingConfig(train_iters=10),
        validation=ValidationConfig(eval_iters=0),
        optimizer=OptimizerConfig(use_distributed_optimizer=True),
        scheduler=SchedulerConfig(lr_decay_style="constant"),
        ddp=DistributedDataParallelConfig(
            use_distributed_optimizer=True, overlap_grad_reduce=True, overlap_param_gather=True,
            data_parallel_sharding_strategy="optim_grads_params"),
        dataset=GPTDatasetConfig(
            random_seed=1234, seq_length=sizes["seq_length"], reset_position_ids=False,
            reset_attention_mask=False, eod_mask_loss=False, blend=None, split="9999,8,2",
            dataloader_type="single"),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer"),
        logger=LoggerConfig(log_interval=1),
        checkpoint=CheckpointConfig(),
        rng=RNGConfig(seed=1234),
        mixed_precision=bf16_mixed())
    return process_config_with_overrides(base, path, overrides)


def main():
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.yaml")
    pretrain(config=configuration(beside, sys.argv[1:]), forward_step_func=forward_step)


if __name__ == "__main__":
    main()
