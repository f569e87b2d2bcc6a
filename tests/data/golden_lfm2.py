"""A tiny LFM2 [Liquid25]: gated short convolutions and attention with normalised queries and keys in
turns, each before an MLP.

Names are those of golden_mamba.py; conv.in_proj has columns B, C, x.
"""

import golden_mamba
import torch
from golden_families import attend, heads_of, rms_norm, rope, seen
from golden_mamba import EPSILON


class Lfm2(golden_mamba.Hybrid):
    def __init__(self, name, file):
        super().__init__(name, file)
        self.mixers["C"], self.shapes["C"] = self.short, self.short_shapes
        self.mixers["*"], self.shapes["*"] = self.normed_attention, self.normed_shapes

    def short_shapes(self, block):
        h, width, own = self.FILE["hidden"], self.FILE["short_conv_width"], block + "conv."
        return {
            own + "in_proj.weight": (h, 3 * width),
            own + "conv.weight": (3, width),
            own + "out_proj.weight": (width, h),
        }

    def short(self, x, params, block):
        own, s = block + "conv.", x.shape[1]
        before, behind, u = (x @ params[own + "in_proj.weight"]).chunk(3, dim=-1)
        weight = params[own + "conv.weight"]
        padded = torch.nn.functional.pad(before * u, (0, 0, len(weight) - 1, 0))
        y = behind * sum(padded[:, tap : tap + s] * row for tap, row in enumerate(weight))
        return y @ params[own + "out_proj.weight"]

    def normed_shapes(self, block):
        size = self.FILE["hidden"] // self.FILE["heads"]
        shapes = self.attention_shapes(block)
        shapes[block + "self_attn.q_norm.weight"] = (size,)
        shapes[block + "self_attn.k_norm.weight"] = (size,)
        return shapes

    def normed_attention(self, x, params, block):
        file, own = self.FILE, block + "self_attn."
        size = file["hidden"] // file["heads"]
        q, k, v = heads_of(x @ params[own + "qkv_proj.weight"], file["heads"], file["kv_heads"],
                           size)
        q, k = (
            rope(rms_norm(part, params[f"{own}{name}_norm.weight"], EPSILON), file["rope_theta"])
            for part, name in ((q, "q"), (k, "k"))
        )
        y = attend(q, k, v, mask=seen(x.shape[1]), divisor=size)
        return y @ params[own + "o_proj.weight"]

    def check_operations(self):
        super().check_operations()
        from transformers import Lfm2Config
        from transformers.models.lfm2.modeling_lfm2 import Lfm2ShortConv

        h, width = self.FILE["hidden"], self.FILE["short_conv_width"]
        assert width == h
        config = Lfm2Config(hidden_size=h, num_hidden_layers=1, conv_L_cache=3, layer_types=["conv"])
        mixer = Lfm2ShortConv(config, layer_idx=0).double()
        params = {k: torch.randn(shape, dtype=torch.float64)
                  for k, shape in self.short_shapes("").items()}
        own = {k.removeprefix("conv."): v.T for k, v in params.items()}
        own["conv.weight"] = own["conv.weight"][:, None, :]
        mixer.load_state_dict(own)
        x = torch.randn(2, 16, h, dtype=torch.float64)
        with torch.no_grad():
            expected, got = mixer(x), self.short(x, params, "")
        difference = float((got - expected).abs().max())
        print(f"transformers: largest deviation of a gated short convolution {difference:.2e}")
        assert difference < 1e-10 * float(expected.abs().max()), difference


MODEL = Lfm2("golden_lfm2_tiny",
             {"layers": 4, "kv_heads": 2, "ffn": 40, "rope_theta": 10000, "qk_norm": True,
              "layer_pattern": "C- *-", "short_conv_width": 32})
