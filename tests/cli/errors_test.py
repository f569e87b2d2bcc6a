"""Bad input: one clear line on stderr, nothing on stdout, the right exit code, no file left."""

import json
import os
import stat
import unittest.mock

from cli_support import BAD_INPUT, DEVICE, INFEASIBLE, ROOT, CliTest, main

TINY = ("--model", "tiny-gpt", "--cluster", "workstation")


class CommandLine(CliTest):
    def test_nothing_given(self):
        self.bad(BAD_INPUT, says="--model and --cluster")

    def test_cluster_missing(self):
        self.bad(BAD_INPUT, "--model", "1T", says="--cluster")

    def test_unknown_subcommand(self):
        self.bad(BAD_INPUT, "simulat", "plan.json", says=['"simulat"', '"simulate"'])

    def test_unknown_option(self):
        self.bad(BAD_INPUT, "--modle", "1T", "--cluster", "dgx2", says=['"--modle"', '"--model"'])
        self.bad(BAD_INPUT, "plan", *TINY, "--zeroo=3", says=['"--zeroo"', '"--zero"'])
        self.bad(BAD_INPUT, "run", "plan.json", "--chek", says='"--check"')

    def test_unexpected_argument(self):
        self.bad(BAD_INPUT, "simulate", "a.json", "b.json", says='"b.json"')

    def test_option_without_value(self):
        self.bad(BAD_INPUT, "plan", "--cluster", "dgx2", "--model", says="--model")

    def test_flag_with_value(self):
        for word in ("--json=3", "--json=maybe", "--exhaustive=2", "--sp=4"):
            says = word.split("=")[0] + ": takes no value"
            self.bad(BAD_INPUT, "plan", *TINY, word, says=says)

    def test_option_twice(self):
        self.bad(BAD_INPUT, *TINY, "--dp", "1", "--dp", "2", says="--dp")

    def test_numbers(self):
        for word in ("", "abc", "0", "-1", "1.5", "2x", "99999999999999999999"):
            self.bad(BAD_INPUT, *TINY, f"--dp={word}", says="--dp: expected")
        self.bad(BAD_INPUT, *TINY, "--zero", "4", says="from 0 to 3")
        self.bad(BAD_INPUT, *TINY, "--threads", "0", says="--threads")

    def test_choices(self):
        self.bad(BAD_INPUT, *TINY, "--params", "disk", says="gpu or cpu or nvme")
        self.bad(BAD_INPUT, *TINY, "--schedule", "2f2b", says='did you mean "1f1b"?')
        for recipes in ("leen", "standard,leen"):
            self.bad(BAD_INPUT, *TINY, "--precision", recipes, says='did you mean "lean"?')
        for recipes in ("any,lean", "lean,", ","):
            self.bad(BAD_INPUT, *TINY, "--precision", recipes, says="--precision: expected fp8, any")

    def test_lists(self):
        for word in ("ful", "full:", "full:0", "full:-1", "full,,none", "full:2:3", "full:x"):
            self.bad(BAD_INPUT, *TINY, f"--recompute={word}", says="--recompute: expected none")
        for word in ("a", "2,", "2,,2", "-1,5", "99999999999"):
            self.bad(BAD_INPUT, *TINY, f"--stages={word}", says="--stages: expected numbers")
        self.bad(BAD_INPUT, *TINY, "--recompute", "full:9", says="9 of 4 layers")
        self.bad(BAD_INPUT, *TINY, "--recompute", "full,none:2", says="only the last run")
        together = [*TINY, "--pp", "1", "--checkpoint-layers"]
        self.bad(BAD_INPUT, *together, "3", "--recompute", "full", says="the nearest that do: 2")
        self.bad(BAD_INPUT, *together, "2", "--recompute", "none", says="need recompute full of all layers")
        self.bad(BAD_INPUT, *TINY, "--stages", "3,3", says="the model has 4")
        self.bad(BAD_INPUT, *TINY, "--stages", "0,4", says="a stage of 0 layers")

    def test_schedules_from_files(self):
        self.write(
            "stuck.json",
            '{"schema": "zplan.schedule/1", "stages": 2, "micro_batches": 1, "chunks": [[0, 2], [1, 3]], '
            '"ranks": [["F1.0", "F0.0", "B1.0", "B0.0"], ["F0.0", "F1.0", "B1.0", "B0.0"]]}',
        )
        stuck = self.path("stuck.json")
        self.bad(BAD_INPUT, *TINY, "--schedule", stuck, says="rank 0 waits at forward of micro-batch 0, chunk 1")
        self.bad(BAD_INPUT, *TINY, "--schedule", "none.json", says="cannot read the file")

    def test_choices_that_exclude_each_other(self):
        self.bad(
            BAD_INPUT, *TINY, "--grads", "cpu", "--optimizer", "gpu",
            says="gradients on cpu need the optimizer on cpu or nvme",
        )
        self.bad(BAD_INPUT, *TINY, "--shards", "2", "--zero", "0", says="ZeRO 0 shards nothing")
        self.bad(BAD_INPUT, *TINY, "--sp", "--no-sp", says="contradict")

    def test_control_characters_stay_on_one_line(self):
        self.bad(BAD_INPUT, "--model", "a\nb", "--cluster", "dgx2")
        self.bad(BAD_INPUT, "--mo\ndel", "x")
        self.bad(BAD_INPUT, "simulate", "a\nb.json")


