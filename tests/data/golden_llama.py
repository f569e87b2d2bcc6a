"""A tiny Llama [Touvron23] with grouped-query attention, in the Hugging Face naming.

Differs from that library's layout: weights of linear layers are [in, out], and products of the same
input are one matrix: qkv_proj [h, (a + 2g) d] with columns q, k, v and gate_up_proj [h, 2f] with
columns gate, up. lm_head.weight is [V, h]. g = key-value heads, f = width of the MLP.
"""

import importlib.util
import math

import torch
import torch.nn.functional as functional

NAME = "golden_llama_tiny"
MODEL = {
    "layers": 2,
    "hidden": 32,
    "heads": 4,
    "kv_heads": 2,
    "ffn": 88,
    "vocab": 256,
    "seq": 16,
    "rope_theta": 10000,
    "rms_norm_eps": 1e-5,
}
HEAD_SIZE = MODEL["hidden"] // MODEL["heads"]


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files."""
    h, f = MODEL["hidden"], MODEL["ffn"]
    shapes = {"model.embed_tokens.weight": (MODEL["vocab"], h)}
    for layer in range(MODEL["layers"]):
        block = f"model.layers.{layer}."
        qkv = (MODEL["heads"] + 2 * MODEL["kv_heads"]) * HEAD_SIZE
        shapes[block + "input_layernorm.weight"] = (h,)
        shapes[block + "self_attn.qkv_proj.weight"] = (h, qkv)
        shapes[block + "self_attn.o_proj.weight"] = (h, h)
        shapes[block + "post_attention_layernorm.weight"] = (h,)
        shapes[block + "mlp.gate_up_proj.weight"] = (h, 2 * f)
        shapes[block + "mlp.down_proj.weight"] = (f, h)
    shapes["model.norm.weight"] = (h,)
    shapes["lm_head.weight"] = (MODEL["vocab"], h)
    return shapes


def init_std(_name, std):
    """Of a matrix: all alike."""
    return std


def rms_norm(x, gain):
    """[Zhang19 Eq.4]"""
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + MODEL["rms_norm_eps"]) * gain


def rope(x):
    """Rotates pairs (i, i + d/2) of x [b, a, s, d] by position x theta^(-2i/d) [Su21 3.2.2]."""
    half = x.shape[-1] // 2
    exponents = torch.arange(half, dtype=torch.float64) * (-2.0 / x.shape[-1])
    frequencies = torch.pow(torch.tensor(MODEL["rope_theta"], dtype=torch.float64), exponents)
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * frequencies  # [s, d/2]
    first, second = x[..., :half], x[..., half:]
    rotated = (
        first * torch.cos(angles) - second * torch.sin(angles),
        second * torch.cos(angles) + first * torch.sin(angles),
    )
    return torch.cat(rotated, dim=-1)


def causal(q, k, v):
    """[b, a, s, d], the same, [b, a, s, v] -> [b, s, a v] [Vaswani17 Eq.1]."""
    b, _, s, d = q.shape
    scores = q @ k.transpose(-1, -2) / math.sqrt(d)  # [b, a, s, s]
    future = torch.ones(s, s, dtype=torch.bool).triu(1)
    weights = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1)
    return (weights @ v).transpose(1, 2).reshape(b, s, -1)


def attention(x, multiply, _norm):
    b, s, _ = x.shape
    heads, groups = MODEL["heads"], MODEL["kv_heads"]
    widths = [count * HEAD_SIZE for count in (heads, groups, groups)]
    q, k, v = (
        part.reshape(b, s, -1, HEAD_SIZE).transpose(1, 2)  # [b, a or g, s, d]
        for part in multiply(x, "self_attn.qkv_proj").split(widths, dim=-1)
    )
    k, v = (part.repeat_interleave(heads // groups, dim=1) for part in (rope(k), v))
    return multiply(causal(rope(q), k, v), "self_attn.o_proj")


def swiglu(x):
    """[Shazeer20 Eq.6]: silu(gate) * up."""
    gate, up = x.chunk(2, dim=-1)
    return gate * torch.sigmoid(gate) * up


def mlp(x, params, block):
    up = x @ params[block + "mlp.gate_up_proj.weight"]
    return swiglu(up) @ params[block + "mlp.down_proj.weight"]


def decoder_logits(attend, params, inputs, feed_forward=mlp, layers=MODEL["layers"]):
    """Byte ids [b, s] -> logits [b, s, V]. attend(x, multiply, norm): the attention of a layer;
    feed_forward(x, params, "model.layers.0."): what follows it."""
    x = params["model.embed_tokens.weight"][inputs]
    for layer in range(layers):
        block = f"model.layers.{layer}."

        def multiply(value, part, block=block):
            return value @ params[block + part + ".weight"]

        def norm(value, part, block=block):
            return rms_norm(value, params[block + part + ".weight"])

        x = x + attend(norm(x, "input_layernorm"), multiply, norm)
        x = x + feed_forward(norm(x, "post_attention_layernorm"), params, block)
    return rms_norm(x, params["model.norm.weight"]) @ params["lm_head.weight"].T


def logits_of(params, inputs):
    return decoder_logits(attention, params, inputs)


# Checks -------------------------------------------------------------------------------------------


def check_operations():
    """The written-out operations equal those of torch, the model that of transformers."""
    torch.manual_seed(1)
    x, gain = (torch.randn(size, dtype=torch.float64) for size in ((3, 5, 32), (32,)))
    expected = functional.rms_norm(x, (32,), gain, MODEL["rms_norm_eps"])
    torch.testing.assert_close(rms_norm(x, gain), expected)
    gate, up = x.split(16, dim=-1)
    torch.testing.assert_close(swiglu(x), functional.silu(gate) * up)
    check_rotation()
    if importlib.util.find_spec("transformers"):
        check_against_transformers()
    else:
        print("transformers is not installed: the whole model is not compared")


def check_rotation():
    """A pair is a complex number that position p turns by p theta^(-2i/d)."""
    x = torch.randn(2, 3, 5, HEAD_SIZE, dtype=torch.float64)
    half = HEAD_SIZE // 2
    pairs = torch.complex(x[..., :half], x[..., half:])
    for position in range(5):
        for i in range(half):
            angle = position * MODEL["rope_theta"] ** (-2 * i / HEAD_SIZE)
            pairs[..., position, i] *= complex(math.cos(angle), math.sin(angle))
    torch.testing.assert_close(rope(x), torch.cat((pairs.real, pairs.imag), dim=-1))


def published_layout(params):
    """Our parameters by the names and in the layout of transformers."""
    kv = MODEL["kv_heads"] * HEAD_SIZE
    cuts = {
        "qkv_proj": (("q_proj", "k_proj", "v_proj"), (MODEL["hidden"], kv, kv)),
        "gate_up_proj": (("gate_proj", "up_proj"), (MODEL["ffn"], MODEL["ffn"])),
    }
    result = {}
    for name, value in params.items():
        part = name.split(".")[-2]
        if part in cuts:
            for own, piece in zip(cuts[part][0], value.split(cuts[part][1], dim=-1)):
                result[name.replace(part, own)] = piece.T
        else:
            result[name] = value.T if part in ("o_proj", "down_proj") else value
    return result


def check_against_transformers():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=MODEL["vocab"],
        hidden_size=MODEL["hidden"],
        intermediate_size=MODEL["ffn"],
        num_hidden_layers=MODEL["layers"],
        num_attention_heads=MODEL["heads"],
        num_key_value_heads=MODEL["kv_heads"],
        max_position_embeddings=MODEL["seq"],
        rms_norm_eps=MODEL["rms_norm_eps"],
        rope_parameters={"rope_type": "default", "rope_theta": float(MODEL["rope_theta"])},
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    model = LlamaForCausalLM(config).double()
    shapes = tensor_shapes().items()
    params = {name: torch.randn(shape, dtype=torch.float64) / 4 for name, shape in shapes}
    model.load_state_dict(published_layout(params))
    inputs = torch.randint(MODEL["vocab"], (3, MODEL["seq"]))
    with torch.no_grad():
        expected = model(inputs).logits
    difference = float((logits_of(params, inputs) - expected).abs().max())
    print(f"transformers: largest deviation of a logit {difference:.2e} of {expected.abs().max():.1f}")
    # It computes the angles in single precision: 16 positions x 6e-8 each.
    assert difference < 1e-5 * float(expected.abs().max()), difference
