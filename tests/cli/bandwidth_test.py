"""zplan bandwidth, and zplan memory by model and cluster: what moves, what hides it, what it costs."""

import json

from cli_support import BAD_INPUT, INFEASIBLE, CliTest, main

WIDTH = 110
OFFLOADED = ("--model", "zero-infinity-10b", "--cluster", "dgx2", "--optimizer", "cpu",
             "--params", "cpu", "--zero", "3", "--recompute", "full", "--gather", "layer", "--for", "zplan")
QUICK = ("--for", "zplan", "--simulations", "1")  # where any plan does


# Of sections 3 and 4 of ZeRO-Infinity, by operations and bytes, not by their quotients.
PEAK, SEQUENCE = 70e12, 1024


def efficiency(flop, moved, bandwidth):
    """Of compute that waits for what is moved [Rajbhandari21 sec 4.1]."""
    compute = flop / PEAK
    return compute / (compute + moved / bandwidth)


def fig_3a(bandwidth, bsz, parameters=1e12):
    flop = 2 * 4 * bsz * SEQUENCE * parameters  # forward, again, twice as much backward
    return efficiency(flop, 2 * (3 + 1) * parameters, bandwidth)  # three loads, a store, of fp16


def fig_3b(bandwidth, bsz, parameters=1e12):
    flop = 2 * 4 * bsz * SEQUENCE * parameters
    return efficiency(flop, 2 * 16 * parameters, bandwidth)  # read and written


def fig_3c(bandwidth, hidden, layers=100, bsz=2):
    flop = 2 * 4 * bsz * SEQUENCE * 12 * layers * hidden**2
    return efficiency(flop, 2 * 2 * bsz * SEQUENCE * hidden * layers, bandwidth)