class Names(CliTest):
    def test_unknown_model(self):
        self.bad(BAD_INPUT, "--model", "gpt5", "--cluster", "dgx2", says=['"gpt5"', "gpt2"])
        self.bad(BAD_INPUT, "models", "tinygpt", says='"tiny-gpt"')

    def test_unknown_cluster(self):
        self.bad(BAD_INPUT, "--model", "1T", "--cluster", "dgx3x32", says='"dgx1x32"')
        self.bad(BAD_INPUT, "clusters", "workstatoin", says='"workstation"')

    def test_counts_of_nodes(self):
        for count in ("0", "-1", "99999999999999999999"):
            self.bad(BAD_INPUT, "--model", "1T", "--cluster", f"dgx2x{count}")

    def test_unknown_kernel_set(self):
        self.bad(
            BAD_INPUT, *TINY, "--kernel-set", "cpu.f23", says=["--kernel-set: ", '"cpu.f32"']
        )

    def test_files_that_do_not_exist(self):
        self.bad(BAD_INPUT, "--model", "no/model.json", "--cluster", "dgx2", says="no/model.json")
        self.bad(BAD_INPUT, "--model", "1T", "--cluster", "./node.jsonx2", says="./node.json")
        for subcommand in ("simulate", "memory", "lower", "run"):
            self.bad(BAD_INPUT, subcommand, "absent.json", says="absent.json")
            self.bad(BAD_INPUT, subcommand, says=f"zplan {subcommand} plan.json")

    def test_folders_are_no_files(self):
        os.mkdir(self.path("folder.json"))
        self.bad(BAD_INPUT, "--model", "./folder.json", "--cluster", "dgx2")
        for subcommand in ("simulate", "lower", "run"):
            self.bad(BAD_INPUT, subcommand, "folder.json")


