"""A tiny Llama with a vision tower in front of it [Liu23b], written with plain torch operations: patches
of two images go through a product, layers that see windows and images in turns, and two projectors
whose sum stands in the place of the first tokens.

Names are those of golden_llama.py, of the tower with "visual" before them. Patches are noise: a
stream "pixels" of golden_random, by the sample and the place in its patches.
"""

import importlib.util

import golden_families
import golden_random
import numpy as np
import torch
from golden_families import attend, gelu_tanh, heads_of, linear, norm, rms_norm, rope, seen
from golden_llama import mlp, swiglu

EPSILON = 1e-5
SEED = 0
TEXT = {"architecture": "llama", "kv_heads": 2, "ffn": 40, "rope_theta": 10000,
        "tied_embeddings": False}
TOWER = {"vision_layers": 4, "vision_hidden": 24, "vision_heads": 2, "vision_ffn": 20,
         "vision_patch": 9, "vision_patches": 8, "vision_images": 2, "vision_merge": 2,
         "vision_positions": 4, "vision_window": 4, "vision_full_every": 2,
         "vision_gated_mlp": True, "vision_patch_bias": True, "vision_qk_norm": True,
         "vision_embedding_norm": True, "vision_rope": True,
         "vision_projector": "layernorm merge 30+bias gelu 40 swiglu 32+bias; mean rmsnorm 32"}
# Numbers of the steps above over all projectors.
NORM, FIRST, SECOND, THIRD, MEAN_NORM, LAST = 0, 2, 4, 6, 8, 9
VISUAL = "model.visual."