class Bandwidth(CliTest):
    def one(self, rows, **wanted):
        found = [r for r in rows if all(r[k] == v for k, v in wanted.items())]
        self.assertEqual(len(found), 1, wanted)
        return found[0]

    def tidy(self, text):
        for line in text.split("\n"):
            self.assertLessEqual(len(line), WIDTH, line)
            self.assertEqual(line, line.rstrip())

    def test_answers_of_a_plan_file_and_of_its_question_are_the_same(self):
        self.zplan(*OFFLOADED, "-o", "plan.json")
        self.assertEqual(self.good("bandwidth", "plan.json"), self.good("bandwidth", *OFFLOADED))
        self.assertEqual(self.good("memory", "plan.json"), self.good("memory", *OFFLOADED))

    def test_counts_what_the_schedule_moves_beside_the_closed_forms(self):
        answer = self.good_json("bandwidth", *OFFLOADED)
        self.assertEqual(answer["schema"], "zplan.bandwidth/1")
        plan = answer["plan"]
        tokens = plan["batch"]["micro_batch"] * plan["batch"]["sequence"]
        forms = {row["state"]: row for row in answer["intensities"]}
        self.assertEqual(forms["parameters, gradients"]["printed"], tokens)
        self.assertEqual(forms["parameters, gradients"]["layers"], tokens)
        self.assertEqual(forms["activations"]["printed"], 24 * 4096)
        self.assertAlmostEqual(answer["parameter_loads"], 2)
        moved = self.one(answer["traffic"], state="parameters, gradients", hop="GPU - CPU")
        self.assertEqual(moved["bytes"], moved["nearer_bytes"] + moved["farther_bytes"])
        self.assertAlmostEqual(moved["intensity"] * moved["bytes"], moved["flops"], delta=1e9)
        half, peak = moved["half_bytes_per_s"], moved["compute_flop_per_s"]
        self.assertAlmostEqual(half * moved["intensity"] / peak, 1)
        self.assertAlmostEqual(moved["ninety_bytes_per_s"], 9 * half, delta=1e-6 * half)
        fed = moved["has_bytes_per_s"] * moved["intensity"]
        self.assertAlmostEqual(moved["efficiency"], fed / (fed + peak))
        # 48 GB/s of a DGX-2 over its four uplinks
        self.assertEqual((moved["link_kind"], moved["node_gpus"]), ("PCIe uplink", 16))
        self.assertAlmostEqual(moved["node_has_bytes_per_s"] / 48e9, 1, places=3)

    def test_sweeps_are_simulated_and_slower_links_never_help(self):
        answer = self.good_json("bandwidth", *OFFLOADED)
        self.assertEqual({s["hop"] for s in answer["sweeps"]},
                         {t["hop"] for t in answer["traffic"]})
        for sweep in answer["sweeps"]:
            self.assertEqual([p["factor"] for p in sweep["points"]], [0.25, 0.5, 1, 2, 4])
            steps = [p["step_s"] for p in sweep["points"]]
            self.assertEqual(steps[2], answer["step_s"])
            for slower, faster in zip(steps, steps[1:]):
                self.assertGreaterEqual(slower * 1.01, faster, sweep["hop"])
        copies = self.one(answer["sweeps"], hop="GPU - CPU")
        self.assertEqual(copies["links"], "PCIe")
        self.assertGreater(copies["points"][0]["exposed_s"], copies["points"][4]["exposed_s"])

    def test_the_point_of_the_cluster_as_it_is_is_what_simulate_says(self):
        plan = self.tiny_plan("--zero", "3", "--optimizer", "nvme", "--tp", "1", "--pp", "1")
        answer = self.good_json("bandwidth", plan)
        self.assertEqual(answer["step_s"], self.good_json("simulate", plan)["time"]["step_s"])

    def test_volumes_by_group_are_those_of_the_papers(self):
        for stage, psi in (("0", 2), ("1", 2), ("2", 3)):  # m = 2
            plan = self.tiny_plan("--dp", "4", "--tp", "1", "--pp", "1", "--zero", stage,
                                  "--micro-batch", "1", "--global-batch", "8", "--params", "gpu",
                                  "--grads", "gpu", "--optimizer", "gpu", name="volume.json")
            answer = self.good_json("bandwidth", plan)
            states = [row for row in answer["groups"] if row["of"] == "states"]
            self.assertAlmostEqual(sum(row["psi"] for row in states) / psi, 1, delta=0.05, msg=stage)
        self.assertIn("in Psi", self.good("bandwidth", plan))

    def test_rooflines_say_what_limits(self):
        lines = self.good_json("bandwidth", *OFFLOADED)["rooflines"]
        fc1 = self.one(lines, part="fc1", kind="product")
        self.assertEqual(fc1["limit"], "products")
        self.assertEqual(self.one(lines, part="gelu", kind="other")["limit"], "memory")
        for line in lines:
            most = max(("products", line["at_peak_s"]), ("memory", line["at_memory_s"]),
                       ("launch", line["at_launch_s"]), key=lambda pair: pair[1])
            self.assertEqual(line["limit"], most[0])
            if line["limit"] != "launch":
                self.assertLessEqual(most[1], line["time_s"] * 1.001, line["part"])

    def test_first_line_is_the_verdict_and_tables_are_tidy(self):
        for question in (OFFLOADED,
                         ("--model", "llama3-70b", "--cluster", "dgx-h100x16", *QUICK),
                         ("--model", "mixtral-8x7b", "--cluster", "dgx-h100", *QUICK),
                         ("--model", "zero-infinity-1t", "--cluster", "dgx2", "--tp", "4", "--pp",
                          "1", *QUICK)):
            text = self.good("bandwidth", *question)
            self.assertRegex(text.split("\n")[0], r" limits?: .*[0-9.]+ % of a [0-9.]+ m?s step")
            self.tidy(text)
            memory = self.good("memory", *question)
            self.assertRegex(memory.split("\n")[0], r"^Fits; .* limits: .* of .* there is taken")
            self.tidy(memory)

    def test_says_where_the_paper_counts_three_loads(self):
        self.assertIn("the paper counts three loads of the parameters",
                      self.good("bandwidth", *OFFLOADED))

    def test_experts_compute_with_few_of_what_moves(self):
        answer = self.good_json("bandwidth", "--model", "mixtral-8x7b", "--cluster", "dgx-h100")
        forms = self.one(answer["intensities"], state="parameters, gradients")
        self.assertAlmostEqual(forms["layers"] / forms["printed"], 0.2717, places=4)

    def test_the_paper_by_itself(self):
        answer = self.good_json("bandwidth", "--paper")
        self.tidy(self.good("bandwidth", "--paper"))
        at = {c["bandwidth_bytes_per_s"]: c for c in answer["parameters_and_gradients"]}
        self.assertAlmostEqual(at[70e9]["bsz 1"], 0.506, places=3)
        at = {c["bandwidth_bytes_per_s"]: c for c in answer["optimizer_states"]}
        self.assertAlmostEqual(at[1.5e12]["bsz 2"], 0.916, places=3)
        at = {c["bandwidth_bytes_per_s"]: c for c in answer["activation_checkpoints"]}
        self.assertAlmostEqual(at[2e9]["hd 2048"], 0.584, places=3)
        self.assertAlmostEqual(at[1e9]["hd 8192"], 0.737, places=3)
        devices = [(d["slow_bytes_per_s"], d["gpu_bytes_per_s"]) for d in answer["devices"]]
        self.assertEqual(devices, [(3e9, 70e9), (30e9, 700e9), (300e9, 7000e9)])

    def test_the_curves_of_figure_3_point_by_point(self):
        answer = self.good_json("bandwidth", "--paper")
        for panel, curve, sizes in (("parameters_and_gradients", fig_3a, 5),
                                    ("optimizer_states", fig_3b, 5),
                                    ("activation_checkpoints", fig_3c, 5)):
            rows = answer[panel]
            self.assertEqual(len(rows), 8)
            for row in rows:
                bandwidth = row.pop("bandwidth_bytes_per_s")
                self.assertEqual(len(row), sizes)
                for size, shown in row.items():
                    wanted = curve(bandwidth, int(size.split()[1]))
                    self.assertAlmostEqual(shown, wanted, places=12, msg=f"{panel} {size}")

    def test_what_the_text_reads_off_figure_3_holds(self):
        """Each sentence of section 4 that names a bandwidth and an efficiency."""
        answer = self.good_json("bandwidth", "--paper")
        at = lambda panel, rate: self.one(answer[panel], bandwidth_bytes_per_s=rate)  # noqa: E731
        for size in (1, 2, 4, 8, 16):  # "over 70 GB/s .. over 50 % .. for even the smallest batch"
            self.assertGreater(at("parameters_and_gradients", 70e9)[f"bsz {size}"], 0.5)
        self.assertLess(at("parameters_and_gradients", 40e9)["bsz 1"], 0.5)
        # "nearly 4x higher" for 50 %; "1.5 TB/s" for 90 % at a batch of 2 per GPU.
        self.assertEqual(answer["optimizer_half_bytes_per_s"],
                         4 * answer["parameters_half_bytes_per_s"])
        self.assertGreater(at("optimizer_states", 1.5e12)["bsz 2"], 0.9)
        self.assertLess(at("optimizer_states", 1e12)["bsz 2"], 0.9)
        # "2 GB/s .. over 50 % .. even for a hidden size of 2K", "less than 1 GB/s" beyond 8K.
        self.assertGreater(at("activation_checkpoints", 2e9)["hd 2048"], 0.5)
        self.assertLess(at("activation_checkpoints", 1e9)["hd 2048"], 0.5)
        for hidden in (8192, 16384, 32768, 65536):
            self.assertGreater(at("activation_checkpoints", 1e9)[f"hd {hidden}"], 0.5)
        # Table 3: a device with 10 and 100 times the compute, so many times each bandwidth.
        first = answer["devices"][0]
        self.assertEqual(first["aggregate_bytes_per_s"], 1.5e12)
        for device, scale in zip(answer["devices"], (1, 10, 100)):
            for key in ("peak_flop_per_s", "slow_bytes_per_s", "aggregate_bytes_per_s",
                        "gpu_bytes_per_s"):
                self.assertAlmostEqual(device[key] / first[key], scale, places=9)
            # 512 of 3 GB/s have 1.536 TB/s, printed 1.5.
            self.assertAlmostEqual(512 * device["slow_bytes_per_s"] / (1.5e12 * scale), 1, delta=0.03)
            self.assertGreater(device["optimizer_efficiency"], 0.9)
            self.assertGreater(device["parameters_efficiency"], 0.5)

    def test_bad_input_gets_one_line(self):
        plan = self.tiny_plan()
        self.bad(BAD_INPUT, "bandwidth", says="expected a plan file or --model and --cluster")
        self.bad(BAD_INPUT, "bandwidth", "--cluster", "dgx2", says="got --cluster alone")
        self.bad(BAD_INPUT, "memory", "--model", "1T", says="expected --cluster")
        self.bad(BAD_INPUT, "bandwidth", plan, "--model", "1T", says=["--model", "plan.json"])
        self.bad(BAD_INPUT, "memory", plan, "--tp", "2", says=["--tp", "has decided it"])
        self.bad(BAD_INPUT, "memory", plan, "--precision", "lean", says="--precision")
        self.bad(BAD_INPUT, "memory", plan, "--bucket", "1GB", says=["--bucket", "has decided it"])
        self.bad(BAD_INPUT, "bandwidth", plan, "--paper", says="--paper")
        self.bad(BAD_INPUT, "bandwidth", "--paper", "--cluster", "dgx2", says="got --cluster")
        self.bad(BAD_INPUT, "bandwidth", "--paper", "--tp", "2", says="got --tp")
        self.bad(BAD_INPUT, "bandwidth", "nowhere.json", says="nowhere.json")
        self.bad(BAD_INPUT, "bandwidth", "--model", "1Z", "--cluster", "dgx2", says='"1Z"')

    def test_what_does_not_fit_is_refused_unless_asked_for(self):
        self.oversized_plan("big.json")
        self.bad(INFEASIBLE, "bandwidth", "big.json", says=["does not fit", "--ignore-capacity"])
        self.assertIn(" of a ", self.good("bandwidth", "big.json", "--ignore-capacity"))
        result = self.zplan("memory", "--model", "1T", "--cluster", "dgx2", "--params", "gpu",
                            "--optimizer", "gpu")
        self.assertEqual((result.returncode, result.stdout), (INFEASIBLE, ""))
        self.one_line(result.stderr, "does not fit")


