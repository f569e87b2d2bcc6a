"""A tiny Falcon-H1 [Zuo25]: Mamba-2 without a norm and attention side by side on the same norm,
before an MLP, with factors of their parts. torch.autograd gives the gradient.

Names are those of golden_mamba.py.
"""

import golden_mamba
import torch
from golden_families import attend, heads_of, rms_norm, rope, seen
from golden_mamba import EPSILON, convolve, layers_of


class Falcon(golden_mamba.Hybrid):
    def __init__(self, name, file):
        super().__init__(name, file)
        self.mixers["H"], self.shapes["H"] = self.both, self.both_shapes

    def both_shapes(self, block):
        shapes = {**self.mamba_shapes(block), **self.attention_shapes(block)}
        del shapes[block + "mamba.norm.weight"]
        return shapes

    def factor(self, name):
        return self.FILE.get(name + "_factor", 1)

    def plain_mamba(self, x, params, block):
        """Mamba-2 whose result is gated and not normalised."""
        n, p, g, state, inner, shared = self.sizes()
        b, s, _ = x.shape
        own = {k.removeprefix(block + "mamba."): v for k, v in params.items() if k.startswith(block)}
        parts = (x @ own["in_proj.weight"]).split((inner, inner, shared, shared, n), dim=-1)
        names = ("mamba_z", "mamba_x", "mamba_b", "mamba_c", "mamba_dt")
        z, *uxc, dt = (part * self.factor(k) for part, k in zip(parts, names, strict=True))
        uxc = convolve(torch.cat(uxc, dim=-1), own["conv1d.weight"], own["conv1d.bias"])
        u, key, query = uxc.split((inner, shared, shared), dim=-1)
        u = u.reshape(b, s, n, p)
        key, query = (
            part.reshape(b, s, g, state).repeat_interleave(n // g, dim=2) for part in (key, query)
        )
        dt = torch.nn.functional.softplus(dt + own["dt_bias"])
        decay = torch.exp(-torch.exp(own["A_log"]) * dt)
        h, out = torch.zeros(b, n, p, state, dtype=x.dtype), []
        for t in range(s):
            given = (dt[:, t, :, None] * u[:, t])[..., None] * key[:, t, :, None, :]
            h = decay[:, t, :, None, None] * h + given
            out.append((h * query[:, t, :, None, :]).sum(-1) + own["D"][:, None] * u[:, t])
        y = torch.stack(out, dim=1).reshape(b, s, inner) * z * torch.sigmoid(z)
        return (y * self.factor("mamba_out")) @ own["out_proj.weight"]

    def turned_attention(self, x, params, block):
        file = self.FILE
        size = file["hidden"] // file["heads"]
        qkv = x @ params[block + "self_attn.qkv_proj.weight"]
        q, k, v = heads_of(qkv, file["heads"], file["kv_heads"], size)
        q, k = (
            rope(part * self.factor(name), file["rope_theta"])
            for part, name in ((q, "query"), (k, "key"))
        )
        y = attend(q, k, v * self.factor("value"), mask=seen(x.shape[1]), divisor=size)
        return y @ params[block + "self_attn.o_proj.weight"]

    def both(self, x, params, block):
        return self.plain_mamba(x, params, block) + self.turned_attention(x, params, block)

    def mlp(self, x, params, block):
        gate, up = (x @ params[block + "mlp.gate_up_proj.weight"]).chunk(2, dim=-1)
        gate, up = gate * self.factor("mlp_gate"), up * self.factor("mlp_up")
        return (gate * torch.sigmoid(gate) * up) @ params[block + "mlp.down_proj.weight"]

    def layer(self, x, params, block):
        y = rms_norm(x, params[block + "input_layernorm.weight"], EPSILON)
        x = x + self.both(y, params, block)
        y = rms_norm(x, params[block + "post_attention_layernorm.weight"], EPSILON)
        return x + self.mlp(y, params, block)

    def logits_of(self, params, inputs):
        x = params["model.embed_tokens.weight"][inputs] * self.FILE["embedding_square"] ** 0.5
        for layer in range(len(layers_of(self.FILE))):
            x = self.layer(x, params, f"model.layers.{layer}.")
        x = rms_norm(x, params["model.norm.weight"], EPSILON) / self.FILE["logit_divisor"]
        return x @ params["lm_head.weight"].T

    def check_operations(self):
        super().check_operations()
        from transformers import FalconH1Config
        from transformers.models.falcon_h1 import modeling_falcon_h1 as theirs

        file = self.FILE
        n, p, g, state, inner, shared = self.sizes()
        h, f = file["hidden"], file["ffn"]
        attention_in, attention_out, ssm_in = 1.25, 0.75, 0.5
        ours = Falcon(self.NAME, {**file, "query_factor": attention_in,
                                  "key_factor": attention_in * 0.5,
                                  "value_factor": attention_in * attention_out})
        ssm = [self.factor("mamba_" + part) / ssm_in for part in ("z", "x", "b", "c", "dt")]
        config = FalconH1Config(
            hidden_size=h, intermediate_size=f, num_hidden_layers=1, rms_norm_eps=EPSILON,
            num_attention_heads=file["heads"], num_key_value_heads=file["kv_heads"],
            mamba_d_ssm=inner, mamba_n_heads=n, mamba_d_head=p, mamba_n_groups=g,
            mamba_d_state=state, mamba_chunk_size=8, mamba_rms_norm=False, key_multiplier=0.5,
            attention_in_multiplier=attention_in, attention_out_multiplier=attention_out,
            ssm_in_multiplier=ssm_in, ssm_multipliers=ssm,
            ssm_out_multiplier=self.factor("mamba_out"),
            mlp_multipliers=[self.factor("mlp_gate"), self.factor("mlp_up")],
        )
        config._attn_implementation = "eager"
        model = theirs.FalconH1Model(config).double()
        params = {k: torch.randn(shape, dtype=torch.float64) / 3
                  for k, shape in self.tensor_shapes().items() if k.startswith("model.layers.0.")}
        own = {k.removeprefix("model.layers.0."): v.T if k.endswith("proj.weight") else v
               for k, v in params.items()}
        kv = file["kv_heads"] * h // file["heads"]
        qkv = own.pop("self_attn.qkv_proj.weight").split((h, kv, kv))
        own |= {f"self_attn.{name}_proj.weight": part for name, part in zip("qkv", qkv, strict=True)}
        gate, up = own.pop("mlp.gate_up_proj.weight").chunk(2)
        own |= {"feed_forward.gate_proj.weight": gate, "feed_forward.up_proj.weight": up,
                "feed_forward.down_proj.weight": own.pop("mlp.down_proj.weight"),
                "pre_ff_layernorm.weight": own.pop("post_attention_layernorm.weight"),
                "mamba.conv1d.weight": own.pop("mamba.conv1d.weight").T[:, None, :]}
        model.layers[0].load_state_dict(own)
        x = torch.randn(2, 16, h, dtype=torch.float64)
        mask = torch.full((16, 16), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        turns = model.rotary_emb(x, torch.arange(16)[None])
        with torch.no_grad():
            expected = model.layers[0](x, attention_mask=mask, position_embeddings=turns)
            expected = expected[0] if isinstance(expected, tuple) else expected
            got = ours.layer(x, params, "model.layers.0.")
        difference = float((got - expected).abs().max())
        print(f"transformers: largest deviation of a layer of Falcon-H1 {difference:.2e}")
        # It keeps the state in single precision.
        assert difference < 1e-4 * float(expected.abs().max()), difference


MODEL = Falcon("golden_falcon_tiny",
               {"layers": 2, "kv_heads": 2, "ffn": 40, "rope_theta": 10000,
                "layer_pattern": "H- ", "mamba_norm": False, **golden_mamba.MAMBA,
                "embedding_square": 32, "logit_divisor": 3.2, "mamba_z_factor": 0.5,
                "mamba_x_factor": 0.25, "mamba_b_factor": 1.5, "mamba_c_factor": 0.75,
                "mamba_dt_factor": 1.25, "mamba_out_factor": 0.375, "query_factor": 1.125,
                "key_factor": 0.390625, "value_factor": 0.9375, "mlp_gate_factor": 0.875,
                "mlp_up_factor": 0.625})
