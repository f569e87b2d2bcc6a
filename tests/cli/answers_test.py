"""What the commands answer: their JSON keys, that equal questions get equal bytes, help."""

import contextlib
import functools
import gzip
import json
import os
import pty
import re
import shutil
import subprocess

from cli_support import BAD_INPUT, EVERYTHING, INFEASIBLE, OK, PROGRAM, ROOT, CliTest, main, zplan

TINY = ("--model", "tiny-gpt", "--cluster", "workstation")
BIG = ("--model", "1T", "--cluster", "dgx2x32", "--for", "zplan")
GPT2 = ("--model", "gpt2", "--cluster", "dgx2", "--for", "zplan")


# Answered in a fraction of the time.
PINNED = (*BIG, "--zero", "3", "--tp", "1", "--pp", "1")
HALF_PINNED = (*BIG, "--zero", "3", "--tp", "4")


@functools.cache
def asked_once(*options):
    """What the test cases that ask this share."""
    return zplan("plan", *options).stdout


def big(threads="1"):
    """`tests/run --all` leaves all of the plan to the search."""
    return asked_once(*(BIG if EVERYTHING else HALF_PINNED), "--json", "--threads", threads)


TIER_KEYS = [
    f"memory.{tier}.{key}"
    for tier in ("gpu", "cpu", "nvme")
    for key in ("peak_bytes", "capacity_bytes", "reserve_bytes", "by_category")
]
TIME_KEYS = [
    f"time.{key}"
    for key in (
        "step_s", "first_step_s", "tokens_per_s", "model_tflops_per_gpu",
        "hardware_tflops_per_gpu", "mfu", "limited_by",
    )
]


