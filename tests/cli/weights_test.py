"""Weights of Hugging Face in and out of a training, as their user sees them; those of transformers
itself are in tests/frameworks/train_weights.py."""

import json
import math
import os
import random
import shutil
import struct
import sys

from cli_support import BAD_INPUT, CHECK_FAILED, OK, CliTest, main
from launched import Processes

FIELDS = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
          "vocab_size": 256, "max_position_embeddings": 64, "tie_word_embeddings": False,
          "rope_theta": 10000.0}  # fmt: skip
SIZES = {"F32": 4, "BF16": 2, "F64": 8, "I64": 8}


def shapes():
    """Of the tensors that transformers has of the model."""
    hidden, ffn, kv = 64, 96, 32
    yield "model.embed_tokens.weight", [256, hidden]
    for layer in range(2):
        for name, shape in {
            "input_layernorm": [hidden], "post_attention_layernorm": [hidden],
            "self_attn.q_proj": [hidden, hidden], "self_attn.k_proj": [kv, hidden],
            "self_attn.v_proj": [kv, hidden], "self_attn.o_proj": [hidden, hidden],
            "mlp.gate_proj": [ffn, hidden], "mlp.up_proj": [ffn, hidden],
            "mlp.down_proj": [hidden, ffn],
        }.items():  # fmt: skip
            yield f"model.layers.{layer}.{name}.weight", shape
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [256, hidden]


