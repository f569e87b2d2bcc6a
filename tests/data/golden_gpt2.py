"""A tiny GPT-2 [Radford19] in the Hugging Face naming and layout (Conv1D weights are [in, out])."""

import math

import torch
import torch.nn.functional as functional

NAME = "golden_gpt2_tiny"
MODEL = {
    "layers": 2,
    "hidden": 32,
    "heads": 2,
    "ffn": 128,
    "vocab": 256,
    "seq": 16,
    "layer_norm_eps": 1e-5,
}


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files; the output head is wte."""
    h, f = MODEL["hidden"], MODEL["ffn"]
    shapes = {
        "transformer.wte.weight": (MODEL["vocab"], h),
        "transformer.wpe.weight": (MODEL["seq"], h),
    }

    def affine(name, weight, bias):
        shapes[name + ".weight"], shapes[name + ".bias"] = weight, bias

    for layer in range(MODEL["layers"]):
        block = f"transformer.h.{layer}."
        affine(block + "ln_1", (h,), (h,))
        affine(block + "attn.c_attn", (h, 3 * h), (3 * h,))
        affine(block + "attn.c_proj", (h, h), (h,))
        affine(block + "ln_2", (h,), (h,))
        affine(block + "mlp.c_fc", (h, f), (f,))
        affine(block + "mlp.c_proj", (f, h), (h,))
    affine("transformer.ln_f", (h,), (h,))
    return shapes


def init_std(name, std):
    """Of a matrix; two residual additions per layer [Radford19 2.3]."""
    return std / math.sqrt(2 * MODEL["layers"]) if name.endswith("c_proj.weight") else std


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + MODEL["layer_norm_eps"]) * gain + bias


def gelu(x):
    """Tanh form [Hendrycks16 2], as in GPT-2."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def attention(x, affine):
    b, s, h = x.shape
    q, k, v = (
        part.reshape(b, s, MODEL["heads"], -1).transpose(1, 2)  # [b, a, s, d]
        for part in affine(x, "attn.c_attn").split(h, dim=-1)
    )
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])  # [b, a, s, s]
    future = torch.ones(s, s, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return affine((weights @ v).transpose(1, 2).reshape(b, s, h), "attn.c_proj")


def logits_of(params, inputs):
    """Byte ids [b, s] -> logits [b, s, V]."""

    def pair(prefix):
        return params[prefix + ".weight"], params[prefix + ".bias"]

    wte = params["transformer.wte.weight"]
    x = wte[inputs] + params["transformer.wpe.weight"][: inputs.shape[1]]
    for layer in range(MODEL["layers"]):
        block = f"transformer.h.{layer}."

        def affine(value, part, block=block):
            weight, bias = pair(block + part)
            return value @ weight + bias

        x = x + attention(layer_norm(x, *pair(block + "ln_1")), affine)
        x = x + affine(gelu(affine(layer_norm(x, *pair(block + "ln_2")), "mlp.c_fc")), "mlp.c_proj")
    return layer_norm(x, *pair("transformer.ln_f")) @ wte.T


def check_operations():
    """The written-out operations equal those of torch.nn.functional."""
    torch.manual_seed(1)
    x, gain, bias = (torch.randn(size, dtype=torch.float64) for size in ((3, 5, 32), (32,), (32,)))
    torch.testing.assert_close(
        layer_norm(x, gain, bias),
        functional.layer_norm(x, (32,), gain, bias, MODEL["layer_norm_eps"]),
    )
    torch.testing.assert_close(gelu(x), functional.gelu(x, approximate="tanh"))
    qkv = torch.randn(2, 5, 96, dtype=torch.float64)
    q, k, v = (
        part.reshape(2, 5, MODEL["heads"], -1).transpose(1, 2) for part in qkv.split(32, dim=-1)
    )
    heads = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(
        attention(qkv[..., :32], lambda value, part: qkv if part == "attn.c_attn" else value),
        heads.transpose(1, 2).reshape(2, 5, 32),
    )