class Plans(CliTest):
    def test_answer_has_the_keys_of_its_schema(self):
        answer = self.good_json("plan", *TINY)
        self.assertEqual(answer["schema"], "zplan.answer/1")
        self.has(answer, ["feasible", "model", "cluster", "plan", "memory.classes", "fingerprint"])
        self.has(answer, TIER_KEYS + TIME_KEYS)
        self.has(answer, [f"search.{key}" for key in ("space", "visited", "simulated", "gap")])
        self.assertIs(answer["feasible"], True)
        self.assertRegex(answer["fingerprint"], "^[0-9a-f]{32}$")
        self.assertIsInstance(answer["rejected"], list)

    def test_answer_agrees_with_itself(self):
        answer = json.loads(big())
        for tier in ("gpu", "cpu", "nvme"):
            use = answer["memory"][tier]
            self.assertLessEqual(use["peak_bytes"] + use["reserve_bytes"], use["capacity_bytes"])
        tokens = answer["model"]["global_batch"] * answer["model"]["sequence"]
        time = answer["time"]
        self.assertAlmostEqual(time["tokens_per_s"] * time["step_s"] / tokens, 1, places=9)
        self.assertLess(time["mfu"], 1)
        self.assertLessEqual(time["model_tflops_per_gpu"], time["hardware_tflops_per_gpu"] * 1.001)
        self.assertEqual(answer["time"]["limited_by"], answer["time"]["limits"][0]["resource"])
        self.assertLessEqual(answer["search"]["simulated"], answer["search"]["space"])

    def test_same_question_same_bytes(self):
        for options in ((), ("--json",)):
            first = self.good(*TINY, *options)
            self.assertEqual(first, self.good("plan", *TINY, *options))
            for threads in ("1", "2") if EVERYTHING or "--json" in options else ():
                self.assertEqual(first, self.good(*TINY, *options, "--threads", threads))

    def test_same_bytes_for_the_large_model(self):
        self.assertEqual(big(threads="1"), big(threads="3"))

    def test_timing_is_said_only_when_asked(self):
        self.assertNotIn("timing", self.good_json(*TINY))
        self.assertGreater(self.good_json(*TINY, "--timing")["timing"]["elapsed_s"], 0)

    def test_exhaustive_search_finds_the_same_plan(self):
        pins = ("--tp", "1", "--pp", "1", "--optimizer", "gpu")
        quick = self.good_json("plan", *TINY, *pins)
        exhaustive = self.good_json("plan", *TINY, *pins, "--exhaustive")
        self.assertLessEqual(quick["search"]["gap"], 0.01)
        self.assertLessEqual(exhaustive["search"]["gap"], 1e-4)  # times of losers are so exact
        self.assertEqual(quick["fingerprint"], exhaustive["fingerprint"])
        self.assertGreater(exhaustive["search"]["simulated"], quick["search"]["simulated"])

    def test_the_fastest_stands_beside_a_simpler_plan(self):
        answer = self.good_json("plan", *GPT2)
        self.assertEqual(answer["plan"]["zero_stage"], 0)
        self.assertEqual(set(answer["plan"]["placement"].values()), {"gpu"})
        step, fastest = answer["time"]["step_s"], answer["fastest"]
        self.assertLess(fastest["step_s"], step)
        self.assertLessEqual(step, 1.02 * fastest["step_s"])
        self.assertGreater(fastest["plan"]["zero_stage"], 0)
        self.assertIn(fastest["wins_of_100"], range(90))
        self.assertRegex(
            " ".join(asked_once(*GPT2, "--details").split()),
            r"Fastest +[0-9.]+ % faster, [0-9]+ ms a step in [0-9]+ of 100 samples, less simple \(ZeRO stage\): .*ZeRO",
        )

    def test_large_model_states_its_gap(self):
        search = json.loads(big())["search"]
        self.assertGreater(search["space"], 1_000_000)
        self.assertLess(search["gap"], 0.1)
        self.assertLess(search["visited"], search["space"] / 100)

    def test_constraints_keep_plans_out(self):
        question = ("plan", "--model", "10B", "--cluster", "dgx2", "--for", "zplan")
        kept = ("--not", "offload", "--only", "zero=1,2")
        answer = self.good_json(*question, *kept, "--top", "3", "--pareto")
        self.assertIn(answer["plan"]["zero_stage"], (1, 2))
        self.assertEqual(len(answer["top"]), 3)
        steps = [row["step_s"] for row in answer["top"]]
        self.assertEqual(steps, sorted(steps))
        for row in answer["top"] + answer["pareto"]:
            self.assertRegex(row["family"], r"^ZeRO-[12] gpu( tp| pp)*$")
        memory = [row["gpu_bytes"] for row in answer["pareto"]]
        self.assertEqual(memory, sorted(memory, reverse=True))
        question += ("--tp", "1", "--pp", "1")
        usual = self.good_json(*question)["memory"]["gpu"]
        self.assertGreater(usual["peak_bytes"], 12 << 30)
        small = self.good_json(*question, "--max-gpu-memory", "12GiB")["memory"]["gpu"]
        self.assertLessEqual(small["peak_bytes"] + small["reserve_bytes"], 12 << 30)

    def test_what_is_proven_is_of_the_fastest_and_of_the_space_alone(self):
        """A plan up to 2 % slower is recommended, and tuned plans are no plans of the space."""
        outside = 0
        for more in ((), ("--zero", "3", "--optimizer", "gpu"), ("--checkpoint-layers", "2")):
            question = ("plan", "--model", "bert-base", "--cluster", "workstation", "--tp", "1",
                        "--pp", "1", *more)
            answer, text = self.good_json(*question), " ".join(self.good(*question, "--details").split())
            of_another = "less time than the fastest found" in text
            least = re.search(r"over ([0-9.]+) % less time", text)
            if least:  # rounded up
                self.assertGreaterEqual(float(least[1]) + 1e-6, 100 * answer["search"]["gap"])
            self.assertEqual(of_another, "fastest" in answer, more)
            said = answer["search"]["outside_space"]
            plan = answer["plan"]
            tuned = {
                "/recompute": len(plan["recompute"]) > 1 or
                plan["recompute"][0]["mode"] == "operators",
                "/checkpoint_layers": plan.get("checkpoint_layers", 1) > 1 and not more,
                "/overlap/optimizer": plan.get("overlap", {}).get("optimizer", False),
                "/placement/optimizer_near": plan["placement"].get("optimizer_near", 0) > 0,
                "/placement/params_near": plan["placement"].get("params_near", 0) > 0,
                "/placement/grads_near": plan["placement"].get("grads_near", 0) > 0,
                "/parallel/stage_layers": plan["parallel"].get("stage_layers", []) != [],
            }
            self.assertEqual(set(said), {pointer for pointer, is_so in tuned.items() if is_so})
            self.assertEqual(bool(said), "this plan is outside the space (" in text, more)
            outside += len(said)
            explained = self.good_json("explain", *question[1:], "search.outside_space")
            self.assertEqual(explained["value"], len(said))
        self.assertGreater(outside, 0)

    def test_constraints_that_nothing_keeps_are_named(self):
        question = ("plan", "--model", "10B", "--cluster", "dgx2")
        self.bad(BAD_INPUT, *question, "--only", "tp=16", "--not", "tensor",
                 says=("--only tp=16 and --not tensor leave none of", "without --only tp=16"))
        self.bad(BAD_INPUT, *question, "--only", "zero=3", "--zero", "1",
                 says=("--only zero=3 leaves none of", "; they have zero 1"))
        self.bad(BAD_INPUT, *question, "--not", "pipeline", "--pp", "4",
                 says=("--not pipeline leaves none of", "under the other options"))
        self.bad(BAD_INPUT, *question, "--only", "zero=5", says="--only zero: expected an integer")
        self.bad(BAD_INPUT, *question, "--max-gpu-memory", "500MiB",
                 says=("--max-gpu-memory: expected more than 620.00 MiB", "got 500.00 MiB"))
        self.bad(BAD_INPUT, *question, "--objective", "most-headroom", "--within", "0",
                 says="--within: expected a number above 0")
        self.bad(BAD_INPUT, *question, "--micro-batch", "64", "--global-batch", "32",
                 says=("global batch 32 is no multiple of micro-batch 64", "nearest that is: 64"))
        result = zplan("plan", "--model", "1T", "--cluster", "dgx2", "--not", "nvme", "--zero", "3",
                       "--tp", "1", "--pp", "1", "--micro-batch", "1")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIn("without --not nvme a plan fits", " ".join(result.stdout.split()))

    def test_fewer_simulations_admit_a_gap(self):
        questions = ("plan", "--model", "1T", "--cluster", "dgx2", "--pp", "1", "--tp", "2")
        quick = self.good_json(*questions, "--simulations", "1")
        self.assertGreater(quick["search"]["gap"], 0)
        self.assertLessEqual(quick["search"]["simulated"], 8)

    def test_a_family_that_was_not_tried_is_not_said_to_be_rejected(self):
        question = ("plan", "--model", "100B", "--cluster", "dgx2", "--zero", "3", "--pp", "1",
                    "--micro-batch", "4", "--simulations", "1")
        answer = self.good_json(*question)
        step = answer["time"]["step_s"]
        states = {row["state"] for row in answer["rejected"]}
        self.assertIn("not_tried", states)
        self.assertIn("rejected", states)
        for row in answer["rejected"]:
            if row["state"] == "not_tried":
                self.assertLessEqual(row["from_s"], step * 1.02, row["family"])
                self.assertIn("could take from", row["reason"])
                self.assertIsNone(row["infeasible"])
                continue
            self.assertIsNone(row["from_s"])
            if row["state"] == "rejected" and row["infeasible"] is None:
                self.assertGreater(row["step_s"] or row["bound_s"], step, row["family"])
        text = self.good(*question, "--details")
        rejected, not_tried = text.split("\nRejected")[1].split("\nNot tried")
        self.assertNotIn("could take from", rejected)
        self.assertIn("could take from", not_tried)

    def test_more_search_never_makes_the_fastest_plan_slower(self):
        for question in (("--model", "gpt2-1.5b", "--cluster", "dgx2", "--tp", "1"),
                         ("--model", "10B", "--cluster", "dgx2", "--pp", "1", "--zero", "3")):
            steps = []
            for most in ("1", "4", "16"):
                answer = self.good_json("plan", *question, "--simulations", most)
                fastest = answer.get("fastest") or answer["time"]
                steps.append(fastest["step_s"])
            self.assertEqual(steps, sorted(steps, reverse=True), question)

    def test_one_trillion_fits_one_node_with_nvme_only(self):
        questions = ("--model", "1T", "--cluster", "dgx2", "--tp", "4", "--pp", "1",
                     "--micro-batch", "20", "--simulations", "1", "--for", "zplan")
        answer = self.good_json("plan", *questions)
        self.assertIs(answer["feasible"], True)
        self.assertEqual(answer["plan"]["placement"]["optimizer"], "nvme")
        self.assertIn("only with NVMe", answer["fits"])
        for rejected in answer["rejected"]:
            if "nvme" not in rejected["tiers"]:
                self.assertIsNotNone(rejected["infeasible"], rejected["family"])
        text = self.good("plan", *questions, "--details")
        self.assertRegex(text, "fits only with NVMe; without it at least [0-9.]+ TiB of CPU memory")

    def test_twenty_trillion_fit_32_nodes(self):
        answer = self.good_json(
            "plan", "--model", "zero-infinity-20t", "--cluster", "dgx2x32", "--zero", "3",
            "--tp", "16", "--pp", "1", "--recompute", "full", "--simulations", "1",
        )
        self.assertIs(answer["feasible"], True)
        self.assertGreater(answer["model"]["parameters"], 19e12)

    def test_headroom_is_left_free(self):
        question = ("plan", *PINNED, "--simulations", "1")

        def gpu(*options):
            return self.good_json(*question, *options)["memory"]["gpu"]

        usual = gpu()
        self.assertAlmostEqual(usual["headroom_bytes"] / usual["capacity_bytes"], 0.05, places=6)
        self.assertEqual(usual, gpu("--headroom", "0.05"))
        half = gpu("--headroom", "0.5")
        self.assertLessEqual(half["peak_bytes"] + half["reserve_bytes"],
                             half["capacity_bytes"] / 2)
        self.assertLess(gpu("--headroom", "0")["headroom_bytes"], usual["headroom_bytes"])
        self.assertIn("headroom", self.good(*question, "--details"))

    def test_capacity_can_be_ignored(self):
        questions = ("plan", "--model", "1T", "--cluster", "dgx2", "--zero", "1", "--pp", "1",
                     "--tp", "1", "--micro-batch", "1", "--recompute", "full")
        result = self.zplan(*questions, "--ignore-capacity", "-o", "plan.json", "--json")
        self.assertEqual(result.returncode, OK)
        self.assertEqual(result.stderr, "")  # the answer says it
        answer = json.loads(result.stdout)
        self.assertIs(answer["feasible"], False)
        self.assertIn("does not fit on dgx2", answer["reason"])
        self.assertGreater(answer["time"]["step_s"], 0)
        self.assertEqual(self.files(), ["plan.json"])

    def test_pins_that_come_to_nothing_are_told(self):
        for pins, words in (
            (("--zero", "0", "--prefetch", "2"), "--prefetch has no effect"),
            (("--tp", "1", "--sp"), "--sp has no effect: tp is 1"),
            (("--pp", "1", "--schedule", "gpipe"), "--schedule has no effect"),
            (("--recompute", "selective"), "--recompute selective has no effect"),
            (("--precision", "any"), "--precision any has no effect"),
            (("--dp", "1", "--tp", "1", "--pp", "1"), "3 of 4 GPUs stay idle"),
        ):
            result = self.zplan("plan", *TINY, *pins)
            self.assertEqual(result.returncode, OK, result.stderr)
            self.one_line(result.stderr, words)

    def test_pins_are_kept(self):
        pins = [
            "--dp", "2", "--pp", "2", "--zero", "3", "--micro-batch", "2", "--recompute", "full",
            "--gather", "layers:2", "--prefetch", "2", "--params", "cpu",
            "--grads", "cpu", "--optimizer", "cpu", "--activations", "cpu",
            "--kernel-set", "cpu.f64", "--no-clip", "--global-batch", "16", "--seq", "16",
        ]
        plan = self.good_json("plan", *TINY, *pins)["plan"]
        self.assertEqual((plan["parallel"]["dp"], plan["parallel"]["pp"]), (2, 2))
        self.assertEqual(plan["zero_stage"], 3)
        self.assertEqual(plan["batch"], {"global_batch": 16, "micro_batch": 2, "sequence": 16})
        self.assertEqual(plan["recompute"], [{"mode": "full", "layers": 0}])
        self.assertEqual(plan["gather"], {"unit": "layers:2", "prefetch": 2})
        self.assertEqual(set(plan["placement"].values()), {"cpu"})
        self.assertEqual(plan["kernel_set"], "cpu.f64")
        self.assertIs(plan["clip"], False)

    def test_each_layer_may_have_an_owner(self):
        pins = ["--gather", "owned", "--dp", "4", "--pp", "1", "--params", "cpu", "--optimizer", "cpu"]
        plan = self.good_json("plan", *TINY, *pins)["plan"]
        self.assertEqual((plan["zero_stage"], plan["gather"]["unit"]), (3, "owned"))
        result = self.zplan("plan", *TINY, *pins, "--details")
        self.assertIn("each layer owned by one rank", " ".join(result.stdout.split()))

    def test_further_pins_are_kept(self):
        plan = self.good_json(
            "plan", *TINY, "--dp", "1", "--tp", "2", "--pp", "2", "--no-sp", "--gather", "tiles:2",
            "--recompute", "full:1,none", "--delayed-update", "--schedule", "gpipe", "--stages",
            "3,1", "--params", "nvme", "--zero", "3", "--optimizer", "nvme",
        )["plan"]
        parallel = plan["parallel"]
        self.assertEqual((parallel["dp"], parallel["tp"], parallel["pp"]), (1, 2, 2))
        self.assertIs(parallel["sequence_parallel"], False)
        self.assertEqual((parallel["schedule"], parallel["stage_layers"]), ("gpipe", [3, 1]))
        self.assertEqual(plan["gather"]["unit"], "tiles:2")
        runs = [(run["mode"], run["layers"]) for run in plan["recompute"]]
        self.assertEqual(runs, [("full", 1), ("none", 0)])
        self.assertIs(plan["delayed_update"], True)
        self.assertEqual(plan["placement"]["params"], "nvme")
        together = ["--pp", "1", "--recompute", "full", "--checkpoint-layers", "2",
                    "--simulations", "1"]
        self.assertEqual(self.good_json("plan", *TINY, *together)["plan"]["checkpoint_layers"], 2)
        result = self.zplan("plan", *TINY, *together)
        self.assertIn("full recomputation of 2 layers at a time", " ".join(result.stdout.split()))
        plan = self.good_json(
            "plan", "--model", "gpt2", "--cluster", "dgx2", "--dp", "16", "--shards", "4",
            "--zero", "2", "--precision", "fp32-gradients",
        )["plan"]
        self.assertEqual(plan["parallel"]["shards"], 4)
        self.assertEqual((plan["precision"]["param"], plan["precision"]["grad"]), ("f16", "f32"))
        plan = self.good_json(
            "plan", *TINY, "--dp", "2", "--tp", "2", "--partition-activations"
        )["plan"]
        self.assertIs(plan["partition_activations"], True)

    def test_recipes_are_searched_when_asked(self):
        questions = ("plan", "--model", "llama3-8b", "--cluster", "dgx-a100", "--tp", "1", "--pp", "1",
                     "--for", "zplan")
        standard = self.good_json(*questions)
        self.assertEqual({line["precision"] for line in standard["rejected"]}, {"standard"})
        answer = self.good_json(*questions, "--precision", "any")
        self.assertGreater(answer["search"]["space"], 6 * standard["search"]["space"])
        self.assertLess(answer["search"]["space"], 8 * standard["search"]["space"])
        self.assertLess(answer["time"]["step_s"], standard["time"]["step_s"])
        self.assertIs(answer["plan"]["precision"]["separate_master"], False)
        self.assertEqual(
            {line["precision"] for line in answer["rejected"]},
            {"standard", "fp32-gradients", "main-gradients", "lean", "fsdp", "fsdp-pure",
             "fp32-reduction", "half-reduction"},
        )
        text = self.good(*questions, "--precision", "standard,lean", "--details")
        self.assertIn("lean precision (bf16 parameters", text)
        self.assertRegex(text, "ZeRO-[0-3] gpu[^ ]* (tp )?standard  ")
        self.assertNotIn("precision (", self.good(*questions, "--details"))

    def test_people_are_told_the_main_things(self):
        text = asked_once(*PINNED, "--details")
        for word in (
            "Model", "1.0", "sequence 1,024", "global batch 2,560", "dgx2x32", "512", "Plan",
            "ZeRO", "Memory", "Time", "tokens/s", "MFU", "Split", "Search", "proven by this cost model",
            "Rejected", "Fingerprint", "Next", "-o plan.json",
        ):
            self.assertIn(word, text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 130)
        self.assertLessEqual(len(text.splitlines()), 62)

    def test_the_first_screen_has_24_lines_and_the_softwares(self):
        for question in (PINNED, ("--model", "llama3-8b", "--cluster", "dgx-h100"), TINY):
            lines = asked_once(*question).splitlines()
            self.assertLessEqual(len(lines), 24, question)
            self.assertLessEqual(max(len(line) for line in lines), 100, question)
            self.assertRegex(lines[0], r"^Yes: .* a step, .*tokens/s per (GPU|worker)")
            self.assertIn("hardware limit", "\n".join(lines))
        answer = json.loads(asked_once(*PINNED, "--json"))
        self.assertEqual([line["software"] for line in answer["software"]], ["own", None])
        step = answer["time"]["step_s"]
        self.assertEqual(answer["software"][0]["step_s"], step)
        self.assertLess(answer["software"][1]["step_s"], step)

    def test_a_question_without_software_is_answered_for_the_one_measured_best(self):
        answer = self.good_json("plan", "--model", "1T", "--cluster", "dgx2x32", "--micro-batch", "5",
                                "--tp", "2", "-o", "plan.json")
        self.assertEqual([line["software"] for line in answer["software"]],
                         ["deepspeed_infinity", "own", None])
        simulated = self.good_json("simulate", "plan.json")
        self.assertEqual(simulated["time"]["step_s"], answer["time"]["step_s"])
        self.assertEqual(json.loads(self.read("plan.json"))["made_with"]["software"],
                         "deepspeed_infinity")

    def test_colours_are_for_terminals(self):
        for settings, has_some in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False),
                                   ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            ours, theirs = pty.openpty()
            environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
            done = subprocess.run([PROGRAM, *TINY], stdout=theirs, stderr=subprocess.DEVNULL,
                                  env={**environment, **settings}, check=False)
            os.close(theirs)
            text = b""
            with contextlib.suppress(OSError):  # the end of a terminal
                while more := os.read(ours, 1 << 16):
                    text += more
            os.close(ours)
            self.assertEqual(done.returncode, OK)
            self.assertTrue(
                text.startswith(b"\x1b[1;32mYes\x1b[0m: " if has_some else b"Yes: "), text[:80])
            self.assertEqual(b"\x1b" in text, has_some, settings)
        self.assertNotIn("\x1b", self.good(*TINY))

    def test_measured_software_is_compared_and_the_faster_of_two_is_the_answer(self):
        question = ("plan", "--model", "llama3-8b", "--cluster", "dgx-h100")
        answer = self.good_json(*question)
        first, second, *others = answer["software"]
        self.assertEqual([first["software"], second["software"]], ["megatron_bridge", "fsdp"])
        self.assertEqual([line["software"] for line in others], ["own", None])
        self.assertIsNone(first["plan"])
        self.assertEqual(first["step_s"], answer["time"]["step_s"])
        self.assertLess(first["step_s"], second["step_s"])
        self.assertEqual(second["plan"]["schema"], "zplan.plan/1")
        alone = self.good_json(*question, "--for", "fsdp")
        self.assertLessEqual(alone["time"]["step_s"], second["step_s"])
        text = " ".join(self.good(*question).split())
        self.assertIn("PyTorch FSDP 2025 has a plan of its own, from a brief search (--for fsdp)", text)
        # No run of it had states on the CPU, and none was in bf16.
        self.assertIn(" that it can run without offload", text)
        self.assertRegex(text, r"NeMo Megatron-Bridge 2025 .*? [0-9]+ fp8 runs ")

    def test_naming_the_chosen_software_changes_nothing_but_says_what_was_left_out(self):
        question = ("plan", "--model", "llama3-70b", "--cluster", "dgx-h100x2")
        chosen = self.good_json(*question)
        named = self.good_json(*question, "--for", "megatron-bridge")
        self.assertEqual(chosen["software"][0]["software"], "megatron_bridge")
        self.assertEqual(chosen["plan"], named["plan"])
        self.assertEqual(chosen["time"]["step_s"], named["time"]["step_s"])
        self.assertEqual(named["beyond"]["kind"], "offload")
        self.assertLess(named["beyond"]["step_s"], 0.91 * named["time"]["step_s"])
        self.assertEqual(named["beyond"]["plan"]["placement"]["optimizer"], "cpu")
        text = " ".join(self.good(*question, "--for", "megatron-bridge").split())
        self.assertIn("with --only offload, which no run of NeMo Megatron-Bridge 2025 was measured",
                      text)
        offloading = self.good_json(*question, "--for", "megatron-bridge", "--only", "offload")
        self.assertLessEqual(offloading["time"]["step_s"], 1.02 * named["beyond"]["step_s"])

    def test_products_in_fp8_are_a_word_of_precision(self):
        question = ("plan", "--model", "llama3-8b", "--for", "megatron-bridge")
        answer = self.good_json(*question, "--cluster", "dgx-h100", "--precision", "fp8")
        self.assertEqual(answer["plan"]["kernel_set"], "cuda.sm90.fp8")
        self.bad(BAD_INPUT, *question, "--cluster", "dgx-a100", "--precision", "fp8",
                 says=["--precision", "A100", "no kernel set with fp8 products"])

    def test_a_batch_that_nobody_asked_for_is_one_that_the_gpus_divide(self):
        question = ("plan", "--model", "gpt-neox-20b", "--cluster", "dgx-a100x4", "--for", "fsdp")
        answer = self.good_json(*question)
        self.assertEqual(answer["plan"]["batch"]["global_batch"], 1536)
        self.assertIn("32 GPUs do not divide the model's batch of 1,538",
                      " ".join(self.good(*question).split()))

    def test_the_first_screen_says_that_factors_are_trained(self):
        question = ("plan", "--model", "llama3-8b", "--cluster", "4090", "--train", "lora",
                    "--lora-base", "nf4", "--seq", "2048", "--global-batch", "16")
        text = self.good(*question)
        self.assertTrue(text.startswith("Yes: llama3-8b trains with LoRA on "), text)
        self.assertIn("LoRA of rank 8 on all matrices, base in nf4", text)
        self.assertIn("Hugging Face", text)
        self.assertIn("100M tokens", text)

    def test_megatron_of_2022_has_no_zero_bubble(self):
        answer = self.good_json("plan", "--model", "megatron-22b", "--cluster", "dgx-a100", "--tp",
                                "4", "--pp", "2", "--for", "megatron@2022")
        self.assertIn(answer["plan"]["parallel"]["schedule"], ("1f1b", "interleaved"))

    def test_a_command_of_several_lines_runs_as_it_stands(self):
        text = self.good("plan", *TINY, "--for", "zplan", "--seq", "32", "--global-batch", "32",
                         "--optimizer-kind", "adamw", "--micro-batch", "2", "--zero", "1")
        command = text[text.index("./zplan plan"):].split("-o plan.json")[0] + "-o plan.json"
        self.assertIn("\\\n", command)
        done = subprocess.run(command.replace("./zplan", PROGRAM), shell=True, cwd=self.folder,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, OK)
        self.assertTrue(os.path.exists(self.path("plan.json")))

    def test_other_schedules_are_tried_on_shapes_that_lose_without_them(self):
        question = ("plan", "--model", "llama2-70b", "--cluster", "dgx-h100x8", "--seq", "4096",
                    "--global-batch", "128", "--for", "megatron-bridge", "--not", "offload")
        answer = self.good_json(*question)
        self.assertIn("schedules but 1F1B, tried on the best", answer["search"]["left_out"])
        published = self.good_json(*question, "--tp", "4", "--pp", "4", "--zero", "1", "--chunks",
                                   "20", "--schedule", "interleaved", "--micro-batch", "1")
        self.assertLessEqual(answer["time"]["step_s"], 1.02 * published["time"]["step_s"])
        self.assertNotIn("schedules", " ".join(published["search"]["left_out"]))

    def test_the_first_line_is_the_verdict(self):
        answer = json.loads(asked_once(*PINNED, "--json", "--threads", "1"))
        line = asked_once(*PINNED, "--details").split("\n\n", 1)[0]
        self.assertEqual(" ".join(line.split()), answer["verdict"])
        self.assertRegex(
            answer["verdict"],
            r"^yes: zero-infinity-1t trains on dgx2x32 at [0-9.,]+ s .*per step \([0-9,]+ tokens/s\), "
            r"limited by [a-zA-Z ]+; .* over 512 GPUs",
        )
        result = self.zplan("plan", "--model", "1T", "--cluster", "dgx2", "--optimizer", "gpu")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertTrue(result.stdout.startswith("No: zero-infinity-1t does not fit on dgx2: "))

    def test_the_split_of_the_step_adds_up_to_100_percent_as_printed(self):
        for question in (TINY, (*TINY, "--pp", "2", "--tp", "1", "--simulations", "1"),
                         (*TINY, "--zero", "3", "--optimizer", "nvme", "--tp", "1", "--pp", "1")):
            split = self.good_json("plan", *question)["time"]["step_split"]
            self.assertAlmostEqual(sum(part["percent"] for part in split["parts"]), 100, places=9)
            parts = sum(part["time_s"] for part in split["parts"])
            self.assertAlmostEqual(parts / split["step_s"], 1, places=9)
            text = " ".join(self.good("plan", *question, "--details").split())
            words = re.search(r"Split ((?:[^=%]* [0-9.]+ %,? ?)+)= 100 % of the step", text).group(1)
            shares = re.findall(r"([0-9]+)\.([0-9]) %", words)
            self.assertEqual(sum(10 * int(a) + int(b) for a, b in shares), 1000, words)

    def test_citations_stand_at_the_end(self):
        text = asked_once(*GPT2, "--details")
        body, sources = text.split("\nSources ")
        self.assertNotRegex(body, r"\[[A-Z][a-z]+[0-9]{2}")
        self.assertIn("--sources", sources)
        whole = self.good("plan", "--model", "gpt2", "--cluster", "dgx2", "--sources")
        self.assertIn("/device/memory_bandwidth", whole)
        self.assertIn("NVIDIA V100 datasheet", whole)

    def test_kernel_sets_that_the_device_lacks_are_refused(self):
        result = self.zplan("plan", "--model", "gpt2", "--cluster", "dgx2",
                            "--kernel-set", "cuda.sm90.bf16")
        self.assertEqual(result.returncode, BAD_INPUT)
        self.assertIn("compute capability 7.0: cuda.sm70.", result.stderr)

    def test_next_commands_work(self):
        text = self.good(*TINY)
        typed = [line for line in text.splitlines() if "./zplan " in line]
        self.assertEqual(len(typed), 2)
        for line in typed:
            self.good(*line.split("./zplan ", 1)[1].split())
        text = self.good(*TINY, "--optimizer", "nvme", "--tp", "1", "--pp", "1", "-o", "drive.json")
        run = next(line for line in text.splitlines() if "./zplan run " in line)
        self.good(*run.split("./zplan ", 1)[1].split())

    def test_model_and_cluster_files_are_found_again(self):
        shutil.copy(os.path.join(ROOT, "models/catalogue/tiny-gpt.json"), self.path("m.json"))
        shutil.copy(os.path.join(ROOT, "hwprofiles/catalogue/workstation.json"), self.path("n.json"))
        self.good("plan", "-m", "m.json", "-c", "n.jsonx2", "--tp", "1", "--pp", "1", "-o",
                  "plan.json")
        plan = json.loads(self.read("plan.json"))
        self.assertEqual((plan["model"], plan["hardware"]), ("m.json", "n.jsonx2"))
        self.good("simulate", "plan.json")


