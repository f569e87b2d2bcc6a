"""A tiny GPT-OSS [Agarwal25]: the attention of golden_families.Sinks with biases, and experts.

The router's logits have a bias; its weights are a softmax over the chosen logits. Each expert has
biases of both products, and between them a gate z sigmoid(1.702 z) of at most the limit, times what
lies within the limits, plus 1. Weights are [in, out] and lie expert by expert: gate_up_proj
[E, h, 2f] with columns gate, up, its bias [E, 2f]; down_proj [E, f h], its bias [E, h];
gate.weight, the router's, [h, E]. Rotary positions are plain, without YaRN.
"""

import importlib.util

import golden_families
import torch
from golden_families import attend, heads_of, linear, rms_norm, rope, seen

STEEPNESS = 1.702


def gated(x, limit):
    gate, up = x.chunk(2, dim=-1)
    gate, up = gate.clamp(max=limit), up.clamp(min=-limit, max=limit)
    return gate / (1 + torch.exp(-STEEPNESS * gate)) * (up + 1)


class GptOss(golden_families.Family):
    def __init__(self):
        super().__init__(
            "golden_gpt_oss_tiny",
            {
                "architecture": "llama",
                "kv_heads": 2,
                "head_size": 12,
                "ffn": 24,
                "experts": 4,
                "experts_per_token": 2,
                "rope_theta": 150000,
                "biases": "all",
                "activation": "quick_gelu",
                "activation_limit": 0.1,
                "up_offset": 1,
                "attention_sinks": True,
                "window": 4,
                "full_layers": 1,
                "tied_embeddings": False,
            },
        )

    def tensor_shapes(self):
        file = self.FILE
        h, f, count = file["hidden"], file["ffn"], file["experts"]
        heads = file["heads"] * file["head_size"]
        width = heads + 2 * file["kv_heads"] * file["head_size"]
        shapes = {"model.embed_tokens.weight": (file["vocab"], h)}
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                shapes[block + norm + ".weight"] = (h,)
            shapes[block + "self_attn.qkv_proj.weight"] = (h, width)
            shapes[block + "self_attn.qkv_proj.bias"] = (width,)
            shapes[block + "self_attn.sinks"] = (file["heads"],)
            shapes[block + "self_attn.o_proj.weight"] = (heads, h)
            shapes[block + "self_attn.o_proj.bias"] = (h,)
            shapes[block + "mlp.gate.weight"] = (h, count)
            shapes[block + "mlp.gate.bias"] = (count,)
            shapes[block + "mlp.experts.gate_up_proj.weight"] = (count, h, 2 * f)
            shapes[block + "mlp.experts.gate_up_proj.bias"] = (count, 2 * f)
            shapes[block + "mlp.experts.down_proj.weight"] = (count, f * h)
            shapes[block + "mlp.experts.down_proj.bias"] = (count, h)
        shapes["model.norm.weight"] = (h,)
        shapes["lm_head.weight"] = (file["vocab"], h)
        return shapes

    def weights_of(self, logits):
        """[.., E] -> weights of all experts [.., E], 0 of those that are not chosen."""
        chosen = logits.topk(self.FILE["experts_per_token"], dim=-1)
        weights = torch.softmax(chosen.values, dim=-1)
        return torch.zeros_like(logits).scatter(-1, chosen.indices, weights)

    def mlp(self, x, params, block):
        """Every expert works on every token; the weights leave out what was not chosen."""
        file = self.FILE
        logits = x @ params[block + "mlp.gate.weight"] + params[block + "mlp.gate.bias"]
        weights, experts = self.weights_of(logits), block + "mlp.experts."
        up, down = (params[experts + f"{part}_proj.weight"] for part in ("gate_up", "down"))
        down = down.reshape(file["experts"], file["ffn"], -1)
        up_bias, down_bias = (params[experts + f"{part}_proj.bias"] for part in ("gate_up", "down"))
        y = torch.zeros_like(x)
        for e in range(file["experts"]):
            inner = gated(x @ up[e] + up_bias[e], file["activation_limit"])
            y = y + weights[..., e : e + 1] * (inner @ down[e] + down_bias[e])
        return y

    def logits_of(self, params, inputs):
        file = self.FILE
        x = params["model.embed_tokens.weight"][inputs]
        size, theta = file["head_size"], file["rope_theta"]

        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            y = rms_norm(x, params[block + "input_layernorm.weight"], 1e-5)
            qkv = linear(params, y, block + "self_attn.qkv_proj")
            q, k, v = heads_of(qkv, file["heads"], file["kv_heads"], size)
            q, k = rope(q, theta), rope(k, theta)
            mask = seen(x.shape[1], file["window"] if layer % 2 == 0 else 0)
            sinks = params[block + "self_attn.sinks"]
            y = attend(q, k, v, mask=mask, divisor=size, sinks=sinks)
            x = x + linear(params, y, block + "self_attn.o_proj")
            y = rms_norm(x, params[block + "post_attention_layernorm.weight"], 1e-5)
            x = x + self.mlp(y, params, block)
        return rms_norm(x, params["model.norm.weight"], 1e-5) @ params["lm_head.weight"].T

    # Checks ---------------------------------------------------------------------------------------

    def check_operations(self):
        """The model is that of transformers, whose limit is 7."""
        super().check_operations()
        if not importlib.util.find_spec("transformers"):
            return print("transformers is not installed: the GPT-OSS is not compared")
        from transformers import GptOssConfig, GptOssForCausalLM

        file = self.FILE
        config = GptOssConfig(
            vocab_size=file["vocab"],
            hidden_size=file["hidden"],
            intermediate_size=file["ffn"],
            num_hidden_layers=file["layers"],
            num_attention_heads=file["heads"],
            num_key_value_heads=file["kv_heads"],
            head_dim=file["head_size"],
            rope_parameters={"rope_type": "default", "rope_theta": float(file["rope_theta"])},
            sliding_window=file["window"],
            num_local_experts=file["experts"],
            num_experts_per_tok=file["experts_per_token"],
            tie_word_embeddings=False,
            attn_implementation="eager",
            experts_implementation="eager",
        )
        torch.manual_seed(4)
        model = GptOssForCausalLM(config).double()
        shapes = self.tensor_shapes().items()
        params = {name: torch.randn(shape, dtype=torch.float64) / 4 for name, shape in shapes}
        model.load_state_dict(self.published_layout(params, model.state_dict()))
        inputs = torch.randint(file["vocab"], (3, file["sequence"]))
        own = GptOss()
        own.FILE["activation_limit"] = 7
        with torch.no_grad():
            expected = model(inputs).logits
            difference = float((own.logits_of(params, inputs) - expected).abs().max())
        largest = f"{difference:.2e} of {expected.abs().max():.1f}"
        print(f"transformers: largest deviation of a logit {largest}")
        # It computes the angles in single precision.
        assert difference < 1e-5 * float(expected.abs().max()), difference
        return None

    def published_layout(self, params, state):
        """Our parameters under the names of transformers, which takes gate and up in turn."""
        file, result = self.FILE, {}
        size = file["head_size"]
        widths = [file["heads"] * size, file["kv_heads"] * size, file["kv_heads"] * size]
        for name, value in params.items():
            kind = name.rpartition(".")[2]
            if ".qkv_proj." in name:
                for letter, part in zip("qkv", value.split(widths, dim=-1)):
                    result[name.replace("qkv", letter)] = part.T if kind == "weight" else part
            elif ".experts." in name:
                target = name.removesuffix(".weight").replace(".bias", "_bias")
                if "gate_up" in name:
                    value = torch.stack(value.chunk(2, dim=-1), dim=-1).flatten(-2)
                elif kind == "weight":
                    value = value.reshape(file["experts"], file["ffn"], -1)
                result[target] = value
            elif ".mlp.gate." in name:
                result[name.replace(".gate.", ".router.")] = value.T if kind == "weight" else value
            elif ".o_proj.weight" in name:
                result[name] = value.T
            else:
                result[name] = value
        assert result.keys() == state.keys(), result.keys() ^ state.keys()
        return result


MODEL = GptOss()
