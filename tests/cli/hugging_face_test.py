"""Models of Hugging Face: a config.json or its folder, wherever a model is asked for."""

import json
import os
import shutil
import struct

from cli_support import BAD_INPUT, OK, ROOT, CliTest, main, zplan

DATA = os.path.join(ROOT, "tests", "data", "hugging_face")
QUICK = ("--simulations", "2")
FEW = ("--global-batch", "8", *QUICK)
TINY = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 256,
        "max_position_embeddings": 64, "rope_theta": 10000.0}  # fmt: skip


def tensors_of(fields):
    """Names and shapes of what transformers' Llama has."""
    hidden, ffn = fields["hidden_size"], fields["intermediate_size"]
    size = hidden // fields["num_attention_heads"] * fields["num_key_value_heads"]
    yield "model.embed_tokens.weight", (fields["vocab_size"], hidden)
    for layer in range(fields["num_hidden_layers"]):
        for name, shape in {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (hidden, hidden), "self_attn.k_proj": (size, hidden),
            "self_attn.v_proj": (size, hidden), "self_attn.o_proj": (hidden, hidden),
            "mlp.gate_proj": (ffn, hidden), "mlp.up_proj": (ffn, hidden),
            "mlp.down_proj": (hidden, ffn),
        }.items():  # fmt: skip
            yield f"model.layers.{layer}.{name}.weight", shape
    yield "model.norm.weight", (hidden,)
    yield "lm_head.weight", (fields["vocab_size"], hidden)


def safetensors(tensors):
    """A file of zeros in BF16."""
    header, end = {}, 0
    for name, shape in tensors:
        size = 2
        for length in shape:
            size *= length
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


