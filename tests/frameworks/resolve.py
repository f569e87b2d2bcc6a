"""What the frameworks themselves read in exported configurations, compared with the plans.

  python resolve.py TARGET ZPLAN [--save FILE]

Makes plans of many kinds, exports each with ZPLAN (the program), has the real parser of the target
read what was written, and compares the object that it builds, field by field, with what the plan
says where the export says that the framework takes it from the plan. With --save the resolved
fields are written to FILE, by the text of the configuration: tests/cli/resolved_test.py holds
later exports to it. TARGET and what must be installed:

  deepspeed    deepspeed 0.19.8
  megatron     megatron-core 0.19.2, Python 3.12, omegaconf, pyyaml, transformers
  megatron-bridge  megatron-bridge 0.6.2 with its Megatron-Core, Python 3.12, hydra-core; the
               configuration that the exported script builds, checked as training checks it
  torchtitan   torchtitan 0.2.2
  accelerate   accelerate 1.15.0
  hf           transformers 5.24.0, accelerate, deepspeed
  fsdp         torch 2.15.0, transformers: the policies that the exported script itself builds

No GPU is needed. Exit code 1 where a field differs.
"""

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile

os.environ.update(CUDA_VISIBLE_DEVICES="", DS_ACCELERATOR="cpu")

CLUSTER, RANKS = "dgx-h100x2", 16
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "planner", "foreign",
                       "scripts")


