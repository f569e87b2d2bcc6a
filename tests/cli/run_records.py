"""A published run as `zplan validate` reads it (zplan.runs/1), for tests to change."""


def record(**changes):
    """A record in order; changes are by path, "parallel.tp"."""
    run = {
        "id": "a/1", "group": "a", "source": "Somebody, Fast training (2023)",
        "confidence": "stored", "recalled": [],
        "hardware": {"device": "a100_sxm4_80gb", "system": None, "gpus_per_node": 8, "nodes": 1,
                     "gpus": 8, "scale_out_gb_s_per_gpu": None},
        "model": {"name": "GPT", "family": "gpt", "layers": 4, "hidden": 1024, "heads": 8,
                  "kv_heads": 8, "head_dim": 128, "ffn": 4096, "gated_ffn": False, "vocab": 51200,
                  "seq": 1024, "tied_embeddings": True, "position": "learned",
                  "norm": "layernorm", "dropout": None, "experts": None, "top_k": None,
                  "expert_ffn": None, "shared_expert_ffn": None, "moe_layers": None,
                  "params": None},
        "parallel": {"tp": 2, "sequence_parallel": False, "pp": 1, "interleave": 1, "cp": 1,
                     "ep": 1, "dp": 4, "zero_stage": 0, "shard_group": None,
                     "overlap_grad_reduce": False, "overlap_param_gather": None,
                     "tp_comm_overlap": None, "schedule": None},
        "offload": {"params": "gpu", "grads": "gpu", "optimizer": "gpu", "activations": "gpu",
                    "delayed_update": False},
        "precision": {"compute": "bf16", "param_bytes": None, "grad_bytes": None,
                      "optimizer_bytes_per_param": None},
        "micro_batch": 4, "global_batch": 64, "flash_attention": False, "recompute": "full",
        "recompute_detail": None,
        "measured": {"step_time_s": 0.5, "step_time_kind": "measured",
                     "printed": {"value": 0.5, "unit": "s"}, "memory_gib": None,
                     "memory_kind": None, "out_of_memory": False},
        "note": None,
    }  # fmt: skip
    for path, value in changes.items():
        *folders, name = path.split("__")
        at = run
        for folder in folders:
            at = at[folder]
        at[name] = value
    return run
