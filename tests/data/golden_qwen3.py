"""A tiny Qwen3 [Yang25]: a Llama (golden_llama.py) whose queries and keys are normalised by head
before they are rotated, with heads of a size of their own. Layout and names are those of
golden_llama.py, with the gains q_norm and k_norm [d] of all heads.
"""

import golden_llama
import torch
import torch.nn.functional as functional
from golden_llama import causal, decoder_logits, init_std, rope

__all__ = ["init_std"]

NAME = "golden_qwen3_tiny"
MODEL = {**golden_llama.MODEL, "head_size": 12, "qk_norm": True}
HEADS, GROUPS, HEAD_SIZE = MODEL["heads"], MODEL["kv_heads"], MODEL["head_size"]


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files."""
    h, f = MODEL["hidden"], MODEL["ffn"]
    shapes = {"model.embed_tokens.weight": (MODEL["vocab"], h)}
    for layer in range(MODEL["layers"]):
        block = f"model.layers.{layer}."
        shapes[block + "input_layernorm.weight"] = (h,)
        shapes[block + "self_attn.qkv_proj.weight"] = (h, (HEADS + 2 * GROUPS) * HEAD_SIZE)
        shapes[block + "self_attn.q_norm.weight"] = (HEAD_SIZE,)
        shapes[block + "self_attn.k_norm.weight"] = (HEAD_SIZE,)
        shapes[block + "self_attn.o_proj.weight"] = (HEADS * HEAD_SIZE, h)
        shapes[block + "post_attention_layernorm.weight"] = (h,)
        shapes[block + "mlp.gate_up_proj.weight"] = (h, 2 * f)
        shapes[block + "mlp.down_proj.weight"] = (f, h)
    shapes["model.norm.weight"] = (h,)
    shapes["lm_head.weight"] = (MODEL["vocab"], h)
    return shapes


def attention(x, multiply, norm):
    b, s, _ = x.shape
    widths = [count * HEAD_SIZE for count in (HEADS, GROUPS, GROUPS)]
    q, k, v = (
        part.reshape(b, s, -1, HEAD_SIZE).transpose(1, 2)  # [b, a or g, s, d]
        for part in multiply(x, "self_attn.qkv_proj").split(widths, dim=-1)
    )
    q, k = rope(norm(q, "self_attn.q_norm")), rope(norm(k, "self_attn.k_norm"))
    k, v = (part.repeat_interleave(HEADS // GROUPS, dim=1) for part in (k, v))
    return multiply(causal(q, k, v), "self_attn.o_proj")


def logits_of(params, inputs):
    return decoder_logits(attention, params, inputs)


# Checks -------------------------------------------------------------------------------------------


def check_operations():
    """Attention equals torch's own on normalised queries and keys."""
    torch.manual_seed(2)
    b, s, d = 2, 7, HEAD_SIZE
    params = {n: torch.randn(v, dtype=torch.float64) for n, v in tensor_shapes().items()}
    x = torch.randn(b, s, MODEL["hidden"], dtype=torch.float64)
    block = "model.layers.0.self_attn."

    def multiply(value, part):
        return value @ params["model.layers.0." + part + ".weight"]

    def norm(value, part):
        return functional.rms_norm(
            value, (d,), params["model.layers.0." + part + ".weight"], MODEL["rms_norm_eps"]
        )

    q, k, v = (x @ params[block + "qkv_proj.weight"]).reshape(b, s, -1, d).transpose(1, 2).split(
        [HEADS, GROUPS, GROUPS], dim=1
    )
    expected = functional.scaled_dot_product_attention(
        rope(norm(q, "self_attn.q_norm")),
        rope(norm(k, "self_attn.k_norm")),
        v,
        is_causal=True,
        enable_gqa=True,
    )
    expected = expected.transpose(1, 2).reshape(b, s, -1) @ params[block + "o_proj.weight"]
    torch.testing.assert_close(attention(x, multiply, norm), expected)