def elements(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def random_values(shape, dtype, rng):
    mean = 1.0 if len(shape) == 1 else 0.0
    values = [rng.gauss(mean, 0.1) for _ in range(elements(shape))]
    packed = struct.pack(f"<{len(values)}f", *values)
    if dtype == "F32":
        return packed
    return b"".join(packed[i + 2 : i + 4] for i in range(0, len(packed), 4))  # cut to BF16


def file_of(tensors):
    """{name: (type, shape, bytes)} -> the bytes of a file."""
    header, data = {}, b""
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(values)]}  # fmt: skip
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensors_in(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    assert length % 8 == 0 and header.pop("__metadata__") == {"format": "pt"}
    return {
        name: (row["dtype"], row["shape"], data[slice(*row["data_offsets"])])
        for name, row in header.items()
    }


class WeightsTest(CliTest):
    def setUp(self):
        super().setUp()
        self.tensors = self.drawn("F32")
        self.folder_of("mine", self.tensors)

    def drawn(self, dtype):
        rng = random.Random(3)
        return {name: (dtype, s, random_values(s, dtype, rng)) for name, s in shapes()}

    def folder_of(self, name, tensors=None, fields=FIELDS):
        os.makedirs(self.path(name))
        self.write(os.path.join(name, "config.json"), json.dumps(fields))
        if tensors is not None:
            self.write(os.path.join(name, "model.safetensors"), file_of(tensors))

    def plan(self, *pins, name="plan.json"):
        result = self.zplan("plan", "--model", "./mine", "--cluster", "workstation", "--seq", "32",
                            "--global-batch", "4", "-o", name, *pins)  # fmt: skip
        self.assertEqual(result.returncode, OK, result.stderr)
        return name

    def exported(self, name):
        return tensors_in(self.path(os.path.join(name, "model.safetensors")))

    def run_plan(self, *more, steps, plan="plan.json"):
        return self.zplan("run", plan, "--steps", str(steps), "--json", *more)

    def losses(self, *more, **options):
        result = self.run_plan(*more, **options)
        self.assertEqual(result.returncode, OK, result.stderr)
        return [step["loss"] for step in json.loads(result.stdout)["steps"]]


class InAndOut(WeightsTest):
    PLANS = (("--dp", "1", "--tp", "2", "--pp", "2"), ("--dp", "4", "--zero", "3"),
             ("--dp", "2", "--tp", "2", "--zero", "2"), ("--dp", "4", "--zero", "0"))  # fmt: skip

    def test_what_is_read_is_written_whatever_the_plan(self):
        losses = []
        for i, pins in enumerate(self.PLANS):
            self.plan(*pins)
            self.losses("--dtype", "f32", "--weights", "mine", "--export", f"out{i}", steps=0)
            self.assertEqual(self.exported(f"out{i}"), self.tensors, pins)
            losses.append(self.losses("--dtype", "f64", "--weights", "mine", steps=2))
        for other in losses[1:]:
            for a, b in zip(losses[0], other):
                self.assertAlmostEqual(a, b, delta=1e-10 * b)
        self.assertNotEqual(losses[0], self.losses("--dtype", "f64", steps=2))

    def test_types_are_those_that_masters_are_kept_in(self):
        self.folder_of("half", self.drawn("BF16"))
        self.plan("--dp", "2")
        for dtype, word in (("f32", "float32"), ("f64", "float64")):
            self.losses("--dtype", dtype, "--weights", "half", "--export", dtype, steps=0)
            found = self.exported(dtype)
            self.assertEqual({kind for kind, _, _ in found.values()}, {dtype.upper()})
            config = json.loads(self.read(os.path.join(dtype, "config.json")))
            self.assertEqual(config["torch_dtype"], word)
            self.assertEqual(config["architectures"], ["LlamaForCausalLM"])
            self.assertEqual(config["rope_theta"], FIELDS["rope_theta"])
        for name, (_, _, values) in self.drawn("BF16").items():
            wide = b"".join(b"\0\0" + values[i : i + 2] for i in range(0, len(values), 2))
            self.assertEqual(self.exported("f32")[name][2], wide, name)

    def test_several_files_and_an_index(self):
        names = list(self.tensors)
        self.folder_of("parts")
        where = {}
        for number, own in enumerate((names[::2], names[1::2])):
            file = f"part{number}.safetensors"
            where |= dict.fromkeys(own, file)
            place = os.path.join("parts", file)
            self.write(place, file_of({name: self.tensors[name] for name in own}))
        index = os.path.join("parts", "model.safetensors.index.json")
        self.write(index, json.dumps({"weight_map": where}))
        self.plan("--dp", "2", "--pp", "2")
        self.losses("--dtype", "f32", "--weights", "parts", "--export", "out", steps=0)
        self.assertEqual(self.exported("out"), self.tensors)

    def test_what_a_training_kept_is_exported_later(self):
        self.plan("--dp", "4", "--zero", "3")
        both = ("--dtype", "f32", "--weights", "mine")
        self.losses(*both, "--save", "kept", "--export", "now", steps=2)
        self.plan("--tp", "2", "--pp", "2", "--dp", "1", name="other.json")
        result = self.run_plan("--dtype", "f32", "--resume-from", "kept", "--export", "later",
                               steps=2, plan="other.json")  # fmt: skip
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertEqual(self.exported("later"), self.exported("now"))
        self.assertNotEqual(self.exported("now"), self.tensors)
        answer = json.loads(result.stdout)
        self.assertEqual((answer["weights"], answer["exported"]["files"]), (None, 1))

    def test_is_for_its_owner_and_takes_the_place_of_an_empty_folder(self):
        self.plan("--dp", "2")
        os.makedirs(self.path("out"))
        os.makedirs(self.path(".out.partial"))  # of a run that was killed
        self.write(os.path.join(".out.partial", "model.safetensors"), "half")
        self.losses("--dtype", "f32", "--weights", "mine", "--export", "out/", steps=0)
        self.assertEqual(self.exported("out"), self.tensors)
        self.assertNotIn(".out.partial", self.files())
        self.assertEqual(sorted(os.listdir(self.path("out"))), ["config.json", "model.safetensors"])
        for name in os.listdir(self.path("out")):
            mode = os.stat(self.path(os.path.join("out", name))).st_mode
            self.assertEqual(mode & 0o777, 0o600, name)


class Checked(WeightsTest):
    """A run that begins with weights, against the one-rank run that begins with them."""

    PLANS = (("--dp", "2", "--tp", "2", "--zero", "3"), ("--tp", "2", "--pp", "2", "--dp", "1"),
             ("--dp", "4", "--zero", "2", "--optimizer", "cpu"))  # fmt: skip

    def checked(self, *more, steps=2, dtype="f64"):
        result = self.run_plan("--dtype", dtype, "--check", *more, steps=steps)
        self.assertEqual(result.returncode, OK, result.stderr)
        check = json.loads(result.stdout)["check"]
        self.assertTrue(check["agrees"])
        return {row["quantity"]: row["difference"] for row in check["rows"]}

    def test_agrees_whatever_the_plan(self):
        for pins in self.PLANS:
            self.plan(*pins)
            rows = self.checked("--weights", "mine")
            self.assertEqual(set(rows), {"losses", "first gradients", "parameters"}, pins)

    def test_parameters_are_held_against_the_way_from_the_weights(self):
        # From drawn values it would be ten times as far, and rounding so much less of it. Sums that
        # tensor parallel ranks share would round by how large the values are, which differs too.
        self.plan(*self.PLANS[2])
        drawn, begun = (
            self.checked(*options, dtype="f32", steps=3)["parameters"]
            for options in ((), ("--weights", "mine"))
        )
        self.assertGreater(2 * begun, drawn)
        self.assertGreater(drawn, 0)


class Refused(WeightsTest):
    def setUp(self):
        super().setUp()
        self.plan("--dp", "2")

    def refused(self, tensors, *says, fields=FIELDS):
        shutil.rmtree(self.path("other"), ignore_errors=True)
        self.folder_of("other", tensors, fields)
        self.bad(BAD_INPUT, "run", "plan.json", "--weights", "other", "--export", "out", says=says)

    def test_weights_that_are_not_of_the_model(self):
        up = "model.layers.1.mlp.up_proj.weight"
        without = {name: row for name, row in self.tensors.items() if name != up}
        self.refused(without, f'"{up}" [96, 64]', "other:")
        narrow = ("F32", [95, 64], bytes(4 * 95 * 64))
        self.refused(self.tensors | {up: narrow}, up, "[96, 64]", "[95, 64]")
        self.refused(self.tensors | {up: ("F32", [64, 96], self.tensors[up][2])}, up, "[64, 96]")
        more = self.tensors | {"model.layers.0.mlp.extra.weight": ("F32", [2], bytes(8))}
        self.refused(more, "model.layers.0.mlp.extra.weight", "no tensor of the plan's model")
        whole = ("I64", [96, 64], bytes(8 * 96 * 64))
        self.refused(self.tensors | {up: whole}, up, "got I64")
        gate = up.replace("up", "gate")
        half = ("BF16", [96, 64], bytes(2 * 96 * 64))
        self.refused(self.tensors | {up: half}, up, "expected F32", "got BF16")
        self.assertIn(gate, self.tensors)

    def test_buffers_are_no_weights(self):
        name = "model.layers.0.self_attn.rotary_emb.inv_freq"
        self.folder_of("other", self.tensors | {name: ("F32", [8], bytes(32))})
        self.losses("--dtype", "f32", "--weights", "other", "--export", "out", steps=0)
        self.assertEqual(self.exported("out"), self.tensors)

    def test_another_model(self):
        self.refused(self.tensors, "config.json", "rope_theta 5000 and not 10000",
                     fields=FIELDS | {"rope_theta": 5000.0})  # fmt: skip
        self.refused(self.tensors, "layers 3 and not 2", fields=FIELDS | {"num_hidden_layers": 3})
        bloom = {"model_type": "bloom", "hidden_size": 64, "n_layer": 2, "n_head": 4,
                 "vocab_size": 256}  # fmt: skip
        self.refused(self.tensors, '"bloom"', "one of gpt2, llama", fields=bloom)

    def test_folders_that_have_none(self):
        self.bad(BAD_INPUT, "run", "plan.json", "--weights", "absent", says="absent/config.json")
        self.refused(None, "other: expected weights")
        whole = file_of(self.tensors)
        place = self.write(os.path.join("mine", "model.safetensors"), whole[:-1])
        self.bad(BAD_INPUT, "run", "plan.json", "--weights", "mine", says=place)

    def test_places_that_are_taken(self):
        os.makedirs(self.path("out"))
        self.write("out/mine.txt", "mine")
        self.write("file", "")
        for name in ("out", "file"):
            self.bad(BAD_INPUT, "run", "plan.json", "--export", name, says=(name, "there already"))
        self.assertEqual(self.read("out/mine.txt"), "mine")

    def test_options_that_do_not_go_together(self):
        self.bad(BAD_INPUT, "run", "plan.json", "--steps", "0", says="--export")

    def test_models_of_no_class(self):
        done = self.zplan("plan", "--model", "tiny-oss", "--cluster", "workstation", "-o", "p.json")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.bad(BAD_INPUT, "run", "p.json", "--export", "out", says=("tiny-oss", "transformers"))


class SeveralProcesses(WeightsTest, Processes):
    def test_write_one_folder(self):
        self.plan("--dp", "2", "--tp", "2", "--zero", "3")
        options = ("--dtype", "f32", "--weights", "mine", "--export", "out", "--steps", "0")
        for code, _, stderr in self.ends(self.start(4, *options)):
            self.assertEqual(code, OK, stderr)
        self.assertEqual(self.exported("out"), self.tensors)

    def test_are_checked_from_the_weights(self):
        self.plan("--dp", "2", "--pp", "2", "--zero", "1")
        options = ("--dtype", "f64", "--weights", "mine", "--check", "--steps", "2", "--json")
        answers = []
        for code, out, stderr in self.ends(self.start(4, *options)):
            self.assertEqual(code, OK, stderr)
            answers += [json.loads(out)] if out else []
        (answer,) = answers
        self.assertEqual((answer["check"]["agrees"], answer["weights"]), (True, "mine"))

    def test_all_end_when_the_weights_of_one_are_no_numbers(self):
        """Which alone holds the last rows."""
        self.plan("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3")
        name, (dtype, shape, values) = list(self.tensors.items())[-1]
        spoiled = values[:-4] + struct.pack("<f", math.nan)
        self.folder_of("spoiled", {**self.tensors, name: (dtype, shape, spoiled)})
        options = ("--dtype", "f32", "--weights", "spoiled", "--export", "out", "--steps", "0")
        for code, _, stderr in self.ends(self.start(2, *options)):
            self.assertEqual(code, CHECK_FAILED, stderr)
            self.assertIn(f"out: not written, for {name.removesuffix('.weight')}", stderr)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_all_end_when_one_cannot_write(self):
        self.plan("--dp", "4")
        os.makedirs(self.path("out"))
        self.write("out/mine.txt", "mine")
        for code, _, stderr in self.ends(self.start(4, "--export", "out", "--steps", "1")):
            self.assertNotEqual(code, OK)
            self.assertIn("out", stderr)


if __name__ == "__main__":
    sys.exit(main())