class HuggingFace(CliTest):
    def folder_of(self, name, fields=None):
        os.makedirs(self.path(name))
        place = os.path.join(name, "config.json")
        if fields is None:
            shutil.copy(os.path.join(DATA, name + ".json"), self.path(place))
        else:
            self.write(place, json.dumps(fields))
        return name

    def test_a_folder_stands_for_a_model(self):
        self.folder_of("llama-3.2-1b")
        os.rename(self.path("llama-3.2-1b"), self.path("my-llama"))
        for typed in ("my-llama", "./my-llama", "my-llama/config.json", self.path("my-llama")):  # fmt: skip
            model = self.good_json("models", typed)["models"][0]
            self.assertEqual((model["name"], model["parameters"]), ("my-llama", 1235814400))
        text = self.good("--model", "my-llama", "--cluster", "dgx-h100x8", *QUICK, "--details")
        self.assertIn("my-llama: 1.2", text)
        self.assertIn("sequence assumed: 8192 tokens", text)
        self.assertIn('"llama3" of /rope_scaling/rope_type', text)
        answer = self.good_json("plan", "--model", "my-llama", "--cluster", "dgx-h100x8", *QUICK)
        self.assertEqual(len(answer["model"]["assumed"]), 2)
        given = self.good("--model", "my-llama", "--cluster", "dgx-h100x8", "--seq", "4096", *QUICK)
        self.assertNotIn("sequence assumed", given)
        self.assertIn("512 sequences of 4,096 tokens (--global-batch, --seq)", given)
        self.assertIn("no bytes and no flop", answer["model"]["left_out"][0])

    def test_is_planned_as_the_model_of_the_catalogue(self):
        self.folder_of("llama-3-8b")
        pins = ("--cluster", "dgx-h100", "--seq", "4096", "--global-batch", "64", "--dp", "8",
                "--micro-batch", "1", "--zero", "3", *QUICK)  # fmt: skip
        foreign = self.good_json("plan", "--model", "./llama-3-8b", *pins)
        own = self.good_json("plan", "--model", "llama3-8b", *pins)
        self.assertEqual(foreign["fingerprint"], own["fingerprint"])
        self.assertNotIn("left_out", own["model"])

    def test_a_name_of_the_catalogue_goes_before_a_folder(self):
        self.folder_of("gpt2", TINY)
        self.assertEqual(self.good_json("models", "gpt2")["models"][0]["name"], "gpt2-124m")
        self.assertEqual(self.good_json("models", "./gpt2")["models"][0]["layers"], 2)

    def test_a_plan_finds_its_model_again_from_another_folder(self):
        self.folder_of("mine", dict(TINY, rope_scaling={"rope_type": "yarn", "factor": 2.0}))
        os.makedirs(self.path("plans/deep"))
        for typed in ("mine", "./mine", "mine/config.json"):
            self.good("plan", "--model", typed, "--cluster", "workstation", "-o",
                      "plans/deep/p.json", *FEW)  # fmt: skip
            self.assertTrue(json.loads(self.read("plans/deep/p.json"))["model"].startswith("../.."))
            for folder, plan in ((".", "plans/deep/p.json"), ("plans", "deep/p.json"),
                                 ("plans/deep", "p.json"), ("mine", "../plans/deep/p.json")):
                result = self.zplan_in(folder, "simulate", plan)
                self.assertEqual(result.returncode, OK, result.stderr)
                self.assertIn("positions are not stretched", result.stderr)
        result = self.zplan_in("plans", "run", "deep/p.json", "--steps", "2", "--check", "--dtype",
                               "f64")  # fmt: skip
        self.assertEqual(result.returncode, OK, result.stderr)

    def zplan_in(self, folder, *arguments):
        return zplan(*arguments, cwd=self.path(folder))

    def test_is_not_written_over(self):
        self.folder_of("mine", TINY)
        self.bad(BAD_INPUT, "--model", "mine", "--cluster", "workstation", "-o", "mine/config.json",
                 says="it is the input")  # fmt: skip

    def test_goes_wherever_a_model_goes(self):
        self.folder_of("mine", TINY)
        model = ("--model", "./mine", "--cluster", "workstation", "--global-batch", "8")
        self.good("need", *model, "--tokens", "1M")
        self.good("sweep", *model, "--over", "dp=1,2")
        self.good("memory", *model)
        self.good("plan", *model, "-o", "p.json", *QUICK)
        self.good("lower", "p.json")

    def test_weights_beside_it_are_compared(self):
        self.folder_of("mine", TINY)
        tensors = list(tensors_of(TINY))
        self.write("mine/model.safetensors", safetensors(tensors))
        model = self.good_json("models", "./mine")["models"][0]
        weights = model["weights"]
        self.assertEqual((weights["parameters"], weights["differences"]), (model["parameters"], []))
        self.assertIn("as counted", self.good("models", "./mine"))
        more = tensors + [("model.layers.0.self_attn.q_proj.bias", (64,))]
        self.write("mine/model.safetensors", safetensors(more))
        text = self.good("models", "./mine")
        self.assertIn("+64", text)
        self.assertIn("model.layers.*.self_attn.q_proj.bias is in 1 of 2 layers", text)

    def test_shards_are_read_by_their_index(self):
        self.folder_of("mine", TINY)
        tensors = list(tensors_of(TINY))
        parts = {"a.safetensors": tensors[:5], "b.safetensors": tensors[5:]}
        index = {"metadata": {"total_size": sum(
                     2 * length for file in parts.values() for length in map(self.elements, file))},
                 "weight_map": {name: file for file in parts for name, _ in parts[file]}}  # fmt: skip
        self.write("mine/model.safetensors.index.json", json.dumps(index))
        weights = self.good_json("models", "./mine")["models"][0]["weights"]
        self.assertFalse(weights["compared"])
        self.assertIn("not here", self.good("models", "./mine"))
        self.write("mine/a.safetensors", safetensors(parts["a.safetensors"]))
        self.bad(BAD_INPUT, "models", "./mine", says="b.safetensors")
        self.write("mine/b.safetensors", safetensors(parts["b.safetensors"]))
        weights = self.good_json("models", "./mine")["models"][0]["weights"]
        self.assertEqual((weights["files"], weights["differences"]), (2, []))

    @staticmethod
    def elements(tensor):
        size = 1
        for length in tensor[1]:
            size *= length
        return size

    def test_what_is_broken_or_cannot_be_planned_is_refused_in_a_line(self):
        for name, text, says in (
            ("none.json", '{"layers": 3}', ["none.json:1:1", "zplan.model/1", "model_type"]),
            ("code.json", '{"model_type": "chatglm", "auto_map": {}}', "would have to be run"),
            ("near.json", '{"model_type": "mixtrall"}', 'did you mean "mixtral"?'),
            ("seen.json", '{"model_type": "mllama", "vision_config": {}}', "attend to the vision tower"),
            ("deep.json", '{"model_type": ' + "[" * 5000 + "]" * 5000 + "}", "deep.json:1:"),
        ):
            self.write(name, text)
            self.bad(BAD_INPUT, "models", name, says=says)
            self.bad(BAD_INPUT, "--model", name, "--cluster", "dgx2", says=name)
        os.makedirs(self.path("empty"))
        self.bad(BAD_INPUT, "models", "./empty", says="empty/config.json")
        self.folder_of("mine", TINY)
        self.write("mine/model.safetensors", struct.pack("<Q", 1 << 62) + b"{}")
        self.bad(BAD_INPUT, "models", "./mine", says=["model.safetensors", "at most 2 bytes"])

    def test_every_published_file_is_read(self):
        for name in sorted(os.listdir(DATA)):
            if name.endswith(".json") and name != "counts.json":
                self.good("models", os.path.join(DATA, name))


if __name__ == "__main__":
    main()
