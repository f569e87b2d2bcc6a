"""A tiny model of Mamba-1 [Gu23 sec 3] with the norms of Jamba [Lieber24] and attention without
positions in turns, each before an MLP. The state is computed token by token; torch.autograd gives
its gradient.

Names are those of golden_mamba.py; mamba.in_proj has columns z, x, and x_proj_dt, x_proj_b and
x_proj_c are what Hugging Face has side by side in x_proj. A_log is [n, c].
"""

import golden_mamba
import torch
from golden_families import rms_norm
from golden_mamba import EPSILON, convolve


class Jamba(golden_mamba.Hybrid):
    def __init__(self, name, file):
        super().__init__(name, file)
        self.mixers["S"], self.shapes["S"] = self.selective, self.selective_shapes

    def selective_sizes(self):
        return tuple(self.FILE["mamba1_" + k] for k in ("inner", "state", "step_rank"))

    def selective_shapes(self, block):
        inner, state, rank = self.selective_sizes()
        h, own = self.FILE["hidden"], block + "mamba."
        return {
            own + "in_proj.weight": (h, 2 * inner),
            own + "conv1d.weight": (4, inner),
            own + "conv1d.bias": (inner,),
            own + "x_proj_dt.weight": (inner, rank),
            own + "dt_layernorm.weight": (rank,),
            own + "x_proj_b.weight": (inner, state),
            own + "b_layernorm.weight": (state,),
            own + "x_proj_c.weight": (inner, state),
            own + "c_layernorm.weight": (state,),
            own + "dt_proj.weight": (rank, inner),
            own + "dt_proj.bias": (inner,),
            own + "A_log": (state, inner),
            own + "D": (inner,),
            own + "out_proj.weight": (inner, h),
        }

    def selective(self, x, params, block):
        inner, state, _ = self.selective_sizes()
        b, s, _ = x.shape
        own = {k.removeprefix(block + "mamba."): v for k, v in params.items() if k.startswith(block)}
        z, u = (x @ own["in_proj.weight"]).split((inner, inner), dim=-1)
        u = convolve(u, own["conv1d.weight"], own["conv1d.bias"])
        short, key, query = (
            rms_norm(u @ own[f"x_proj_{part}.weight"], own[f"{part}_layernorm.weight"], EPSILON)
            for part in ("dt", "b", "c")
        )
        step = short @ own["dt_proj.weight"] + own["dt_proj.bias"]
        step = torch.nn.functional.softplus(step)
        rates = torch.exp(own["A_log"]).T
        h, out = torch.zeros(b, inner, state, dtype=x.dtype), []
        for t in range(s):
            given = (step[:, t] * u[:, t])[..., None] * key[:, t, None, :]
            h = torch.exp(-rates * step[:, t, :, None]) * h + given
            out.append((h * query[:, t, None, :]).sum(-1) + own["D"] * u[:, t])
        y = torch.stack(out, dim=1) * z * torch.sigmoid(z)
        return y @ own["out_proj.weight"]

    def check_operations(self):
        super().check_operations()
        from transformers import JambaConfig
        from transformers.models.jamba.modeling_jamba import JambaMambaMixer

        inner, state, rank = self.selective_sizes()
        h = self.FILE["hidden"]
        config = JambaConfig(
            hidden_size=h, mamba_expand=inner // h, mamba_d_state=state, mamba_dt_rank=rank,
            mamba_d_conv=4, rms_norm_eps=EPSILON, num_hidden_layers=4,
        )
        mixer = JambaMambaMixer(config, layer_idx=0).double()
        params = {k: torch.randn(shape, dtype=torch.float64) / 3
                  for k, shape in self.selective_shapes("").items()}
        own = {k.removeprefix("mamba."): p for k, p in params.items()}
        z, u = own.pop("in_proj.weight").split((inner, inner), dim=-1)
        low = [own.pop(f"x_proj_{part}.weight") for part in ("dt", "b", "c")]
        theirs = {
            "in_proj.weight": torch.cat((u, z), dim=-1).T,
            "x_proj.weight": torch.cat(low, dim=-1).T,
            "conv1d.weight": own.pop("conv1d.weight").T[:, None, :],
            "A_log": own.pop("A_log").T,
            **{k: p.T if k.endswith("proj.weight") else p for k, p in own.items()},
        }
        mixer.load_state_dict(theirs)
        x = torch.randn(2, 16, h, dtype=torch.float64)
        with torch.no_grad():
            expected, got = mixer(x), self.selective(x, params, "")
        difference = float((got - expected).abs().max())
        print(f"transformers: largest deviation of Mamba-1 {difference:.2e}")
        # It keeps the state in single precision.
        assert difference < 1e-4 * float(expected.abs().max()), difference


MODEL = Jamba("golden_jamba_tiny",
              {"layers": 4, "kv_heads": 2, "ffn": 40, "position": "none",
               "layer_pattern": "S- *-", "mamba1_inner": 64, "mamba1_state": 5,
               "mamba1_step_rank": 3})
