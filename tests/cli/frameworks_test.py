"""check and export: configurations of training frameworks in and out."""

import json
import os
import shutil
import subprocess

from cli_support import BAD_INPUT, CHECK_FAILED, INFEASIBLE, OK, ROOT, CliTest, main

DATA = os.path.join(ROOT, "tests", "data", "foreign")
TARGETS = ("deepspeed", "megatron", "megatron-bridge", "torchtitan", "accelerate", "hf", "fsdp")
# Nearly all of a plan that shards parameters: the search has little left to try.
SHARDED = ("--zero", "3", "--tp", "1", "--pp", "1", "--micro-batch", "1", "--simulations", "1")


class Frameworks(CliTest):
    def setUp(self):
        super().setUp()
        for name in os.listdir(DATA):
            shutil.copy(os.path.join(DATA, name), self.path(name))

    def check(self, *arguments, code=OK):
        result = self.zplan("check", *arguments, "--json")
        self.assertEqual(result.returncode, code, result.stderr + result.stdout[:300])
        return json.loads(result.stdout)

    def findings(self, answer):
        return {finding["key"]: finding["kind"] for finding in answer["findings"]}

    def test_a_deepspeed_configuration_is_the_plan_that_it_says(self):
        answer = self.check("ds_config.json", "--model", "llama3-8b", "--cluster", "dgx-h100",
                            "--recompute", "full")
        self.assertTrue(answer["fits"])
        plan = answer["plan"]
        self.assertEqual(plan["zero_stage"], 3)
        self.assertEqual(plan["placement"]["optimizer"], "cpu")
        self.assertEqual(plan["placement"]["grads"], "cpu")
        self.assertEqual(plan["batch"], {"global_batch": 128, "micro_batch": 2, "sequence": 8192})
        # 5e8 elements are nine of what is gathered at a time, a quarter of a layer's matrices.
        self.assertEqual(plan["gather"]["prefetch"], 9)
        self.assertTrue(answer["changes"])
        for change in answer["changes"]:
            self.assertLess(change["step_s"], answer["time"]["step_s"])
            self.assertTrue(change["edits"])

    def test_what_the_question_lacks_is_named(self):
        self.bad(BAD_INPUT, "check", says="expected a configuration")
        self.bad(BAD_INPUT, "check", "ds_config.json", "--model", "llama3-8b", says="--cluster")
        self.bad(BAD_INPUT, "check", "ds_config.json", "--cluster", "dgx-h100", says="--model")

    def test_each_change_is_what_its_edits_make(self):
        question = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--recompute", "full")
        answer = self.check("ds_config.json", *question)
        changed = 0
        for change in answer["changes"]:
            edits = {edit["key"]: edit["after"] for edit in change["edits"]}
            if any(edit["edit"] == "script" for edit in change["edits"]):
                continue
            with open(self.path("ds_config.json"), encoding="utf-8") as file:
                config = json.load(file)
            for key, after in edits.items():
                *path, last = key.split(".")
                at = config
                for name in path:
                    at = at.setdefault(name, {})
                if after:
                    at[last] = json.loads(after)
                else:
                    at.pop(last, None)
            self.write("edited.json", json.dumps(config))
            edited = self.check("edited.json", *question)
            self.assertAlmostEqual(edited["time"]["step_s"], change["step_s"], delta=1e-9)
            changed += 1
        self.assertGreater(changed, 0)

    def edits(self, answer):
        return [{edit["key"]: edit for edit in change["edits"]} for change in answer["changes"]]

    def test_a_key_that_is_not_there_is_to_be_added(self):
        self.write("least.json",
                   '{"train_batch_size": 16,\n "zero_optimization": {"stage": 2}}')
        question = ("least.json", "--model", "gpt2-1.5b", "--cluster", "dgx-h100x2")
        added = [edits["zero_optimization.overlap_comm"] for edits in self.edits(self.check(*question))
                 if "zero_optimization.overlap_comm" in edits]
        self.assertEqual(added, [{"edit": "add", "key": "zero_optimization.overlap_comm", "before": "",
                                  "after": "true", "object": "zero_optimization",
                                  "place": "least.json:2:23"}])
        text = self.good("check", *question)
        self.assertIn("       add overlap_comm = true to zero_optimization   (least.json:2:23)\n", text)
        for line in text.splitlines():
            self.assertNotRegex(line, "^ *zero_optimization[.].* =.*[(]")

    def test_options_of_a_command_are_found_and_added(self):
        answer = self.check("pretrain.sh", "--cluster", "dgx-h100x8")
        found = {(edit["edit"], edit["key"], edit["place"])
                 for change in answer["changes"] for edit in change["edits"]}
        self.assertIn(("change", "--pipeline-model-parallel-size", "pretrain.sh:7:4"), found)
        self.assertIn(("remove", "--sequence-parallel", "pretrain.sh:18:71"), found)
        self.assertIn(("add", "--ddp-bucket-size", "pretrain.sh:16:1"), found)
        text = self.good("check", "pretrain.sh", "--cluster", "dgx-h100x8")
        self.assertIn("       --pipeline-model-parallel-size 1   (pretrain.sh:7:4)\n", text)
        self.assertRegex(text, r"       add --ddp-bucket-size \d+ to the command   [(]pretrain.sh:16:1[)]")

    def test_edits_are_made_where_the_trainer_has_its_values(self):
        self.write("ds.json", json.dumps({"train_micro_batch_size_per_gpu": "auto",
                                          "gradient_accumulation_steps": "auto",
                                          "zero_optimization": {"stage": 2}}))
        self.write("args.json", json.dumps({
            "output_dir": "out", "per_device_train_batch_size": 1, "gradient_accumulation_steps": 8,
            "bf16": True, "deepspeed": "ds.json"}))
        self.write("run.sh", "torchrun train.py --output_dir out --per_device_train_batch_size 1 "
                   "--gradient_accumulation_steps 8 --bf16 True --deepspeed ds.json\n")
        for name in ("args.json", "run.sh"):
            first = self.edits(self.check(name, "--model", "gpt2-1.5b", "--cluster", "dgx-h100"))[0]
            self.assertEqual({key: edit["edit"] for key, edit in first.items()},
                             {"gradient_accumulation_steps": "change",
                              "per_device_train_batch_size": "change"})
        # Recomputation that its own switch says is taken away there, too.
        changes = self.edits(self.check("training_arguments.yaml", "--model", "gpt2-1.5b",
                                        "--cluster", "dgx-h100"))
        places = [edits["gradient_checkpointing"]["place"] for edits in changes
                  if "fsdp_config.activation_checkpointing" in edits]
        self.assertTrue(places)
        self.assertEqual(set(places), {"training_arguments.yaml:5:25"})

    def test_what_the_script_says_is_told_to_it(self):
        changes = self.check("fsdp.yaml", "--model", "gpt2-1.5b", "--cluster", "dgx-h100",
                             "--micro-batch", "1", "--global-batch", "64")["changes"]
        told = {(edit["edit"], edit["key"], edit["before"], edit["place"])
                for change in changes for edit in change["edits"]}
        self.assertIn(("script", "micro_batch", "1", ""), told)

    def test_what_deepspeed_does_not_notice_is_found(self):
        answer = self.check("ds_mistakes.json", "--model", "gpt2-1.5b", "--cluster", "dgx-a100",
                            code=CHECK_FAILED)
        found = self.findings(answer)
        self.assertEqual(found["gradient_acumulation_steps"], "unknown")
        self.assertEqual(found["zero_optimization.offload_param"], "no_effect")
        self.assertEqual(found["zero_optimization.offload_optimizer.buffer_size"], "error")
        self.assertEqual(found["zero_optimization.stage3_max_live_parameters"], "no_effect")
        self.assertEqual(found["zero_optimization.mics_shard_size"], "removed")
        self.assertIn("aio.thread_count", found)
        text = "\n".join(f"{f['place']} {f['message']}" for f in answer["findings"])
        self.assertIn("ds_mistakes.json:3:33 ", text)
        self.assertIn('did you mean "gradient_accumulation_steps"?', text)

    def test_auto_is_the_trainers(self):
        question = ("zero2_accelerate.json", "--model", "gpt2-355m", "--cluster", "dgx2",
                    "--recompute", "full", "--micro-batch", "4")
        plain = self.check(*question, code=CHECK_FAILED)
        self.assertEqual(self.findings(plain)["train_batch_size"], "error")
        filled = self.check(*question, "--with", "hf")
        self.assertEqual(filled["plan"]["zero_stage"], 2)
        self.assertEqual(filled["plan"]["kernel_set"], "cuda.sm70.fp16")
        self.assertEqual(filled["plan"]["batch"]["micro_batch"], 4)

    def test_the_offload_example_fits_where_whole_replicas_do_not(self):
        question = ("zero3_offload_accelerate.json", "--model", "gpt2-1.5b", "--cluster", "dgx2",
                    "--with", "hf")
        answer = self.check(*question, "--micro-batch", "1")
        self.assertTrue(answer["fits"])
        self.assertEqual(answer["plan"]["placement"]["optimizer"], "cpu")
        # The file says no batch: the training script must.
        answer = self.check(*question, code=CHECK_FAILED)
        self.assertEqual(self.findings(answer)["train_micro_batch_size_per_gpu"], "error")

    # Whole replicas of GPT-2 XL leave no room on a card of 24 GB, ZeRO-3 with the optimizer on the host
    # trains 16 sequences of 128 tokens there [Accelerate].
    def test_a_card_of_24_gb_trains_gpt2_xl_with_offload_only(self):
        card = ("--model", "gpt2-1.5b", "--cluster", "titan-rtx-workstation", "--set",
                "gpus_per_node=1", "--seq", "128")
        self.write("ddp.json", json.dumps({"train_micro_batch_size_per_gpu": 1,
                                           "fp16": {"enabled": True}}))
        self.assertFalse(self.check("ddp.json", *card, code=INFEASIBLE)["fits"])
        answer = self.check("zero3_offload_accelerate.json", *card, "--with", "hf",
                            "--micro-batch", "16")
        self.assertTrue(answer["fits"])
        self.assertEqual(answer["plan"]["batch"]["micro_batch"], 16)

    # Of two such cards ZeRO-2 leaves room for a larger batch than whole replicas do [Accelerate].
    def test_two_cards_of_24_gb_hold_a_larger_batch_with_zero_2(self):
        cards = ("--model", "gpt2-774m", "--cluster", "titan-rtx-workstation", "--set",
                 "gpus_per_node=2", "--seq", "128")

        def most(config, *options):
            fits = [n for n in (16, 32, 48, 64, 96, 128)
                    if self.zplan("check", config, *cards, "--micro-batch", str(n), *options
                                  ).returncode == OK]
            return max(fits, default=0)

        self.write("ddp.json", json.dumps({"train_micro_batch_size_per_gpu": "auto",
                                           "fp16": {"enabled": True}}))
        replicas = most("ddp.json", "--with", "hf")
        self.assertGreater(most("zero2_accelerate.json", "--with", "hf"), replicas)

    def test_a_megatron_command_brings_its_model(self):
        answer = self.check("pretrain.sh", "--cluster", "dgx-h100x8")
        plan = answer["plan"]
        self.assertEqual((plan["parallel"]["dp"], plan["parallel"]["tp"], plan["parallel"]["pp"]),
                         (16, 2, 2))
        self.assertTrue(plan["parallel"]["sequence_parallel"])
        self.assertEqual(plan["zero_stage"], 1)
        self.assertEqual(plan["batch"], {"global_batch": 256, "micro_batch": 1, "sequence": 4096})
        self.assertEqual(answer["framework"], "Megatron-LM")
        # An 8B model needs neither tensor parallelism nor a pipeline.
        edits = [{edit["key"] for edit in change["edits"]} for change in answer["changes"]]
        self.assertTrue(any("--pipeline-model-parallel-size" in keys for keys in edits), edits)
        neither = {"--tensor-model-parallel-size", "--sequence-parallel"}
        self.assertTrue(any(neither <= keys for keys in edits), edits)
        steps = [change["step_s"] for change in answer["changes"]]
        self.assertEqual(steps, sorted(steps))
        self.assertLess(steps[0], 0.9 * answer["time"]["step_s"])

    def test_a_script_that_is_read_brings_its_variables(self):
        text = self.read("pretrain.sh")
        self.assertIn("\nTP=2\nPP=2\n", text)
        os.mkdir(self.path("conf"))
        self.write("conf/parallel.sh", "TP=4\nPP=1\n")
        self.write("run.sh", text.replace("\nTP=2\nPP=2\n",
                                          '\nsource "$(dirname "$0")/conf/parallel.sh"\n'))
        answer = self.check("run.sh", "--cluster", "dgx-h100x8")
        parallel = answer["plan"]["parallel"]
        self.assertEqual((parallel["dp"], parallel["tp"], parallel["pp"]), (16, 4, 1))
        self.assertIn('"conf/parallel.sh" is read, its variables count',
                      [each["message"] for each in answer["findings"]])
        places = {edit["key"]: edit["place"] for change in answer["changes"]
                  for edit in change["edits"]}
        self.assertEqual(places["--tensor-model-parallel-size"], "conf/parallel.sh:1:4")
        self.write("conf/parallel.sh", "source ../run.sh\nsource parallel.sh\nTP=4\n")
        self.write("parallel.sh", "source conf/parallel.sh\n")
        result = self.zplan("check", "run.sh", "--cluster", "dgx-h100x8")
        self.assertEqual((result.returncode, result.stderr),
                         (BAD_INPUT, "zplan: parallel.sh:1:8: /: expected scripts that do not read "
                                     'each other, got "conf/parallel.sh" within itself\n'))

    def test_what_is_asked_for_and_not_so_is_said(self):
        answer = self.check("run_config.yaml", "--model", "qwen3-8b", "--cluster", "dgx-h100",
                            "--tp", "4", "--train", "lora")
        found = {each["key"]: each["message"] for each in answer["findings"]}
        self.assertIn("layers 32 and not 36", found["--model"])
        self.assertIn("4 is asked for and 2 counts", found["--tp"])
        self.assertIn("--train", found)
        same = self.check("run_config.yaml", "--model", "llama3-8b", "--cluster", "dgx-h100",
                          "--tp", "2")
        self.assertEqual(same["findings"], [])

    def test_options_that_the_configuration_decides_are_answered(self):
        """Formats of states, buckets, the Trainer: no option is read and then forgotten."""
        answer = self.check("run_config.yaml", "--model", "llama3-8b", "--cluster", "dgx-h100",
                            "--precision", "lean", "--bucket", "500MB", "--with", "hf")
        found = {each["key"]: (each["kind"], each["message"]) for each in answer["findings"]}
        self.assertEqual(found["--precision"][0], "contradicts")
        self.assertIn("lean is asked for and ", found["--precision"][1])
        self.assertEqual(found["--bucket"][0], "no_effect")
        self.assertEqual(found["--with hf"][0], "no_effect")
        own = found["--precision"][1].split(" counts")[0].rsplit(" ", 1)[1]
        same = self.check("run_config.yaml", "--model", "llama3-8b", "--cluster", "dgx-h100",
                          "--precision", f"lean,{own}")
        self.assertEqual(same["findings"], [])

    def test_placement_that_stands_in_for_unknown_memory_is_said(self):
        call = ("check", "ds_config.json", "--model", "llama3-8b", "--cluster", "dgx-h100",
                "--recompute", "full", "--stack")
        text = " ".join(self.zplan(*call, "maxtext").stdout.split())
        self.assertIn("counted as our own executor places it: the memory of maxtext is not known",
                      text)
        self.assertIn("where the verdict counts our placement", text)
        self.assertNotIn("our own executor", self.zplan(*call, "deepspeed2020").stdout)

    def bytes_of(self, name, *question):
        """What check says of a GPU, by name."""
        result = self.zplan("check", name, *question, "--json")
        self.assertIn(result.returncode, (OK, INFEASIBLE), result.stderr)
        answer = json.loads(result.stdout)
        allocator = answer["memory"]["allocator"]
        return {"live": answer["peak"]["live_bytes"],
                "placed": answer["memory"]["gpu"]["peak_bytes"],
                "expected": allocator["needed"]["expected_bytes"],
                "bound": allocator["needed"]["bound_bytes"],
                "shown": allocator["shown"]["expected_bytes"]}

    def test_bytes_do_not_fall_as_micro_batches_grow(self):
        """But for what a caching allocator makes of it: blocks that are not cut once they are free,
        up to 1 MiB each, and segments of 20 MiB for what is smaller than 10."""
        most_fall = {"live": 0, "placed": 0, "expected": 0.005, "bound": 0.005, "shown": 0.03}

        def deepspeed(stage, accumulation):
            return lambda micro: ("ds.json", json.dumps({
                "train_micro_batch_size_per_gpu": micro, "bf16": {"enabled": True},
                "gradient_accumulation_steps": accumulation,
                "zero_optimization": {"stage": stage}}))

        def trainer(lines):
            return lambda micro: ("arguments.yaml", f"output_dir: out\nbf16: true\n"
                                  f"per_device_train_batch_size: {micro}\n{lines}")

        def megatron(micro):
            return "run.sh", self.read("pretrain.sh").replace(
                "--micro-batch-size 1", f"--micro-batch-size {micro}")

        self.assertIn("--micro-batch-size 1", self.read("pretrain.sh"))
        small = ("--model", "1.5B", "--cluster", "dgx-a100")
        series = (
            (deepspeed(0, 1), (*small, "--recompute", "full")),
            (deepspeed(2, 4), small),
            (deepspeed(3, 1), (*small, "--seq", "256", "--recompute", "full")),
            (trainer("gradient_checkpointing: true\n"), small),
            (trainer("fsdp: true\nfsdp_config:\n  version: 2\n"), small),
            (trainer("optim: adamw_bnb_8bit\n"), (*small, "--train", "lora")),
            (megatron, ("--cluster", "dgx-h100x8")),
        )
        for make, question in series:
            last = None
            for micro in (1, 2, 4, 8):
                name, text = make(micro)
                self.write(name, text)
                found = self.bytes_of(name, *question)
                for what, size in found.items():
                    least = 0 if last is None else last[what] * (1 - most_fall[what])
                    self.assertGreaterEqual(size, least, (text, question, what))
                last = found

    def test_torchtitan_accelerate_and_the_trainer_shard_parameters(self):
        for name, micro in (("llama3_8b.toml", ()), ("fsdp.yaml", ("--micro-batch", "1")),
                            ("training_arguments.yaml", ())):
            with self.subTest(name=name):
                answer = self.check(name, "--model", "llama3-8b", "--cluster", "dgx-h100", *micro)
                self.assertEqual(answer["plan"]["zero_stage"], 3)
                self.assertEqual(answer["plan"]["gather"]["unit"], "layer")
                self.assertTrue(answer["fits"])

    def test_a_saved_configuration_of_megatron_bridge_is_the_plan_and_the_model(self):
        answer = self.check("run_config.yaml", "--cluster", "dgx-h100")
        self.assertEqual(answer["framework"], "Megatron-Bridge")
        self.assertEqual(answer["findings"], [])
        plan = answer["plan"]
        self.assertEqual((plan["parallel"]["dp"], plan["parallel"]["tp"]), (4, 2))
        self.assertEqual(plan["batch"], {"global_batch": 64, "micro_batch": 1, "sequence": 8192})
        self.assertEqual((plan["zero_stage"], plan["recompute"][0]["mode"]), (1, "full"))
        for change in answer["changes"]:
            for edit in change["edits"]:
                self.assertRegex(edit["key"], r"^(model|train|ddp|optimizer|dist)\.")

    def test_options_of_later_torchtitan_are_what_its_sections_were(self):
        self.write("train.sh", "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 "
                   "--config llama3_8b --training.local_batch_size 2 --training.seq-len 4096 "
                   "--training.global_batch_size 64 --parallelism.tensor_parallel_degree 2 "
                   "--parallelism.no-enable-sequence-parallel --training.enable_cpu_offload "
                   "activation-checkpoint:full\n")
        plan = self.check("train.sh", "--model", "llama3-8b", "--cluster", "dgx-h100")["plan"]
        self.assertEqual(plan["batch"], {"global_batch": 64, "micro_batch": 2, "sequence": 4096})
        self.assertEqual((plan["parallel"]["tp"], plan["parallel"]["sequence_parallel"]), (2, False))
        self.assertEqual(plan["placement"]["optimizer"], "cpu")
        self.assertEqual(plan["recompute"][0]["mode"], "full")
        self.write("wrong.sh", "torchrun -m torchtitan.train --training.local_batch_size 1 \\\n"
                   "  --training.seq_length 4096 --training.mixed_precision_reduce bfloat16\n")
        answer = self.check("wrong.sh", "--model", "llama3-8b", "--cluster", "dgx-h100",
                            code=CHECK_FAILED)
        found = self.findings(answer)
        self.assertEqual(found["training.seq_length"], "error")
        self.assertEqual(found["training.mixed_precision_reduce"], "error")
        text = "\n".join(f"{f['place']} {f['message']}" for f in answer["findings"])
        self.assertIn("wrong.sh:2:", text)
        self.assertIn('did you mean "seq_len"?', text)
        self.write("odd.sh", "torchrun -m torchtitan.train --training.seq_len 4096 "
                   "activation-checkpoint:ful\n")
        result = self.zplan("check", "odd.sh", "--model", "llama3-8b", "--cluster", "dgx-h100")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn("odd.sh:1:", result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1)

    def test_what_does_not_fit_is_said_with_changes_that_do(self):
        answer = self.check("ds_config.json", "--model", "llama3-8b", "--cluster", "dgx2",
                            code=CHECK_FAILED)
        self.assertEqual(self.findings(answer)["bf16.enabled"], "error")
        answer = self.check("fsdp.yaml", "--model", "llama3-70b", "--cluster", "dgx-h100",
                            "--micro-batch", "4", code=INFEASIBLE)
        self.assertFalse(answer["fits"])
        self.assertIn("does NOT fit", answer["verdict"])

    def test_what_is_no_plan_is_said(self):
        self.write("odd.json", json.dumps({"train_micro_batch_size_per_gpu": 1,
                                           "bf16": {"enabled": True},
                                           "tensor_parallel": {"autotp_size": 64}}))
        answer = self.check("odd.json", "--model", "llama3-8b", "--cluster", "dgx-h100x8",
                            code=CHECK_FAILED)
        self.assertIn("heads", answer["illegal"])
        self.assertNotIn("time", answer)

    def test_other_files_are_refused_in_a_line(self):
        self.write("other.json", '{"a": 1}')
        self.write("model_free.sh", "torchrun pretrain_gpt.py --micro-batch-size 1\n")
        for name, words in (("other.json", "other.json:1:1: /: expected a configuration of"),
                            ("model_free.sh", "expected --model beside it"),
                            ("absent.json", "absent.json")):
            result = self.zplan("check", name, "--cluster", "dgx-h100")
            self.assertEqual(result.returncode, BAD_INPUT)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1)

    def test_an_exported_plan_checks_as_that_plan(self):
        self.good("--model", "llama3-8b", "--cluster", "dgx-h100", "--zero", "3", "--gather",
                  "layer", "--prefetch", "1", "--recompute", "full", "--micro-batch", "1",
                  "--global-batch", "128", "-o", "plan.json")
        for target in TARGETS:
            with self.subTest(target=target):
                result = self.zplan("export", "plan.json", "--to", target, "-o", target, "--json")
                self.assertEqual(result.returncode, OK, result.stderr)
                answer = json.loads(result.stdout)
                for file in answer["files"]:
                    self.assertTrue(os.path.getsize(self.path(file)) > 0, file)
                config = self.path(answer["files"][0])
                batch = json.loads(self.read("plan.json"))["batch"]
                checked = self.check(
                    config, "--model", "llama3-8b", "--cluster", "dgx-h100", "--recompute", "full",
                    *(("--micro-batch", str(batch["micro_batch"]), "--global-batch", "128")
                      if target == "accelerate" else ()))
                self.assertEqual(checked["plan"]["batch"]["global_batch"], 128)
                # What the export says of it there is what the check says.
                self.assertAlmostEqual(answer["there"]["step_s"], checked["time"]["step_s"],
                                       delta=1e-6)
                self.assertEqual(checked["plan"]["zero_stage"], 3)

    def test_what_a_framework_cannot_say_is_named_with_its_cost(self):
        self.good("--model", "llama3-8b", "--cluster", "dgx-h100x2", "--pp", "2", "--zero", "1",
                  "-o", "plan.json")
        answer = json.loads(self.good("export", "plan.json", "--to", "deepspeed", "--json"))
        dropped = {each["decision"]: each for each in answer["dropped"]}
        self.assertIn("/parallel/pp", dropped)
        self.assertEqual(answer["files"], [])
        text = self.good("export", "plan.json", "--to", "deepspeed")
        self.assertIn("does", text)

    def export(self, plan, target):
        result = self.zplan("export", plan, "--to", target, "-o", target, "--json")
        self.assertEqual(result.returncode, OK, result.stderr)
        answer = json.loads(result.stdout)
        return answer, {os.path.basename(file): self.read(file) for file in answer["files"]}

    def test_a_script_gets_the_config_of_its_model(self):
        for model, kind, layer in (("gpt2", "gpt2", "GPT2Block"),
                                   ("phi3-mini", "mistral", "MistralDecoderLayer"),
                                   ("gemma3-1b", "gemma3_text", "Gemma3DecoderLayer"),
                                   ("pythia-1.4b", "gpt_neox", "GPTNeoXLayer")):
            self.good("--model", model, "--cluster", "dgx-h100", *SHARDED, "-o", "plan.json")
            for target in ("deepspeed", "accelerate", "hf"):
                with self.subTest(model=model, target=target):
                    answer, files = self.export("plan.json", target)
                    self.assertEqual(json.loads(files["config.json"])["model_type"], kind)
                    self.assertIn("from model_and_data import", files["train.py"])
                    self.assertNotIn("config.json", {each["key"] for each in answer["findings"]})
                    # Read again it is the model.
                    sizes = {json.loads(self.good("models", name, "--json"))["models"][0]["parameters"]
                             for name in (model, "./" + target)}
                    self.assertEqual(len(sizes), 1)
                    if target == "accelerate":
                        self.assertIn(layer, files["accelerate.yaml"])
        for target in ("megatron", "megatron-bridge", "torchtitan"):
            self.assertNotIn("config.json", self.export("plan.json", target)[1])

    def test_a_model_that_a_framework_does_not_have_is_an_error(self):
        for model, targets in (("bloom-176b", {"megatron", "megatron-bridge", "torchtitan"}),
                               ("mixtral-8x7b", {"torchtitan"}), ("llama3-70b", set())):
            self.good("--model", model, "--cluster", "dgx-h100x64", "--tp", "8", "--simulations", "1",
                      "-o", "plan.json")
            for target in ("megatron", "megatron-bridge", "torchtitan"):
                with self.subTest(model=model, target=target):
                    found = {each["key"]: each["message"]
                             for each in self.export("plan.json", target)[0]["findings"]}
                    self.assertEqual("model" in found, target in targets, found)
                    if model == "bloom-176b" and target != "torchtitan":
                        self.assertIn("position learned and not alibi", found["model"])

    def test_a_users_config_is_taken_with_the_dropout_of_the_plan(self):
        os.mkdir(self.path("mine"))
        with open(os.path.join(ROOT, "tests", "data", "hugging_face", "phi-3-mini-4k.json"),
                  encoding="utf-8") as file:
            own = json.load(file)
        self.write("mine/config.json", json.dumps(own | {"resid_pdrop": 0.1, "bos_token_id": 7}))
        self.good("--model", "./mine", "--cluster", "dgx-h100", *SHARDED, "-o", "plan.json")
        files = self.export("plan.json", "accelerate")[1]
        written = json.loads(files["config.json"])
        self.assertEqual({key: written[key] for key in own},
                         own | {"resid_pdrop": 0.0, "bos_token_id": 7})
        self.assertIn("Phi3DecoderLayer", files["accelerate.yaml"])

    def test_dropout_that_a_framework_does_is_not_dropped(self):
        self.good("--model", "gpt2", "--cluster", "dgx-h100", "--stack", "megatron2022", "--zero",
                  "1", "--dropout", "-o", "plan.json")
        for target, file, line in (("deepspeed", "config.json", '"attn_pdrop": 0.1'),
                                   ("hf", "config.json", '"attn_pdrop": 0.1'),
                                   ("megatron", "arguments.txt", "--attention-dropout 0.1")):
            with self.subTest(target=target):
                answer, files = self.export("plan.json", target)
                self.assertIn(line, files[file])
                self.assertNotIn("/dropout", {each["decision"] for each in answer["dropped"]})
                self.assertEqual(self.findings(answer)["/dropout"], "not_modelled")
        # torchtitan has none.
        answer = self.export("plan.json", "torchtitan")[0]
        self.assertIn("/dropout", {each["decision"] for each in answer["dropped"]})

    def test_a_model_of_no_family_is_said_with_the_nearest(self):
        self.good("--model", "tiny-bloom", "--cluster", "dgx-h100", "--tp", "1", "--pp", "1",
                  "--simulations", "1", "-o", "plan.json")
        answer, files = self.export("plan.json", "deepspeed")
        self.assertNotIn("config.json", files)
        found = {each["key"]: each for each in answer["findings"]}["config.json"]
        self.assertEqual(found["kind"], "error")
        self.assertIn("bloom has ffn 256 and not 128. Build the model in make_model",
                      found["message"])

    def test_the_launchers_start_the_script_with_what_it_must_be_told(self):
        self.good("--model", "llama3-8b", "--cluster", "dgx-h100x2", "--zero", "3", "--gather",
                  "layer", "--recompute", "full", "--micro-batch", "2", "--global-batch", "128",
                  "--tp", "1", "--pp", "1", "-o", "plan.json")
        for target, starter in (("deepspeed", "torchrun --nnodes 2 --nproc_per_node 8"),
                                ("accelerate", "accelerate launch --config_file accelerate.yaml "
                                               "--num_machines 2 --num_processes 16")):
            files = self.export("plan.json", target)[1]
            for name in ("launch.sh", "launch.sbatch"):
                self.assertIn(starter, files[name])
            for name in ("launch.sh", "launch.sbatch", "launch_mpi.sh"):
                self.assertIn("train.py --sequence 8192", files[name])
                self.assertIn("--recompute", files[name])
                self.assertEqual("--micro-batch 2 --accumulation 4" in files[name],
                                 target == "accelerate", name)
                checked = subprocess.run(["bash", "-n", self.path(os.path.join(target, name))],
                                         capture_output=True, text=True, check=False)
                self.assertEqual(checked.stderr, "")


if __name__ == "__main__":
    main()
