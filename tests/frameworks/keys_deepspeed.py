"""Writes which keys DeepSpeed's configuration has, with their defaults, as DeepSpeed itself says:

  python keys_deepspeed.py > planner/foreign/keys/deepspeed.json

Objects that are pydantic models say their fields; of the others this records what the parser asks
for. An object whose `unknown` is "refused" raises an error at a key that it does not know, one with
"ignored" says nothing. Needs the package deepspeed; no GPU.
"""

import os

os.environ["DS_ACCELERATOR"] = "cpu"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import deepspeed  # noqa: E402
from deepspeed.runtime import config, precision_config, zero  # noqa: E402
from deepspeed.runtime.swap_tensor.aio_config import AIO_DEFAULT_DICT  # noqa: E402
from deepspeed.runtime.tensor_parallel.config import TPTrainingConfig  # noqa: E402

from key_file import ignored, plain, write  # noqa: E402


class Recorder(dict):
    """Remembers which keys were asked for."""

    def __init__(self, values):
        super().__init__(values)
        self.asked = {}

    def get(self, key, default=None):
        self.asked.setdefault(key, default)
        return super().get(key, default)

    def __contains__(self, key):
        self.asked.setdefault(key, None)
        return super().__contains__(key)

    def __getitem__(self, key):
        self.asked.setdefault(key, None)
        return super().__getitem__(key)

    def keys(self):
        recorder = self

        class Keys:
            def __contains__(self, key):
                return key in recorder

            def __iter__(self):
                return iter(dict.keys(recorder))

        return Keys()

    def __copy__(self):
        return self


def fields_of(model):
    """name in a file -> default, what is deprecated apart"""
    keys, deprecated, also = {}, {}, {}
    for name, field in model.model_fields.items():
        extra = field.json_schema_extra or {}
        default = None if field.is_required() else plain(field.get_default())
        written = field.alias or name
        if extra.get("deprecated"):
            deprecated[written] = extra.get("new_param", "")
        else:
            keys[written] = default
            if written != name and model.model_config.get("populate_by_name"):
                also[name] = written
    return {"unknown": "refused", "keys": keys, "deprecated": deprecated, "also": also}


def asked_of_section(name, reader):
    recorder = Recorder({})
    outer = {name: recorder}
    reader(outer)
    return ignored(dict(sorted((k, plain(v)) for k, v in recorder.asked.items())))


def top_level():
    recorder = Recorder({"train_micro_batch_size_per_gpu": 1})
    config.DeepSpeedConfig(recorder)
    keys = {k: plain(v) for k, v in recorder.asked.items()}
    # Read by the engine and by launchers, outside the class that reads the others.
    keys.update({"sequence_parallel_size": 1, "vocabulary_size": None, "hybrid_engine": None})
    for removed in config._REMOVED_TOP_LEVEL_CONFIG_KEYS:
        keys.pop(removed, None)
    keys.pop(precision_config.BFLOAT16_OLD, None)
    return ignored(dict(sorted(keys.items())),
                   {precision_config.BFLOAT16_OLD: precision_config.BFLOAT16})


def main():
    zero_config = zero.config
    offload = zero.offload_config
    from deepspeed.runtime.activation_checkpointing.config import DeepSpeedActivationCheckpointingConfig as Ckpt
    from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig as Leaf

    objects = {
        "": top_level(),
        "zero_optimization": fields_of(zero_config.DeepSpeedZeroConfig),
        "zero_optimization.offload_param": fields_of(offload.DeepSpeedZeroOffloadParamConfig),
        "zero_optimization.offload_optimizer": fields_of(offload.DeepSpeedZeroOffloadOptimizerConfig),
        "zero_optimization.leaf_module": fields_of(Leaf),
        "fp16": fields_of(precision_config.DeepSpeedFP16Config),
        "bf16": fields_of(precision_config.DeepSpeedBF16Config),
        "tensor_parallel": fields_of(TPTrainingConfig),
        "activation_checkpointing": asked_of_section("activation_checkpointing", Ckpt),
        "data_types": asked_of_section("data_types", lambda c: [
            config.get_data_types_params(c).get(k) for k in
            ("grad_accum_dtype", "param_dtype", "buffer_dtype", "keep_in_fp32_modules")]),
        "aio": ignored({k: plain(v) for k, v in AIO_DEFAULT_DICT.items()}),
        "optimizer": ignored({"type": None, "params": None, "legacy_fusion": False}),
        "scheduler": ignored({"type": None, "params": None}),
    }
    removed = [*config._REMOVED_TOP_LEVEL_CONFIG_KEYS,
               *("zero_optimization." + key for key in config._REMOVED_ZERO_CONFIG_KEYS)]
    write("DeepSpeed", deepspeed.__version__, objects, dict.fromkeys(removed, ""))


if __name__ == "__main__":
    main()