class Simulations(CliTest):
    def test_flop_of_a_model_are_said_as_they_are_counted(self):
        """6 L h s is of causal attention as wide as the model, and N of what a token goes through."""
        for model, words in (("tiny-gpt", "6 N + 6 L h s flop per token"),
                             ("tiny-t5", "6 N + attention's flop per token"),
                             ("tiny-bert", "6 N + attention's flop per token"),
                             ("tiny-gemma", "6 N + attention's flop per token"),
                             ("tiny-moe", "flop per token, N active")):
            text = self.good("plan", "--model", model, "--cluster", "workstation", "--dp", "4",
                             "--tp", "1", "--pp", "1", "--simulations", "1", "--details")
            self.assertIn(words, text, model)

    def test_simulation_has_the_keys_of_its_schema(self):
        answer = self.good_json("simulate", self.tiny_plan())
        self.assertEqual(answer["schema"], "zplan.simulation/1")
        self.has(answer, ["plan", "cluster", "fingerprint", "lanes", "links", "steps", "steady"])
        self.has(answer, TIER_KEYS + TIME_KEYS + ["memory.classes"])

    def test_simulation_repeats_the_prediction_of_the_plan(self):
        planned = self.good_json("plan", *TINY, "-o", "plan.json")
        simulated = self.good_json("simulate", "plan.json")
        for key in ("plan", "fingerprint", "time", "memory"):
            self.assertEqual(planned[key], simulated[key], key)

    def test_same_question_same_bytes(self):
        plan = self.tiny_plan()
        for options in ((), ("--json",)):
            self.assertEqual(
                self.good("simulate", plan, *options), self.good("simulate", plan, *options)
            )

    def test_trace_is_json_with_all_lanes(self):
        plan = self.tiny_plan("--dp", "2", "--zero", "3")
        self.good("simulate", plan, "--trace", "trace.json")
        events = json.loads(self.read("trace.json"))["traceEvents"]
        self.assertTrue(any(event["ph"] == "X" for event in events))
        self.assertEqual(self.files(), ["plan.json", "trace.json"])

    def test_trace_shows_one_step_unless_told_otherwise(self):
        plan = self.tiny_plan("--dp", "1", "--global-batch", "16", "--micro-batch", "1",
                              "--simulations", "1")
        counts = {}
        for name, more in (("step.json", ()), ("all.json.gz", ("--trace-all",))):
            result = self.zplan("simulate", plan, "--trace", name, *more)
            self.assertEqual(result.returncode, OK)
            opened = gzip.open if name.endswith(".gz") else open
            with opened(self.path(name), "rt", encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            slices = [event for event in events if event["ph"] == "X"]
            counts[name] = (
                len({e["args"]["step"] for e in slices}),
                sum(1 for e in slices if e["name"].startswith("micro-batches: iterations 2..")),
            )
        steps, folds = counts["step.json"]
        self.assertEqual(steps, 1)
        self.assertGreater(folds, 0)
        steps, folds = counts["all.json.gz"]
        self.assertGreater(steps, 1)
        self.assertEqual(folds, 0)
        self.bad(BAD_INPUT, "simulate", plan, "--trace-all", says="--trace")

    def test_steps_can_be_fixed(self):
        answer = self.good_json("simulate", self.tiny_plan(), "--steps", "5")
        self.assertEqual(answer["steps"], 5)

    def test_capacity_can_be_ignored(self):
        self.oversized_plan(name="big.json")
        text = self.good("simulate", "big.json", "--ignore-capacity")
        self.assertRegex(
            text, r"DOES NOT FIT: GPU memory per GPU is exceeded by [0-9.]+ GiB \([0-9,]+ bytes\):\s"
        )
        answer = self.good_json("simulate", "big.json", "--ignore-capacity")
        self.assertIs(answer["feasible"], False)
        self.assertGreater(answer["memory"]["gpu"]["over_bytes"], 0)
        self.assertGreater(answer["time"]["step_s"], 0)

    def test_other_clusters(self):
        plan = self.tiny_plan("--dp", "2")
        answer = self.good_json("simulate", plan, "--cluster", "workstationx2")
        self.assertEqual(answer["cluster"], "workstationx2")


    def test_time_is_split_without_rest(self):
        time = self.good_json("simulate", self.tiny_plan())["time"]
        parts = [part["time_s"] for part in time["split"]["parts"]]
        self.assertAlmostEqual(sum(parts) / time["step_s"], 1, places=6)

    def test_misfits_name_a_change_that_helps(self):
        self.oversized_plan(name="big.json")
        result = self.zplan("simulate", "big.json")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIn("would fit: ", result.stderr)


class Memory(CliTest):
    def test_memory_of_a_plan(self):
        plan = self.tiny_plan("--dp", "2", "--zero", "3")
        answer = self.good_json("memory", plan)
        self.assertEqual(answer["schema"], "zplan.memory/1")
        self.assertEqual(answer["memory"], self.good_json("simulate", plan)["memory"])
        self.assertIsNone(answer["deepspeed"])
        for word in ("GPU, each", "CPU, per node", "Placement", "optimizer"):
            self.assertIn(word, self.good("memory", plan))

    def test_estimates_of_deepspeed(self):
        plan = self.tiny_plan("--dp", "4", "--tp", "1", "--zero", "3")
        answer = self.good_json("memory", plan, "--deepspeed")["deepspeed"]
        parameters, largest = answer["parameters"], answer["largest_layer"]
        self.assertEqual(answer["gpus_per_node"], 4)
        rows = {row["rule"]: row for row in answer["estimates"]}
        self.assertEqual(
            rows["with zero.Init"]["gpu_bytes"], 4 * largest + 18 * parameters // 4
        )
        self.assertEqual(rows["without zero.Init"]["host_bytes"], parameters * 4 * 4 * 3 // 2)
        self.assertGreater(len(answer["differences"]), 2)
        text = self.good("memory", plan, "--deepspeed")
        for word in ("DeepSpeed's estimators", "placed", "Why they differ", "zero.Init"):
            self.assertIn(word, text)
        whole = self.tiny_plan("--dp", "2", "--zero", "0", name="whole.json")
        self.assertIn("there is none for ZeRO 0", self.good("memory", whole, "--deepspeed"))


    def test_categories_and_gaps_add_up_to_the_peak(self):
        plan = self.tiny_plan("--dp", "2", "--zero", "3", "--optimizer", "cpu")
        memory = self.good_json("memory", plan)["memory"]
        for tier in ("gpu", "cpu", "nvme"):
            use = memory[tier]
            alive = sum(use["by_category"].values())
            self.assertGreaterEqual(use["gaps_bytes"], 0)
            self.assertEqual(alive + use["gaps_bytes"], use["peak_bytes"])
        self.assertGreater(memory["gpu"]["peak_bytes"], 0)
        self.assertIn("gaps of the placement", self.good("memory", plan, "--deepspeed"))

    def test_what_an_allocator_would_hold(self):
        plan = self.tiny_plan("--dp", "2", "--zero", "1")
        memory = self.good_json("memory", plan)["memory"]
        own = memory["allocator"]
        self.assertLessEqual(own["live_bytes"], own["replayed_allocated_bytes"])
        self.assertLessEqual(own["replayed_allocated_bytes"], own["replayed_reserved_bytes"])
        slab = max(c["gpu"]["slab_bytes"] for c in memory["classes"])
        self.assertGreaterEqual(own["allocated"]["expected_bytes"], slab, "ours is one slab")
        for part in ("allocated", "reserved", "needed", "shown"):
            self.assertGreaterEqual(own[part]["bound_bytes"], own[part]["expected_bytes"])
        # Workers on CPUs have no such allocator, and nvidia-smi does not show them.
        self.assertNotIn("nvidia-smi", self.good("memory", plan))
        on_gpus = self.good("memory", "--model", "tiny-gpt", "--cluster", "dgx2", "--zero", "1")
        self.assertIn("As a caching allocator would hold it", on_gpus)
        self.assertIn("nvidia-smi shows", on_gpus)

    def test_what_another_stack_would_hold(self):
        self.good("plan", "--model", "llama3-8b", "--cluster", "dgx-h100", "--stack", "megatron_core",
                  "--simulations", "1", "-o", "plan.json")
        other = self.good_json("memory", "plan.json")["memory"]  # the file keeps its software
        own = self.zplan("memory", "plan.json", "--for", "zplan", "--json")
        self.assertIn("planned for Megatron-LM 2025, predicted with zplan (--for)", own.stderr)
        own = json.loads(own.stdout)["memory"]
        self.assertEqual(own["classes"], other["classes"], "no offset changes")
        self.assertGreater(other["allocator"]["live_bytes"], own["allocator"]["live_bytes"])

    def test_misfits_are_shown_and_told_by_the_exit_code(self):
        self.oversized_plan(name="big.json")
        result = self.zplan("memory", "big.json")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIn("DOES NOT FIT: GPU memory", result.stdout)
        result = self.zplan("memory", "big.json", "--json")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIs(json.loads(result.stdout)["feasible"], False)


class Programs(CliTest):
    def test_program_is_printed_or_written(self):
        plan = self.tiny_plan()
        text = self.good("lower", plan)
        self.assertTrue(text.startswith("zprog 1\n"))
        self.assertEqual(self.good("lower", plan, "-o", "plan.zprog"), "")
        self.assertEqual(self.read("plan.zprog"), text)
        self.assertIn(" unplaced", self.good("lower", plan, "--no-place"))


class Catalogues(CliTest):
    def test_models(self):
        answer = self.good_json("models")
        self.assertEqual(answer["schema"], "zplan.models/1")
        names = [model["name"] for model in answer["models"]]
        self.assertIn("zero-infinity-1t", names)
        one = self.good_json("models", "1T")["models"]
        self.assertEqual([model["layers"] for model in one], [128])
        text = self.good("models")
        for name in names:
            self.assertIn(name, text)
            self.assertIn("source", self.good_json("models", name)["models"][0])

    def test_clusters(self):
        answer = self.good_json("clusters")
        self.assertEqual(answer["schema"], "zplan.clusters/1")
        self.assertIn("dgx2", [cluster["name"] for cluster in answer["clusters"]])
        self.assertEqual(self.good_json("clusters", "dgx2x32")["clusters"][0]["devices"], 512)
        self.assertIn("datasheet", self.good("clusters", "dgx2x32"))


class Help(CliTest):
    def test_help_everywhere(self):
        names = self.subcommands()
        self.assertGreater(len(names), 20)
        for subcommand in ((), *((name,) for name in names), ("calibrate", "--suggest")):
            for option in ("--help", "-h"):
                with self.subTest(subcommand=subcommand):
                    text = self.good(*subcommand, option)
                    self.assertIn("Usage: zplan", text)
                    self.assertIn("Examples:", text)
                    self.assertLessEqual(max(map(len, text.splitlines())), 110)

    def test_help_is_a_word_too(self):
        self.assertEqual(self.good("help"), self.good("--help"))
        self.assertEqual(self.good("help", "run"), self.good("run", "--help"))

    def test_top_help_names_the_subcommands(self):
        text = self.good("--help")
        for word in ("simulate", "memory", "lower", "run", "models", "clusters", "--model", "--version"):
            self.assertIn(word, text)

    def test_version(self):
        self.assertRegex(self.good("--version"), r"\Azplan \d+\.\d+\.\d+\n\Z")


if __name__ == "__main__":
    main()
