"""Tiny dense decoders of later families, and one encoder, written with plain torch operations:

  Olmo3      OLMo 2 and 3 [OLMo24]: norms of what branches give and none before them, an RMSNorm of
             queries and one of keys over all heads together, windows in turn
  Cohere2    one LayerNorm without a bias for both branches, side by side; layers without a window
             have no positions; logits are divided
  Granite    factors of embeddings, branches and logits, scores divided otherwise; its MLP is that
             of Nemotron, the square of ReLU without a gate, its norms those of OLMo, LayerNorms
             with neither gain nor bias, its layers in turn those of SmolLM3, of which one has no
             positions
  Phi        biases of all products and of the logits, part of a head turns, one LayerNorm for both
             branches, an MLP without a gate
  ModernBert windows both ways on either side of a query, the first layer sees all and has no norm
             before attention, a head of a product without a bias, GELU and a norm; the loss is that
             of masked tokens

Names and layouts are those of golden_families.py. Where the package transformers is there, the check
compares logits with those of its Olmo3, Cohere2, Phi and ModernBert models.
"""

import torch
from golden_families import Family, attend, gelu, gelu_tanh, heads_of, layer_norm, rms_norm, rope
from golden_families import seen, silu

EPSILON = 1e-5
SIZES = {"hidden": 16, "heads": 4, "kv_heads": 2, "head_size": 4, "ffn": 12, "rope_theta": 10000}


def centred_norm(x, gain=1.0):
    return layer_norm(x, gain, 0.0, EPSILON)


def gated(up, function=silu):
    gate, value = up.chunk(2, dim=-1)
    return function(gate) * value


