"""zplan max, goodput and need: the largest model, days with failures, the fewest nodes."""

import json
import re
import signal
import subprocess

from cli_support import BAD_INPUT, INFEASIBLE, INTERRUPTED, PROGRAM, CliTest, main

TINY = ("--model", "tiny-gpt", "--cluster", "dgx2")


class Sizing(CliTest):
    def fails(self, *arguments):
        result = self.zplan(*arguments)
        self.assertEqual(result.returncode, BAD_INPUT, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def tidy(self, text):
        for line in text.split("\n"):
            self.assertLessEqual(len(line), 120, line)
            self.assertEqual(line, line.rstrip())

    def test_max_says_how_large_and_what_runs_out(self):
        call = ("max", "--cluster", "dgx2", "--family", "zero-3", "--family", "infinity-nvme")
        text = self.good(*call, "--no-times")
        self.assertRegex(text, r"^dgx2 trains up to 1\.\d+T parameters: ZeRO-Infinity, NVMe; next")
        self.tidy(text)
        answer = self.good_json(*call, "--no-times")
        self.assertEqual(answer["schema"], "zplan.max/1")
        gpu, nvme = answer["families"]
        self.assertEqual((gpu["family"], gpu["limit_tier"]), ("zero-3", "gpu"))
        self.assertEqual((nvme["family"], nvme["limit_tier"]), ("infinity-nvme", "nvme"))
        self.assertEqual(answer["largest_parameters"], nvme["parameters"])
        self.assertGreater(nvme["limit_needed_bytes"], nvme["limit_available_bytes"])
        self.assertIsNone(gpu["step_s"])

    def test_max_simulates_the_plan_it_shows(self):
        answer = self.good_json("max", "--cluster", "dgx2", "--family", "zero-2")
        self.assertGreater(answer["families"][0]["step_s"], 0)
        again = self.good_json("max", "--cluster", "dgx2", "--family", "zero-2", "--threads", "1")
        self.assertEqual(answer, again)

    def test_max_of_some_of_the_gpus(self):
        """ZeRO-Offload's Fig. 7 in one call [Ren21]; the next size needs more of one GPU."""
        call = ("max", "--cluster", "dgx2", "--family", "zero-2", "--no-times")
        all_of_them = self.good_json(*call)
        four = self.good_json(*call, "--ranks", "4")
        self.assertEqual((all_of_them["ranks"], four["ranks"], four["global_batch"]), (16, 4, 4))
        self.assertEqual(four["families"][0]["dp"], 4)
        self.assertGreater(four["largest_parameters"], 3.9e9)
        self.assertLess(four["largest_parameters"], all_of_them["largest_parameters"])
        self.assertRegex(self.good(*call, "--gpus", "4"), r"^dgx2, 4 of its 16 GPUs, trains up to")
        self.assertIn("--gpus: expected at most 16", self.fails(*call, "--gpus", "32"))

    def test_need_says_that_the_time_is_what_is_too_short(self):
        result = self.zplan("need", "--model", "10B", "--tokens", "300B", "--within", "1h",
                            "--cluster", "dgx2", "--max-nodes", "2")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertTrue(result.stdout.startswith(
            "Found no kind of node that trains it --within 60.0 min with up to 2 nodes\n"),
            result.stdout)

    def test_max_tells_each_family_as_soon_as_it_is_known(self):
        told = subprocess.run([PROGRAM, "max", "--cluster", "dgx2", "--no-times"],
                              capture_output=True, text=True, check=True).stderr
        for family in (r"data-parallel: 1\.\d+B", r"infinity-nvme-tp: [0-9.]+T"):
            self.assertRegex(told, rf"(?m)^zplan: sizing: {family}$")

    def test_max_says_whose_memory_was_counted(self):
        call = ("max", "--cluster", "dgx2", "--family", "zero-2", "--no-times", "--stack")
        told = self.good_json(*call, "megatron_deepspeed")["stand_in"]
        self.assertIn("memory of megatron_deepspeed is not known", told)
        self.assertIn("Memory is " + told, " ".join(self.good(*call, "megatron_deepspeed").split()))
        self.assertIsNone(self.good_json(*call, "deepspeed2020")["stand_in"])
        self.assertIsNone(self.good_json(*call, "own")["stand_in"])

    def test_max_says_how_long_the_largest_model_takes(self):
        text = self.good("max", "--cluster", "rtx4090-12ssd", "--gpus-per-node", "1", "--family",
                         "infinity-nvme")
        self.assertRegex(" ".join(text.split()),
                         r"trains up to [0-9.]+T parameters, [^:]* (min|h)\)? for 1,024 tokens: ")

    def interrupted(self, first, *arguments):
        """stdout of a call that gets Ctrl-C once it has told the first of its rows."""
        process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if re.match(first, line):
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, INTERRUPTED)
        return out

    def test_an_interrupted_answer_says_what_is_known_so_far(self):
        out = self.interrupted(r"zplan: sizing: data-parallel: ", "max", "--cluster", "dgx2x32")
        self.assertRegex(out, r"\AInterrupted after [1-9] of 10 families; so far: dgx2x32 trains up")
        out = self.interrupted(r"zplan: sizing: [a-z0-9-]+: .*days", "need", "--model",
                               "llama3-70b", "--tokens", "1T", "--within", "30d")
        self.assertRegex(out, r"\AInterrupted after \d+ of \d\d kinds; so far: \d+ nodes of ")

    def test_need_compares_what_one_can_buy_or_rent(self):
        """At the peak of its GPUs no kind does it in the time: that takes no search."""
        result = self.zplan("need", "--model", "llama3-70b", "--tokens", "1000T", "--within", "1d",
                            "--json")
        self.assertEqual(result.returncode, INFEASIBLE)
        kinds = {row["kind"]: row for row in json.loads(result.stdout)["kinds"]}
        for name in ("dgx-b200", "dgx-h200", "gb300-tray", "aws-p5", "azure-nd-h100-v5",
                     "gcp-a4-highgpu", "dgx-a100", "rtx4090-workstation"):
            self.assertIn("at the peak of ", kinds[name]["why_not"])
        self.assertIn("at the peak of 32,768 GPUs", kinds["dgx-b200"]["why_not"])
        self.assertEqual(kinds["dgx-b200"]["node_watts"], 14300)
        self.assertNotIn("dgx2", kinds)

    def test_max_names_the_nearest_family(self):
        self.assertIn('did you mean "zero-2"', self.fails("max", "--cluster", "dgx2",
                                                          "--family", "zero2"))
        self.assertIn("--cluster", self.fails("max"))

    def test_goodput_adds_up(self):
        answer = self.good_json("goodput", *TINY, "--tokens", "1B")
        self.assertEqual(answer["schema"], "zplan.goodput/1")
        shares = ("effective_share", "checkpoint_share", "rework_share", "restart_share")
        self.assertAlmostEqual(sum(answer[share] for share in shares), 1)
        days = answer["steps"] * answer["step_s"] / 86400
        self.assertAlmostEqual(answer["days_without_failures"], days)
        self.assertAlmostEqual(answer["days"], days / answer["effective_share"])
        parts = ("parameter", "master", "moment")
        self.assertAlmostEqual(sum(answer[f"checkpoint_{part}_bytes"] for part in parts),
                               answer["checkpoint_bytes"])
        self.assertGreater(answer["storage_read_bytes_per_s"], answer["data_bytes_per_s"])
        self.tidy(self.good("goodput", *TINY, "--tokens", "1B"))

    def test_a_training_that_failures_never_let_end(self):
        question = ("goodput", *TINY, "--tokens", "1B", "--gpu-mtbf", "10s", "--price", "2")
        answer = self.good_json(*question)
        self.assertEqual((answer["days"], answer["gpu_hours"], answer["money"]), (None,) * 3)
        for share in ("effective", "checkpoint", "rework", "restart"):
            self.assertTrue(0 <= answer[share + "_share"] <= 1, share)
        text = self.good(*question)
        self.assertRegex(text, r"\A1.00B tokens never end: .* of steps, but a failure every \d")
        self.assertNotRegex(text, r"\b(inf|nan)\b")
        self.assertNotIn("Money", text)
        result = self.zplan("need", "--model", "gpt2", "--cluster", "dgx-h100", "--tokens", "1B",
                            "--gpu-mtbf", "10s", "--max-nodes", "1", "--json")
        row = json.loads(result.stdout)["kinds"][0]
        self.assertEqual((row["found"], row["days"]), (False, None))
        self.assertRegex(row["why_not"], "never: a failure every ")

    def test_goodput_follows_what_is_stated(self):
        self.zplan(*TINY, "-o", "plan.json")
        call = ("goodput", "plan.json", "--tokens", "1B")
        usual = self.good_json(*call)
        self.assertEqual(usual, self.good_json("goodput", *TINY, "--tokens", "1B"))
        slow = self.good_json(*call, "--stragglers", "1.5")
        self.assertAlmostEqual(slow["step_s"], 1.5 * usual["step_s"])
        frail = self.good_json(*call, "--gpu-mtbf", "10d", "--restart", "1h")
        self.assertEqual((frail["mtbf_s"], frail["restart_s"]),
                         (10 * 86400 / usual["devices"], 3600))
        self.assertLess(frail["effective_share"], usual["effective_share"])
        shared = self.good_json(*call, "--storage", "1 GB/s")
        self.assertAlmostEqual(shared["write_s"], shared["checkpoint_bytes"] / 1e9)

    def test_goodput_counts_begun_steps_used_nodes_and_bytes_of_tokens(self):
        pins = ("--dp", "6", "--tp", "1", "--pp", "1", "--global-batch", "6", "--micro-batch", "1")
        nodes = ("--cluster", "workstationx2", *pins, "--tokens", "1000")
        # Not in silence: two GPUs stay idle.
        answer = json.loads(self.zplan("goodput", "--model", "tiny-gpt", *nodes, "--json").stdout)
        self.assertEqual(answer["steps"], 6)  # of 192 tokens
        self.assertEqual(answer["storage_bytes_per_s"], 2 * 2e9)  # 6 ranks of 4 in a node
        model = json.loads(self.good("models", "tiny-gpt", "--template"))
        for vocab, width in ((65536, 2), (65537, 4)):
            with open(self.path("wide.json"), "w", encoding="utf-8") as file:
                json.dump({**model, "name": "wide", "aliases": [], "vocab": vocab}, file)
            answer = self.zplan("goodput", "--model", "./wide.json", *nodes, "--json").stdout
            self.assertEqual(json.loads(answer)["data_bytes_per_step"], 192 * width)

    def test_published_goodput_of_llama_3(self):
        answer = self.good_json("goodput", "--published")
        self.assertGreater(answer["effective_share"], answer["published_least_share"])

    def test_goodput_says_what_it_expects(self):
        self.assertIn("--tokens", self.fails("goodput", *TINY))
        self.assertIn("300B", self.fails("goodput", *TINY, "--tokens", "many"))
        self.assertIn("10min", self.fails("goodput", *TINY, "--tokens", "1B", "--restart", "10"
                                          "parsecs"))
        self.assertIn("from 1", self.fails("goodput", *TINY, "--tokens", "1B", "--stragglers",
                                           "0.5"))

    def test_need_counts_nodes_hours_money_and_energy(self):
        call = ("need", "--model", "gpt2", "--cluster", "dgx2", "--cluster", "dgx-h100",
                "--tokens", "10B", "--price", "2.5/h", "--node-power", "10kW")
        answer = self.good_json(*call)
        self.assertEqual(answer["schema"], "zplan.need/1")
        for row in answer["kinds"]:
            self.assertEqual((row["found"], row["nodes"]), (True, 1))
            self.assertAlmostEqual(row["money"], 2.5 * row["gpu_hours"])
            self.assertAlmostEqual(row["gpu_hours"], row["days"] * 24 * row["gpus"])
            self.assertAlmostEqual(row["energy_mwh"], row["days"] * 24 * 0.01)
        slow = answer["kinds"][-1]["days"]
        faster = self.good_json("need", "--model", "gpt2", "--cluster",
                                answer["kinds"][-1]["kind"], "--tokens", "10B", "--within",
                                f"{slow / 1.5}d")["kinds"][0]
        self.assertEqual(faster["nodes"], 2)
        self.assertLess(faster["days"], slow / 1.5)
        self.tidy(self.good(*call))

    def test_power_is_that_of_the_profile_unless_it_is_given(self):
        call = ("need", "--model", "gpt2", "--cluster", "dgx-h100", "--tokens", "10B")
        row = self.good_json(*call)["kinds"][0]
        self.assertAlmostEqual(row["energy_mwh"], row["days"] * 24 * 0.0102)
        self.assertIn("10.2 kW", row["power_source"])
        self.assertIsNone(row["money"])
        self.assertIn("10.2 kW a node (NVIDIA", " ".join(self.good(*call).split()))
        answer = self.good_json("goodput", *TINY, "--tokens", "1B")
        self.assertAlmostEqual(answer["energy_mwh"], answer["days"] * 24 * 0.01)
        self.assertIsNone(answer["money"])
        given = self.good_json("goodput", *TINY, "--tokens", "1B", "--node-power", "5kW", "--price",
                               "2")
        self.assertAlmostEqual(given["energy_mwh"], answer["energy_mwh"] / 2)
        self.assertAlmostEqual(given["money"], 2 * answer["gpu_hours"])
        self.assertEqual(given["power_source"], "as given")

    def test_short_runs_are_told_in_hours(self):
        text = self.good("goodput", *TINY, "--tokens", "1M")
        self.assertRegex(text, r"^1\.00M tokens take [0-9.]+ (ms|s|min):")
        text = self.good("need", "--model", "gpt2", "--cluster", "dgx-h100", "--tokens", "1B")
        self.assertRegex(text, r"^1 node of dgx-h100 \(8 GPUs\): [0-9.]+ (s|min|h)\n")

    def test_need_asks_for_a_deadline_or_a_kind_of_node(self):
        self.assertIn("--within: expected the days of the run, as in --within 60d",
                      self.fails("need", "--model", "llama3-70b", "--tokens", "15T"))

    def test_need_counts_whole_nodes_of_a_gpu_and_says_whose_software_it_counts(self):
        call = ("need", "--model", "gpt2", "--cluster", "H100", "--tokens", "10B")
        row = self.good_json(*call)["kinds"][0]
        self.assertEqual((row["kind"], row["gpus"], row["node_watts"]), ("dgx-h100", 8, 10200))
        result = subprocess.run([PROGRAM, *call], capture_output=True, text=True, check=True)
        text = " ".join(result.stdout.split())
        self.assertIn("H100 is counted in whole nodes: dgx-h100 with 8 GPUs", text)
        self.assertIn("no deadline, so the fewest nodes on which a plan fits (--within 60d)", text)
        self.assertRegex(text, r"GPUs\): [0-9.]+ (min|h|days) Software: ")
        self.assertRegex(result.stderr, "at the peak of the GPUs it takes at least .* with one dgx")
        self.assertEqual(self.good_json(*call, "--for", "own")["kinds"][0]["software"], "own")

    def test_power_of_a_part_of_a_node_is_its_share(self):
        row = self.good_json("need", "--model", "gpt2", "--cluster", "4xH100", "--tokens",
                             "10B")["kinds"][0]
        self.assertEqual((row["gpus"], row["node_watts"]), (4, 5100))
        self.assertIn("4 of 8 GPUs of 10.2 kW, in proportion [assumed]", row["power_source"])

    def test_need_says_what_the_peak_alone_takes(self):
        result = self.zplan("need", "--model", "10B", "--cluster", "dgx-h100", "--tokens", "300B",
                            "--within", "1d", "--max-nodes", "2", "--json")
        self.assertIn("at the peak of 16 GPUs", json.loads(result.stdout)["kinds"][0]["why_not"])

    def test_need_searches_only_where_bounds_do_not_exclude_all(self):
        call = ("need", "--model", "10B", "--cluster", "dgx-h100", "--tokens", "300B",
                "--max-nodes", "1", "--json")
        slow = self.good_json(*call[:-1], "--within", "365d")["kinds"][0]
        result = self.zplan(*call, "--within", f"{0.75 * slow['days']}d")
        row = json.loads(result.stdout)["kinds"][0]
        self.assertRegex(row["why_not"], r"days by the bounds of plans for 8 GPUs$")
        self.assertLess(float(row["why_not"].split()[0]), slow["days"])

    def test_need_says_why_not(self):
        result = self.zplan("need", "--model", "1T", "--cluster", "dgx2", "--tokens", "300B",
                            "--within", "1d", "--max-nodes", "1", "--json")
        self.assertEqual(result.returncode, INFEASIBLE)
        row = json.loads(result.stdout)["kinds"][0]
        self.assertFalse(row["found"])
        self.assertIn("days", row["why_not"])


if __name__ == "__main__":
    main()
