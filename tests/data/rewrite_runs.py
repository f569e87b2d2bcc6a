#!/usr/bin/env python3
"""Rewrites transcribed records of training runs as zplan.runs/2.

The input is zplan.runs/1 with one more member, "extra", of facts that it has no key for, and with
null where the source does not say something. Each fact goes to the key of zplan.runs/2 that says
it; what the source printed beside times and memory goes to measured/also_printed, and remarks on
where a fact is from to the note. A fact or a value that has no place ends the program with an
error: nothing is dropped.

    rewrite_runs.py FILE.jsonl .. > expert_runs.jsonl
"""

import json
import re
import sys


class NoPlace(Exception):
    """A fact that no key says."""


TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "fp32": "fp32", "bf16": "bf16",
         "fp16": "fp16", "fp8": "fp8", "uint8": "int8", "int8": "int8",
         "fp32 (the weights themselves)": "fp32"}

# Words of a citation, and the software and libraries that they name; the first that is there.
SOFTWARE = (("NeMo AutoModel", "NeMo AutoModel", ["FSDP"]),
            ("Megatron-Bridge", "Megatron-Bridge", ["Megatron-Core"]),
            ("Megatron-MoE-ModelZoo", "Megatron-Core", None),
            ("Megatron-LM", "Megatron-LM", None),
            ("prime-rl", "prime-rl", ["FSDP"]),
            ("torchtitan", "torchtitan", None),
            ("DeepSpeed", "DeepSpeed", None),
            ("JAX paxml", "paxml", None))

# Facts whose value stays as it is, and where it goes.
MOVED = {
    "a2a_overlap": "overlap/exchange",
    "activation": "model/activation",
    "attention_layers": "model/attention_layers",
    "attention_output_gate": "model/attention_output_gate",
    "attention_sinks": "model/attention_sinks",
    "capacity_factor": "experts/capacity_factor",
    "compiled": "software/compiled",
    "delay_wgrad": "overlap/weight_gradients",
    "deterministic": "software/deterministic",
    "dispatcher": "experts/dispatcher",
    "dropless": "experts/dropless",
    "ep_in_nvlink_domain": "experts/in_nvlink_domain",
    "expert_dp": "experts/dp",
    "expert_rank_capacity": "experts/rank_capacity",
    "expert_shard_group": "experts/shard_group",
    "expert_tp": "experts/tp",
    "first_dense_layers": "model/experts/dense_layers",
    "fp8_activations": "precision/fp8/activations",
    "fp8_attention": "precision/fp8/attention",
    "fp8_lm_head": "precision/fp8/lm_head",
    "fp8_param_gather": "precision/fp8/gathers",
    "fp8_recipe": "precision/fp8/recipe",
    "fp4_recipe": "precision/fp8/recipe",
    "fused_grouped_mlp": "experts/fused_mlp",
    "fused_lm_head_chunk_tokens": "kernels/head_chunk_tokens",
    "gradient_clipping": "optimizer/clip",
    "grouped_gemm": "experts/grouped_gemm",
    "hash_routed_layers": "model/experts/hash_routed_layers",
    "hybrid_pattern": "model/hybrid_pattern",
    "hybridep_sms": "experts/communication_sms",
    "hyper_connections": "model/hyper_connections",
    "moe_latent_size": "model/experts/latent_size",
    "mtp_layers": "model/mtp/layers",
    "mtp_pattern": "model/mtp/pattern",
    "mtp_repeated": "model/mtp/repeated",
    "nvlink_block_gpus": "hardware/nvlink_domain",
    "network": "hardware/network",
    "optimizer_instances": "parallel/optimizer_instances",
    "out_of_memory_by_fragmentation": "measured/out_of_memory_by_fragmentation",
    "padded_vocab": "model/padded_vocab",
    "paged_stash": "experts/paged_stash",
    "permute_fused_into_dispatch": "experts/permute_fused",
    "permute_fusion": "experts/permute_fused",
    "pipeline_flushes": "pipeline/flushes",
    "qk_norm": "model/qk_norm",
    "reshard_after_forward": "parallel/reshard_after_forward",
    "rotary_fraction": "model/rotary_fraction",
    "shared_expert_gate": "model/experts/shared_gate",
    "shared_expert_overlap": "overlap/shared_expert",
    "weight_gradient_split": "overlap/weight_gradients",
}

