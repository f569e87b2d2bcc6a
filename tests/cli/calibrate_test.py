"""zplan calibrate on the CPU of whatever machine this is, and where there is no GPU."""

import json
import re

from cli_support import BAD_INPUT, DEVICE, OK, CliTest, main

MEASURED = [
    "device.gemm_efficiency", "device.attention_efficiency", "device.gemm_overhead",
    "device.memory_efficiency", "device.launch_overhead", "device.copy_latency",
    "topology.links.gpu_pcie.efficiency",
]
GROUPS = {"stream", "product", "small product", "attention", "copy", "launch", "contention"}
PROGRESS = re.compile(r"^zplan: measuring: [^\n]*\n", re.MULTILINE)


class Calibrate(CliTest):
    def calibrate(self, *arguments):
        result = self.zplan("calibrate", "--device", "cpu", "--quick", *arguments)
        told = PROGRESS.sub("", result.stderr)
        self.assertEqual((result.returncode, told), (OK, ""))
        return result.stdout

    def value(self, profile, path):
        for key in path.split("."):
            profile = profile[key]
        return profile

    def test_writes_a_profile_that_plans(self):
        answer = json.loads(self.calibrate("-o", "mine.json", "--json"))
        self.assertEqual(answer["schema"], "zplan.calibration/1")
        self.assertEqual(answer["base"], "workstation")
        self.assertEqual({m["group"] for m in answer["measurements"]}, GROUPS)
        for m in answer["measurements"]:
            self.assertGreater(m["time_s"], 0, m)

        profile = json.loads(self.read("mine.json"))
        for path in MEASURED:
            entry = self.value(profile, path)
            self.assertEqual(entry["source"], "measured", path)
            self.assertIn(answer["device"], entry["ref"], path)
            self.assertIn(answer["date"], entry["ref"], path)
        self.assertEqual(profile["host"]["memory"]["source"], "assumed")
        self.assertNotIn("graph_launch_overhead", profile["device"])  # no graphs on the CPU

        for change in answer["changes"]:
            entry = self.value(profile, change["pointer"].strip("/").replace("/", "."))
            self.assertEqual(str(entry["value"]), change["now"])
            self.assertEqual(entry["source"], "measured")

        plan = self.good_json("plan", "--model", "tiny-gpt", "--cluster", "mine.json")
        self.assertIn("calibrated", json.dumps(plan["cluster"]))

    def test_what_was_not_measured_is_that_of_the_base(self):
        self.calibrate("-o", "first.json")
        first = json.loads(self.read("first.json"))
        first["host"]["cpu_cores"]["value"] = 3
        first["device"]["launch_queue_depth"]["ref"] = "known otherwise"
        self.write("base.json", json.dumps(first))
        self.calibrate("--base", "base.json", "-o", "second.json")
        second = json.loads(self.read("second.json"))
        for section in ("host", "nvme", "latency"):
            self.assertEqual(second[section], first[section])
        self.assertEqual(second["device"]["launch_queue_depth"]["ref"], "known otherwise")

    def test_rates_above_the_stated_peak_become_the_peak(self):
        self.calibrate("-o", "base.json")
        base = json.loads(self.read("base.json"))
        base["device"]["peak"]["fp32"]["value"] = "1 MFLOP/s"
        base["topology"]["links"]["gpu_pcie"]["capacity"]["value"] = "1 kB/s"
        self.write("slow.json", json.dumps(base))
        self.calibrate("--base", "slow.json", "-o", "mine.json")
        mine = json.loads(self.read("mine.json"))
        peak = mine["device"]["peak"]["fp32"]
        self.assertEqual(peak["source"], "measured")
        self.assertIn("above what was stated", peak["ref"])
        faster = max(mine["device"][f"{kind}_efficiency"]["value"] for kind in ("gemm", "attention"))
        self.assertEqual(faster, 1)
        self.assertEqual(mine["topology"]["links"]["gpu_pcie"]["efficiency"]["value"], 1)

    def test_table_has_what_was_measured_and_what_it_changes(self):
        text = self.calibrate()
        for words in ("fc1 weight gradient, 768 x 3072 x 64", "both directions together",
                      "/device/gemm_efficiency", "/topology/links/gpu_pcie/efficiency"):
            self.assertIn(words, text)
        self.assertEqual(self.files(), [])

    def test_without_a_device_there_is_one_line(self):
        result = self.zplan("calibrate", "--device", "cuda", "--quick", "-o", "gpu.json")
        if result.returncode == OK:
            self.skipTest("there is a CUDA device")
        self.assertEqual((result.returncode, result.stdout), (DEVICE, ""))
        self.one_line(result.stderr)
        self.assertEqual(self.files(), [])

    def test_a_base_of_another_device_is_refused(self):
        self.bad(BAD_INPUT, "calibrate", "--base", "dgx2", says=["dgx2", "cuda.sm70.fp16"])
        self.bad(BAD_INPUT, "calibrate", "--base", "dgx9", says="dgx")
        self.bad(BAD_INPUT, "calibrate", "-o", "nowhere/mine.json", says="nowhere")


if __name__ == "__main__":
    main()
