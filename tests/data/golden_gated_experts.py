"""A tiny Qwen2-MoE [Yang24 sec 2.2.2]: biases of queries, keys and values, experts whose weights are
scores of all of them, and an expert that all tokens share, times the sigmoid of a gate. Here
experts work on fewer elements of a token than it has, with a matrix before them and one behind
their sum; without these the model is that of transformers.

Names and layout are those of golden_mixtral.py; shared_expert_gate.weight is [h, 1],
fc1_latent_proj.weight [h, l], fc2_latent_proj.weight [l, h].
"""

import importlib.util

import golden_families
import torch
from golden_families import attend, heads_of, linear, rms_norm, rope, seen
from golden_llama import swiglu


class GatedExperts(golden_families.Family):
    def __init__(self):
        super().__init__(
            "golden_gated_experts_tiny",
            {
                "architecture": "llama",
                "hidden": 16,
                "heads": 2,
                "kv_heads": 1,
                "ffn": 12,
                "experts": 4,
                "experts_per_token": 2,
                "router_renormalises": False,
                "shared_expert_ffn": 20,
                "shared_expert_gate": True,
                "expert_latent_size": 10,
                "rope_theta": 10000,
                "biases": "qkv",
                "tied_embeddings": False,
            },
        )

    def width(self):
        """Elements of a token that experts work on."""
        return self.FILE.get("expert_latent_size", self.FILE["hidden"])

    def tensor_shapes(self):
        file = self.FILE
        h, f, count, shared = (
            file[key] for key in ("hidden", "ffn", "experts", "shared_expert_ffn")
        )
        size = h // file["heads"]
        qkv = (file["heads"] + 2 * file["kv_heads"]) * size
        shapes = {"model.embed_tokens.weight": (file["vocab"], h)}
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            for norm in ("input_layernorm", "post_attention_layernorm"):
                shapes[block + norm + ".weight"] = (h,)
            shapes[block + "self_attn.qkv_proj.weight"] = (h, qkv)
            shapes[block + "self_attn.qkv_proj.bias"] = (qkv,)
            shapes[block + "self_attn.o_proj.weight"] = (h, h)
            mlp = block + "mlp."
            shapes[mlp + "gate.weight"] = (h, count)
            if self.width() < h:
                shapes[mlp + "fc1_latent_proj.weight"] = (h, self.width())
                shapes[mlp + "fc2_latent_proj.weight"] = (self.width(), h)
            shapes[mlp + "shared_expert_gate.weight"] = (h, 1)
            shapes[mlp + "shared_experts.gate_up_proj.weight"] = (h, 2 * shared)
            shapes[mlp + "shared_experts.down_proj.weight"] = (shared, h)
            shapes[mlp + "experts.gate_up_proj.weight"] = (count, self.width(), 2 * f)
            shapes[mlp + "experts.down_proj.weight"] = (count, f * self.width())
        shapes["model.norm.weight"] = (h,)
        shapes["lm_head.weight"] = (file["vocab"], h)
        return shapes

    def weights_of(self, logits):
        """[.., E] -> weights of all experts [.., E], 0 of those that are not chosen."""
        scores = torch.softmax(logits, dim=-1)
        best = scores.topk(self.FILE["experts_per_token"], dim=-1).indices
        return scores * torch.zeros_like(scores).scatter(-1, best, 1.0)

    def experts(self, x, params, mlp):
        """Every expert works on every token; the weights leave out what was not chosen."""
        file, weights = self.FILE, self.weights_of(x @ params[mlp + "gate.weight"])
        up = params[mlp + "experts.gate_up_proj.weight"]
        down = params[mlp + "experts.down_proj.weight"]
        down = down.reshape(file["experts"], file["ffn"], -1)
        has_latent = mlp + "fc1_latent_proj.weight" in params
        z = x @ params[mlp + "fc1_latent_proj.weight"] if has_latent else x
        y = sum(
            weights[..., e : e + 1] * (swiglu(z @ up[e]) @ down[e]) for e in range(file["experts"])
        )
        return y @ params[mlp + "fc2_latent_proj.weight"] if has_latent else y

    def feed_forward(self, x, params, mlp):
        gate = torch.sigmoid(x @ params[mlp + "shared_expert_gate.weight"])
        shared = swiglu(x @ params[mlp + "shared_experts.gate_up_proj.weight"])
        shared = shared @ params[mlp + "shared_experts.down_proj.weight"]
        return gate * shared + self.experts(x, params, mlp)

    def logits_of(self, params, inputs):
        file = self.FILE
        x = params["model.embed_tokens.weight"][inputs]
        size, theta = file["hidden"] // file["heads"], file["rope_theta"]
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            y = rms_norm(x, params[block + "input_layernorm.weight"], 1e-5)
            qkv = linear(params, y, block + "self_attn.qkv_proj")
            q, k, v = heads_of(qkv, file["heads"], file["kv_heads"], size)
            mask = seen(x.shape[1])
            y = attend(rope(q, theta), rope(k, theta), v, mask=mask, divisor=size)
            x = x + y @ params[block + "self_attn.o_proj.weight"]
            y = rms_norm(x, params[block + "post_attention_layernorm.weight"], 1e-5)
            x = x + self.feed_forward(y, params, block + "mlp.")
        return rms_norm(x, params["model.norm.weight"], 1e-5) @ params["lm_head.weight"].T

    # Checks ---------------------------------------------------------------------------------------

    def check_operations(self):
        """Without fewer elements the model is that of transformers."""
        super().check_operations()
        if not importlib.util.find_spec("transformers"):
            return print("transformers is not installed: the Qwen2-MoE is not compared")
        from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

        own = GatedExperts()
        file = own.FILE
        del file["expert_latent_size"]
        config = Qwen2MoeConfig(
            vocab_size=file["vocab"],
            hidden_size=file["hidden"],
            num_hidden_layers=file["layers"],
            num_attention_heads=file["heads"],
            num_key_value_heads=file["kv_heads"],
            moe_intermediate_size=file["ffn"],
            shared_expert_intermediate_size=file["shared_expert_ffn"],
            num_experts=file["experts"],
            num_experts_per_tok=file["experts_per_token"],
            norm_topk_prob=False,
            rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": float(file["rope_theta"])},
            tie_word_embeddings=False,
            attn_implementation="eager",
            experts_implementation="eager",
        )
        torch.manual_seed(4)
        model = Qwen2MoeForCausalLM(config).double()
        shapes = own.tensor_shapes().items()
        params = {name: torch.randn(shape, dtype=torch.float64) / 4 for name, shape in shapes}
        model.load_state_dict(own.published_layout(params, model.state_dict()))
        inputs = torch.randint(file["vocab"], (3, file["sequence"]))
        with torch.no_grad():
            expected = model(inputs).logits
            difference = float((own.logits_of(params, inputs) - expected).abs().max())
        largest = f"{difference:.2e} of {expected.abs().max():.1f}"
        print(f"transformers: largest deviation of a logit {largest}")
        # It computes the angles, and the softmax of the router, in single precision.
        assert difference < 1e-5 * float(expected.abs().max()), difference
        return None

    def published_layout(self, params, state):
        """Our parameters under the names of transformers."""
        file, result = self.FILE, {}
        size = file["hidden"] // file["heads"]
        widths = [file["heads"] * size, file["kv_heads"] * size, file["kv_heads"] * size]
        for name, value in params.items():
            kind = name.rpartition(".")[2]
            if ".qkv_proj." in name:
                for letter, part in zip("qkv", value.split(widths, dim=-1)):
                    result[name.replace("qkv", letter)] = part.T if kind == "weight" else part
            elif ".experts." in name:
                if "down" in name:
                    value = value.reshape(file["experts"], file["ffn"], -1)
                result[name.removesuffix(".weight")] = value.transpose(1, 2)
            elif "shared_experts.gate_up" in name:
                for part, half in zip(("gate_proj", "up_proj"), value.chunk(2, dim=-1)):
                    own = name.replace("shared_experts.gate_up_proj", "shared_expert." + part)
                    result[own] = half.T
            elif "layers" in name and value.dim() == 2:
                result[name.replace("shared_experts", "shared_expert")] = value.T
            else:
                result[name] = value
        assert result.keys() == state.keys(), result.keys() ^ state.keys()
        return result


MODEL = GatedExperts()