class Vision(golden_families.Family):
    def __init__(self, name):
        super().__init__(name, {**TEXT, **TOWER})

    def begin_batch(self, samples):
        """Keeps the patches of the batch's samples, whose tokens come next."""
        patches = self.FILE["vision_images"] * self.FILE["vision_patches"]
        values = patches * self.FILE["vision_patch"]
        indices = samples[:, None] * values + np.arange(values)
        x0, x1 = golden_random.draw(indices, "pixels", golden_random.INIT_ROLE, SEED)[:2]
        u1, u2 = ((x.astype(np.float64) + 0.5) / 2.0**32 for x in (x0, x1))
        drawn = np.sqrt(-2.0 * np.log(u1)) * np.cos(2.0 * np.pi * u2)
        self.pixels = torch.from_numpy(drawn.reshape(len(samples), patches, -1))

    def tower_shapes(self):
        h, f, patch = (self.FILE["vision_" + k] for k in ("hidden", "ffn", "patch"))
        shapes = {VISUAL + "patch_embed.proj.weight": (patch, h),
                  VISUAL + "patch_embed.proj.bias": (h,),
                  VISUAL + "pos_embed.weight": (self.FILE["vision_positions"], h),
                  VISUAL + "patch_norm.weight": (h,), VISUAL + "patch_norm.bias": (h,)}
        for layer in range(self.FILE["vision_layers"]):
            block = f"{VISUAL}blocks.{layer}."
            for name in ("input_layernorm", "post_attention_layernorm"):
                shapes[block + name + ".weight"] = shapes[block + name + ".bias"] = (h,)
            for name in ("q_norm", "k_norm"):
                shapes[f"{block}self_attn.{name}.weight"] = (h // self.FILE["vision_heads"],)
            for name, size in (("self_attn.qkv_proj", (h, 3 * h)), ("self_attn.o_proj", (h, h)),
                               ("mlp.gate_up_proj", (h, 2 * f)), ("mlp.down_proj", (f, h))):
                shapes[block + name + ".weight"], shapes[block + name + ".bias"] = size, size[1:]
        for step, size, bias in ((FIRST, (2 * h, 30), True), (SECOND, (30, 40), False),
                                 (THIRD, (20, 32), True), (LAST, (h, 32), False)):
            shapes[f"{VISUAL}merger.{step}.weight"] = size
            if bias:
                shapes[f"{VISUAL}merger.{step}.bias"] = size[1:]
        shapes[f"{VISUAL}merger.{NORM}.weight"] = shapes[f"{VISUAL}merger.{NORM}.bias"] = (h,)
        shapes[f"{VISUAL}merger.{MEAN_NORM}.weight"] = (h,)
        return shapes

    def tensor_shapes(self):
        h, f, vocab = (self.FILE[k] for k in ("hidden", "ffn", "vocab"))
        shapes = {"model.embed_tokens.weight": (vocab, h), **self.tower_shapes()}
        for layer in range(self.FILE["layers"]):
            block = f"model.layers.{layer}."
            shapes[block + "input_layernorm.weight"] = (h,)
            shapes[block + "self_attn.qkv_proj.weight"] = (h, 2 * h)
            shapes[block + "self_attn.o_proj.weight"] = (h, h)
            shapes[block + "post_attention_layernorm.weight"] = (h,)
            shapes[block + "mlp.gate_up_proj.weight"] = (h, 2 * f)
            shapes[block + "mlp.down_proj.weight"] = (f, h)
        shapes["model.norm.weight"] = (h,)
        shapes["lm_head.weight"] = (vocab, h)
        return shapes

    def tower_layer(self, x, params, layer):
        block, file = f"{VISUAL}blocks.{layer}.", self.FILE
        heads, size = file["vision_heads"], file["vision_hidden"] // file["vision_heads"]
        y = norm(params, x, block + "input_layernorm")
        q, k, v = heads_of(linear(params, y, block + "self_attn.qkv_proj"), heads, heads, size)
        if block + "self_attn.q_norm.weight" in params:
            q, k = (rms_norm(part, params[f"{block}self_attn.{name}.weight"], EPSILON)
                    for part, name in ((q, "q_norm"), (k, "k_norm")))
        q, k = rope(q, 10000.0), rope(k, 10000.0)
        whole = (layer + 1) % file["vision_full_every"] == 0
        part = file["vision_patches"] if whole else file["vision_window"]
        place = torch.arange(x.shape[1]) // part
        y = attend(q, k, v, mask=place[:, None] == place[None, :], divisor=size)
        x = x + linear(params, y, block + "self_attn.o_proj")
        y = norm(params, x, block + "post_attention_layernorm")
        return x + linear(params, swiglu(linear(params, y, block + "mlp.gate_up_proj")),
                          block + "mlp.down_proj")

    def images(self, params):
        """[b, tokens of images, h]"""
        x = linear(params, self.pixels, VISUAL + "patch_embed.proj")
        patches, rows = self.FILE["vision_patches"], self.FILE["vision_positions"]
        row = torch.arange(x.shape[1]) % patches // (patches // rows)
        x = norm(params, x + params[VISUAL + "pos_embed.weight"][row], VISUAL + "patch_norm")
        for layer in range(self.FILE["vision_layers"]):
            x = self.tower_layer(x, params, layer)
        b, merge = x.shape[0], self.FILE["vision_merge"]
        merger = [f"{VISUAL}merger.{step}" for step in range(LAST + 1)]
        y = norm(params, x, merger[NORM]).reshape(b, -1, merge * x.shape[-1])
        y = gelu_tanh(linear(params, y, merger[FIRST])) @ params[merger[SECOND] + ".weight"]
        y = linear(params, swiglu(y), merger[THIRD])
        mean = x.reshape(b, -1, merge, x.shape[-1]).mean(dim=2)
        mean = rms_norm(mean, params[merger[MEAN_NORM] + ".weight"], EPSILON)
        return y + mean @ params[merger[LAST] + ".weight"]

    def logits_of(self, params, inputs):
        x, images = params["model.embed_tokens.weight"][inputs], self.images(params)
        x = torch.cat((images, x[:, images.shape[1] :]), dim=1)
        heads, groups = self.FILE["heads"], self.FILE["kv_heads"]
        size = self.FILE["hidden"] // heads
        for layer in range(self.FILE["layers"]):
            block = f"model.layers.{layer}."
            y = rms_norm(x, params[block + "input_layernorm.weight"], EPSILON)
            qkv = y @ params[block + "self_attn.qkv_proj.weight"]
            q, k, v = heads_of(qkv, heads, groups, size)
            y = attend(rope(q, 10000.0), rope(k, 10000.0), v, mask=seen(x.shape[1]), divisor=size)
            x = x + y @ params[block + "self_attn.o_proj.weight"]
            y = rms_norm(x, params[block + "post_attention_layernorm.weight"], EPSILON)
            x = x + mlp(y, params, block)
        x = rms_norm(x, params["model.norm.weight"], EPSILON)
        return x @ params["lm_head.weight"].T

    def check_operations(self):
        """A layer without norms of queries and keys is that of Qwen2.5-VL with LayerNorm."""
        if not importlib.util.find_spec("transformers"):
            return print("transformers is not installed: a layer of the tower is not compared")
        from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
        from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLVisionBlock

        torch.manual_seed(7)
        h, heads, f = (self.FILE["vision_" + k] for k in ("hidden", "heads", "ffn"))
        config = Qwen2_5_VLVisionConfig(hidden_size=h, num_heads=heads, intermediate_size=f,
                                        depth=1, out_hidden_size=h, attn_implementation="eager")
        theirs = Qwen2_5_VLVisionBlock(config).double()
        theirs.norm1, theirs.norm2 = (torch.nn.LayerNorm(h, EPSILON).double() for _ in range(2))
        block = f"{VISUAL}blocks.0."
        params = {name: torch.randn(shape, dtype=torch.float64) / 3
                  for name, shape in self.tower_shapes().items()
                  if name.startswith(block) and "_norm." not in name}
        own = {name.removeprefix(block): value for name, value in params.items()}
        layout = {}
        for ours, name in (("input_layernorm", "norm1"), ("post_attention_layernorm", "norm2"),
                           ("self_attn.qkv_proj", "attn.qkv"), ("self_attn.o_proj", "attn.proj"),
                           ("mlp.down_proj", "mlp.down_proj")):
            layout[name + ".weight"] = own[ours + ".weight"].T
            layout[name + ".bias"] = own[ours + ".bias"]
        for part, (weight, bias) in zip(("gate", "up"), zip(
                own["mlp.gate_up_proj.weight"].chunk(2, dim=-1),
                own["mlp.gate_up_proj.bias"].chunk(2))):
            layout[f"mlp.{part}_proj.weight"], layout[f"mlp.{part}_proj.bias"] = weight.T, bias
        theirs.load_state_dict(layout)
        patches, window = self.FILE["vision_patches"], self.FILE["vision_window"]
        size = h // heads
        rates = 10000.0 ** (-2.0 * torch.arange(size // 2, dtype=torch.float64) / size)
        angles = (torch.arange(patches, dtype=torch.float64)[:, None] * rates).repeat(1, 2)
        x = torch.randn(1, patches, h, dtype=torch.float64)
        with torch.no_grad():
            expected = theirs(x[0], cu_seqlens=torch.arange(0, patches + 1, window),
                              position_embeddings=(angles.cos(), angles.sin()))
            got = self.tower_layer(x, params, 0)[0]
        difference = float((got - expected).abs().max())
        print(f"transformers: largest deviation of a layer of the tower {difference:.2e}")
        # It turns queries and keys in single precision.
        assert difference < 1e-5 * float(expected.abs().max()), difference
        return None


MODEL = Vision("golden_vision_tiny")
