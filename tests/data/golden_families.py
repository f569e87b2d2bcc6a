"""Tiny decoders of later families, written with plain torch operations:

  Gemma    Gemma 2 [Gemma24]: windows in every second layer, norms of what branches give, GeGLU,
           caps of scores and logits, a divisor of scores of its own, scaled embeddings
  NeoX     GPT-NeoX [Black22]: both branches read the layer's input, a quarter of a head turns
  Bloom    BLOOM [Scao22]: scores lowered by distance [Press22], a norm of the embeddings
  Bert     a query sees all keys, the loss is that of masked tokens [Devlin19]; norms as in GPT-2
  Sinks    the attention of GPT-OSS: a score of each head that no key has [Xiao24], windows in turn

Names and layouts are those of golden_gpt2.py and golden_llama.py. Each has the file of its model,
as zplan reads it, in MODEL["file"]. s = positions, h = hidden, a = heads, d = size of a head.
"""

import math

import torch
import torch.nn.functional as functional

COMMON = {"layers": 2, "hidden": 32, "heads": 4, "vocab": 256, "sequence": 16, "global_batch": 4}


def rms_norm(x, gain, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * gain


def layer_norm(x, gain, bias, eps=1e-5):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + eps) * gain + bias


def linear(params, value, part):
    return value @ params[part + ".weight"] + params[part + ".bias"]


def norm(params, value, part):
    """A LayerNorm with the gain and bias of this name."""
    return layer_norm(value, params[part + ".weight"], params[part + ".bias"])


def gelu_tanh(x):
    return x / 2 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu(x):
    return x / 2 * (1 + torch.erf(x / math.sqrt(2)))


def silu(x):
    return x / (1 + torch.exp(-x))


def soft_cap(x, cap):
    return cap * torch.tanh(x / cap)


def rope(x, theta, size=None, stretch=1):
    """Turns pairs (i, i + r/2) of the first r elements of x [b, a, s, d] by p theta^(-2i/r)."""
    size = size or x.shape[-1]
    half = size // 2
    rates = torch.tensor([theta ** (-2.0 * i / size) for i in range(half)], dtype=torch.float64)
    angles = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] / stretch * rates
    first, second, rest = x[..., :half], x[..., half:size], x[..., size:]
    turned = (
        first * torch.cos(angles) - second * torch.sin(angles),
        second * torch.cos(angles) + first * torch.sin(angles),
        rest,
    )
    return torch.cat(turned, dim=-1)


def seen(s, window=0):
    """Which keys [s, s] a query sees: the last `window` up to its own, 0: all of them."""
    query, key = torch.arange(s)[:, None], torch.arange(s)[None, :]
    return (key <= query) & ((key > query - window) if window else True)


def attend(q, k, v, *, mask, divisor, cap=0, lowered=None, sinks=None):
    """[b, a, s, d] each -> [b, s, a d]."""
    b, a, s, _ = q.shape
    scores = q @ k.transpose(-1, -2) / math.sqrt(divisor)
    if cap:
        scores = soft_cap(scores, cap)
    if lowered is not None:
        scores = scores + lowered
    scores = scores.masked_fill(~mask, -math.inf)
    if sinks is not None:
        beside = sinks.reshape(1, a, 1, 1).expand(b, a, s, 1)
        weights = torch.softmax(torch.cat((scores, beside), dim=-1), dim=-1)[..., :-1]
    else:
        weights = torch.softmax(scores, dim=-1)
    return (weights @ v).transpose(1, 2).reshape(b, s, -1)


