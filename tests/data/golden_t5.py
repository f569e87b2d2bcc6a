"""A tiny T5 [Raffel20], written with plain torch operations: RMS norms before the branches, no
positions but biases of scores by the distance of key and query, one table for each stack, scores
that are not divided, heads that are wider than their share of the hidden size, a ReLU between the
products of the MLP, and one table of tokens for encoder, decoder and head, before which what the
decoder gives is divided by the root of the hidden size. The encoder reads the decoder's tokens
masked, as golden_random.py says; the decoder is trained on the next token.

Names and layouts are those of golden_families.py. The encoder's layers come first. Where the
package transformers is there, the check compares the buckets and the logits with its T5.
"""

import math

import torch
from golden_families import Family, attend, heads_of, rms_norm, seen

EPSILON = 1e-6


def bucket(behind, *, both_ways, buckets, distance):
    """Of a key so many places behind the query."""
    first = 0
    if both_ways:
        buckets //= 2
        first = buckets if behind > 0 else 0
        far = abs(behind)
    else:
        far = max(0, -behind)
    exact = buckets // 2
    if far < exact:
        return first + far
    beyond = math.log(far / exact) / math.log(distance / exact) * (buckets - exact)
    return first + min(buckets - 1, exact + int(beyond))


def bias_of(table, s, *, both_ways, distance):
    """[a, s, s] of a table [n, a]."""
    rows = [
        [
            bucket(key - query, both_ways=both_ways, buckets=table.shape[0], distance=distance)
            for key in range(s)
        ]
        for query in range(s)
    ]
    return table[torch.tensor(rows)].permute(2, 0, 1)


