"""Our own executor beside its prediction, in short: memory to the byte and within its bound, times
as orders of magnitude, on a machine that may be busy. tests/golden/own_runs.py measures the rest."""

import json
import math
import os
import re
import tempfile

from cli_support import OK, CliTest, main, zplan

MIB = 1 << 20
ONE = ("--dp", "1", "--tp", "1", "--pp", "1")
# Plans of one model; whether they keep states on NVMe.
PLANS = [
    (ONE + ("--zero", "0"), False),
    (("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3"), False),
    (("--dp", "1", "--tp", "2", "--pp", "2", "--zero", "0", "--recompute", "full"), False),
    (ONE + ("--optimizer", "nvme"), True),
]
WIDE = 8  # predicted over measured and the other way round, on cores that others use, too
SLOWER = 10  # so many times the work is seen to take longer even there


def model(layers, sequence):
    return json.dumps({
        "schema": "zplan.model/1", "name": "small", "layers": layers, "hidden": 192, "heads": 4,
        "ffn": 768, "vocab": 512, "sequence": sequence, "tied_embeddings": True, "global_batch": 4,
        "source": "assumed: small enough to train in a test",
    })


class OwnRuns(CliTest):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.calibration = zplan("calibrate", "--device", "cpu", "--quick", "-o", "machine.json",
                                    cwd=folder)
            with open(os.path.join(folder, "machine.json"), encoding="utf-8") as file:
                cls.machine = file.read()
        cls.ran = {}

    def setUp(self):
        super().setUp()
        self.write("small.json", model(4, 64))
        self.write("large.json", model(16, 256))
        self.write("machine.json", self.machine)

    def run_plan(self, pins, kind="small", nvme=False):
        """What the cases that ask for it share; the plan is written for each."""
        if (pins, kind) not in self.ran:
            self.zplan("plan", "--model", f"./{kind}.json", "--cluster", "./machine.json",
                       "--micro-batch", "1", *pins, "-o", "plan.json")
            places = ("--nvme-dir", ".") if nvme else ()
            answer = self.good_json("run", "plan.json", "--steps", "4", "--threads-per-rank", "1",
                                    *places)
            self.ran[pins, kind] = self.read("plan.json"), answer
        plan, answer = self.ran[pins, kind]
        self.write("plan.json", plan)
        return answer

    def placed(self):
        """Bytes of all slabs in memory, from the text of the job."""
        text = self.good("lower", "plan.json")
        mesh = re.search(r"^mesh (.*)", text, re.M).group(1)
        places = re.findall(r"(\S+) (\d+) every \d+", mesh)
        of_a_stage = math.prod(int(size) for axis, size in places if axis != "pp")
        sizes = re.findall(r"^  slab (?:gpu|cpu) (\d+)", text, re.M)
        return of_a_stage * sum(map(int, sizes))

    def test_the_calibration_has_a_table_of_what_was_measured_and_what_it_changes(self):
        """tests/cli/calibrate_test.py asks for JSON, and names a base."""
        self.assertEqual(self.calibration.returncode, OK, self.calibration.stderr)
        for words in ("fc1 weight gradient, 768 x 3072 x 64", "both directions together",
                      "/device/gemm_efficiency", "/topology/links/gpu_pcie/efficiency",
                      "workstation"):
            self.assertIn(words, self.calibration.stdout)

    def test_memory_is_what_was_placed_and_what_was_predicted(self):
        for pins, nvme in PLANS:
            with self.subTest(pins=pins):
                memory = self.run_plan(pins, nvme=nvme)["memory"]
                self.assertEqual(memory["slab_bytes"], self.placed())
                beside = memory["resident_bytes"] - memory["slab_bytes"]
                self.assertEqual(memory["beside_slabs_bytes"], beside)
                self.assertGreater(beside, 0)
                predicted = memory["predicted_beside_slabs_bytes"]
                self.assertEqual(predicted, sum(memory["predicted_parts"].values()))
                self.assertLessEqual(abs(beside - predicted), max(0.03 * beside, 32 * MIB))

    def test_times_are_of_the_order_of_the_prediction(self):
        for pins, nvme in PLANS[:3]:
            with self.subTest(pins=pins):
                ran = self.run_plan(pins, nvme=nvme)
                ratio = ran["measured_step_s"] / ran["predicted_step_s"]
                self.assertTrue(1 / WIDE < ratio < WIDE, ratio)

    def test_much_more_work_is_predicted_and_measured_to_take_longer(self):
        small, large = (self.run_plan(PLANS[0][0], kind) for kind in ("small", "large"))
        self.assertGreater(large["predicted_step_s"], SLOWER * small["predicted_step_s"])
        self.assertGreater(large["measured_step_s"], small["measured_step_s"])

    def test_the_run_says_what_each_kind_and_lane_took(self):
        split = self.run_plan(PLANS[1][0])["split"]
        for part, names in (("kinds", {"kernel", "copy", "collective"}),
                            ("lanes", {"compute", "comm_gather", "comm_reduce"})):
            rows = {row["name"]: row for row in split[part]}
            self.assertLessEqual(names, set(rows))
            for row in rows.values():
                self.assertGreater(row["measured_s"], 0, row)
                self.assertGreater(row["predicted_s"], 0, row)
        sums = [sum(row["measured_s"] for row in rows) for rows in split.values()]
        self.assertAlmostEqual(sums[0], sums[1], 9)


if __name__ == "__main__":
    main()
