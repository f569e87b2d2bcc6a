#!/usr/bin/env python3
"""What a config.json leaves out: the defaults of transformers' classes, by model_type.

  hugging_face_defaults.py --write FILE  writes planner/foreign/hugging_face/defaults.json
  hugging_face_defaults.py --check FILE  compares it with the transformers that is installed, which
                                         must be of the version in the file; exit code 77 where
                                         there is none (pip install transformers torch)
  hugging_face_defaults.py --count DIR   parameters of the model that transformers builds from each
                                         *.json of a folder, on the meta device; with those of its
                                         counts.json that differ the exit code is 1
  hugging_face_defaults.py --save DIR    writes each file of DIR/transformers5 anew, as transformers
                                         writes what it has read from DIR

The defaults are those of the classes' fields: what a class derives from other fields is null there,
and is derived by planner/foreign/hugging_face itself. Only keys that it reads are written.
"""

import argparse
import dataclasses
import json
import os
import sys
import tempfile

SKIPPED = 77
MODEL_TYPES = """
    bamba bert blenderbot bloom camembert deepseek_v2 deepseek_v3 dots1 ernie4_5 ernie4_5_moe gemma
    gemma2 gemma3_text glm4_moe gpt2 gpt_neox gpt_oss granitemoehybrid llama llama4_text mamba2
    ministral3 mistral mixtral mt5 nemotron_h opt phi3 qwen2 qwen2_5_vl_text qwen2_moe qwen2_vl_text
    qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen3_vl_moe_text qwen3_vl_text roberta
    t5 xlm-roberta
""".split()
KEYS = """
    activation_dropout activation_function attention_bias attention_chunk_size attention_dropout
    attention_multiplier attention_probs_dropout_prob attn_layer_indices attn_logit_softcapping
    attn_pdrop chunk_size clip_qkv conv_kernel d_ff d_kv d_model decoder_attention_heads
    decoder_ffn_dim decoder_layers decoder_sparse_step do_layer_norm_before dropout dropout_rate
    embd_pdrop embedding_multiplier enable_bias encoder_attention_heads encoder_ffn_dim
    encoder_layers feed_forward_proj ffn_dim final_logit_softcapping first_k_dense_replace head_dim
    hidden_act hidden_activation hidden_dropout hidden_dropout_prob hidden_size
    interleave_moe_layer_step intermediate_size intermediate_size_mlp kv_lora_rank layer_norm_eps
    layer_norm_epsilon layer_types layers_block_type linear_conv_kernel_dim linear_key_head_dim
    linear_num_key_heads linear_num_value_heads linear_value_head_dim logits_scaling
    mamba_chunk_size mamba_conv_bias mamba_d_conv mamba_d_head mamba_d_state mamba_expand
    mamba_head_dim mamba_n_groups mamba_n_heads mamba_num_heads mamba_proj_bias
    max_position_embeddings max_window_layers mlp_bias mlp_hidden_act mlp_only_layers
    moe_intermediate_size moe_k moe_latent_size moe_layer_end_index moe_layer_start_index
    moe_num_experts moe_num_shared_experts moe_shared_expert_intermediate_size n_embd n_group
    n_groups n_head n_inner n_layer n_positions n_routed_experts n_shared_experts norm_topk_prob
    num_attention_heads num_decoder_layers num_experts num_experts_per_tok num_heads
    num_hidden_layers num_key_value_heads num_layers num_local_experts position_embedding_type
    q_lora_rank qk_nope_head_dim qk_rope_head_dim qkv_bias query_pre_attn_scalar
    relative_attention_max_distance relative_attention_num_buckets resid_pdrop residual_multiplier
    rms_norm_eps routed_scaling_factor router_aux_loss_coef scale_embedding
    shared_expert_intermediate_size shared_intermediate_size sliding_window ssm_state_size
    state_size swiglu_alpha swiglu_limit tie_word_embeddings topk_group topk_method type_vocab_size
    use_bias use_conv_bias use_parallel_residual use_qk_norm use_sliding_window v_head_dim
    vocab_size word_embed_proj_dim
""".split()
USUAL_THETA = 10000.0  # of a class that names none


def theta_of(kind):
    theta = getattr(kind, "default_theta", USUAL_THETA)
    if isinstance(theta, dict):  # of layers without and with a window
        return {"rope_theta": theta["global"], "rope_local_base_freq": theta["local"]}
    return {"rope_theta": theta}


