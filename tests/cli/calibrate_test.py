"""zplan calibrate on the CPU of whatever machine this is, and where there is no GPU."""

import functools
import json
import os
import re
import tempfile

from cli_support import BAD_INPUT, DEVICE, OK, ROOT, CliTest, main, zplan

MEASURED = [
    "device.gemm_efficiency", "device.attention_efficiency", "device.gemm_overhead",
    "device.memory_efficiency", "device.launch_overhead", "device.copy_latency",
    "topology.links.gpu_pcie.efficiency",
]
GROUPS = {"stream", "product", "small product", "attention", "copy", "launch", "contention"}
PROGRESS = re.compile(r"^zplan: measuring: [^\n]*\n", re.MULTILINE)


def base_of_this_test():
    """The profile that CPUs are measured for unless told otherwise, with other values."""
    with open(os.path.join(ROOT, "hwprofiles/catalogue/workstation.json"), encoding="utf-8") as file:
        base = json.load(file)
    base["name"], base["aliases"] = "base", []
    base["host"]["cpu_cores"]["value"] = 3
    base["device"]["launch_queue_depth"]["ref"] = "known otherwise"
    base["device"]["peak"]["fp32"]["value"] = "1 MFLOP/s"
    base["topology"]["links"]["gpu_pcie"]["capacity"]["value"] = "1 kB/s"
    return base


