"""A tiny BERT as published [Devlin19], written with plain torch operations: norms behind the
branches and of the embeddings, positions and segments, a head of a product, GELU, a norm and the
table of tokens with a bias. A query sees all keys; the loss is that of masked tokens, as
golden_random.py says. Left out: pooler and next-sentence loss. The first half of a sequence is of
the first segment, the other of the second.

Names and layouts are those of golden_families.py: a layer's first norm is the one behind the branch
before it, that of the first layer the embeddings', the last one that of the last layer's MLP. Where
the package transformers is there, the check compares the logits with its BERT.
"""

import torch
from golden_families import Family, attend, gelu, heads_of, layer_norm, linear

EPSILON = 1e-12


class Bert(Family):
    MASKED = True

    def __init__(self):
        super().__init__(
            "golden_bert_published_tiny",
            {
                "architecture": "gpt",
                "ffn": 88,
                "bidirectional": True,
                "activation": "gelu",
                "residual_of_norm": True,
                "segments": 2,
                "head_transform": True,
                "norm_epsilon": EPSILON,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        h = self.FILE["hidden"]
        shapes = self.gpt_shapes(ends=("transformer.ln_f", "transformer.head.ln"))
        shapes["transformer.wpe.weight"] = (self.FILE["sequence"], h)
        shapes["transformer.wpe.segments.weight"] = (2, h)
        shapes["transformer.head.dense.weight"] = (h, h)
        shapes["transformer.head.dense.bias"] = (h,)
        shapes["lm_head.bias"] = (self.FILE["vocab"],)
        return shapes

    @staticmethod
    def norm(params, x, part):
        return layer_norm(x, params[part + ".weight"], params[part + ".bias"], EPSILON)

    def segments(self):
        s = self.FILE["sequence"]
        return torch.arange(s) // (s // 2)

    def logits_of(self, params, inputs):
        file, table = self.FILE, params["transformer.wte.weight"]
        x = table[inputs] + params["transformer.wpe.weight"]
        x = x + params["transformer.wpe.segments.weight"][self.segments()]
        heads, size = file["heads"], file["hidden"] // file["heads"]
        all_keys = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool)
        x = self.norm(params, x, "transformer.h.0.ln_1")
        for layer in range(file["layers"]):
            block, last = f"transformer.h.{layer}.", layer + 1 == file["layers"]
            q, k, v = heads_of(linear(params, x, block + "attn.c_attn"), heads, heads, size)
            y = attend(q, k, v, mask=all_keys, divisor=size)
            y = x + linear(params, y, block + "attn.c_proj")
            x = self.norm(params, y, block + "ln_2")
            y = x + linear(params, gelu(linear(params, x, block + "mlp.c_fc")), block + "mlp.c_proj")
            behind = "transformer.ln_f" if last else f"transformer.h.{layer + 1}.ln_1"
            x = self.norm(params, y, behind)
        x = self.norm(params, gelu(linear(params, x, "transformer.head.dense")), "transformer.head.ln")
        return x @ table.T + params["lm_head.bias"]

    def check_operations(self):
        super().check_operations()
        try:
            import transformers
        except ImportError:
            return
        file = self.FILE
        torch.manual_seed(5)
        params = {
            name: torch.randn(shape, dtype=torch.float64) / 8 + (1 if "ln" in name else 0)
            for name, shape in self.tensor_shapes().items()
        }
        config = transformers.BertConfig(
            vocab_size=file["vocab"],
            hidden_size=file["hidden"],
            num_hidden_layers=file["layers"],
            num_attention_heads=file["heads"],
            intermediate_size=file["ffn"],
            hidden_act="gelu",
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=file["sequence"],
            type_vocab_size=2,
            layer_norm_eps=EPSILON,
        )
        other = transformers.BertForMaskedLM(config).double().eval()
        own_names = self.published_names(params)
        missing, unexpected = other.load_state_dict(own_names, strict=False)
        assert not unexpected and set(missing) <= {"bert.embeddings.position_ids"}, (
            missing,
            unexpected,
        )
        tokens = torch.randint(file["vocab"], (3, file["sequence"]))
        segments = self.segments().expand(3, -1)
        with torch.no_grad():
            theirs = other(input_ids=tokens, token_type_ids=segments).logits
        torch.testing.assert_close(self.logits_of(params, tokens), theirs)

    def published_names(self, params):
        """The parameters under the names and in the layout of the published weights."""
        names = {}

        def norm(own, name):
            names[name + ".weight"], names[name + ".bias"] = (
                params[own + ".weight"],
                params[own + ".bias"],
            )

        def product(own, name):
            names[name + ".weight"], names[name + ".bias"] = (
                params[own + ".weight"].T,
                params[own + ".bias"],
            )

        embeddings, last = "bert.embeddings.", self.FILE["layers"] - 1
        names[embeddings + "word_embeddings.weight"] = params["transformer.wte.weight"]
        names[embeddings + "position_embeddings.weight"] = params["transformer.wpe.weight"]
        names[embeddings + "token_type_embeddings.weight"] = params["transformer.wpe.segments.weight"]
        norm("transformer.h.0.ln_1", embeddings + "LayerNorm")
        for layer in range(self.FILE["layers"]):
            own, block = f"transformer.h.{layer}.", f"bert.encoder.layer.{layer}."
            weights = params[own + "attn.c_attn.weight"].chunk(3, dim=-1)
            biases = params[own + "attn.c_attn.bias"].chunk(3)
            for name, weight, bias in zip(("query", "key", "value"), weights, biases):
                names[block + f"attention.self.{name}.weight"] = weight.T
                names[block + f"attention.self.{name}.bias"] = bias
            product(own + "attn.c_proj", block + "attention.output.dense")
            norm(own + "ln_2", block + "attention.output.LayerNorm")
            product(own + "mlp.c_fc", block + "intermediate.dense")
            product(own + "mlp.c_proj", block + "output.dense")
            behind = "transformer.ln_f" if layer == last else f"transformer.h.{layer + 1}.ln_1"
            norm(behind, block + "output.LayerNorm")
        head = "cls.predictions."
        product("transformer.head.dense", head + "transform.dense")
        norm("transformer.head.ln", head + "transform.LayerNorm")
        names[head + "bias"] = names[head + "decoder.bias"] = params["lm_head.bias"]
        names[head + "decoder.weight"] = params["transformer.wte.weight"]
        return names


MODEL = Bert()
