"""A tiny DeepSeek: latent attention (golden_mla.py), an MLP in the first layer and experts in the
others [DeepSeek24 sec 2.2], one of which all tokens share, scored by their sigmoids
[DeepSeek25 Eq.13-16], chosen from the groups with the best ones [DeepSeek24 sec 2.2.2], with the loss that balances them within each sequence [DeepSeek25 Eq.17-20].

Names and layout are those of golden_mla.py and golden_mixtral.py; shared_experts are an MLP.
"""

import golden_mla
import torch
from golden_llama import decoder_logits, init_std, mlp, swiglu
from golden_mla import attention

__all__ = ["init_std"]

NAME = "golden_deepseek_tiny"
MODEL = {
    **golden_mla.MODEL,
    "layers": 3,
    "dense_layers": 1,
    "experts": 6,
    "experts_per_token": 2,
    "router_groups": 3,
    "router_groups_per_token": 1,
    "expert_ffn": 12,
    "shared_expert_ffn": 20,
    "router_scores": "sigmoid",
    "router_scale": 2.5,
    "balance_loss": 0.05,
}
GROUPS, KEPT_GROUPS = MODEL["router_groups"], MODEL["router_groups_per_token"]
EXPERTS, CHOICES, WIDTH = MODEL["experts"], MODEL["experts_per_token"], MODEL["expert_ffn"]


def tensor_shapes():
    """Name -> shape of each parameter, in the order of the files."""
    h, shared = MODEL["hidden"], MODEL["shared_expert_ffn"]
    dense = golden_mla.tensor_shapes()
    shapes = {}
    for layer in range(MODEL["layers"]):
        for name, shape in dense.items():
            if not name.startswith("model.layers.0."):
                continue
            own = name.replace(".0.", f".{layer}.", 1)
            if ".mlp." not in name or layer < MODEL["dense_layers"]:
                shapes[own] = shape
            elif name.endswith("gate_up_proj.weight"):
                block = own.removesuffix("gate_up_proj.weight")
                shapes[block + "gate.weight"] = (h, EXPERTS)
                shapes[block + "shared_experts.gate_up_proj.weight"] = (h, 2 * shared)
                shapes[block + "shared_experts.down_proj.weight"] = (shared, h)
                shapes[block + "experts.gate_up_proj.weight"] = (EXPERTS, h, 2 * WIDTH)
                shapes[block + "experts.down_proj.weight"] = (EXPERTS, WIDTH * h)
    ends = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    return {**shapes, **{name: dense[name] for name in ends}}


def choice_of(logits):
    """Scores of all experts and 1 where one is chosen, [b, s, E] each."""
    scores = torch.sigmoid(logits)
    groups = scores.unflatten(-1, (GROUPS, -1))
    kept = groups.amax(-1).topk(KEPT_GROUPS, -1).indices
    is_kept = torch.zeros(groups.shape[:-1], dtype=bool).scatter(-1, kept, True)
    within = groups.masked_fill(~is_kept.unsqueeze(-1), -torch.inf).flatten(-2)
    return scores, torch.zeros_like(scores).scatter(-1, within.topk(CHOICES, -1).indices, 1.0)


def balance(logits):
    """Mean over the sequences of E sum_e f_e P_e, f the part of the choices, P the mean score."""
    scores, chosen = choice_of(logits)
    share = (scores / scores.sum(-1, keepdim=True)).mean(1)
    load = chosen.mean(1) / CHOICES
    return MODEL["balance_loss"] * EXPERTS * (share * load.detach()).sum(-1).mean()


def layer_mlp(x, params, block, losses):
    """The MLP of a dense layer or shared expert plus the weighted experts."""
    if block + "mlp.gate.weight" not in params:
        return mlp(x, params, block)
    logits = x @ params[block + "mlp.gate.weight"]
    losses.append(balance(logits))
    scores, chosen = choice_of(logits)
    weights = MODEL["router_scale"] * scores * chosen / (scores * chosen).sum(-1, keepdim=True)
    up = params[block + "mlp.experts.gate_up_proj.weight"]
    down = params[block + "mlp.experts.down_proj.weight"].reshape(EXPERTS, WIDTH, -1)
    shared = swiglu(x @ params[block + "mlp.shared_experts.gate_up_proj.weight"])
    return shared @ params[block + "mlp.shared_experts.down_proj.weight"] + sum(
        weights[..., e : e + 1] * (swiglu(x @ up[e]) @ down[e]) for e in range(EXPERTS)
    )


def logits_and_losses(params, inputs):
    losses = []

    def feed_forward(x, all_params, block):
        return layer_mlp(x, all_params, block, losses)

    logits = decoder_logits(attention, params, inputs, feed_forward, MODEL["layers"])
    return logits, losses


def logits_of(params, inputs):
    return logits_and_losses(params, inputs)[0]


def auxiliary_loss(params, inputs):
    """Of all layers; it is trained beside the cross entropy."""
    return sum(logits_and_losses(params, inputs)[1])


# Checks -------------------------------------------------------------------------------------------


def check_operations():
    """An even router has the loss of its coefficient, and weights sum to the scale."""
    torch.manual_seed(5)
    logits = torch.randn(2, 5, EXPERTS, dtype=torch.float64)
    scores, chosen = choice_of(logits)
    assert torch.equal(chosen.sum(-1), torch.full((2, 5), float(CHOICES), dtype=torch.float64))
    assert float((scores * chosen).min(-1).values.max()) == 0.0
    even = torch.zeros(1, EXPERTS, EXPERTS, dtype=torch.float64)
    torch.testing.assert_close(
        balance(even), torch.tensor(MODEL["balance_loss"], dtype=torch.float64)
    )