class Dense(Family):
    """A decoder of Llama's names; what differs is a method each."""

    NORMS = ("input_layernorm", "post_attention_layernorm")
    BIASES = False

    def __init__(self, name, file):
        super().__init__(name, {"architecture": "llama", **SIZES, **file})

    def tensor_shapes(self):
        shapes = self.llama_shapes(self.NORMS)
        if self.BIASES:
            biased = [name for name in shapes if "_proj." in name]
            shapes |= {name.replace(".weight", ".bias"): shapes[name][1:] for name in biased}
        return shapes

    def product(self, params, x, part):
        y = x @ params[part + ".weight"]
        return y + params[part + ".bias"] if part + ".bias" in params else y

    def attention(self, params, x, block, *, window=0, turns=True, size=None, divisor=None, mask=None):
        file = self.FILE
        qkv = self.product(params, x, block + "self_attn.qkv_proj")
        q, k, v = heads_of(
            self.normed(params, qkv, block), file["heads"], file["kv_heads"], file["head_size"]
        )
        if turns:
            q, k = (rope(part, self.theta(window), size) for part in (q, k))
        mask = seen(x.shape[1], window) if mask is None else mask
        y = attend(q, k, v, mask=mask, divisor=divisor or file["head_size"])
        return self.product(params, y, block + "self_attn.o_proj")

    def theta(self, window):
        return self.FILE["rope_theta"]

    def normed(self, params, qkv, block):
        return qkv

    def mlp(self, params, x, block):
        up = self.product(params, x, block + "mlp.gate_up_proj")
        return self.product(params, gated(up), block + "mlp.down_proj")

    def embed(self, params, inputs):
        return params["model.embed_tokens.weight"][inputs]

    def final_norm(self, params, x):
        return rms_norm(x, params["model.norm.weight"], EPSILON)

    def head(self, params, x):
        table = "model.embed_tokens" if self.FILE["tied_embeddings"] else "lm_head"
        return x @ params[table + ".weight"].T

    def logits_of(self, params, inputs):
        x = self.embed(params, inputs)
        for layer in range(self.FILE["layers"]):
            x = self.layer(params, x, f"model.layers.{layer}.", layer)
        return self.head(params, self.final_norm(params, x))


    # Of the class in transformers: its configuration beside sizes, and names of its tensors.
    CLASS = None
    CONFIG = {}
    NAMES = {}
    INTERLEAVED = False  # there elements 2i and 2i + 1 of a head turn together

    def check_operations(self):
        super().check_operations()
        try:
            import transformers
        except ImportError:
            return
        if self.CLASS is None:
            return
        torch.manual_seed(5)
        params = {
            name: torch.randn(shape, dtype=torch.float64) / 4 + (1 if "norm" in name else 0)
            for name, shape in self.tensor_shapes().items()
        }
        file = self.FILE
        model = getattr(transformers, self.CLASS)
        config = model.config_class(
            vocab_size=file["vocab"],
            hidden_size=file["hidden"],
            num_hidden_layers=file["layers"],
            num_attention_heads=file["heads"],
            num_key_value_heads=file["kv_heads"],
            intermediate_size=file["ffn"],
            max_position_embeddings=file["sequence"],
            tie_word_embeddings=file["tied_embeddings"],
            pad_token_id=None,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation="eager",
            **self.CONFIG,
        )
        other = model(config).double().eval()
        missing, unexpected = other.load_state_dict(self.published_names(params), strict=False)
        assert not unexpected and set(missing) <= {"lm_head.weight", "decoder.weight"}, (
            missing,
            unexpected,
        )
        tokens = torch.randint(file["vocab"], (3, file["sequence"]))
        with torch.no_grad():
            theirs = other(input_ids=tokens).logits
        # Norms and angles are computed in single precision there.
        torch.testing.assert_close(self.logits_of(params, tokens), theirs, rtol=1e-4, atol=1e-4)

    def interleave(self, weight):
        """Columns of heads, whose pairs (i, i + d/2) become (2i, 2i + 1)."""
        if not self.INTERLEAVED:
            return weight
        size = self.FILE["head_size"]
        halves = weight.unflatten(-1, (-1, 2, size // 2))
        return halves.transpose(-1, -2).flatten(-3)

    def published_names(self, params):
        """The parameters under the names and in the layout of the published weights."""
        file, names = self.FILE, {}
        widths = [file[heads] * file["head_size"] for heads in ("heads", "kv_heads", "kv_heads")]
        for name, value in params.items():
            for own, published in self.NAMES.items():
                name = name.replace(own, published)
            if "qkv_proj" in name:
                parts = list(value.split(widths, dim=-1))
                parts[:2] = [self.interleave(part) for part in parts[:2]]
                for letter, part in zip("qkv", parts):
                    names[name.replace("qkv_proj", letter + "_proj")] = part.t()
            elif "gate_up_proj" in name and file.get("gated_mlp", True):
                for which, part in zip(("gate", "up"), value.chunk(2, dim=-1)):
                    names[name.replace("gate_up", which)] = part.T
            else:
                is_table = name.startswith(("lm_head", "model.embed", "decoder"))
                names[name] = value if is_table or value.dim() == 1 else value.T
        return names


class Olmo3(Dense):
    NORMS = ("attention_output_layernorm", "mlp_output_layernorm")
    CLASS = "Olmo3ForCausalLM"
    CONFIG = {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10000.0}
            for kind in ("sliding_attention", "full_attention")
        },
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    NAMES = {
        "attention_output_layernorm": "post_attention_layernorm",
        "mlp_output_layernorm": "post_feedforward_layernorm",
    }

    def __init__(self):
        super().__init__(
            "golden_olmo3_tiny",
            {
                "only_post_norms": True,
                "qk_norm": True,
                "whole_qk_norm": True,
                "window": 5,
                "full_layers": 1,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        file = self.FILE
        shapes = super().tensor_shapes()
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}.self_attn."
            shapes[block + "q_norm.weight"] = (file["heads"] * file["head_size"],)
            shapes[block + "k_norm.weight"] = (file["kv_heads"] * file["head_size"],)
        return shapes

    def normed(self, params, qkv, block):
        file = self.FILE
        widths = [heads * file["head_size"] for heads in (file["heads"], file["kv_heads"])]
        q, k, v = qkv.split([*widths, widths[1]], dim=-1)
        gains = (params[block + f"self_attn.{part}_norm.weight"] for part in "qk")
        q, k = (rms_norm(part, gain, EPSILON) for part, gain in zip((q, k), gains))
        return torch.cat((q, k, v), dim=-1)

    def layer(self, params, x, block, number):
        first, second = (params[block + name + ".weight"] for name in self.NORMS)
        window = self.FILE["window"] if number % 2 == 0 else 0
        x = x + rms_norm(self.attention(params, x, block, window=window), first, EPSILON)
        return x + rms_norm(self.mlp(params, x, block), second, EPSILON)


class Cohere2(Dense):
    NORMS = ("input_layernorm",)
    CLASS = "Cohere2ForCausalLM"
    CONFIG = {
        "rope_theta": 10000.0,
        "sliding_window": 5,
        "layer_types": ["sliding_attention", "full_attention"],
        "logit_scale": 0.4,
    }
    INTERLEAVED = True

    def __init__(self):
        super().__init__(
            "golden_cohere2_tiny",
            {
                "norm": "layernorm_no_bias",
                "parallel_residual": "one_norm",
                "logit_divisor": 2.5,
                "window": 5,
                "full_layers": 1,
                "unturned_every": 2,
                "tied_embeddings": True,
            },
        )

    def layer(self, params, x, block, number):
        normed = centred_norm(x, params[block + "input_layernorm.weight"])
        own = {"window": self.FILE["window"]} if number % 2 == 0 else {"turns": False}
        return x + self.attention(params, normed, block, **own) + self.mlp(params, normed, block)

    def final_norm(self, params, x):
        return centred_norm(x, params["model.norm.weight"])

    def head(self, params, x):
        return super().head(params, x) / self.FILE["logit_divisor"]


class Granite(Dense):
    NORMS = ()

    def __init__(self):
        super().__init__(
            "golden_granite_tiny",
            {
                "norm": "layernorm_fixed",
                "gated_mlp": False,
                "activation": "squared_relu",
                "embedding_square": 144,
                "residual_factor": 0.22,
                "attention_divisor": 9,
                "logit_divisor": 1.2,
                "unturned_every": 2,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        file = self.FILE
        shapes = super().tensor_shapes()
        del shapes["model.norm.weight"]
        for layer in range(file["layers"]):
            shapes[f"model.layers.{layer}.mlp.gate_up_proj.weight"] = (file["hidden"], file["ffn"])
        return shapes

    def embed(self, params, inputs):
        return 12 * super().embed(params, inputs)

    def mlp(self, params, x, block):
        up = self.product(params, x, block + "mlp.gate_up_proj")
        return self.product(params, torch.relu(up) ** 2, block + "mlp.down_proj")

    def layer(self, params, x, block, number):
        factor = self.FILE["residual_factor"]
        own = {"turns": number % 2 == 0, "divisor": self.FILE["attention_divisor"]}
        x = x + factor * self.attention(params, centred_norm(x), block, **own)
        return x + factor * self.mlp(params, centred_norm(x), block)

    def final_norm(self, params, x):
        return centred_norm(x)

    def head(self, params, x):
        return super().head(params, x) / self.FILE["logit_divisor"]


class Phi(Dense):
    NORMS = ("input_layernorm",)
    BIASES = True
    CLASS = "PhiForCausalLM"
    CONFIG = {"partial_rotary_factor": 0.5}
    NAMES = {
        "o_proj": "dense",
        "mlp.gate_up_proj": "mlp.fc1",
        "mlp.down_proj": "mlp.fc2",
        "model.norm": "model.final_layernorm",
    }

    def __init__(self):
        super().__init__(
            "golden_phi_tiny",
            {
                "norm": "layernorm",
                "biases": "all",
                "gated_mlp": False,
                "rotary_size": 2,
                "parallel_residual": "one_norm",
                "head_bias": True,
                "tied_embeddings": False,
            },
        )

    def tensor_shapes(self):
        shapes = super().tensor_shapes()
        h, f = self.FILE["hidden"], self.FILE["ffn"]
        for layer in range(self.FILE["layers"]):
            part = f"model.layers.{layer}.mlp.gate_up_proj."
            shapes[part + "weight"], shapes[part + "bias"] = (h, f), (f,)
        norms = [name for name in shapes if "norm." in name]
        shapes |= {name.replace(".weight", ".bias"): shapes[name] for name in norms}
        shapes["lm_head.bias"] = (self.FILE["vocab"],)
        return shapes

    @staticmethod
    def norm(params, x, part):
        return layer_norm(x, params[part + ".weight"], params[part + ".bias"], EPSILON)

    def mlp(self, params, x, block):
        up = gelu_tanh(self.product(params, x, block + "mlp.gate_up_proj"))
        return self.product(params, up, block + "mlp.down_proj")

    def layer(self, params, x, block, number):
        normed = self.norm(params, x, block + "input_layernorm")
        y = self.attention(params, normed, block, size=self.FILE["rotary_size"])
        return x + y + self.mlp(params, normed, block)

    def final_norm(self, params, x):
        return self.norm(params, x, "model.norm")

    def head(self, params, x):
        return super().head(params, x) + params["lm_head.bias"]


class ModernBert(Dense):
    MASKED = True
    CLASS = "ModernBertForMaskedLM"
    CONFIG = {
        "global_rope_theta": 10000.0,
        "local_rope_theta": 100.0,
        "local_attention": 6,
        "layer_types": ["full_attention", "sliding_attention"],
    }
    NAMES = {
        "embed_tokens": "embeddings.tok_embeddings",
        "embed_norm": "embeddings.norm",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "mlp_norm",
        "self_attn.o_proj": "attn.Wo",
        "mlp.down_proj": "mlp.Wo",
        "model.norm": "model.final_norm",
        "model.head": "head",
        "lm_head": "decoder",
    }

    def published_names(self, params):
        """Products side by side are one tensor each."""
        names = {}
        for name, value in params.items():
            name = name.replace("self_attn.qkv_proj", "attn.Wqkv").replace("mlp.gate_up_proj", "mlp.Wi")
            for own, published in self.NAMES.items():
                name = name.replace(own, published)
            names[name] = value if "tok_embeddings" in name or value.dim() == 1 else value.T
        return names

    def __init__(self):
        super().__init__(
            "golden_modernbert_tiny",
            {
                "kv_heads": 4,
                "local_rope_theta": 100,
                "norm": "layernorm_no_bias",
                "activation": "gelu",
                "bidirectional": True,
                "window": 4,
                "full_layers": 1,
                "full_layers_first": True,
                "bare_first_branch": True,
                "embedding_norm": True,
                "head_transform": True,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        h = self.FILE["hidden"]
        shapes = super().tensor_shapes()
        del shapes["model.layers.0.input_layernorm.weight"]
        shapes["model.embed_norm.weight"] = shapes["model.head.norm.weight"] = (h,)
        shapes["model.head.dense.weight"] = (h, h)
        shapes["lm_head.bias"] = (self.FILE["vocab"],)
        return shapes

    def theta(self, window):
        return self.FILE["local_rope_theta" if window else "rope_theta"]

    def embed(self, params, inputs):
        return centred_norm(super().embed(params, inputs), params["model.embed_norm.weight"])

    def mlp(self, params, x, block):
        up = self.product(params, x, block + "mlp.gate_up_proj")
        return self.product(params, gated(up, gelu), block + "mlp.down_proj")

    def layer(self, params, x, block, number):
        first, second = (block + name + ".weight" for name in self.NORMS)
        at = torch.arange(x.shape[1])
        window = self.FILE["window"] if number % 2 == 1 else 0
        near = (at[:, None] - at[None, :]).abs() < (window or x.shape[1])
        normed = centred_norm(x, params[first]) if first in params else x
        x = x + self.attention(params, normed, block, window=window, mask=near)
        return x + self.mlp(params, centred_norm(x, params[second]), block)

    def final_norm(self, params, x):
        return centred_norm(x, params["model.norm.weight"])

    def head(self, params, x):
        x = gelu(self.product(params, x, "model.head.dense"))
        return super().head(params, centred_norm(x, params["model.head.norm.weight"])) + params["lm_head.bias"]


MODELS = (Olmo3(), Cohere2(), Granite(), Phi(), ModernBert())