# Figures that the source prints beside those that are compared.
PRINTED = {
    "allocated_between_steps_bytes": "{} bytes held between steps",
    "memory_gb_printed": "{} GB",
    "memory_percent_printed": "{} % of the memory",
    "mfu_printed": "{} % MFU",
    "model_tflops_printed": "{} TFLOP/s per GPU of the model",
    "peak_first_bytes": "{} bytes at the peak of the first step",
    "step_time_std": "{} s standard deviation of the step",
    "tokens_per_s_per_gpu_printed": "{} tokens/s per GPU",
    "tokens_per_s_printed": "{} tokens/s",
}

# Remarks on where facts are from.
REMARKS = {
    "config_layers_per_stage": "{} layers of a stage in the configuration",
    "container": "{}",
    "facts_of": "facts of {}",
    "fsdp_optimization": "option of FSDP's optimisations: {}",
    "gpus_derived": "number of GPUs derived: {}",
    "local_batch": "local batch {}",
    "log_parameter_norm": "norm of parameters logged: {}",
    "newest_round_of_configuration": "newest round of its configuration: {}",
    "published_mtp_layers": "{} modules of multi-token prediction are published",
    "tested_revision": "tested with {}",
    "timestamp": "of {}",
}

ATTENTION = {"flash_attention_2": "flash_2", "flash_attention_3": "flash_3", "torch SDPA": "sdpa",
             "flash_attention_4": "flash_4", "flex attention": "flex", "flash": "flash",
             "unfused": "unfused", "fused": "cudnn", "local": "unfused", "te": "te"}
MODULES = {"norms (each module alone)": "norm", "layer inputs": "layer_inputs"}
SEVERAL = {"fused_group_mlp": ["expert_fc1", "moe_act"]}


class Record:
    """A record in the making: values by pointer."""

    def __init__(self):
        self.values = {"schema": "zplan.runs/2"}
        self.printed = []
        self.remarks = []
        self.reads = None  # type of the gradients that the optimizer reads

    def put(self, pointer, value):
        if value is None:
            return
        at = self.values
        *objects, key = pointer.split("/")
        for name in objects:
            at = at.setdefault(name, {})
        if key in at and at[key] != value:
            raise NoPlace(f"{pointer}: {at[key]!r} and {value!r}")
        at[key] = value

    def get(self, pointer):
        at = self.values
        for name in pointer.split("/"):
            at = at.get(name) if isinstance(at, dict) else None
        return at


def word(words, value, what):
    if value not in words:
        raise NoPlace(f"{what}: {value!r}")
    return words[value]


def modules(values):
    out = []
    for value in values:
        out += SEVERAL.get(value, [MODULES.get(value, value)])
    return out


def graphs(out, value):
    if isinstance(value, bool):
        value = {"impl": "local" if value else "none"}
    if value["impl"] not in ("none", "full_iteration", "transformer_engine", "local"):
        raise NoPlace(f"cuda_graphs {value!r}")
    scope = value.get("scope") or None
    out.put("software/cuda_graphs", value["impl"] != "none")
    if value["impl"] not in ("none", "full_iteration"):
        out.put("software/graphed_modules", [scope] if isinstance(scope, str) else scope)


def optimizer(out, value):
    for key, given in value.items():
        if key == "kind":
            out.put("optimizer/kind", given.removeprefix("fused "))
            if given.startswith("fused "):
                out.put("software/foreach_update", False)
        elif key == "precision_aware":
            out.put("optimizer/precision_aware", given)
        elif key == "grads":
            out.reads = given and word(TYPES, given, "optimizer grads")
        elif key in ("master", "moments"):
            out.put(f"precision/{key}", given and word(TYPES, given, f"optimizer {key}"))
            if given == "fp32 (the weights themselves)":
                out.put("precision/params", "fp32")
        elif key in ("cpu_offload", "cpu_offload_fraction", "offload_fraction"):
            out.put("optimizer/cpu_fraction", 1 if given is True else given or None)
        else:
            raise NoPlace(f"optimizer {key}")


def routing(out, value):
    loss = re.fullmatch(r"trained router \((\w+)\)", value)
    if loss:
        out.put("experts/routing", "trained")
        out.put("model/experts/load_balancing", loss.group(1))
    elif re.fullmatch(r"trained( router)?(, .*)?", value):
        out.put("experts/routing", "trained")
        if "," in value:
            out.put("sequences/data", value.split(", ", 1)[1])
    elif re.fullmatch(r"forced balance( \(\w+\))?", value):
        out.put("experts/routing", "balanced")
    elif value.startswith("random"):
        out.put("experts/routing", "random")
    else:
        raise NoPlace(f"routing {value!r}")


def latent(out, value):
    names = {"q_lora": "query_rank", "kv_lora": "key_value_rank", "qk_nope": "nope_size",
             "qk_rope": "rope_size", "v": "value_size"}
    for key, given in value.items():
        out.put(f"model/mla/{word(names, key, 'mla')}", given)


