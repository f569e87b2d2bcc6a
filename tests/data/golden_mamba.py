"""A tiny hybrid of layers with one branch each: Mamba-2 [Dao24 sec 7], an MLP, attention. The state is computed token by token; torch.autograd gives
its gradient.

Names are those of golden_llama.py and, of a mixer, in_proj [h, w] with columns z, x, B, C, dt;
conv1d.weight [k, c], the last row that of the token itself; A_log, D and dt_bias of each head.
"""

import importlib.util

import golden_families
import torch
from golden_families import attend, heads_of, rms_norm, seen
from golden_llama import mlp

EPSILON = 1e-5


def layers_of(file):
    """The word of each layer, of a pattern as models/layer_pattern.h writes it."""
    pattern = file["layer_pattern"]
    words = pattern.split() if " " in pattern else list(pattern)
    return words * (file["layers"] // len(words))


def convolve(x, weight, bias=None):
    """Each channel of x [b, s, c] is summed over the last tokens, then SiLU."""
    taps, s = weight.shape[0], x.shape[1]
    padded = torch.nn.functional.pad(x, (0, 0, taps - 1, 0))
    y = sum(padded[:, tap : tap + s] * weight[tap] for tap in range(taps))
    y = y if bias is None else y + bias
    return y * torch.sigmoid(y)


class Hybrid(golden_families.Family):
    """Layers of a pattern; mixers with a state are added to `mixers` by their letter."""

    def __init__(self, name, file):
        super().__init__(name, {"architecture": "llama", "tied_embeddings": False, **file})
        self.mixers = {"*": self.attention, "M": self.mamba}
        self.shapes = {"*": self.attention_shapes, "M": self.mamba_shapes}

    def sizes(self):
        """Of Mamba-2: heads, their size, groups, state, columns of z or x, those of B or C."""
        file = self.FILE
        n, p, g, state = (file["mamba_" + k] for k in ("heads", "head_size", "groups", "state"))
        return n, p, g, state, n * p, g * state

    def mamba_shapes(self, block):
        n, _, _, _, inner, shared = self.sizes()
        h, taps, convolved = self.FILE["hidden"], 4, inner + 2 * shared
        return {
            block + "mamba.in_proj.weight": (h, inner + convolved + n),
            block + "mamba.conv1d.weight": (taps, convolved),
            block + "mamba.conv1d.bias": (convolved,),
            block + "mamba.dt_bias": (n,),
            block + "mamba.A_log": (n,),
            block + "mamba.D": (n,),
            block + "mamba.norm.weight": (inner,),
            block + "mamba.out_proj.weight": (inner, h),
        }

    def attention_shapes(self, block):
        h, groups, heads = (self.FILE[k] for k in ("hidden", "kv_heads", "heads"))
        shapes = {block + "self_attn.qkv_proj.weight": (h, h + 2 * groups * h // heads)}
        if self.FILE.get("attention_gate"):
            shapes[block + "self_attn.gate_proj.weight"] = (h, h)
        shapes[block + "self_attn.o_proj.weight"] = (h, h)
        return shapes

    def tensor_shapes(self):
        h, f, vocab = (self.FILE[k] for k in ("hidden", "ffn", "vocab"))
        shapes = {"model.embed_tokens.weight": (vocab, h)}
        for layer, word in enumerate(layers_of(self.FILE)):
            block = f"model.layers.{layer}."
            if word[0] in self.mixers:
                shapes[block + "input_layernorm.weight"] = (h,)
                shapes.update(self.shapes[word[0]](block))
            if word[-1] == "-":
                shapes[block + "post_attention_layernorm.weight"] = (h,)
                shapes[block + "mlp.gate_up_proj.weight"] = (h, 2 * f)
                shapes[block + "mlp.down_proj.weight"] = (f, h)
        shapes["model.norm.weight"] = (h,)
        shapes["lm_head.weight"] = (vocab, h)
        return shapes

    def attention(self, x, params, block):
        """Without positions; with a gate of its own, if the model has one."""
        file = self.FILE
        size = file["hidden"] // file["heads"]
        qkv = x @ params[block + "self_attn.qkv_proj.weight"]
        q, k, v = heads_of(qkv, file["heads"], file["kv_heads"], size)
        y = attend(q, k, v, mask=seen(x.shape[1]), divisor=size)
        if self.FILE.get("attention_gate"):
            y = y * torch.sigmoid(x @ params[block + "self_attn.gate_proj.weight"])
        return y @ params[block + "self_attn.o_proj.weight"]

    def mamba(self, x, params, block):
        n, p, g, state, inner, shared = self.sizes()
        b, s, _ = x.shape
        own = {k.removeprefix(block + "mamba."): v for k, v in params.items() if k.startswith(block)}
        z, xbc, dt = (x @ own["in_proj.weight"]).split((inner, inner + 2 * shared, n), dim=-1)
        xbc = convolve(xbc, own["conv1d.weight"], own["conv1d.bias"])
        u, key, query = xbc.split((inner, shared, shared), dim=-1)
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
        y = y.reshape(b, s, g, inner // g)
        y = (y / torch.sqrt((y * y).mean(-1, keepdim=True) + EPSILON)).reshape(b, s, inner)
        return (y * own["norm.weight"]) @ own["out_proj.weight"]

    def logits_of(self, params, inputs):
        x = params["model.embed_tokens.weight"][inputs]
        for layer, word in enumerate(layers_of(self.FILE)):
            block = f"model.layers.{layer}."
            if word[0] in self.mixers:
                y = rms_norm(x, params[block + "input_layernorm.weight"], EPSILON)
                x = x + self.mixers[word[0]](y, params, block)
            if word[-1] == "-":
                y = rms_norm(x, params[block + "post_attention_layernorm.weight"], EPSILON)
                x = x + mlp(y, params, block)
        x = rms_norm(x, params["model.norm.weight"], EPSILON)
        return x @ params["lm_head.weight"].T

    # Checks ---------------------------------------------------------------------------------------

    def check_operations(self):
        """A mixer is that of transformers, without its kernels."""
        if not importlib.util.find_spec("transformers"):
            return print("transformers is not installed: mixers are not compared")
        torch.manual_seed(5)
        if "M" in self.FILE["layer_pattern"]:
            self.check_mamba()
        return None

    def check_mamba(self):
        from transformers import NemotronHConfig
        from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHMamba2Mixer

        n, p, g, state, inner, _ = self.sizes()
        h = self.FILE["hidden"]
        config = NemotronHConfig(
            hidden_size=h, mamba_num_heads=n, mamba_head_dim=p, n_groups=g, ssm_state_size=state,
            conv_kernel=4, chunk_size=8, layer_norm_epsilon=EPSILON, num_hidden_layers=1,
            hybrid_override_pattern="M",
        )
        mixer = NemotronHMamba2Mixer(config, layer_idx=0).double()
        params = {k: torch.randn(v, dtype=torch.float64) / 3
                  for k, v in self.mamba_shapes("").items()}
        theirs = {}
        for name, value in params.items():
            name = name.removeprefix("mamba.")
            if name == "conv1d.weight":
                theirs[name] = value.T[:, None, :]
            else:
                theirs[name] = value.T if name.endswith("proj.weight") else value
        mixer.load_state_dict(theirs)
        x = torch.randn(2, 16, h, dtype=torch.float64)
        with torch.no_grad():
            expected = mixer(x)
            got = self.mamba(x, params, "")
        difference = float((got - expected).abs().max())
        print(f"transformers: largest deviation of Mamba-2 {difference:.2e}")
        # It keeps the state in single precision.
        assert difference < 1e-4 * float(expected.abs().max()), difference


MAMBA = {"mamba_heads": 4, "mamba_head_size": 6, "mamba_groups": 2, "mamba_state": 5,
         "mamba_chunk": 8}
MODEL = Hybrid("golden_hybrid_tiny",
               {"layers": 4, "kv_heads": 2, "ffn": 40, "position": "none", "layer_pattern": "M-*M",
                **MAMBA})