class Sizes(CliTest):
    def test_more_ranks_than_devices(self):
        self.bad(BAD_INPUT, *TINY, "--dp", "1000", says="dp")
        self.bad(BAD_INPUT, *TINY, "--pp", "200", says="pp")

    def test_batch_that_does_not_divide(self):
        self.bad(BAD_INPUT, *TINY, "--dp", "4", "--global-batch", "7")
        self.bad(BAD_INPUT, *TINY, "--global-batch", "8", "--micro-batch", "3")

    def test_contradicting_pins(self):
        self.bad(BAD_INPUT, *TINY, "--params", "cpu", "--zero", "1")
        self.bad(BAD_INPUT, *TINY, "--precision", "lean", says="compute in bf16; cpu.f32")
        self.bad(BAD_INPUT, *TINY, "--precision", "main-gradients", says="compute in 16 bit")
        self.bad(BAD_INPUT, *TINY, "--precision", "standard,lean", says="precision lean is for")
        self.bad(BAD_INPUT, *TINY, "--tp", "3", says="heads")
        self.bad(BAD_INPUT, *TINY, "--gather", "owned", "--zero", "2", says="ZeRO stage 3 only")
        for size in ("500", "0 B", "many MB", "-1MB"):
            self.bad(BAD_INPUT, *TINY, f"--bucket={size}", says="--bucket: expected a size with a unit")
        self.bad(BAD_INPUT, *TINY, "--bucket", "1MB", "--gather", "layer", says="give one")
        self.bad(
            BAD_INPUT, *TINY, "--partition-activations", "--recompute", "none",
            says="recompute",
        )

    def test_model_that_fits_nowhere(self):
        result = self.zplan("--model", "1T", "--cluster", "workstation", "-o", "plan.json", "--details")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertEqual(result.stderr, "")  # the answer says it
        for words in ("does not fit on workstation", "needed", "there", "Tried"):
            self.assertIn(words, result.stdout)
        self.assertEqual(self.files(), [])

    def test_model_that_fits_nowhere_as_json(self):
        result = self.zplan("--model", "1T", "--cluster", "workstation", "--json")
        self.assertEqual(result.returncode, INFEASIBLE)
        answer = json.loads(result.stdout)
        self.assertIs(answer["feasible"], False)
        self.assertIsNone(answer["plan"])
        self.assertGreater(len(answer["rejected"]), 0)


