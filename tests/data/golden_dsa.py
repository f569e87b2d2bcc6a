"""A tiny model whose queries see the keys that an indexer chooses [DeepSeek25b sec 2.1].

Attention and names are golden_mla.py's; the indexer's are those of the Hugging Face DeepSeek-V3.2.
Its rotary positions turn the first elements of a head, in pairs (i, i + r/2); the Hadamard transform
of its queries and keys, which changes no score, is left out. Its loss is, over layers, the sum of the
means over tokens of KL(p | softmax of the scores), over the keys that were chosen.
"""

import golden_mla
import torch
import torch.nn.functional as functional
from golden_llama import init_std, mlp, rms_norm, rope

__all__ = ["init_std"]

NAME = "golden_dsa_tiny"
HEADS, SIZE, KEYS, EPSILON = 3, 6, 5, 1e-6
SIZES = golden_mla.MODEL
ROPE = SIZES["qk_rope_head_size"]
FILE = {
    "schema": "zplan.model/1",
    "name": NAME,
    "source": "a test",
    "architecture": "llama",
    **{key: value for key, value in SIZES.items() if key not in ("seq", "rms_norm_eps")},
    "sequence": SIZES["seq"],
    "global_batch": 4,
    "norm_epsilon": SIZES["rms_norm_eps"],
    "tied_embeddings": False,
    "index_heads": HEADS,
    "index_head_size": SIZE,
    "index_keys": KEYS,
}
MODEL = {"seq": SIZES["seq"], "file": FILE}


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files."""
    shapes = {}
    for name, shape in golden_mla.tensor_shapes().items():
        if name.endswith("q_b_proj.weight"):
            block = name.removesuffix("self_attn.q_b_proj.weight") + "self_attn.indexer."
            shapes[block + "wq_b.weight"] = (SIZES["q_lora_rank"], HEADS * SIZE)
            shapes[block + "wk.weight"] = (SIZES["hidden"], SIZE)
            shapes[block + "weights_proj.weight"] = (SIZES["hidden"], HEADS)
            shapes[block + "k_norm.weight"] = (SIZE,)
            shapes[block + "k_norm.bias"] = (SIZE,)
        shapes[name] = shape
    return shapes


def turned(x):
    return torch.cat((rope(x[..., :ROPE]), x[..., ROPE:]), dim=-1)


def index_scores(x, latent, params, block):
    """[b, s, s], of each query and key."""
    own = {n.removeprefix(block): p for n, p in params.items() if n.startswith(block)}
    b, s, _ = x.shape
    q = (latent @ own["wq_b.weight"]).reshape(b, s, HEADS, SIZE).transpose(1, 2)
    k = x @ own["wk.weight"]
    k = functional.layer_norm(k, (SIZE,), own["k_norm.weight"], own["k_norm.bias"], EPSILON)
    q, k = turned(q), turned(k.unsqueeze(1))
    weights = (x @ own["weights_proj.weight"]).transpose(1, 2).unsqueeze(-1)  # [b, n, s, 1]
    scores = (weights * torch.relu(q @ k.transpose(-1, -2))).sum(1)
    return scores / (HEADS * SIZE) ** 0.5


def chosen_of(scores):
    """1 where a query sees a key: of those up to its own the best, of equal ones the earlier."""
    s = scores.shape[-1]
    seen = torch.ones(s, s, dtype=torch.bool).tril()
    order = scores.detach().masked_fill(~seen, -torch.inf)
    order = order.sort(dim=-1, descending=True, stable=True).indices[..., :KEYS]
    return torch.zeros_like(seen).expand_as(scores).scatter(-1, order, True) & seen


def attention(x, params, block):
    """What it gives, and the loss of its indexer."""

    def multiply(value, part):
        return value @ params[block + part + ".weight"]

    def norm(value, part):
        return rms_norm(value, params[block + part + ".weight"])

    q, k, v = golden_mla.queries_keys_values(x, multiply, norm)
    latent = norm(multiply(x, "self_attn.q_a_proj"), "self_attn.q_a_layernorm")
    scores = index_scores(x.detach(), latent.detach(), params, block + "self_attn.indexer.")
    chosen = chosen_of(scores)
    shares = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    shares = shares.masked_fill(~chosen.unsqueeze(1), -torch.inf).softmax(-1)
    given = shares.detach().mean(1)
    log_shares = scores.masked_fill(~chosen, -torch.inf).log_softmax(-1)
    kl = torch.special.xlogy(given, given) - given * log_shares.masked_fill(~chosen, 0.0)
    y = (shares @ v).transpose(1, 2).flatten(2)
    return multiply(y, "self_attn.o_proj"), kl.sum(-1).mean()


def logits_and_loss(params, inputs):
    x, loss = params["model.embed_tokens.weight"][inputs], 0.0
    for layer in range(SIZES["layers"]):
        block = f"model.layers.{layer}."
        y = rms_norm(x, params[block + "input_layernorm.weight"])
        y, own = attention(y, params, block)
        x, loss = x + y, loss + own
        x = x + mlp(rms_norm(x, params[block + "post_attention_layernorm.weight"]), params, block)
    return rms_norm(x, params["model.norm.weight"]) @ params["lm_head.weight"].T, loss


def logits_of(params, inputs):
    return logits_and_loss(params, inputs)[0]


def auxiliary_loss(params, inputs):
    return logits_and_loss(params, inputs)[1]


# Checks -------------------------------------------------------------------------------------------


def check_operations():
    """The choice is that of transformers' indexer; with all keys attention is golden_mla.py's."""
    from transformers import DeepseekV32Config
    from transformers.models.deepseek_v32 import modeling_deepseek_v32 as theirs

    torch.manual_seed(4)
    params = {n: torch.randn(v, dtype=torch.float64) for n, v in tensor_shapes().items()}
    block = "model.layers.0.self_attn.indexer."
    s = 16
    x = torch.randn(2, s, SIZES["hidden"], dtype=torch.float64)
    latent = torch.randn(2, s, SIZES["q_lora_rank"], dtype=torch.float64)
    config = DeepseekV32Config(
        hidden_size=SIZES["hidden"], index_n_heads=HEADS, index_head_dim=SIZE, index_topk=KEYS,
        q_lora_rank=SIZES["q_lora_rank"], qk_rope_head_dim=ROPE, num_attention_heads=4,
    )
    indexer = theirs.DeepseekV32Indexer(config, layer_idx=0).double()
    indexer.load_state_dict({
        "wq_b.weight": params[block + "wq_b.weight"].T, "wk.weight": params[block + "wk.weight"].T,
        "k_norm.weight": params[block + "k_norm.weight"],
        "k_norm.bias": params[block + "k_norm.bias"],
        "weights_proj.weight": params[block + "weights_proj.weight"].T,
    })
    exponents = torch.arange(ROPE // 2, dtype=torch.float64) * (-2.0 / ROPE)
    angles = torch.arange(s, dtype=torch.float64)[:, None] * SIZES["rope_theta"] ** exponents
    angles = torch.cat((angles, angles), dim=-1)[None]
    mask = torch.full((s, s), -torch.inf, dtype=torch.float64).triu(1)[None]
    best = indexer(x, latent, (angles.cos(), angles.sin()), mask, None)
    expected = torch.zeros(2, s, s, dtype=torch.bool).scatter(-1, best.long(), True)
    chosen = chosen_of(index_scores(x, latent, params, block))
    assert bool((chosen == expected.tril()).all())