def sparse(out, value):
    names = {"q_lora": "query_rank", "qk_rope": "rope_size", "o_lora": "output_rank",
             "o_groups": "output_groups", "window": "window", "index_heads": "index_heads",
             "index_head_dim": "index_head_dim", "index_topk": "index_top_k",
             "compress_ratios": "compress_ratios"}
    out.put("model/sparse_attention/kind", "csa")
    for key, given in value.items():
        if key == "mtp_ratio" and not given:
            continue
        out.put(f"model/sparse_attention/{word(names, key, 'sparse attention')}", given)


def of_object(pointer):
    def put(out, value):
        for key, given in value.items():
            out.put(f"{pointer}/{key}", given)
    return put


def lora(out, value):
    for key, given in value.items():
        if key == "targets":
            given = (["all"] if given.startswith("all ")
                     else re.findall(r"\w+", given.removesuffix(" projections")))
        out.put(f"trained/lora/{key}", given)
    out.put("trained/what", "lora")


def window(out, value):
    out.put("model/window/tokens", value["window"])
    out.put("model/window/window_layers", 1)
    out.put("model/window/full_layers", value["alternate"] - 1)


def frequency(out, value):
    """Layers with experts, of which the first ones may have none: "1", "([0]*3+[1]*11)"."""
    if value == "1":
        return
    some = re.fullmatch(r"\(\[0\]\*(\d+)\+\[1\]\*(\d+)\)", value)
    if not some:
        raise NoPlace(f"moe_layer_freq {value!r}")
    out.put("model/experts/dense_layers", int(some.group(1)))


def unrolled(layout):
    """(tt|)*6 -> tt| six times, t*3 -> ttt."""
    layout = re.sub(r"\(([^()]*)\)\*(\d+)", lambda m: m.group(1) * int(m.group(2)), layout)
    return re.sub(r"(\w)\*(\d+)", lambda m: m.group(1) * int(m.group(2)), layout)


def layout(out, value):
    if "account-for-embedding" in value:
        out.put("pipeline/ends_count_as_layers", True)
        return
    out.put("pipeline/layout", value)
    if not re.fullmatch(r"[EtmL|()*\d]+", value):
        return  # of layers of several kinds
    out.put("pipeline/stage_layers", [piece.count("t") for piece in unrolled(value).split("|")])


def sharding(out, value):
    for key, given in value.items():
        if key == "kind":
            out.put("parallel/sharding_software", given.lower().replace(" ", "_"))
        elif key == "instances":
            out.put("parallel/optimizer_instances", given)
        elif key in ("strategy", "outer"):
            out.remarks.append(f"sharding {key} {given}")
        else:
            raise NoPlace(f"fsdp {key}")


def packing(out, value):
    out.put("sequences/packed", bool(value))
    if isinstance(value, str):
        out.put("sequences/data", value)


def times(out, value):
    out.printed.append(f"iteration of {value['median']} s, median of {value['count']}, least "
                       f"{value['least']}")


def put_word(pointer, words):
    return lambda out, value: out.put(pointer, word(words, value, pointer))


SPECIAL = {
    "activation_offload": lambda out, value: out.put("offload/activation_modules",
                                                     modules(value) or None),
    "attention": put_word("kernels/attention", ATTENTION),
    "attention_backend": put_word("kernels/attention", ATTENTION),
    "attention_recipe": put_word("precision/fp8/attention", {"bf16": False, "fp8": True,
                                                            "mxfp8": True, "nvfp4": True}),
    "attention_window": window,
    "biases": put_word("model/biases", {True: "all", False: "none"}),
    "qkv_biases": put_word("model/biases", {True: "qkv", False: "none"}),
    "compressed_sparse_attention": sparse,
    "cp_communication": put_word("parallel/cp_communication", {
        "p2p": "p2p", "ring": "ring", "a2a": "a2a", "ulysses": "ulysses", "a2a+p2p": "a2a+p2p",
        "allgather": "all_gather", "all_gather": "all_gather"}),
    "cuda_graphs": graphs,
    "data": lambda out, value: out.put("sequences/data", value),
    "experts": put_word("experts/grouped_gemm", {"grouped mm": True, "grouped GEMM": True,
                                                 "torch grouped mm": True, "loop": False}),
    "framework": lambda out, value: out.remarks.append(value),
    "fsdp": sharding,
    "grad_reduce_dtype": put_word("precision/reduction", TYPES),
    "iteration_time_s": times,
    "linear_attention": of_object("model/linear_attention"),
    "lora": lora,
    "loss": put_word("kernels/cross_entropy", {"fused linear cross-entropy": "linear"}),
    "mamba": of_object("model/mamba"),
    "mla": latent,
    "moe_layer_freq": frequency,
    "optimizer": optimizer,
    "packed": packing,
    "pipeline_algorithm": put_word("pipeline/schedule", {
        "1f1b": "1f1b", "1F1B": "1f1b", "GPipe": "gpipe", "gpipe": "gpipe",
        "interleaved": "interleaved", "interleaved1f1b": "interleaved",
        "Interleaved1F1B": "interleaved", "ZBVZeroBubble": "zb-v", "DualPipeV": "dualpipe-v"}),
    "pipeline_layout": layout,
    "prefetch": put_word("parallel/prefetch", {True: 1, False: 0}),
    "recompute_modules": lambda out, value: out.put("recompute/modules", modules(value)),
    "router_dtype": put_word("experts/router_type", TYPES),
    "routing": routing,
    "task": put_word("trained/objective", {"SFT, all weights": "sft", "SFT": "sft", "pretrain": "pretrain",
                                               "pretraining": "pretrain"}),
    "training": put_word("trained/objective", {"rl": "rl", "sft": "sft", "pretrain": "pretrain",
                                                   "dpo": "dpo"}),
    "virtual_stages": lambda out, value: out.put("pipeline/virtual_stages", value),
}


