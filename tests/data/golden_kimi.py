"""A tiny model of Kimi delta attention [KimiTeam25 sec 4] and latent attention [DeepSeek24 sec 2.1]
without positions in turns, each before an MLP. The state is computed token by token; torch.autograd
gives its gradient.

Names are those of golden_mamba.py and golden_mla.py; self_attn.in_proj has columns queries, keys,
values, b.
"""

import golden_mamba
import torch
from golden_families import attend, rms_norm, seen
from golden_mamba import EPSILON, convolve


class Kimi(golden_mamba.Hybrid):
    def __init__(self, name, file):
        super().__init__(name, file)
        self.mixers["K"], self.shapes["K"] = self.kimi, self.kimi_shapes
        self.mixers["*"], self.shapes["*"] = self.latent, self.latent_shapes

    def kimi_shapes(self, block):
        n, d, h = (self.FILE[k] for k in ("kda_heads", "kda_head_size", "hidden"))
        own = block + "self_attn."
        return {
            own + "in_proj.weight": (h, 3 * n * d + n),
            own + "f_a_proj.weight": (h, d),
            own + "f_b_proj.weight": (d, n * d),
            own + "g_a_proj.weight": (h, d),
            own + "g_b_proj.weight": (d, n * d),
            own + "conv1d.weight": (4, 3 * n * d),
            own + "dt_bias": (n * d,),
            own + "A_log": (n,),
            own + "o_norm.weight": (d,),
            own + "o_proj.weight": (n * d, h),
        }

    def kimi(self, x, params, block):
        n, d = self.FILE["kda_heads"], self.FILE["kda_head_size"]
        b, s, _ = x.shape
        own = {
            k.removeprefix(block + "self_attn."): value
            for k, value in params.items()
            if k.startswith(block)
        }
        qkv, beta = (x @ own["in_proj.weight"]).split((3 * n * d, n), dim=-1)
        q, k, value = convolve(qkv, own["conv1d.weight"]).reshape(b, s, 3, n, d).unbind(2)
        q, k = (part / torch.sqrt((part * part).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
        beta = torch.sigmoid(beta)
        step = x @ own["f_a_proj.weight"] @ own["f_b_proj.weight"] + own["dt_bias"]
        step = torch.nn.functional.softplus(step).reshape(b, s, n, d)
        decay = torch.exp(-torch.exp(own["A_log"])[:, None] * step)
        state, out = torch.zeros(b, n, d, d, dtype=x.dtype), []
        for t in range(s):
            state = decay[:, t, :, :, None] * state
            missing = value[:, t] - (state * k[:, t, :, :, None]).sum(2)
            learned = beta[:, t, :, None] * missing
            state = state + k[:, t, :, :, None] * learned[:, :, None, :]
            out.append((state * q[:, t, :, :, None]).sum(2) / d**0.5)
        y = torch.stack(out, dim=1)
        gate = x @ own["g_a_proj.weight"] @ own["g_b_proj.weight"]
        y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + EPSILON) * own["o_norm.weight"]
        y = y.reshape(b, s, n * d) * torch.sigmoid(gate)
        return y @ own["o_proj.weight"]

    def latent_sizes(self):
        names = ("heads", "kv_lora_rank", "qk_nope_head_size", "qk_rope_head_size", "v_head_size")
        return tuple(self.FILE[k] for k in names)

    def latent_shapes(self, block):
        heads, rank, nope, rope, v = self.latent_sizes()
        h, own = self.FILE["hidden"], block + "self_attn."
        return {
            own + "kv_a_proj.weight": (h, rank),
            own + "kv_a_layernorm.weight": (rank,),
            own + "k_rope_proj.weight": (h, rope),
            own + "q_proj.weight": (h, heads * (nope + rope)),
            own + "kv_b_proj.weight": (rank, heads * (nope + v)),
            own + "o_proj.weight": (heads * v, h),
        }

    def latent(self, x, params, block):
        """Its ropes do not turn."""
        heads, _, nope, rope, v = self.latent_sizes()
        b, s, _ = x.shape
        own = {k.removeprefix(block + "self_attn."): p for k, p in params.items()}
        q = (x @ own["q_proj.weight"]).reshape(b, s, heads, nope + rope).transpose(1, 2)
        c = rms_norm(x @ own["kv_a_proj.weight"], own["kv_a_layernorm.weight"], EPSILON)
        kv = (c @ own["kv_b_proj.weight"]).reshape(b, s, heads, nope + v).transpose(1, 2)
        shared = (x @ own["k_rope_proj.weight"])[:, None].expand(b, heads, s, rope)
        k = torch.cat((kv[..., :nope], shared), dim=-1)
        y = attend(q, k, kv[..., nope:], mask=seen(s), divisor=nope + rope)
        return y @ own["o_proj.weight"]

    def check_operations(self):
        super().check_operations()
        from transformers import KimiLinearConfig
        from transformers.models.kimi_linear import modeling_kimi_linear as theirs

        n, d, h = (self.FILE[k] for k in ("kda_heads", "kda_head_size", "hidden"))
        heads, rank, nope, rope, v = self.latent_sizes()
        config = KimiLinearConfig(
            hidden_size=h, linear_num_heads=n, linear_head_dim=d, linear_conv_kernel_dim=4,
            rms_norm_eps=EPSILON, num_hidden_layers=4, num_attention_heads=heads,
            num_key_value_heads=heads, kv_lora_rank=rank, qk_nope_head_dim=nope,
            qk_rope_head_dim=rope, v_head_dim=v,
        )
        config._attn_implementation = "eager"
        x = torch.randn(2, 16, h, dtype=torch.float64)

        def compare(what, mixer, own, expected_of, got_of):
            mixer = mixer.double()
            mixer.load_state_dict(own)
            with torch.no_grad():
                expected, got = expected_of(mixer), got_of()
            difference = float((got - expected).abs().max())
            print(f"transformers: largest deviation of {what} {difference:.2e}")
            # It keeps the state, and the sums of norms, in single precision.
            assert difference < 1e-4 * float(expected.abs().max()), difference

        params = {k: torch.randn(shape, dtype=torch.float64) / 3
                  for k, shape in self.kimi_shapes("").items()}
        own = {k.removeprefix("self_attn."): p.T if k.endswith("proj.weight") else p
               for k, p in params.items()}
        widths = (n * d, n * d, n * d, n)
        parts = own.pop("in_proj.weight").split(widths)
        own |= {f"{name}_proj.weight": p for name, p in zip("qkvb", parts, strict=True)}
        own["conv1d.weight"] = own["conv1d.weight"].T[:, None, :]
        gate = ("f_a_proj.weight", "f_b_proj.weight", "dt_bias")
        own |= {"forget_gate." + name: own.pop(name) for name in gate}
        own["forget_gate.A_log"] = own.pop("A_log").reshape(1, 1, n, 1)
        compare("Kimi delta attention", theirs.KimiLinearDeltaAttention(config, 0), own,
                lambda mixer: mixer(x), lambda: self.kimi(x, params, ""))

        params = {k: torch.randn(shape, dtype=torch.float64) / 3
                  for k, shape in self.latent_shapes("").items()}
        own = {k.removeprefix("self_attn."): p.T if k.endswith("proj.weight") else p
               for k, p in params.items()}
        own["kv_a_proj_with_mqa.weight"] = torch.cat(
            (own.pop("kv_a_proj.weight"), own.pop("k_rope_proj.weight")))
        mask = torch.full((16, 16), -torch.inf, dtype=torch.float64).triu(1)[None, None]
        compare("latent attention without positions", theirs.KimiLinearAttention(config, 0), own,
                lambda mixer: mixer(x, mask)[0], lambda: self.latent(x, params, ""))


MODEL = Kimi("golden_kimi_tiny",
             {"layers": 4, "ffn": 40, "position": "none", "layer_pattern": "K- *-",
              "kda_heads": 3, "kda_head_size": 5, "kda_chunk": 8, "kv_lora_rank": 12,
              "qk_nope_head_size": 6, "qk_rope_head_size": 4, "v_head_size": 5})