class T5(Family):
    ENCODES = True
    TABLES = {True: "model.encoder.embed_positions.relative.weight",
              False: "model.embed_positions.relative.weight"}

    def __init__(self):
        super().__init__(
            "golden_t5_tiny",
            {
                "architecture": "llama",
                "position": "none",
                "gated_mlp": False,
                "activation": "relu",
                "scaled_logits": True,
                "attention_divisor": 1,
                "relative_buckets": 8,
                "relative_distance": 10,
                "norm_epsilon": EPSILON,
                "layers": 4,
                "encoder_layers": 2,
                "kv_heads": 4,
                "head_size": 12,
                "ffn": 88,
                "tied_embeddings": True,
            },
        )

    def tensor_shapes(self):
        file, h, f = self.FILE, self.FILE["hidden"], self.FILE["ffn"]
        width = file["heads"] * file["head_size"]
        shapes = {"model.embed_tokens.weight": (file["vocab"], h)}
        for table in self.TABLES.values():
            shapes[table] = (file["relative_buckets"], file["heads"])
        for layer in range(file["layers"]):
            block = f"model.layers.{layer}."
            shapes[block + "input_layernorm.weight"] = (h,)
            shapes[block + "self_attn.qkv_proj.weight"] = (h, 3 * width)
            shapes[block + "self_attn.o_proj.weight"] = (width, h)
            if layer >= file["encoder_layers"]:
                shapes[block + "cross_attention_layernorm.weight"] = (h,)
                for part in ("q_proj", "k_proj", "v_proj"):
                    shapes[block + f"cross_attn.{part}.weight"] = (h, width)
                shapes[block + "cross_attn.o_proj.weight"] = (width, h)
            shapes[block + "post_attention_layernorm.weight"] = (h,)
            shapes[block + "mlp.gate_up_proj.weight"] = (h, f)
            shapes[block + "mlp.down_proj.weight"] = (f, h)
        shapes["model.encoder.norm.weight"] = shapes["model.norm.weight"] = (h,)
        return shapes

    def attend_to(self, params, qkv, part, *, mask, lowered=None):
        heads, size = self.FILE["heads"], self.FILE["head_size"]
        q, k, v = heads_of(qkv, heads, heads, size)
        y = attend(q, k, v, mask=mask, divisor=1, lowered=lowered)
        return y @ params[part + "o_proj.weight"]

    def stack(self, params, x, layers, encoded=None):
        s, both_ways = x.shape[1], encoded is None
        all_keys = torch.ones(s, s, dtype=torch.bool)
        bias = bias_of(
            params[self.TABLES[both_ways]],
            s,
            both_ways=both_ways,
            distance=self.FILE["relative_distance"],
        )
        for layer in layers:
            block = f"model.layers.{layer}."
            y = rms_norm(x, params[block + "input_layernorm.weight"], EPSILON)
            qkv = y @ params[block + "self_attn.qkv_proj.weight"]
            mask = all_keys if both_ways else seen(s)
            x = x + self.attend_to(params, qkv, block + "self_attn.", mask=mask, lowered=bias)
            if encoded is not None:
                y = rms_norm(x, params[block + "cross_attention_layernorm.weight"], EPSILON)
                part = block + "cross_attn."
                qkv = [y @ params[part + "q_proj.weight"]]
                qkv += [encoded @ params[part + name + "_proj.weight"] for name in "kv"]
                x = x + self.attend_to(params, torch.cat(qkv, dim=-1), part, mask=all_keys)
            y = rms_norm(x, params[block + "post_attention_layernorm.weight"], EPSILON)
            up = torch.relu(y @ params[block + "mlp.gate_up_proj.weight"])
            x = x + up @ params[block + "mlp.down_proj.weight"]
        return x

    def logits_of(self, params, inputs):
        (masked, tokens), first = inputs, self.FILE["encoder_layers"]
        table = params["model.embed_tokens.weight"]
        encoded = self.stack(params, table[masked], range(first))
        encoded = rms_norm(encoded, params["model.encoder.norm.weight"], EPSILON)
        x = self.stack(params, table[tokens], range(first, self.FILE["layers"]), encoded)
        x = rms_norm(x, params["model.norm.weight"], EPSILON)
        return x / math.sqrt(self.FILE["hidden"]) @ table.T

    def check_operations(self):
        super().check_operations()
        try:
            import transformers
        except ImportError:
            return
        self.check_buckets(transformers)
        self.check_logits(transformers)

    @staticmethod
    def check_buckets(transformers):
        of = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket
        places = range(-600, 601)
        for both_ways in (True, False):
            for buckets, distance in ((32, 128), (8, 10), (8, 20)):
                expected = of(torch.tensor(places), both_ways, buckets, distance)
                sizes = {"both_ways": both_ways, "buckets": buckets, "distance": distance}
                assert expected.tolist() == [bucket(place, **sizes) for place in places], sizes

    def check_logits(self, transformers):
        """Of random parameters; that T5 has its norms in float32."""
        file, torch_seed = self.FILE, 5
        torch.manual_seed(torch_seed)
        params = {
            name: torch.randn(shape, dtype=torch.float64) / 8 + (1 if len(shape) == 1 else 0)
            for name, shape in self.tensor_shapes().items()
        }
        config = transformers.T5Config(
            vocab_size=file["vocab"],
            d_model=file["hidden"],
            d_kv=file["head_size"],
            d_ff=file["ffn"],
            num_layers=file["encoder_layers"],
            num_decoder_layers=file["layers"] - file["encoder_layers"],
            num_heads=file["heads"],
            relative_attention_num_buckets=file["relative_buckets"],
            relative_attention_max_distance=file["relative_distance"],
            dropout_rate=0.0,
            feed_forward_proj="relu",
            tie_word_embeddings=True,
        )
        other = transformers.T5ForConditionalGeneration(config).double().eval()
        other.load_state_dict(self.published_names(params), strict=False)
        tokens = torch.randint(file["vocab"], (2, 3, file["sequence"]))
        own = self.logits_of(params, tokens)
        with torch.no_grad():
            theirs = other(input_ids=tokens[0], decoder_input_ids=tokens[1]).logits
        torch.testing.assert_close(own, theirs, rtol=1e-5, atol=1e-5)

    def published_names(self, params):
        """The parameters under the names and in the layout of the published weights."""
        file = self.FILE
        names = {"shared.weight": params["model.embed_tokens.weight"]}
        names["encoder.embed_tokens.weight"] = names["decoder.embed_tokens.weight"] = names[
            "lm_head.weight"
        ] = names["shared.weight"]
        names["encoder.final_layer_norm.weight"] = params["model.encoder.norm.weight"]
        names["decoder.final_layer_norm.weight"] = params["model.norm.weight"]
        for layer in range(file["layers"]):
            encodes = layer < file["encoder_layers"]
            own = f"model.layers.{layer}."
            number = layer if encodes else layer - file["encoder_layers"]
            block = f"{'encoder' if encodes else 'decoder'}.block.{number}.layer."
            part = block + "0.SelfAttention."
            qkv = params[own + "self_attn.qkv_proj.weight"].chunk(3, dim=-1)
            names.update({part + name + ".weight": x.T for name, x in zip("qkv", qkv)})
            names[part + "o.weight"] = params[own + "self_attn.o_proj.weight"].T
            names[block + "0.layer_norm.weight"] = params[own + "input_layernorm.weight"]
            if number == 0:
                names[part + "relative_attention_bias.weight"] = params[self.TABLES[encodes]]
            if not encodes:
                cross = block + "1.EncDecAttention."
                for name in "qkvo":
                    names[cross + name + ".weight"] = params[
                        own + f"cross_attn.{name}_proj.weight"
                    ].T
                norm = params[own + "cross_attention_layernorm.weight"]
                names[block + "1.layer_norm.weight"] = norm
            last = block + ("1." if encodes else "2.")
            names[last + "layer_norm.weight"] = params[own + "post_attention_layernorm.weight"]
            names[last + "DenseReluDense.wi.weight"] = params[own + "mlp.gate_up_proj.weight"].T
            names[last + "DenseReluDense.wo.weight"] = params[own + "mlp.down_proj.weight"].T
        return names


MODEL = T5()