class PlanFiles(CliTest):
    """Damaged plans, given to every command that reads one."""

    def setUp(self):
        super().setUp()
        self.text = self.read(self.tiny_plan())

    def rejects(self, text, says=(), code=BAD_INPUT):
        self.write("bad.json", text)
        says = ["bad.json:", *([says] if isinstance(says, str) else says)]
        for subcommand in ("simulate", "memory", "lower", "run"):
            self.bad(code, subcommand, "bad.json", says=says)

    def changed(self, *keys, value):
        plan = json.loads(self.text)
        at = plan
        for key in keys[:-1]:
            at = at[key]
        at[keys[-1]] = value
        return json.dumps(plan)

    def test_empty(self):
        self.rejects("", says="bad.json")
        self.rejects("\n\n", says="bad.json")

    def test_truncated_anywhere(self):
        size = len(self.text.rstrip())
        for length in range(1, size, 97):
            self.write("bad.json", self.text[:length])
            self.bad(BAD_INPUT, "simulate", "bad.json", says="bad.json:")

    def test_garbage(self):
        self.rejects(b"\x00\xff\xfe" * 100, says="bad.json:1:")
        self.rejects("[" * 100000, says="bad.json:1:")
        self.rejects("{} {}", says="bad.json:1:")
        self.rejects('"text"', says="object")

    def test_duplicate_key(self):
        text = self.text.replace('"zero_stage"', '"clip": true, "zero_stage"', 1)
        self.rejects(text, says=["bad.json:", '"clip"'])

    def test_unknown_key(self):
        self.rejects(self.changed("zero_stages", value=1), says='"zero_stage"')

    def test_missing_key(self):
        plan = json.loads(self.text)
        del plan["parallel"]
        self.rejects(json.dumps(plan), says='"parallel"')

    def test_wrong_schema(self):
        self.rejects(self.changed("schema", value="zplan.plan/9"), says="zplan.plan/1")

    def test_wrong_types_and_ranges(self):
        self.rejects(self.changed("parallel", "dp", value="2"), says="/parallel/dp")
        self.rejects(self.changed("parallel", "dp", value=0), says="/parallel/dp")
        self.rejects(self.changed("parallel", "dp", value=1.5), says="/parallel/dp")
        self.rejects(self.changed("parallel", "pp", value=10**30), says="/parallel/pp")
        self.rejects(self.changed("batch", "sequence", value=-1), says="/batch/sequence")
        self.rejects(self.changed("recompute", value="some"), says="/recompute")
        self.rejects(self.changed("recompute", value=[{"mode": "some", "layers": 0}]), says="/mode")
        self.rejects(self.changed("parallel", "tp", value=0), says="/parallel/tp")
        self.rejects(self.changed("gather", "unit", value="tiles:17"), says="/gather/unit")

    def test_impossible_plans(self):
        self.rejects(self.changed("parallel", "pp", value=5), says="pp 5")
        self.rejects(self.changed("batch", "micro_batch", value=7), says="global batch")
        self.rejects(self.changed("kernel_set", value="cpu.f65"), says='"cpu.f64"')
        self.rejects(self.changed("model", value="tiny-gtp"), says='"tiny-gpt"')
        self.write("bad.json", self.changed("hardware", value="workstatoin"))
        for subcommand in ("simulate", "memory", "run"):
            self.bad(BAD_INPUT, subcommand, "bad.json", says=["bad.json:", '"workstation"'])

    def test_more_ranks_than_the_cluster(self):
        plan = json.loads(self.text)
        plan["parallel"]["dp"], plan["batch"]["global_batch"] = 64, 64
        plan["batch"]["micro_batch"] = 1
        self.write("big.json", json.dumps(plan))
        self.bad(BAD_INPUT, "simulate", "big.json", says=["64", "workstation"])

    def test_too_large_for_the_cluster(self):
        self.oversized_plan(name="big.json")
        for subcommand in ("simulate", "run"):
            self.bad(
                INFEASIBLE, subcommand, "big.json",
                says=["does not fit on workstation", "needed", "--ignore-capacity"],
            )

    def with_batch(self, global_batch, micro_batch, sequence, dp=1, pp=1):
        plan = json.loads(self.text)
        plan["parallel"].update(dp=dp, tp=1, pp=pp, sequence_parallel=False, shards=0)
        plan["batch"] = {
            "global_batch": global_batch, "micro_batch": micro_batch, "sequence": sequence,
        }
        return plan

    def test_huge_numbers(self):
        billion = 10**9
        self.rejects(json.dumps(self.with_batch(billion, billion, billion)), says="/batch/")
        self.rejects(
            json.dumps(self.with_batch(2**20, 2**20, 2**20)), says="4294967296 tokens per step"
        )
        self.rejects(json.dumps(self.with_batch(2**20, 1, 8)), says="1048576 micro-steps")
        self.rejects(json.dumps(self.with_batch(8, 1, 8, dp=10**7)), says="/parallel/dp")
        self.rejects(self.changed("gather", "prefetch", value=65), says="/gather/prefetch")
        self.rejects(self.changed("gather", "prefetch", value=2**40), says="/gather/prefetch")
        self.rejects(self.changed("slack", value=1e300), says="/slack")

    def test_huge_products_with_the_model(self):
        with open(os.path.join(ROOT, "models/catalogue/tiny-gpt.json"), encoding="utf-8") as file:
            model = json.load(file)
        model.update(hidden=2**20, ffn=2**22, heads=2**10, sequence=2**20)
        self.write("wide.json", json.dumps(model))
        plan = self.with_batch(4096, 4096, 2**20)
        plan["model"] = "./wide.json"
        self.rejects(json.dumps(plan), says=["flop", "can be counted"])

    def test_states_that_no_kernel_updates(self):
        for state in ("moments", "master"):
            for dtype in ("bf16", "f64"):
                self.rejects(self.changed("precision", state, value=dtype), says="f32")