class InfinityMemory(CliTest):
    def test_quantities_of_figure_2a_beside_what_is_placed(self):
        self.write("row.json", json.dumps({
            "schema": "zplan.model/1", "name": "row", "architecture": "gpt", "layers": 128,
            "hidden": 25600, "heads": 256, "ffn": 102400, "vocab": 50257, "sequence": 1024,
            "tied_embeddings": True, "global_batch": 32, "source": "ZeRO-Infinity Fig. 2a"}))
        answer = self.good_json("memory", "--model", "./row.json", "--cluster", "dgx2",
                                "--tp", "1", "--pp", "1", "--micro-batch", "2",
                                "--zero", "3", "--recompute", "full", "--params", "nvme",
                                "--grads", "nvme", "--optimizer", "nvme", "--gather", "tiles:4",
                                "--activations", "cpu")
        rows = {row["quantity"]: row for row in answer["infinity"]["quantities"]}
        tib, gib = 2**40, 2**30
        states = rows["model states, 20 B per parameter"]["printed_bytes"]
        self.assertEqual(round(states / tib, 2), 18.31)
        mswm = rows["model state working memory (MSWM)"]["printed_bytes"]
        self.assertEqual(round(mswm / gib, 2), 9.77)
        checkpoints = rows["activation checkpoints"]
        self.assertEqual(checkpoints["cpu_bytes"], checkpoints["printed_bytes"])
        placed = rows["model states, 16 B per parameter"]
        self.assertGreater(placed["nvme_bytes"], 0)


if __name__ == "__main__":
    main()
