"""A tiny decoder with experts in every second layer, from the second on, and a bias that their
choice follows: after each step it rises for experts with less than the mean load and falls for the
others [Wang24 Algorithm 1]. Scores are sigmoids, the bias is no part of weights [DeepSeek25
Eq.13-16]; an MLP is beside the experts. Attention is golden_llama.py's.

Names and layout are those of golden_mixtral.py; gate.bias [E] is the bias.
"""

import golden_families
import torch
from golden_families import attend, heads_of, rms_norm, rope, seen
from golden_llama import mlp, swiglu


class Balanced(golden_families.Family):
    def __init__(self):
        super().__init__(
            "golden_balanced_tiny",
            {
                "architecture": "llama",
                "layers": 4,
                "kv_heads": 2,
                "ffn": 40,
                "experts": 6,
                "experts_per_token": 2,
                "dense_layers": 1,
                "expert_every": 2,
                "expert_ffn": 12,
                "shared_expert_ffn": 20,
                "router_scores": "sigmoid",
                "router_bias": True,
                "router_bias_rate": 0.001,
                "router_scale": 1.5,
                "rope_theta": 10000,
                "tied_embeddings": False,
            },
        )

    def has_experts(self, layer):
        first = self.FILE["dense_layers"]
        return layer >= first and (layer - first) % self.FILE["expert_every"] == 0

    def tensor_shapes(self):
        file = self.FILE
        h, count, width = file["hidden"], file["experts"], file["expert_ffn"]
        shared = file["shared_expert_ffn"]
        qkv = h + 2 * file["kv_heads"] * h // file["heads"]
        shapes = {"model.embed_tokens.weight": (file["vocab"], h)}
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                shapes[block + norm + ".weight"] = (h,)
            shapes[block + "self_attn.qkv_proj.weight"] = (h, qkv)
            shapes[block + "self_attn.o_proj.weight"] = (h, h)
            if self.has_experts(layer):
                shapes[block + "mlp.gate.weight"] = (h, count)
                shapes[block + "mlp.gate.bias"] = (count,)
                shapes[block + "mlp.shared_experts.gate_up_proj.weight"] = (h, 2 * shared)
                shapes[block + "mlp.shared_experts.down_proj.weight"] = (shared, h)
                shapes[block + "mlp.experts.gate_up_proj.weight"] = (count, h, 2 * width)
                shapes[block + "mlp.experts.down_proj.weight"] = (count, width * h)
            else:
                shapes[block + "mlp.gate_up_proj.weight"] = (h, 2 * file["ffn"])
                shapes[block + "mlp.down_proj.weight"] = (file["ffn"], h)
        shapes["model.norm.weight"] = (h,)
        shapes["lm_head.weight"] = (file["vocab"], h)
        return shapes

    def choice_of(self, logits, bias):
        """Scores of all experts and 1 where one is chosen, [b, s, E] each."""
        scores = torch.sigmoid(logits)
        best = (scores + bias).topk(self.FILE["experts_per_token"], dim=-1).indices
        return scores, torch.zeros_like(scores).scatter(-1, best, 1.0)

    def experts(self, x, params, block, loads):
        """Every expert works on every token; the weights leave out what was not chosen."""
        file, bias = self.FILE, params[block + "mlp.gate.bias"]
        # What only choices follow has a gradient of zero.
        logits = x @ params[block + "mlp.gate.weight"] + 0.0 * bias
        scores, chosen = self.choice_of(logits, bias)
        loads[block] = chosen.sum((0, 1))
        weights = file["router_scale"] * scores * chosen / (scores * chosen).sum(-1, keepdim=True)
        up = params[block + "mlp.experts.gate_up_proj.weight"]
        down = params[block + "mlp.experts.down_proj.weight"]
        down = down.reshape(file["experts"], file["expert_ffn"], -1)
        y = swiglu(x @ params[block + "mlp.shared_experts.gate_up_proj.weight"])
        y = y @ params[block + "mlp.shared_experts.down_proj.weight"]
        for e in range(file["experts"]):
            y = y + weights[..., e : e + 1] * (swiglu(x @ up[e]) @ down[e])
        return y

    def logits_and_loads(self, params, inputs):
        """Also, of each layer with experts, how many tokens chose each of them."""
        file, loads = self.FILE, {}
        x = params["model.embed_tokens.weight"][inputs]
        size, theta = file["hidden"] // file["heads"], file["rope_theta"]
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            y = rms_norm(x, params[block + "input_layernorm.weight"], 1e-5)
            qkv = y @ params[block + "self_attn.qkv_proj.weight"]
            q, k, v = heads_of(qkv, file["heads"], file["kv_heads"], size)
            mask = seen(x.shape[1])
            y = attend(rope(q, theta), rope(k, theta), v, mask=mask, divisor=size)
            x = x + y @ params[block + "self_attn.o_proj.weight"]
            y = rms_norm(x, params[block + "post_attention_layernorm.weight"], 1e-5)
            if self.has_experts(layer):
                x = x + self.experts(y, params, block, loads)
            else:
                x = x + mlp(y, params, block)
        x = rms_norm(x, params["model.norm.weight"], 1e-5)
        return x @ params["lm_head.weight"].T, loads

    def logits_of(self, params, inputs):
        return self.logits_and_loads(params, inputs)[0]

    def added_after_update(self, params, inputs):
        """What the biases move by, as the step finds the parameters."""
        rate = self.FILE["router_bias_rate"]
        with torch.no_grad():
            loads = self.logits_and_loads(params, inputs)[1]
        return {
            block + "mlp.gate.bias": rate * torch.sign(load.mean() - load)
            for block, load in loads.items()
        }

    # Checks ---------------------------------------------------------------------------------------

    def check_operations(self):
        """A bias moves the choice and no score; each token has as many choices as it should."""
        super().check_operations()
        torch.manual_seed(6)
        logits = torch.randn(2, 5, self.FILE["experts"], dtype=torch.float64)
        bias = torch.zeros(self.FILE["experts"], dtype=torch.float64)
        scores, chosen = self.choice_of(logits, bias)
        bias[3] = 2.0
        moved, other = self.choice_of(logits, bias)
        torch.testing.assert_close(scores, moved)
        assert bool((other[..., 3] == 1).all())
        assert not bool((chosen[..., 3] == 1).all())
        assert bool((other.sum(-1) == self.FILE["experts_per_token"]).all())


MODEL = Balanced()