@functools.cache
def measured_here():
    """The answer of a calibration of this machine and the text of its profile; measured once."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "base.json"), "w", encoding="utf-8") as file:
            json.dump(base_of_this_test(), file)
        result = zplan("calibrate", "--device", "cpu", "--quick", "--base", "base.json", "-o",
                       "mine.json", "--json", cwd=folder)
        with open(os.path.join(folder, "mine.json"), encoding="utf-8") as file:
            return result, file.read()


class Calibrate(CliTest):
    def answer_of(self, result):
        told = PROGRESS.sub("", result.stderr)
        self.assertEqual((result.returncode, told), (OK, ""))
        return result.stdout

    def value(self, profile, path):
        for key in path.split("."):
            profile = profile[key]
        return profile

    def test_writes_a_profile_that_plans(self):
        result, text = measured_here()
        answer = json.loads(self.answer_of(result))
        self.write("mine.json", text)
        self.assertEqual(answer["schema"], "zplan.calibration/1")
        self.assertEqual(answer["base"], "base")
        self.assertEqual({m["group"] for m in answer["measurements"]}, GROUPS)
        for m in answer["measurements"]:
            self.assertGreater(m["time_s"], 0, m)

        profile = json.loads(text)
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

        plan = self.good_json("plan", "--model", "tiny-gpt", "--cluster", "mine.json",
                              "--simulations", "1", "-o", "p.json")
        self.assertIn("calibrated", json.dumps(plan["cluster"]))
        # The limit that its runs are held against was measured.
        run = self.good_json("run", "p.json", "--steps", "2", "--log", "log.jsonl")
        for line in map(json.loads, self.read("log.jsonl").splitlines()):
            self.assertIs(line["limit_is_measured"], True, line)
            self.assertGreater(line["limit_share"], 0)
            self.assertLess(line["limit_share"] * line["wall_s"], 1.001 * run["predicted_step_s"])

    def test_what_is_measured_meets_what_the_base_says(self):
        base, mine = base_of_this_test(), json.loads(measured_here()[1])
        with self.subTest("what was not measured is that of the base"):
            for section in ("host", "nvme", "latency"):
                self.assertEqual(mine[section], base[section])
            self.assertEqual(mine["device"]["launch_queue_depth"]["ref"], "known otherwise")
        with self.subTest("rates above the stated peak become the peak"):
            peak = mine["device"]["peak"]["fp32"]
            self.assertEqual(peak["source"], "measured")
            self.assertIn("above what was stated", peak["ref"])
            faster = max(mine["device"][f"{kind}_efficiency"]["value"]
                         for kind in ("gemm", "attention"))
            self.assertEqual(faster, 1)
            self.assertEqual(mine["topology"]["links"]["gpu_pcie"]["efficiency"]["value"], 1)

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


def measured(name):
    return os.path.join(ROOT, "tests", "data", "measured", name)


ALL_REDUCE = measured("nccl_all_reduce_2x8_h100.txt")
ALL_REDUCE_JSON = measured("nccl_all_reduce_2x8_h100.json")
FIVE_JOBS = measured("fio_five_jobs.json")


class Import(CliTest):
    """What other tools measured, on a machine without any of it."""

    def take(self, *arguments, base="dgx-h100"):
        return self.good_json("calibrate", *arguments, "--base", base, "-o", "mine.json")

    def refused(self, text, says, base="dgx-h100"):
        self.write("all_reduce.txt", text)
        self.bad(BAD_INPUT, "calibrate", "--import", "all_reduce.txt", "--base", base, "-o",
                 "mine.json", says=says)

    def text_of(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_a_plan_takes_the_time_that_was_measured(self):
        answer = self.take("--import", ALL_REDUCE)
        self.assertEqual(answer["schema"], "zplan.import/1")
        curve = answer["collectives"][0]
        self.assertEqual((curve["op"], curve["ranks"], curve["nodes"]), ("all_reduce", 16, 2))
        self.assertEqual(len(curve["times"]), 31)
        self.assertAlmostEqual(curve["times"][-1]["now_s"], 47.535e-3)

        profile = json.loads(self.read("mine.json"))
        times = profile["collectives"][0]["times"]
        self.assertEqual(times["value"][17], ["1048576 B", "203.2 us"])
        self.assertEqual(times["source"], "measured")
        for words in ("all_reduce_perf", "nccl_all_reduce_2x8_h100.txt", "NVIDIA H100"):
            self.assertIn(words, times["ref"])

        self.good("plan", "--model", "gpt2", "--cluster", "dgx-h100x2", "--dp", "16", "--tp",
                  "1", "--pp", "1", "--zero", "0", "-o", "plan.json")
        base = self.good_json("simulate", "plan.json")
        mine = self.good_json("simulate", "plan.json", "--cluster", "mine.jsonx2")
        self.assertGreater(abs(mine["time"]["step_s"] / base["time"]["step_s"] - 1), 1e-4)

    def test_both_forms_of_nccl_tests_write_the_same_times(self):
        self.take("--import", ALL_REDUCE)
        text = json.loads(self.read("mine.json"))["collectives"][0]["times"]
        self.take("--import", ALL_REDUCE_JSON)
        times = json.loads(self.read("mine.json"))["collectives"][0]["times"]
        self.assertEqual(times["value"], text["value"][17:])
        self.assertIn("2026-07-10", times["ref"])

    def test_later_files_win_and_are_told(self):
        self.write("slow.txt", self.text_of(ALL_REDUCE).replace(
            "203.2    5.16    9.68", "406.4    2.58    4.84"))
        answer = self.take("--import", ALL_REDUCE, "--import", "slow.txt")
        self.assertEqual(answer["notes"], [
            "slow.txt: 31 times of all_reduce of 16 ranks on 2 nodes replace those of " + ALL_REDUCE])
        self.assertAlmostEqual(answer["collectives"][0]["times"][17]["now_s"], 406.4e-6)
        answer = self.take("--import", "slow.txt", "--import", ALL_REDUCE)
        self.assertAlmostEqual(answer["collectives"][0]["times"][17]["now_s"], 203.2e-6)

    def test_a_measured_profile_is_a_base(self):
        self.take("--import", ALL_REDUCE)
        os.rename(self.path("mine.json"), self.path("first.json"))
        answer = self.take("--import", ALL_REDUCE_JSON, "--import", FIVE_JOBS, base="first.json")
        self.assertAlmostEqual(answer["collectives"][0]["times"][0]["before_s"], 203.2e-6)
        profile = json.loads(self.read("mine.json"))
        self.assertEqual(len(profile["collectives"]), 1)
        self.assertEqual(profile["name"], "dgx-h100-measured")

    def test_of_a_cluster_the_node_is_the_base(self):
        self.take("--import", ALL_REDUCE, base="dgx-h100x1024-2to1")
        first = self.read("mine.json")
        self.write("cluster.json", json.dumps({
            "schema": "zplan.cluster/1", "name": "four", "node": "node.json", "nodes": 4}))
        os.rename(self.path("mine.json"), self.path("node.json"))
        self.take("--import", ALL_REDUCE, base="cluster.json")
        again = json.loads(self.read("mine.json"))
        self.assertEqual(again["collectives"][0]["times"]["value"],
                         json.loads(first)["collectives"][0]["times"]["value"])
        self.bad(BAD_INPUT, "calibrate", "--import", ALL_REDUCE, "--base", "cluster.json", "-o",
                 "node.json", says="node.json")
        self.assertEqual(self.read("node.json"), first)

    def test_drives_have_the_rates_that_fio_reached(self):
        answer = self.take("--import", FIVE_JOBS, base="dgx-a100")
        nvme = json.loads(self.read("mine.json"))["nvme"]
        self.assertEqual(nvme["drive_read"]["value"], "1.07514 GB/s")
        self.assertEqual(nvme["drive_write"]["value"], "1.58905 GB/s")
        self.assertEqual(nvme["efficiency"]["value"], 1)
        self.assertEqual(nvme["read_beside_write"]["value"], 0)
        self.assertEqual(nvme["queue_depth"]["value"], 16)
        self.assertEqual(nvme["block"]["value"], "1048576 B")
        for key in ("drive_read", "read_beside_write", "latency"):
            self.assertEqual(nvme[key]["source"], "measured", key)
            for words in ("fio-3.33", "fio_five_jobs.json", "2026-11-22"):
                self.assertIn(words, nvme[key]["ref"], key)
        self.assertEqual(nvme["capacity"]["source"], "assumed")
        before = {change["pointer"]: change["before"] for change in answer["changes"]}
        self.assertEqual(before["/nvme/drive_read"], "6.5 GB/s")
        self.assertIn("jobs small left out", answer["notes"][0])

    def test_the_table_shows_before_and_after(self):
        text = self.good("calibrate", "--import", FIVE_JOBS, "--import", ALL_REDUCE, "--base",
                         "dgx-a100")
        for words in ("fio-3.33", "/nvme/drive_read", "6.5 GB/s", "1.07514 GB/s", "47.5", "8.00 GiB"):
            self.assertIn(words, text)
        self.assertEqual(self.files(), [])

    def test_bad_input_is_one_line_with_its_place_and_writes_nothing(self):
        good = self.text_of(ALL_REDUCE)
        self.refused(good[:4000], "all_reduce.txt:")
        self.refused(good.replace("9.68      0", "9.68      2"), "all_reduce.txt:43: ")
        self.refused(good.replace("203.2    5.16", "203.2    6.16"), "expected algbw 5.16")
        self.refused("read: IOPS=65.8k\n", "all_reduce.txt:1: ")
        self.refused(good, "workstation", base="workstation")
        self.refused(good, "ranks on a node, the GPUs of rtx4090-12ssd", base="rtx4090-12ssd")

    def test_options_that_do_not_go_together_are_refused(self):
        self.bad(BAD_INPUT, "calibrate", "--import", FIVE_JOBS, says="--base")
        self.bad(BAD_INPUT, "calibrate", "--import", FIVE_JOBS, "--base", "dgx2", "--quick",
                 says="--import")
        self.bad(BAD_INPUT, "calibrate", "--import", FIVE_JOBS, "--base", "dgx2", "--device", "cpu",
                 says="--import")
        self.bad(BAD_INPUT, "calibrate", "--import", "none.json", "--base", "dgx2", says="none.json")


if __name__ == "__main__":
    main()