def defaults_of(kind):
    fields = {field.name: field.default for field in dataclasses.fields(kind)}
    found = {key: fields[key] for key in KEYS
             if key in fields and fields[key] is not dataclasses.MISSING}  # fmt: skip
    if "rope_parameters" in fields:
        found |= theta_of(kind)
    return dict(sorted(found.items()))


def document():
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return {
        "schema": "zplan.hugging_face/1",
        "transformers": transformers.__version__,
        "model_types": {name: defaults_of(CONFIG_MAPPING[name]) for name in MODEL_TYPES},
    }


def text_of(found):
    types = found["model_types"].items()
    rows = ",\n".join(f'  "{name}": {json.dumps(row)}' for name, row in types)
    return (f'{{\n "schema": "{found["schema"]}",\n "transformers": "{found["transformers"]}",\n'
            f' "model_types": {{\n{rows}\n }}\n}}\n')  # fmt: skip


def check(path):
    with open(path, encoding="utf-8") as file:
        there = json.load(file)
    found = document()
    if found["transformers"] != there["transformers"]:
        print(f"skipped: {path} is of transformers {there['transformers']}, "
              f"{found['transformers']} is installed")  # fmt: skip
        return SKIPPED
    wrong = [name for name in MODEL_TYPES
             if there["model_types"].get(name) != found["model_types"][name]]  # fmt: skip
    for name in wrong:
        print(f"{path}: {name}: expected {json.dumps(found['model_types'][name])}")
    return 1 if wrong else 0


def count_of(path):
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM
    from transformers import AutoModelForSeq2SeqLM

    with open(path, encoding="utf-8") as file:
        fields = json.load(file)
    fields = fields.get("text_config") or fields
    fields.pop("quantization_config", None)
    fields.pop("auto_map", None)
    config = AutoConfig.for_model(**fields)
    masked = ("bert", "camembert", "roberta", "xlm-roberta")
    kind = dict.fromkeys(masked, AutoModelForMaskedLM) | dict.fromkeys(
        ("blenderbot", "mt5", "t5"), AutoModelForSeq2SeqLM)
    kind = kind.get(fields["model_type"], AutoModelForCausalLM)
    with torch.device("meta"):
        model = kind.from_config(config)
    tensors = {id(tensor): tensor for tensor in model.parameters()}
    # Of a router: a parameter in the published weights, a buffer in the class.
    for name, tensor in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            tensors[id(tensor)] = tensor
    head, table = model.get_output_embeddings(), model.get_input_embeddings()
    # T5's class ties both since transformers 5, whatever the file says.
    apart = fields.get("tie_word_embeddings") is False and head.weight is table.weight
    return sum(tensor.numel() for tensor in tensors.values()) + apart * table.weight.numel()


def count(folder):
    with open(os.path.join(folder, "counts.json"), encoding="utf-8") as file:
        published = json.load(file)["parameters"]
    wrong = 0
    for name in sorted(published):
        found = count_of(os.path.join(folder, name + ".json"))
        same = found == published[name]
        wrong += not same
        told = "" if same else f", counts.json has {published[name]}"
        print(f"{name}: {found}{told}", flush=True)
    return 1 if wrong else 0


def save(folder):
    from transformers import AutoConfig

    target = os.path.join(folder, "transformers5")
    for name in sorted(os.listdir(target)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            fields = json.load(file)
        for key in ("auto_map", "quantization_config"):  # which it would look into
            fields.pop(key, None)
        with tempfile.TemporaryDirectory() as written:
            AutoConfig.for_model(**fields).save_pretrained(written)
            with open(os.path.join(written, "config.json"), encoding="utf-8") as file:
                fields = json.load(file)
        with open(os.path.join(target, name), "w", encoding="utf-8") as file:
            json.dump(fields, file, indent=2, sort_keys=True)
            file.write("\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    action = parser.add_mutually_exclusive_group(required=True)
    for option in ("--write", "--check", "--count", "--save"):
        action.add_argument(option)
    arguments = parser.parse_args()
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        print(f"skipped: {error}")
        return SKIPPED
    if arguments.write:
        with open(arguments.write, "w", encoding="utf-8") as file:
            file.write(text_of(document()))
        return 0
    if arguments.save:
        return save(arguments.save)
    return check(arguments.check) if arguments.check else count(arguments.count)


if __name__ == "__main__":
    sys.exit(main())