class ModelAndNodeFiles(CliTest):
    def test_damaged_models(self):
        with open(os.path.join(ROOT, "models/catalogue/tiny-gpt.json"), encoding="utf-8") as file:
            text = file.read()
        for bad in (
            "",
            text[: len(text) // 2],
            text.replace('"layers": 4', '"layers": 0'),
            text.replace('"layers": 4', '"layers": 4, "layers": 4'),
            text.replace('"heads": 4', '"heads": 3'),
        ):
            self.write("model.json", bad)
            self.bad(BAD_INPUT, "--model", "model.json", "--cluster", "dgx2", says="model.json")
            self.bad(BAD_INPUT, "models", "model.json", says="model.json")

    def test_damaged_nodes(self):
        path = os.path.join(ROOT, "hwprofiles/catalogue/workstation.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for bad in ("", text[: len(text) // 2], text.replace('"1 GiB"', "1"), "[]"):
            self.write("node.json", bad)
            self.bad(BAD_INPUT, "--model", "1T", "--cluster", "node.jsonx2", says="node.json")
            self.bad(BAD_INPUT, "clusters", "node.json", says="node.json")


    def test_node_with_an_unknown_kernel_set(self):
        path = os.path.join(ROOT, "hwprofiles/catalogue/workstation.json")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertIn('"cpu.f32"', text)
        self.write("node.json", text.replace('"cpu.f32"', '"cpu.f31"'))
        self.bad(
            BAD_INPUT, "--model", "tiny-gpt", "--cluster", "node.json",
            says=["node workstation", "kernel_set", '"cpu.f31"', '"cpu.f32"'],
        )


class Outputs(CliTest):
    def test_unwritable(self):
        os.mkdir(self.path("folder"))
        self.write("file", "kept")
        for target in ("folder", "absent/plan.json", "file/plan.json", "/proc/none/plan.json"):
            self.bad(BAD_INPUT, *TINY, "-o", target, says=target)
        self.tiny_plan()
        for target in ("folder", "absent/x"):
            self.bad(BAD_INPUT, "lower", "plan.json", "-o", target, says=target)
            self.bad(BAD_INPUT, "simulate", "plan.json", "--trace", target, says=target)
            self.bad(BAD_INPUT, "run", "plan.json", "--trace", target, says=target)
            self.bad(BAD_INPUT, "run", "plan.json", "--timeline", target, says=target)
        self.assertEqual(self.read("file"), "kept")

    def test_standard_output_is_no_file(self):
        self.tiny_plan()
        self.bad(BAD_INPUT, *TINY, "-o", "-", says="give a file")
        self.bad(BAD_INPUT, "lower", "plan.json", "-o", "-", says="give a file")
        self.bad(BAD_INPUT, "simulate", "plan.json", "--trace", "-", says="give a file")

    def test_one_file_for_two_things(self):
        text = self.read(self.tiny_plan())
        for subcommand, options in (
            ("lower", ("-o", "./plan.json")),
            ("simulate", ("--trace", "plan.json")),
            ("run", ("--timeline", "plan.json")),
        ):
            self.bad(BAD_INPUT, subcommand, "plan.json", *options, says="it is the input")
        self.assertEqual(self.read("plan.json"), text)
        self.bad(
            BAD_INPUT, "run", "plan.json", "--trace", "t.json", "--timeline", "./t.json",
            says="same file",
        )

    def test_inputs_beyond_all_reason(self):
        with open(self.path("huge.json"), "wb") as file:
            file.truncate(2**31)
        self.bad(BAD_INPUT, "simulate", "huge.json", says="up to 1024 MiB")

    def test_full_disk(self):
        result = self.zplan("lower", self.tiny_plan(), "-o", "/dev/full")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.one_line(result.stderr, "/dev/full")

    def test_failure_keeps_the_old_file(self):
        self.write("plan.json", "old")
        self.bad(BAD_INPUT, "--model", "gpt5", "--cluster", "dgx2", "-o", "plan.json")
        self.assertEqual(self.read("plan.json"), "old")

    def mode(self, name):
        return stat.S_IMODE(os.stat(self.path(name)).st_mode)

    def test_new_files_are_for_whom_the_umask_leaves_them(self):
        for umask in (0o022, 0o077, 0o002):
            before = os.umask(umask)
            self.addCleanup(os.umask, before)
            self.tiny_plan(name=f"plan{umask}.json")
            os.umask(before)
            self.assertEqual(self.mode(f"plan{umask}.json"), 0o666 & ~umask)

    def test_replaced_files_keep_their_mode(self):
        for mode in (0o600, 0o640, 0o666, 0o755):
            self.write("plan.json", "old")
            os.chmod(self.path("plan.json"), mode)
            self.tiny_plan()
            self.assertIn("zplan.plan/1", self.read("plan.json"))
            self.assertEqual(self.mode("plan.json"), mode)

    def test_files_are_replaced_through_links(self):
        self.write("target.json", "old")
        os.symlink("target.json", self.path("link.json"))
        self.tiny_plan(name="link.json")
        self.assertTrue(os.path.islink(self.path("link.json")))
        self.assertIn("zplan.plan/1", self.read("target.json"))
        self.assertEqual(self.files(), ["link.json", "target.json"])


class RunErrors(CliTest):
    def setUp(self):
        super().setUp()
        self.tiny_plan()

    def test_plan_of_a_gpu(self):
        self.good("plan", "--model", "gpt2", "--cluster", "dgx2", "--for", "zplan", "-o", "gpu.json")
        self.bad(
            BAD_INPUT, "run", "gpu.json", "--backend", "cpu",
            says=["cuda.sm70.fp16", "zplan plan --model tiny-gpt --cluster workstation"],
        )
        self.bad(BAD_INPUT, "run", "gpu.json", "--dtype", "f32", says="--dtype is for CPUs")
        self.bad(BAD_INPUT, "run", "plan.json", "--backend", "cuda", says="cpu.f32 does not run")
        with unittest.mock.patch.dict(os.environ, ZPLAN_CUDA_PLUGIN=self.path("absent.so")):
            self.bad(DEVICE, "run", "gpu.json", says=["absent.so", "zplan_cuda_plugin"])

    def test_plan_that_no_backend_runs(self):
        self.good("plan", "--model", "gpt2", "--cluster", "dgx2", "--for", "zplan", "-o", "gpu.json")
        with open(self.path("gpu.json")) as file:
            plan = json.load(file)
        plan["dropout"] = True
        with open(self.path("dropout.json"), "w") as file:
            json.dump(plan, file)
        self.bad(BAD_INPUT, "run", "dropout.json", says=["cuda.sm70.fp16.unfused", "dropout"])
        plan["dropout"] = False
        plan["kernel_set"] = "rocm.gfx942.bf16"
        plan["precision"].update(param="bf16", grad="bf16")
        plan["loss_scaling"] = False
        with open(self.path("rocm.json"), "w") as file:
            json.dump(plan, file)
        self.bad(BAD_INPUT, "run", "rocm.json", says=["rocm.gfx942.bf16", "for planning"])

    def test_data(self):
        self.bad(BAD_INPUT, "run", "plan.json", "--data", "absent.txt", says="absent.txt")
        self.bad(BAD_INPUT, "run", "plan.json", "--data", self.folder)
        self.write("short.txt", "abc")
        self.bad(BAD_INPUT, "run", "plan.json", "--data", "short.txt", says="short.txt")
        self.write("empty.txt", "")
        self.bad(BAD_INPUT, "run", "plan.json", "--data", "empty.txt", says="empty.txt")

    def test_train_config(self):
        self.bad(BAD_INPUT, "run", "plan.json", "--train", "absent.json", says="absent.json")
        self.write("train.json", '{"schema": "zplan.train/1", "learning_rat": 1}')
        self.bad(BAD_INPUT, "run", "plan.json", "--train", "train.json", says='"learning_rate"')

    def test_numbers(self):
        self.bad(BAD_INPUT, "run", "plan.json", "--steps", "0", says="--steps")
        self.bad(BAD_INPUT, "run", "plan.json", "--seed", "-1", says="--seed")
        self.bad(BAD_INPUT, "run", "plan.json", "--dtype", "f16", says="f32 or f64")

    def test_storage(self):
        self.tiny_plan("--zero", "3", "--optimizer", "nvme", "--dp", "2", name="nvme.json")
        self.bad(BAD_INPUT, "run", "nvme.json", says="--nvme-dir")
        self.bad(DEVICE, "run", "nvme.json", "--nvme-dir", "absent", says="absent")
        self.bad(BAD_INPUT, "run", "plan.json", "--io", "mmap", says="auto or uring or posix")


if __name__ == "__main__":
    main()
