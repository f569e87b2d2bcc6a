"""A tiny model of gated delta nets [Yang24b sec 3] and gated attention [Qiu25] in turns, each before an
MLP. The state is computed token by token; torch.autograd gives its gradient.

Names are those of golden_mamba.py; in_proj has columns z, queries, keys, values, b, a.
"""

import golden_mamba
import torch
from golden_mamba import EPSILON, convolve


class Delta(golden_mamba.Hybrid):
    def __init__(self, name, file):
        super().__init__(name, file)
        self.mixers["G"], self.shapes["G"] = self.delta, self.delta_shapes

    def delta_sizes(self):
        names = ("key_heads", "value_heads", "key_size", "value_size")
        return tuple(self.FILE["delta_" + k] for k in names)

    def delta_shapes(self, block):
        keys, values, d, v = self.delta_sizes()
        h, taps, convolved = self.FILE["hidden"], 4, 2 * keys * d + values * v
        return {
            block + "linear_attn.in_proj.weight": (h, convolved + values * v + 2 * values),
            block + "linear_attn.conv1d.weight": (taps, convolved),
            block + "linear_attn.dt_bias": (values,),
            block + "linear_attn.A_log": (values,),
            block + "linear_attn.norm.weight": (v,),
            block + "linear_attn.out_proj.weight": (values * v, h),
        }

    def delta(self, x, params, block):
        keys, n, d, v = self.delta_sizes()
        b, s, _ = x.shape
        own = {
            k.removeprefix(block + "linear_attn."): value
            for k, value in params.items()
            if k.startswith(block)
        }
        widths = (n * v, 2 * keys * d + n * v, n, n)
        z, qkv, beta, step = (x @ own["in_proj.weight"]).split(widths, dim=-1)
        qkv = convolve(qkv, own["conv1d.weight"])
        q, k, value = qkv.split((keys * d, keys * d, n * v), dim=-1)
        q, k = (
            part.reshape(b, s, keys, d).repeat_interleave(n // keys, dim=2) for part in (q, k)
        )
        q, k = (part / torch.sqrt((part * part).sum(-1, keepdim=True) + 1e-6) for part in (q, k))
        value, beta = value.reshape(b, s, n, v), torch.sigmoid(beta)
        decay = torch.exp(
            -torch.exp(own["A_log"]) * torch.nn.functional.softplus(step + own["dt_bias"])
        )
        state, out = torch.zeros(b, n, d, v, dtype=x.dtype), []
        for t in range(s):
            state = decay[:, t, :, None, None] * state
            missing = value[:, t] - (state * k[:, t, :, :, None]).sum(2)
            learned = beta[:, t, :, None] * missing
            state = state + k[:, t, :, :, None] * learned[:, :, None, :]
            out.append((state * q[:, t, :, :, None]).sum(2) / d**0.5)
        y, z = torch.stack(out, dim=1), z.reshape(b, s, n, v)
        y = y / torch.sqrt((y * y).mean(-1, keepdim=True) + EPSILON)
        y = y * own["norm.weight"] * z * torch.sigmoid(z)
        return y.reshape(b, s, n * v) @ own["out_proj.weight"]

    def check_operations(self):
        super().check_operations()
        from transformers import Qwen3NextConfig
        from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

        keys, n, d, v = self.delta_sizes()
        h = self.FILE["hidden"]
        config = Qwen3NextConfig(
            hidden_size=h, linear_num_key_heads=keys, linear_num_value_heads=n,
            linear_key_head_dim=d, linear_value_head_dim=v, linear_conv_kernel_dim=4,
            rms_norm_eps=EPSILON, num_hidden_layers=4,
        )
        mixer = Qwen3NextGatedDeltaNet(config, layer_idx=0).double()
        params = {k: torch.randn(shape, dtype=torch.float64) / 3
                  for k, shape in self.delta_shapes("").items()}
        own = {k.removeprefix("linear_attn."): p for k, p in params.items()}
        widths = (n * v, keys * d, keys * d, n * v, n, n)
        z, q, k, value, beta, step = own.pop("in_proj.weight").split(widths, dim=-1)
        share = n // keys

        def side_by_side(*parts):
            """Of each key head its columns of every part, one after the other."""
            return torch.cat([p.reshape(h, keys, -1) for p in parts], dim=-1).reshape(h, -1).T

        assert z.shape[-1] == keys * share * v
        theirs = {
            "in_proj_qkvz.weight": side_by_side(q, k, value, z),
            "in_proj_ba.weight": side_by_side(beta, step),
            "conv1d.weight": own.pop("conv1d.weight").T[:, None, :],
            "out_proj.weight": own.pop("out_proj.weight").T,
            **own,
        }
        mixer.load_state_dict(theirs)
        x = torch.randn(2, 16, h, dtype=torch.float64)
        with torch.no_grad():
            expected, got = mixer(x), self.delta(x, params, "")
        difference = float((got - expected).abs().max())
        print(f"transformers: largest deviation of a gated delta net {difference:.2e}")
        # It keeps the state in single precision.
        assert difference < 1e-4 * float(expected.abs().max()), difference


MODEL = Delta("golden_delta_tiny",
              {"layers": 4, "kv_heads": 2, "ffn": 40, "position": "none",
               "attention_gate": True, "layer_pattern": "G- *-", "delta_key_heads": 2, "delta_value_heads": 4,
               "delta_key_size": 5, "delta_value_size": 6, "delta_chunk": 8})
