"""A tiny model with the multi-head latent attention of DeepSeek-V2 [DeepSeek24 sec 2.1].

Its MLP is dense. Names are those of the Hugging Face DeepSeek-V2, weights of linear layers are
[in, out]. What that library has side by side in kv_a_proj_with_mqa is two matrices here, as in the
paper: kv_a_proj gives the latent (W^DKV), k_rope_proj the shared part of the keys (W^KR). Rotary
positions turn the pairs (i, i + r/2), not (2i, 2i + 1).
"""

import golden_llama
import torch
import torch.nn.functional as functional
from golden_llama import causal, decoder_logits, init_std, rms_norm, rope

__all__ = ["init_std"]

NAME = "golden_mla_tiny"
MODEL = {
    **{key: value for key, value in golden_llama.MODEL.items() if key != "kv_heads"},
    "q_lora_rank": 20,
    "kv_lora_rank": 12,
    "qk_nope_head_size": 6,
    "qk_rope_head_size": 4,
    "v_head_size": 5,
}
HEADS, NOPE, ROPE = MODEL["heads"], MODEL["qk_nope_head_size"], MODEL["qk_rope_head_size"]
VALUE = MODEL["v_head_size"]


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files."""
    h, f, q, kv = (MODEL[key] for key in ("hidden", "ffn", "q_lora_rank", "kv_lora_rank"))
    shapes = {"model.embed_tokens.weight": (MODEL["vocab"], h)}
    for layer in range(MODEL["layers"]):
        block = f"model.layers.{layer}."
        shapes[block + "input_layernorm.weight"] = (h,)
        shapes[block + "self_attn.q_a_proj.weight"] = (h, q)
        shapes[block + "self_attn.q_a_layernorm.weight"] = (q,)
        shapes[block + "self_attn.kv_a_proj.weight"] = (h, kv)
        shapes[block + "self_attn.kv_a_layernorm.weight"] = (kv,)
        shapes[block + "self_attn.k_rope_proj.weight"] = (h, ROPE)
        shapes[block + "self_attn.q_b_proj.weight"] = (q, HEADS * (NOPE + ROPE))
        shapes[block + "self_attn.kv_b_proj.weight"] = (kv, HEADS * (NOPE + VALUE))
        shapes[block + "self_attn.o_proj.weight"] = (HEADS * VALUE, h)
        shapes[block + "post_attention_layernorm.weight"] = (h,)
        shapes[block + "mlp.gate_up_proj.weight"] = (h, 2 * f)
        shapes[block + "mlp.down_proj.weight"] = (f, h)
    shapes["model.norm.weight"] = (h,)
    shapes["lm_head.weight"] = (MODEL["vocab"], h)
    return shapes


def queries_keys_values(x, multiply, norm):
    """[b, a, s, nope + rope], the same, [b, a, s, v]"""
    b, s, _ = x.shape
    latent = norm(multiply(x, "self_attn.q_a_proj"), "self_attn.q_a_layernorm")
    q = multiply(latent, "self_attn.q_b_proj").reshape(b, s, HEADS, NOPE + ROPE).transpose(1, 2)
    q_nope, q_rope = q.split([NOPE, ROPE], dim=-1)
    latent = norm(multiply(x, "self_attn.kv_a_proj"), "self_attn.kv_a_layernorm")
    kv = multiply(latent, "self_attn.kv_b_proj").reshape(b, s, HEADS, NOPE + VALUE).transpose(1, 2)
    k_nope, v = kv.split([NOPE, VALUE], dim=-1)
    k_rope = rope(multiply(x, "self_attn.k_rope_proj").unsqueeze(1)).expand(b, HEADS, s, ROPE)
    return torch.cat((q_nope, rope(q_rope)), dim=-1), torch.cat((k_nope, k_rope), dim=-1), v


def attention(x, multiply, norm):
    q, k, v = queries_keys_values(x, multiply, norm)
    return multiply(causal(q, k, v), "self_attn.o_proj")


def logits_of(params, inputs):
    return decoder_logits(attention, params, inputs)


# Checks -------------------------------------------------------------------------------------------


def check_operations():
    """Attention equals torch's own on the same queries, keys and values."""
    torch.manual_seed(3)
    params = {n: torch.randn(v, dtype=torch.float64) for n, v in tensor_shapes().items()}
    x = torch.randn(2, 7, MODEL["hidden"], dtype=torch.float64)

    def multiply(value, part):
        return value @ params["model.layers.0." + part + ".weight"]

    def norm(value, part):
        return rms_norm(value, params["model.layers.0." + part + ".weight"])

    q, k, v = queries_keys_values(x, multiply, norm)
    out = functional.scaled_dot_product_attention(
        q, k, v, is_causal=True, scale=(NOPE + ROPE) ** -0.5
    )
    expected = multiply(out.transpose(1, 2).reshape(2, 7, -1), "self_attn.o_proj")
    torch.testing.assert_close(attention(x, multiply, norm), expected)
