"""A tiny Mixtral: a Llama (golden_llama.py) with a mixture of experts in place of the MLP.

A router gives each token a softmax over its chosen experts. Names are those of transformers, whose
experts are one tensor; weights are [in, out] and lie expert by expert: gate_up_proj [E, h, 2f] with
columns gate, up; down_proj [E, f h]. gate.weight, the router's, is [h, E].
"""

import importlib.util

import golden_llama
import torch
from golden_llama import attention, decoder_logits, init_std, swiglu

__all__ = ["init_std"]

NAME = "golden_mixtral_tiny"
MODEL = {**golden_llama.MODEL, "ffn": 24, "experts": 4, "experts_per_token": 2}
EXPERTS, CHOICES, WIDTH = MODEL["experts"], MODEL["experts_per_token"], MODEL["ffn"]


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files."""
    h = MODEL["hidden"]
    shapes = {}
    for name, shape in golden_llama.tensor_shapes().items():
        if name.endswith("mlp.gate_up_proj.weight"):
            mlp = name.removesuffix("gate_up_proj.weight")
            shapes[mlp + "gate.weight"] = (h, EXPERTS)
            shapes[mlp + "experts.gate_up_proj.weight"] = (EXPERTS, h, 2 * WIDTH)
            shapes[mlp + "experts.down_proj.weight"] = (EXPERTS, WIDTH * h)
        elif not name.endswith("mlp.down_proj.weight"):
            shapes[name] = shape
    return shapes


def weights_of(logits):
    """[.., E] -> weights of all experts [.., E], 0 of those that are not chosen."""
    scores = torch.softmax(logits, dim=-1)
    chosen = torch.zeros_like(scores).scatter(-1, scores.topk(CHOICES, dim=-1).indices, 1.0)
    return scores * chosen / (scores * chosen).sum(-1, keepdim=True)


def experts(x, params, block):
    """Every expert works on every token; the weights leave out what was not chosen."""
    weights = weights_of(x @ params[block + "mlp.gate.weight"])
    up = params[block + "mlp.experts.gate_up_proj.weight"]
    down = params[block + "mlp.experts.down_proj.weight"].reshape(EXPERTS, WIDTH, -1)
    return sum(weights[..., e : e + 1] * (swiglu(x @ up[e]) @ down[e]) for e in range(EXPERTS))


def logits_of(params, inputs):
    return decoder_logits(attention, params, inputs, experts)


# Checks -------------------------------------------------------------------------------------------


def check_operations():
    """The model is that of transformers."""
    if not importlib.util.find_spec("transformers"):
        return print("transformers is not installed: the Mixtral is not compared")
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=MODEL["vocab"],
        hidden_size=MODEL["hidden"],
        intermediate_size=WIDTH,
        num_hidden_layers=MODEL["layers"],
        num_attention_heads=MODEL["heads"],
        num_key_value_heads=MODEL["kv_heads"],
        max_position_embeddings=MODEL["seq"],
        rms_norm_eps=MODEL["rms_norm_eps"],
        rope_theta=float(MODEL["rope_theta"]),
        num_local_experts=EXPERTS,
        num_experts_per_tok=CHOICES,
        sliding_window=None,
        tie_word_embeddings=False,
        attn_implementation="eager",
        experts_implementation="eager",
    )
    torch.manual_seed(4)
    model = MixtralForCausalLM(config).double()
    params = {n: torch.randn(s, dtype=torch.float64) / 4 for n, s in tensor_shapes().items()}
    state = model.state_dict()
    loaded = published_layout(params, state)
    model.load_state_dict(loaded)
    inputs = torch.randint(MODEL["vocab"], (3, MODEL["seq"]))
    with torch.no_grad():
        expected = model(inputs).logits
    difference = float((logits_of(params, inputs) - expected).abs().max())
    print(f"transformers: largest deviation of a logit {difference:.2e} of {expected.abs().max():.1f}")
    # It computes the angles, and the softmax of the router, in single precision.
    assert difference < 1e-5 * float(expected.abs().max()), difference
    return None


def published_layout(params, state):
    """Our parameters under the names of transformers, whose layout has changed over versions."""
    result = {}
    dense = {n: p for n, p in params.items() if ".mlp." not in n}
    for name, value in golden_llama.published_layout(dense).items():
        result[name] = value
    for name in state:
        if name in result:
            continue
        block, part = name.split(".mlp." if ".mlp." in name else ".block_sparse_moe.")
        up = params[block + ".mlp.experts.gate_up_proj.weight"]
        down = params[block + ".mlp.experts.down_proj.weight"].reshape(EXPERTS, WIDTH, -1)
        if part == "gate.weight":
            result[name] = params[block + ".mlp.gate.weight"].T
        elif part == "experts.gate_up_proj":
            result[name] = up.transpose(1, 2)
        elif part == "experts.down_proj":
            result[name] = down.transpose(1, 2)
        else:
            number, which = part.split(".")[1:3]
            pieces = dict(zip(("w1", "w3"), up[int(number)].chunk(2, dim=-1)))
            result[name] = {**pieces, "w2": down[int(number)]}[which].T
    return result
