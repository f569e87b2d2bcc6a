"""A tiny encoder with its decoder, as BlenderBot [Roller20], written with plain torch operations:
both before-norms, one scaled table of tokens, learned positions of their own, and in each layer of
the decoder attention to what the encoder gives. The encoder reads the decoder's tokens masked, as
golden_random.py says; the decoder is trained on the next token.

Names and layouts are those of golden_families.py. The encoder's layers come first.
"""

import math

import torch
from golden_families import Family, attend, gelu, heads_of, linear, norm, seen


class Blender(Family):
    ENCODES = True

    def __init__(self):
        super().__init__(
            "golden_blender_tiny",
            {
                "architecture": "gpt",
                "layers": 4,
                "encoder_layers": 2,
                "ffn": 128,
                "activation": "gelu",
                "scaled_embedding": True,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        file, h = self.FILE, self.FILE["hidden"]
        shapes = self.gpt_shapes(ends=("transformer.ln_f", "transformer.encoder.ln_f"))
        for stack in ("transformer.", "transformer.encoder."):
            shapes[stack + "wpe.weight"] = (file["sequence"], h)
        for layer in range(file["encoder_layers"], file["layers"]):
            block = f"transformer.h.{layer}."
            shapes[block + "ln_cross_attn.weight"] = shapes[block + "ln_cross_attn.bias"] = (h,)
            for part in ("q", "k", "v", "c_proj"):
                name = block + "crossattention." + part
                shapes[name + ".weight"], shapes[name + ".bias"] = (h, h), (h,)
        return shapes

    def attention(self, params, x, block, mask):
        file = self.FILE
        size = file["hidden"] // file["heads"]
        qkv = linear(params, norm(params, x, block + "ln_1"), block + "attn.c_attn")
        q, k, v = heads_of(qkv, file["heads"], file["heads"], size)
        return linear(params, attend(q, k, v, mask=mask, divisor=size), block + "attn.c_proj")

    def cross_attention(self, params, x, encoded, block):
        file = self.FILE
        size, part = file["hidden"] // file["heads"], block + "crossattention."
        q = linear(params, norm(params, x, block + "ln_cross_attn"), part + "q")
        qkv = (q, linear(params, encoded, part + "k"), linear(params, encoded, part + "v"))
        q, k, v = heads_of(torch.cat(qkv, dim=-1), file["heads"], file["heads"], size)
        all_keys = torch.ones(x.shape[1], encoded.shape[1], dtype=torch.bool)
        return linear(params, attend(q, k, v, mask=all_keys, divisor=size), part + "c_proj")

    def mlp(self, params, x, block):
        up = gelu(linear(params, norm(params, x, block + "ln_2"), block + "mlp.c_fc"))
        return linear(params, up, block + "mlp.c_proj")

    def look_up(self, params, tokens, stack):
        table = params["transformer.wte.weight"]
        return table[tokens] * math.sqrt(table.shape[1]) + params[stack + "wpe.weight"]

    def logits_of(self, params, inputs):
        file, (masked, tokens) = self.FILE, inputs
        encoded = self.look_up(params, masked, "transformer.encoder.")
        all_keys = torch.ones(masked.shape[1], masked.shape[1], dtype=torch.bool)
        for layer in range(file["encoder_layers"]):
            block = f"transformer.h.{layer}."
            encoded = encoded + self.attention(params, encoded, block, all_keys)
            encoded = encoded + self.mlp(params, encoded, block)
        encoded = norm(params, encoded, "transformer.encoder.ln_f")
        x = self.look_up(params, tokens, "transformer.")
        for layer in range(file["encoder_layers"], file["layers"]):
            block = f"transformer.h.{layer}."
            x = x + self.attention(params, x, block, seen(x.shape[1]))
            x = x + self.cross_attention(params, x, encoded, block)
            x = x + self.mlp(params, x, block)
        return norm(params, x, "transformer.ln_f") @ params["transformer.wte.weight"].T


MODEL = Blender()