def put_extra(out, extra):
    for key, value in extra.items():
        if value is None:
            continue
        if key in MOVED:
            out.put(MOVED[key], value)
        elif key in PRINTED:
            out.printed.append(PRINTED[key].format(value))
        elif key in REMARKS:
            out.remarks.append(REMARKS[key].format(value))
        elif key in SPECIAL:
            SPECIAL[key](out, value)
        else:
            raise NoPlace(f"extra/{key}")


# Members of the first form that have another place in the second.
PLACES = {
    "model/experts": "model/experts/count", "model/top_k": "model/experts/top_k",
    "model/expert_ffn": "model/experts/ffn",
    "model/shared_expert_ffn": "model/experts/shared_ffn",
    "model/moe_layers": "model/experts/layers",
    "parallel/interleave": "pipeline/virtual_stages", "parallel/schedule": "pipeline/schedule",
    "parallel/overlap_grad_reduce": "overlap/grad_reduce",
    "parallel/overlap_param_gather": "overlap/param_gather",
    "parallel/tp_comm_overlap": "overlap/tensor_parallel",
    "recompute": "recompute/mode", "recompute_detail": "recompute/detail",
}
PLAIN = {"offload/params": "gpu", "offload/grads": "gpu", "offload/optimizer": "gpu",
         "offload/activations": "gpu", "offload/delayed_update": False,
         "measured/out_of_memory": False}


def put_members(out, record, prefix=""):
    for key, value in record.items():
        pointer = prefix + key
        if isinstance(value, dict):
            put_members(out, value, pointer + "/")
        elif pointer not in ("note", "flash_attention") and PLAIN.get(pointer) != value:
            out.put(PLACES.get(pointer, pointer), value)


def put_software(out, record):
    for words, name, libraries in SOFTWARE:
        if words in record["source"]:
            out.put("software/name", name)
            out.put("software/libraries", libraries)
            return
    raise NoPlace(f"software of {record['source']!r}")


def put_memory(out, record):
    if record["measured"]["memory_gib"] is None:
        return
    text = json.dumps(record)
    unit = record["measured"]["printed"]["unit"] or ""
    rank = ("last" if "last rank" in unit + text else
            "first" if re.search(r"\brank 0\b", text) and "DOUBT" not in text else "unknown")
    out.put("measured/memory_rank", rank)


def rewritten(record):
    record = dict(record)
    extra = record.pop("extra", {})
    out = Record()
    put_members(out, record)
    put_software(out, record)
    put_memory(out, record)
    put_extra(out, extra)
    # Megatron-LM's buffers of gradients have the type that they are reduced in.
    reduced = out.get("precision/reduction")
    if out.reads == reduced or not reduced:
        out.put("precision/gradients", out.reads)
    elif out.reads:
        out.remarks.append(f"the optimizer reads gradients in {out.reads}")
    if out.get("kernels/attention") is None and record.get("flash_attention") is not None:
        out.put("kernels/attention", "fused" if record["flash_attention"] else "unfused")
    out.put("measured/also_printed", out.printed or None)
    out.put("note", "; ".join(filter(None, [record.get("note"), *out.remarks])) or None)
    return out.values


def main():
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                record = json.loads(line)
                try:
                    print(json.dumps(rewritten(record), ensure_ascii=False))
                except NoPlace as error:
                    sys.exit(f"{path}:{number}: {record['id']}: no place for {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