def heads_of(qkv, heads, groups, size):
    """Columns q, k, v -> [b, a, s, d] each; query head i uses key-value head i / (a / g)."""
    b, s, _ = qkv.shape
    parts = qkv.split([heads * size, groups * size, groups * size], dim=-1)
    q, k, v = (part.reshape(b, s, -1, size).transpose(1, 2) for part in parts)
    return q, *(part.repeat_interleave(heads // groups, dim=1) for part in (k, v))


class Family:
    """What make_golden.py asks of a model."""

    def __init__(self, name, file):
        self.NAME = name
        self.FILE = {**COMMON, **file}
        self.MODEL = {
            "seq": COMMON["sequence"],
            "file": {
                "schema": "zplan.model/1",
                "name": name,
                "source": "a test",
                **self.FILE,
            },
        }

    def init_std(self, name, std):
        """GPT-2 divides by sqrt(2 L) in the matrices that feed the residual stream."""
        scaled = self.FILE["architecture"] == "gpt" and name.endswith("c_proj.weight")
        return std / math.sqrt(2 * self.FILE["layers"]) if scaled else std

    def gpt_shapes(self, *, ends, norms=("ln_1", "ln_2")):
        h, f = self.FILE["hidden"], self.FILE["ffn"]
        shapes = {"transformer.wte.weight": (self.FILE["vocab"], h)}
        for end in ends:
            shapes[end + ".weight"], shapes[end + ".bias"] = (h,), (h,)
        for layer in range(self.FILE["layers"]):
            block = f"transformer.h.{layer}."
            for norm in norms:
                shapes[block + norm + ".weight"] = shapes[block + norm + ".bias"] = (h,)
            sizes = {"attn.c_attn": (h, 3 * h), "attn.c_proj": (h, h)}
            sizes.update({"mlp.c_fc": (h, f), "mlp.c_proj": (f, h)})
            for part, size in sizes.items():
                shapes[block + part + ".weight"], shapes[block + part + ".bias"] = size, size[1:]
        if not self.FILE["tied_embeddings"]:
            shapes["lm_head.weight"] = (self.FILE["vocab"], h)
        return shapes

    def llama_shapes(self, norms, vectors=()):
        file = self.FILE
        h, f, d = file["hidden"], file["ffn"], file["head_size"]
        shapes = {"model.embed_tokens.weight": (file["vocab"], h)}
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            for norm in norms:
                shapes[block + norm + ".weight"] = (h,)
            for name, size in vectors:
                shapes[block + name] = (size,)
            width = (file["heads"] + 2 * file["kv_heads"]) * d
            shapes[block + "self_attn.qkv_proj.weight"] = (h, width)
            shapes[block + "self_attn.o_proj.weight"] = (file["heads"] * d, h)
            shapes[block + "mlp.gate_up_proj.weight"] = (h, 2 * f)
            shapes[block + "mlp.down_proj.weight"] = (f, h)
        shapes["model.norm.weight"] = (h,)
        if not file["tied_embeddings"]:
            shapes["lm_head.weight"] = (file["vocab"], h)
        return shapes

    def check_operations(self):
        """The written-out operations equal those of torch."""
        torch.manual_seed(3)
        x = torch.randn(3, 5, 8, dtype=torch.float64)
        gain, bias = torch.randn(2, 8, dtype=torch.float64)
        close = torch.testing.assert_close
        close(layer_norm(x, gain, bias), functional.layer_norm(x, (8,), gain, bias, 1e-5))
        close(rms_norm(x, gain, 1e-6), functional.rms_norm(x, (8,), gain, 1e-6))
        close(gelu_tanh(x), functional.gelu(x, approximate="tanh"))
        close(gelu(x), functional.gelu(x))
        close(silu(x), functional.silu(x))
        q, k, v = torch.randn(3, 2, 4, 7, 6, dtype=torch.float64)
        mask = seen(7, 3)
        expected = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.5)
        own = attend(q, k, v, mask=mask, divisor=4)
        close(own, expected.transpose(1, 2).reshape(2, 7, -1))
        sinks = torch.full((4,), -math.inf, dtype=torch.float64)
        close(attend(q, k, v, mask=mask, divisor=4, sinks=sinks), own)


class Gemma(Family):
    NORMS = (
        "input_layernorm",
        "attention_output_layernorm",
        "post_attention_layernorm",
        "mlp_output_layernorm",
    )

    def __init__(self):
        super().__init__(
            "golden_gemma_tiny",
            {
                "architecture": "llama",
                "kv_heads": 2,
                "head_size": 12,
                "ffn": 88,
                "rope_theta": 10000,
                "local_rope_theta": 100,
                "rope_stretch": 2,
                "activation": "gelu_tanh",
                "post_norms": True,
                "scaled_embedding": True,
                "norm_epsilon": 1e-6,
                "attention_cap": 2,
                "logit_cap": 3,
                "attention_divisor": 7,
                "window": 5,
                "full_layers": 1,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        return self.llama_shapes(self.NORMS)

    def logits_of(self, params, inputs):
        file, table = self.FILE, params["model.embed_tokens.weight"]
        x = table[inputs] * math.sqrt(file["hidden"])
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            norms = [params[block + name + ".weight"] for name in self.NORMS]
            own, eps = layer % 2 == 0, file["norm_epsilon"]
            window, theta, stretch = (5, 100, 1) if own else (0, 10000, 2)
            qkv = rms_norm(x, norms[0], eps) @ params[block + "self_attn.qkv_proj.weight"]
            q, k, v = heads_of(qkv, file["heads"], file["kv_heads"], file["head_size"])
            q, k = (rope(part, theta, stretch=stretch) for part in (q, k))
            y = attend(q, k, v, mask=seen(x.shape[1], window), divisor=7, cap=2)
            x = x + rms_norm(y @ params[block + "self_attn.o_proj.weight"], norms[1], eps)
            up = rms_norm(x, norms[2], eps) @ params[block + "mlp.gate_up_proj.weight"]
            gate, up = up.chunk(2, dim=-1)
            y = (gelu_tanh(gate) * up) @ params[block + "mlp.down_proj.weight"]
            x = x + rms_norm(y, norms[3], eps)
        return soft_cap(rms_norm(x, params["model.norm.weight"], 1e-6) @ table.T, 3)


class NeoX(Family):
    def __init__(self):
        super().__init__(
            "golden_neox_tiny",
            {
                "architecture": "gpt",
                "position": "rope",
                "ffn": 128,
                "rope_theta": 10000,
                "rotary_size": 2,
                "activation": "gelu",
                "parallel_residual": "two_norms",
                "tied_embeddings": False,
            },
        )

    def tensor_shapes(self):
        return self.gpt_shapes(ends=("transformer.ln_f",))

    def logits_of(self, params, inputs):
        file = self.FILE
        x = params["transformer.wte.weight"][inputs]
        size = file["hidden"] // file["heads"]

        for layer in range(file["layers"]):
            block = f"transformer.h.{layer}."
            qkv = linear(params, norm(params, x, block + "ln_1"), block + "attn.c_attn")
            q, k, v = heads_of(qkv, file["heads"], file["heads"], size)
            q, k = rope(q, 10000, 2), rope(k, 10000, 2)
            y = attend(q, k, v, mask=seen(x.shape[1]), divisor=size)
            y = linear(params, y, block + "attn.c_proj")
            up = gelu(linear(params, norm(params, x, block + "ln_2"), block + "mlp.c_fc"))
            x = x + y + linear(params, up, block + "mlp.c_proj")
        return norm(params, x, "transformer.ln_f") @ params["lm_head.weight"].T


class Bloom(Family):
    def __init__(self):
        super().__init__(
            "golden_bloom_tiny",
            {
                "architecture": "gpt",
                "position": "alibi",
                "heads": 6,
                "hidden": 36,
                "ffn": 144,
                "embedding_norm": True,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        return self.gpt_shapes(ends=("transformer.ln_emb", "transformer.ln_f"))

    @staticmethod
    def slopes():
        """Of six heads [Press22]: those of four, then the first and the third of eight."""
        four = [2 ** (-8 * h / 4) for h in (1, 2, 3, 4)]
        return torch.tensor(four + [2 ** (-8 * h / 8) for h in (1, 3)], dtype=torch.float64)

    def logits_of(self, params, inputs):
        file = self.FILE
        size = file["hidden"] // file["heads"]

        x = norm(params, params["transformer.wte.weight"][inputs], "transformer.ln_emb")
        s = x.shape[1]
        # A key's score grows with its position: the same probabilities, as rows only shift.
        lowered = self.slopes()[:, None, None] * torch.arange(s, dtype=torch.float64)
        for layer in range(file["layers"]):
            block = f"transformer.h.{layer}."
            qkv = linear(params, norm(params, x, block + "ln_1"), block + "attn.c_attn")
            q, k, v = heads_of(qkv, file["heads"], file["heads"], size)
            y = attend(q, k, v, mask=seen(s), divisor=size, lowered=lowered)
            x = x + linear(params, y, block + "attn.c_proj")
            up = gelu_tanh(linear(params, norm(params, x, block + "ln_2"), block + "mlp.c_fc"))
            x = x + linear(params, up, block + "mlp.c_proj")
        return norm(params, x, "transformer.ln_f") @ params["transformer.wte.weight"].T


class Bert(Family):
    MASKED = True

    def __init__(self):
        super().__init__(
            "golden_bert_tiny",
            {"architecture": "gpt", "ffn": 128, "bidirectional": True, "tied_embeddings": True},
        )

    def tensor_shapes(self):
        shapes = self.gpt_shapes(ends=("transformer.ln_f",))
        shapes["transformer.wpe.weight"] = (self.FILE["sequence"], self.FILE["hidden"])
        return shapes

    def logits_of(self, params, inputs):
        file, table = self.FILE, params["transformer.wte.weight"]
        x = table[inputs] + params["transformer.wpe.weight"]
        size = file["hidden"] // file["heads"]
        all_keys = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)

        for layer in range(file["layers"]):
            block = f"transformer.h.{layer}."
            qkv = linear(params, norm(params, x, block + "ln_1"), block + "attn.c_attn")
            q, k, v = heads_of(qkv, file["heads"], file["heads"], size)
            y = attend(q, k, v, mask=all_keys, divisor=size)
            x = x + linear(params, y, block + "attn.c_proj")
            up = gelu_tanh(linear(params, norm(params, x, block + "ln_2"), block + "mlp.c_fc"))
            x = x + linear(params, up, block + "mlp.c_proj")
        return norm(params, x, "transformer.ln_f") @ table.T


class Sinks(Family):
    NORMS = ("input_layernorm", "post_attention_layernorm")

    def __init__(self):
        super().__init__(
            "golden_sinks_tiny",
            {
                "architecture": "llama",
                "kv_heads": 2,
                "head_size": 8,
                "ffn": 88,
                "rope_theta": 150000,
                "attention_sinks": True,
                "window": 4,
                "full_layers": 1,
                "tied_embeddings": False,
            },
        )

    def tensor_shapes(self):
        return self.llama_shapes(self.NORMS, [("self_attn.sinks", self.FILE["heads"])])

    def logits_of(self, params, inputs):
        file = self.FILE
        x = params["model.embed_tokens.weight"][inputs]
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            first, second = (params[block + name + ".weight"] for name in self.NORMS)
            qkv = rms_norm(x, first, 1e-5) @ params[block + "self_attn.qkv_proj.weight"]
            q, k, v = heads_of(qkv, file["heads"], file["kv_heads"], 8)
            mask = seen(x.shape[1], 4 if layer % 2 == 0 else 0)
            sinks = params[block + "self_attn.sinks"]
            q, k = rope(q, 150000), rope(k, 150000)
            y = attend(q, k, v, mask=mask, divisor=8, sinks=sinks)
            x = x + y @ params[block + "self_attn.o_proj.weight"]
            up = rms_norm(x, second, 1e-5) @ params[block + "mlp.gate_up_proj.weight"]
            gate, up = up.chunk(2, dim=-1)
            x = x + (silu(gate) * up) @ params[block + "mlp.down_proj.weight"]
        return rms_norm(x, params["model.norm.weight"], 1e-5) @ params["lm_head.weight"].T


MODELS = (Gemma(), NeoX(), Bloom(), Bert(), Sinks())