def plans(base):
    """Plans of all stages, homes and sizes that a base plan is varied into."""
    for stage, tp, home, full, micro in itertools.product(
            (0, 1, 2, 3), (1, 2, 8), ("gpu", "cpu"), (False, True), (1, 2)):
        plan = json.loads(json.dumps(base))
        plan["parallel"].update(dp=RANKS // tp, tp=tp, pp=1, sequence_parallel=tp > 1)
        plan["zero_stage"] = stage
        plan["placement"].update(optimizer=home, grads=home if stage >= 2 else "gpu")
        plan["recompute"] = [{"mode": "full" if full else "none", "layers": 0}]
        plan["batch"] = {"global_batch": 128, "micro_batch": micro, "sequence": 4096}
        yield plan


def resolve_deepspeed(folder):
    import deepspeed
    import deepspeed.comm as comm
    from deepspeed.runtime.config import DeepSpeedConfig

    with open(os.path.join(folder, "ds_config.json"), encoding="utf-8") as file:
        settings = json.load(file)
    tp = settings.get("tensor_parallel", {}).get("autotp_size", 1)
    comm.get_rank = lambda *_a, **_k: 0
    comm.get_world_size = lambda *_a, **_k: RANKS // tp
    config = DeepSpeedConfig(settings)
    zero = config.zero_config

    def device(section):
        return "gpu" if section is None or section.device in (None, "none") else str(section.device)

    return deepspeed.__version__, {
        "/zero_stage": int(zero.stage),
        "/batch/micro_batch": config.train_micro_batch_size_per_gpu,
        "/batch/global_batch": config.train_batch_size,
        "/parallel/tp": config.tensor_parallel_config.autotp_size or 1,
        "/placement/optimizer": device(zero.offload_optimizer),
        "/overlap/gradients": bool(zero.overlap_comm),
        "/clip": config.gradient_clipping > 0,
        "bf16": bool(config.bfloat16_config.enabled),
    }


def resolve_accelerate(folder):
    import accelerate
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env

    arguments = launch_command_parser().parse_args(
        ["--config_file", os.path.join(folder, "accelerate.yaml"), "train.py"])
    arguments, _, _ = _validate_launch_command(arguments)
    for name in [n for n in os.environ if n.startswith(("FSDP_", "PARALLELISM_", "ACCELERATE_"))]:
        del os.environ[name]
    os.environ.update(prepare_multi_gpu_env(arguments))
    resolved = {"bf16": arguments.mixed_precision == "bf16", "/zero_stage": 0}
    if arguments.use_fsdp:
        from accelerate.utils import FullyShardedDataParallelPlugin

        plugin = FullyShardedDataParallelPlugin()
        resolved["/zero_stage"] = 3 if plugin.reshard_after_forward else 2
        resolved["recompute"] = bool(plugin.activation_checkpointing)
        resolved["/placement/optimizer"] = "cpu" if plugin.cpu_offload and \
            getattr(plugin.cpu_offload, "pin_memory", getattr(plugin.cpu_offload, "offload_params", False)) \
            else "gpu"
    tp = int(os.environ.get("PARALLELISM_CONFIG_TP_SIZE", 1))
    resolved["/parallel/tp"] = tp
    return accelerate.__version__, resolved


def resolve_megatron(folder):
    os.environ.update(WORLD_SIZE=str(RANKS), RANK="0", LOCAL_RANK="0",
                      CUDA_DEVICE_MAX_CONNECTIONS="1")
    import megatron.core
    import megatron.training.arguments as reader

    reader.get_device_arch_version = lambda: 9
    with open(os.path.join(folder, "arguments.txt"), encoding="utf-8") as file:
        words = file.read().split()
    for own, other in (("--transformer-impl", "local"),):
        words[words.index(own) + 1] = other
    if "--use-megatron-fsdp" in words:
        del os.environ["CUDA_DEVICE_MAX_CONNECTIONS"]
    sys.argv = ["pretrain_gpt.py", *words, "--no-rope-fusion", "--no-persist-layer-norm",
                "--no-gradient-accumulation-fusion"]
    got = reader.validate_args(reader.parse_args())
    reader.core_transformer_config_from_args(got)
    stage = int(got.use_distributed_optimizer)
    if got.use_megatron_fsdp:
        stage = {"optim": 1, "optim_grads": 2,
                 "optim_grads_params": 3}[got.data_parallel_sharding_strategy]
    return megatron.core.__version__, {
        "/zero_stage": stage,
        "/parallel/tp": got.tensor_model_parallel_size,
        "/parallel/dp": got.data_parallel_size,
        "/batch/micro_batch": got.micro_batch_size,
        "/batch/global_batch": got.global_batch_size,
        "/batch/sequence": got.seq_length,
        "/placement/optimizer": "cpu" if got.optimizer_cpu_offload else "gpu",
        "recompute": got.recompute_granularity == "full",
        "bf16": got.bf16,
        "/clip": got.clip_grad > 0,
    }


def resolve_megatron_bridge(folder):
    os.environ.update(WORLD_SIZE=str(RANKS), RANK="0", LOCAL_RANK="0")
    sys.path.insert(0, SCRIPTS)
    import importlib.metadata

    import bridge_stubs

    bridge_stubs.stand_in()
    import train_megatron_bridge

    got = train_megatron_bridge.configuration(os.path.join(folder, "config.yaml"), [])
    got.mixed_precision.finalize()
    got.mixed_precision.setup(got.model, got.optimizer, got.ddp)
    got.validate()
    stage = int(got.optimizer.use_distributed_optimizer and got.ddp.use_distributed_optimizer)
    if got.dist.use_megatron_fsdp:
        stage = {"optim": 1, "optim_grads": 2,
                 "optim_grads_params": 3}[got.ddp.data_parallel_sharding_strategy]
    return importlib.metadata.version("megatron-bridge"), {
        "/zero_stage": stage,
        "/parallel/tp": got.model.tensor_model_parallel_size,
        "/parallel/dp": got.data_parallel_size,
        "/batch/micro_batch": got.train.micro_batch_size,
        "/batch/global_batch": got.train.global_batch_size,
        "/batch/sequence": got.model.seq_length,
        "/placement/optimizer": "cpu" if got.optimizer.optimizer_cpu_offload else "gpu",
        "recompute": got.model.recompute_granularity == "full",
        "bf16": got.model.bf16 and got.optimizer.bf16,
        "/clip": got.optimizer.clip_grad > 0,
    }


def resolve_torchtitan(folder):
    from torchtitan.config import ConfigManager

    got = ConfigManager().parse_args(["--job.config_file", os.path.join(folder, "train.toml")])
    degrees = got.parallelism
    sharded = degrees.data_parallel_shard_degree > 1
    stage = 3 if degrees.fsdp_reshard_after_forward == "always" else 2
    return "0.2.2", {
        "/zero_stage": stage if sharded else 0,
        "/parallel/tp": degrees.tensor_parallel_degree,
        "/batch/micro_batch": got.training.local_batch_size,
        "/batch/global_batch": got.training.global_batch_size,
        "/batch/sequence": got.training.seq_len,
        "recompute": got.activation_checkpoint.mode == "full",
        "/placement/optimizer": "cpu" if got.training.enable_cpu_offload else "gpu",
        "bf16": got.training.mixed_precision_param == "bfloat16",
        "/clip": got.training.max_norm > 0,
    }


def resolve_hf(folder):
    import transformers

    with open(os.path.join(folder, "training_arguments.json"), encoding="utf-8") as file:
        settings = json.load(file)
    settings["bf16"], bf16 = False, settings["bf16"]  # refused without a GPU
    deepspeed = settings.pop("deepspeed", None)
    got = transformers.TrainingArguments(use_cpu=True, **settings)
    stage = 0
    if deepspeed:
        stage = deepspeed["zero_optimization"]["stage"]
    elif settings.get("fsdp"):
        stage = 3 if got.fsdp_config.get("reshard_after_forward", True) else 2
    return transformers.__version__, {
        "/zero_stage": stage,
        "/batch/micro_batch": got.per_device_train_batch_size,
        "recompute": bool(got.gradient_checkpointing or
                          (got.fsdp_config or {}).get("activation_checkpointing")),
        "bf16": bf16,
        "/clip": got.max_grad_norm > 0,
    }


def resolve_fsdp(folder):
    sys.path.insert(0, SCRIPTS)
    import torch
    import train_fsdp
    from torch.distributed.fsdp import CPUOffloadPolicy

    with open(os.path.join(folder, "fsdp.json"), encoding="utf-8") as file:
        settings = json.load(file)
    how = train_fsdp.policies(settings)
    mesh, training = settings["mesh"], settings["training"]
    ranks = mesh["replicate"] * mesh["shard"]
    stage = 3 if how["reshard_after_forward"] else 2
    return torch.__version__.split("+")[0], {
        "/zero_stage": stage if mesh["shard"] > 1 else 0,
        "/parallel/dp": ranks,
        "/batch/micro_batch": training["micro_batch"],
        "/batch/global_batch": training["micro_batch"] * training["accumulation"] * ranks,
        "/batch/sequence": training["sequence"],
        "/placement/optimizer":
            "cpu" if isinstance(how["offload_policy"], CPUOffloadPolicy) else "gpu",
        "recompute": training["recompute"],
        "bf16": how["mp_policy"].param_dtype is torch.bfloat16,
        "/clip": training["clip"] > 0,
    }


RESOLVERS = {"deepspeed": resolve_deepspeed, "accelerate": resolve_accelerate,
             "megatron": resolve_megatron, "megatron-bridge": resolve_megatron_bridge,
             "torchtitan": resolve_torchtitan, "hf": resolve_hf, "fsdp": resolve_fsdp}
FILES = {"deepspeed": "ds_config.json", "accelerate": "accelerate.yaml",
         "megatron": "arguments.txt", "megatron-bridge": "config.yaml",
         "torchtitan": "train.toml", "hf": "training_arguments.json", "fsdp": "fsdp.json"}


# What plan files leave out where it is so.
USUAL = {"/overlap/gradients": True, "/clip": True}


def member(plan, pointer):
    for name in pointer.strip("/").split("/"):
        if name not in plan:
            return USUAL[pointer]
        plan = plan[name]
    return plan


def expected(plan, dropped):
    """What the framework does of the plan, by the export's own account."""
    def say(pointer, value):
        text = dropped.get(pointer)
        if text is None:
            return value
        if isinstance(value, bool):
            return text == "yes"
        return int(text) if isinstance(value, int) else text

    full = plan["recompute"][0]["mode"] == "full"
    out = {pointer: say(pointer, member(plan, pointer)) for pointer in (
        "/zero_stage", "/batch/micro_batch", "/batch/global_batch", "/batch/sequence",
        "/parallel/tp", "/parallel/dp", "/placement/optimizer", "/overlap/gradients", "/clip")}
    out["recompute"] = dropped["/recompute"] == "full" if "/recompute" in dropped else full
    out["bf16"] = plan["kernel_set"].endswith("bf16")
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", choices=sorted(RESOLVERS))
    parser.add_argument("zplan")
    parser.add_argument("--save")
    arguments = parser.parse_args()
    zplan, target = os.path.abspath(arguments.zplan), arguments.target
    saved, wrong, count, refused = {}, 0, 0, []
    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "base.json")
        subprocess.run([zplan, "--model", "llama3-8b", "--cluster", CLUSTER, "--zero", "3", "--tp",
                        "1", "--pp", "1", "--gather", "layer", "--seq", "4096", "--global-batch",
                        "128", "-o", base], check=True, stdout=subprocess.DEVNULL)
        with open(base, encoding="utf-8") as file:
            base_plan = json.load(file)
        version = None
        for plan in plans(base_plan):
            path = os.path.join(folder, "plan.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(plan, file)
            out = os.path.join(folder, "out")
            result = subprocess.run([zplan, "export", path, "--to", target, "-o", out, "--json"],
                                    capture_output=True, text=True, check=False)
            if result.returncode == 2:
                refused.append(result.stderr.strip())
                continue
            answer = json.loads(result.stdout)
            dropped = {each["decision"]: each["framework"] for each in answer["dropped"]}
            count += 1
            want = expected(plan, dropped)
            version, got = RESOLVERS[target](out)
            for field, value in got.items():
                if want.get(field, value) != value:
                    wrong += 1
                    print(f"{target}: {field}: plan {want[field]!r}, {target} {value!r}: "
                          f"zero {plan['zero_stage']} tp {plan['parallel']['tp']} "
                          f"optimizer {plan['placement']['optimizer']}", flush=True)
            with open(os.path.join(out, FILES[target]), encoding="utf-8") as file:
                key = hashlib.sha256(file.read().encode()).hexdigest()[:16]
            saved[key] = got
    print(f"{target} {version}: {count} plans, {len(saved)} different configurations, "
          f"{wrong} fields differ")
    for line in sorted(set(refused)):
        print(f"no plan, {refused.count(line)} times: {line}")
    if arguments.save:
        with open(arguments.save, "w", encoding="utf-8") as file:
            json.dump({"target": target, "version": version, "plans": count, "resolved": saved},
                      file, indent=1, sort_keys=True)
            file.write("\n")
    return 1 if wrong or count < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
