"""zplan sweep: a grid of questions; zplan what-if and --set: other hardware."""

import csv
import io
import json
import os
import signal
import subprocess

from cli_support import BAD_INPUT, INFEASIBLE, INTERRUPTED, PROGRAM, ROOT, CliTest, main

WIDTH = 100
SMALL = ("--model", "gpt2-1.5b", "--cluster", "dgx2")
OFFLOADED = ("--model", "10B", "--cluster", "dgx2", "--tp", "1", "--pp", "1", "--zero", "3",
             "--params", "gpu", "--grads", "gpu", "--optimizer", "nvme", "--micro-batch", "8",
             "--recompute", "full", "--gather", "layer", "--optimizer-near", "0", "--simulations",
             "1")


class Sweep(CliTest):
    def test_a_row_is_what_plan_answers_to_its_question(self):
        rows = self.good_json("sweep", *SMALL, "--over", "nodes=1..2", "--over", "batch=256,512",
                              "--zero", "1")["rows"]
        self.assertEqual([row["at"] for row in rows],
                         [{"nodes": n, "batch": b} for n in "12" for b in ("256", "512")])
        answer = self.good_json("plan", "--model", "gpt2-1.5b", "--cluster", "dgx2x2", "--zero",
                                "1", "--global-batch", "512")
        self.assertEqual(rows[3]["step_s"], answer["time"]["step_s"])
        self.assertEqual(rows[3]["fingerprint"], answer["fingerprint"])
        self.assertEqual(rows[3]["tokens_per_s"], answer["time"]["tokens_per_s"])
        self.assertAlmostEqual(rows[3]["tokens_per_s_per_device"] * 32, rows[3]["tokens_per_s"])

    def test_the_same_on_any_number_of_threads(self):
        grid = ("sweep", *SMALL, "--over", "tp=1..4", "--over", "nvme=x1,x2")
        self.assertEqual(self.good(*grid, "--threads", "1"), self.good(*grid, "--threads", "3"))

    def test_a_row_takes_the_plan_of_a_neighbour_that_is_faster_there(self):
        grid = ("sweep", "--model", "llama3-8b", "--cluster", "rtx4090-12ssd", "--simulations",
                "1", "--over", "pcie=x0.5,x1,x2,x4")
        rows = self.good_json(*grid)["rows"]
        for slower, faster in zip(rows, rows[1:]):
            self.assertLess(faster["step_s"], 1.021 * slower["step_s"])
        for row in rows:
            self.assertEqual(row["found_with"] is None, row["searched_step_s"] is None)
            if row["found_with"]:
                self.assertLess(row["step_s"], 0.981 * row["searched_step_s"])
                self.assertIn(row["found_with"], [f"pcie={r['at']['pcie']}" for r in rows])
        self.assertEqual(self.good(*grid).count("the search of this row found"),
                         sum(row["found_with"] is not None for row in rows))

    def test_a_quantity_that_no_step_follows_is_named(self):
        text = self.good("sweep", *SMALL, "--optimizer", "gpu", "--params", "gpu", "--over",
                         "nvme=x1,x2", "--over", "gpu.peak=x1,x2", "--simulations", "1")
        self.assertIn("No step of these follows nvme: in the plan of nvme=x1, gpu.peak=x1 nothing"
                      " moves over it", " ".join(text.split()))
        self.assertNotIn("follows gpu.peak", text)
        near = self.good("sweep", "--model", "10B", "--cluster", "dgx2", "--optimizer", "nvme",
                         "--optimizer-near", "1", "--simulations", "1", "--over", "nvme=x1,x2")
        self.assertIn("optimizer states of 100 % of the layers on CPU", " ".join(near.split()))
        self.assertNotIn("No step", self.good("sweep", *OFFLOADED, "--over", "nvme=x0.5,x1"))

    def test_axes_of_everything(self):
        rows = self.good_json("sweep", "--over", "model=gpt2-124m,gpt2-355m", "--over",
                              "cluster=dgx2,dgx-a100", "--over", "sp=yes,no", "--over",
                              "gpu.memory=x1", "--over", "sequence=512", "--tp", "2")["rows"]
        self.assertEqual(len(rows), 8)
        self.assertEqual({row["state"] for row in rows}, {"fits"})
        self.assertEqual(len({row["fingerprint"] for row in rows}), 8)

    def test_rows_without_a_plan_say_why(self):
        command = ("sweep", "--model", "10B", "--cluster", "dgx2", "--params", "gpu",
                   "--optimizer", "gpu", "--over", "tp=1,32", "--over",
                   "gpu.memory=32GiB,8GiB", "--simulations", "1")
        rows = self.good_json(*command)["rows"]
        self.assertEqual([row["state"] for row in rows],
                         ["fits", "does not fit", "not legal", "not legal"])
        self.assertIn("of GPU memory per GPU needed", rows[1]["reason"])
        self.assertIn("tp 32", rows[2]["reason"])
        self.assertIsNone(rows[1]["step_s"])
        text = self.good(*command)
        self.assertRegex(text.split("\n")[0], r"^1 of 4 questions fit; most tokens/s [0-9,]+ with "
                                              r"tp=1, gpu.memory=32GiB; most per GPU")
        for line in text.split("\n"):
            self.assertLessEqual(len(line), WIDTH, line)
            self.assertEqual(line, line.rstrip())
        table = list(csv.DictReader(io.StringIO(self.good(*command, "--csv"))))
        self.assertEqual([row["state"] for row in table], [row["state"] for row in rows])
        self.assertEqual(float(table[0]["step_s"]), rows[0]["step_s"])
        self.assertEqual([row["reason"] for row in table], [row["reason"] for row in rows])

    def test_each_row_names_its_software_unless_it_was_asked_for(self):
        grid = ("sweep", "--model", "gpt2-xl", "--over", "cluster=8xH100,8xA100-80GB",
                "--simulations", "1")
        rows = self.good_json(*grid)["rows"]
        text = self.good(*grid)
        self.assertRegex(text, r"(?m)^ *cluster .* software$")
        for row in rows:
            self.assertNotIn(row["software"], (None, ""))
        asked = self.good(*grid, "--for", "own")
        self.assertEqual(asked.count("Software: "), 1)
        self.assertNotRegex(asked, r"(?m)^ *cluster .* software$")

    def test_the_run_of_the_tokens_stands_in_each_row(self):
        grid = ("sweep", "--model", "gpt2-xl", "--cluster", "8xH100", "--over", "batch=64,512",
                "--simulations", "1", "--tokens", "10B")
        rows = self.good_json(*grid, "--price", "2")["rows"]
        for row in rows:
            self.assertAlmostEqual(row["days"] * 24 * row["gpus"], row["gpu_hours"])
            self.assertAlmostEqual(row["money"], 2 * row["gpu_hours"])
        self.assertRegex(self.good(*grid), r"^Fastest: batch=\d+, [0-9.]+ (h|days|min) on 8 GPUs")
        self.bad(BAD_INPUT, *grid[:-2], "--price", "2", says="--price: expected --tokens")

    def test_the_best_row_by_the_objective_stands_first_and_used_gpus_are_counted(self):
        grid = ("sweep", "--model", "gpt2-xl", "--over", "cluster=16xH100", "--simulations", "1",
                "--objective", "cheapest")
        row = self.good_json(*grid)["rows"][0]
        self.assertLess(row["gpus"], row["gpus_of_cluster"])
        text = self.good(*grid)
        self.assertRegex(text, r"^Cheapest: cluster=16xH100, [0-9.]+ GPU-hours a step")
        self.assertIn(f"{row['gpus']} of 16", text)

    def test_a_gpu_stands_for_its_nodes_where_an_axis_counts_them(self):
        grid = ("sweep", "gpt2-xl", "H100", "--simulations", "1", "--json", "--over")
        gpus = json.loads(self.good(*grid, "gpus=8,16"))["rows"]
        self.assertEqual([row["gpus_of_cluster"] for row in gpus], [8, 16])
        nodes = json.loads(self.good(*grid, "nodes=1,2"))["rows"]
        self.assertEqual([row["step_s"] for row in nodes], [row["step_s"] for row in gpus])
        result = self.zplan("sweep", *SMALL, "--over", "tp=3,5", "--simulations", "1")
        self.assertNotIn("tp 3", result.stderr)
        self.assertEqual(result.stdout.count("tp 3"), 1)

    def test_where_nothing_fits_the_exit_code_says_so(self):
        result = self.zplan("sweep", "--model", "1T", "--cluster", "dgx2", "--params", "gpu",
                            "--optimizer", "gpu", "--over", "tp=8,16", "--simulations", "1")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIn("0 of 2 questions fit", result.stdout)

    def test_an_interruption_leaves_what_there_is(self):
        nodes = ",".join(str(n) for n in range(1, 200))
        process = subprocess.Popen([PROGRAM, "sweep", *SMALL, "--over", f"nodes={nodes}", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = process.stderr.readline()
        self.assertRegex(first, r"^zplan: sweeping: 1 of 199: nodes=1: [0-9.]+ m?s a step\n$")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED)
        answer = json.loads(out)
        states = [row["state"] for row in answer["rows"]]
        self.assertEqual((len(states), states[0], states[-1]), (199, "fits", "not run"))
        self.assertRegex(answer["verdict"], r"^Interrupted after [0-9]+ of 199; so far: ")

    def test_bad_input_gets_one_line(self):
        self.bad(BAD_INPUT, "sweep", *SMALL, says="expected an axis")
        self.bad(BAD_INPUT, "sweep", *SMALL, "--over", "ndes=1..4", says='did you mean "nodes"?')
        self.bad(BAD_INPUT, "sweep", *SMALL, "--over", "nodes=4..1", says="such as nodes=1..64")
        self.bad(BAD_INPUT, "sweep", *SMALL, "--over", "json=1", says='unknown axis "json"')
        self.bad(BAD_INPUT, "sweep", *SMALL, "--over", "tp=two", says=["--tp", '"two"'])
        self.bad(BAD_INPUT, "sweep", *SMALL, "--over", "sp=maybe", says="expected yes or no")
        self.bad(BAD_INPUT, "sweep", *SMALL, "--over", "nvme=1..4", says="expected a rate with")
        self.bad(BAD_INPUT, "sweep", *SMALL, "--tp", "2", "--over", "tp=1,2",
                 says="--tp: given more than once")
        self.bad(BAD_INPUT, "sweep", *SMALL, "--set", "nvme=x2", "--over", "nvme=x1,x2",
                 says="nvme: given more than once")
        self.bad(BAD_INPUT, "sweep", "--over", "model=10B", says="expected --cluster")
        self.bad(BAD_INPUT, "sweep", "--cluster", "dgx2", "--over", "model=10B,10Z", says='"10Z"')
        self.bad(BAD_INPUT, "sweep", *SMALL, "--over", "nodes=1..4", "--csv", "--json",
                 says="--csv and --json")


class OtherHardware(CliTest):
    def test_set_is_what_a_file_with_that_value_says(self):
        self.zplan("plan", *OFFLOADED, "-o", "plan.json")
        as_is = self.good_json("simulate", "plan.json")
        slow = self.good_json("simulate", "plan.json", "--set", "nvme=2GB/s")
        self.assertGreater(slow["time"]["step_s"], 1.2 * as_is["time"]["step_s"])
        self.assertEqual(slow["fingerprint"], as_is["fingerprint"])
        with open(os.path.join(ROOT, "hwprofiles/catalogue/dgx2.json"), encoding="utf-8") as file:
            node = json.load(file)
        for value in ("drive_read", "drive_write"):
            node["nvme"][value]["value"] = "250 MB/s"
        self.write("slow.json", json.dumps(node))
        of_file = self.good_json("simulate", "plan.json", "--cluster", "./slow.json")
        self.assertEqual(slow["time"], of_file["time"])
        text = self.good("bandwidth", "plan.json", "--set", "nvme=2GB/s")
        self.assertIn("with nvme 2.00 GB/s", text)
        memory = self.good_json("memory", "plan.json", "--set", "gpu.memory=80GiB")["memory"]
        self.assertEqual(memory["gpu"]["capacity_bytes"], 80 * 2**30)

    def test_plan_says_what_was_changed_and_what_to_type_next(self):
        text = self.good("plan", *SMALL, "--set", "gpu.memory=40GiB", "--set", "nvme=x2", "--details")
        self.assertIn("with gpu.memory 40.00 GiB, nvme 51.2 GB/s", " ".join(text.split()))
        self.assertIn("gpu.memory 40.00 GiB in place of 31.75 GiB", text)
        self.assertIn("./zplan simulate plan.json --trace", text)  # which remembers
        answer = self.good_json("plan", "--model", "gpt2-1.5b", "--cluster", "dgx-h100", "--set",
                                "gpu.peak=x2")
        self.assertIn("follow the peak", answer["cluster"]["changes"][0]["in_place_of"])

    def test_names_stand_with_the_cluster(self):
        cluster = self.good_json("clusters", "dgx2x4")["clusters"][0]
        rows = {row["quantity"]: row["value"] for row in cluster["quantities"]}
        self.assertEqual((rows["nodes"], rows["nvme"], rows["gpu.memory"]), (4, 25.6e9, 34091302912))
        for name, value in rows.items():
            self.assertIn(name, self.good("clusters", "dgx2x4"))
            self.assertGreaterEqual(value, 0)

    def test_what_if_shows_both_plans_on_both(self):
        answer = self.good_json("what-if", *OFFLOADED, "--set", "nvme=2GB/s", "--set",
                                "gpu.memory=40GiB")
        as_is, changed = answer["crossings"]
        self.assertEqual(as_is["as_it_is"], answer["before"]["step_s"])
        self.assertEqual(changed["changed"], answer["after"]["step_s"])
        self.zplan("plan", *OFFLOADED, "-o", "plan.json")
        step = self.good_json("simulate", "plan.json", "--set", "nvme=2GB/s", "--set",
                              "gpu.memory=40GiB")["time"]["step_s"]
        self.assertEqual(as_is["changed"], step)
        self.assertRegex(answer["verdict"], r"^Slower by [0-9.]+ %: ")
        self.assertTrue(any(line.startswith("nvme: the busiest of its links works at")
                            for line in answer["why"]), answer["why"])
        alone = {row["quantity"]: row["step_s"] for row in answer["alone"]}
        self.assertGreater(alone["nvme"], 1.2 * alone["gpu.memory"])
        self.assertAlmostEqual(sum(row["before_s"] for row in answer["parts"]),
                               answer["before"]["step_s"], delta=1e-6)

    def test_what_if_of_what_nothing_waits_for(self):
        answer = self.good_json("what-if", *SMALL, "--optimizer", "gpu", "--params", "gpu",
                                "--set", "nvme=x2")
        self.assertRegex(answer["verdict"], r"^No gain: [0-9.]+ m?s a step, as before$")
        self.assertIn("nvme: nothing moves over it", answer["why"])
        self.assertIn("the best plan is the same", answer["why"])
        self.assertEqual(answer["decisions"], [])

    def test_a_gain_is_excluded_only_by_proof(self):
        answer = self.good_json("what-if", *OFFLOADED, "--set", "gpu.launch=x1.001")
        gap = answer["after"]["gap"]
        words = "No gain: " if gap <= 0.01 else "No gain found: "
        self.assertTrue(answer["verdict"].startswith(words), answer["verdict"])
        self.assertEqual("not excluded" in answer["verdict"], gap > 0.01)

    def test_what_if_of_what_fits_one_way_only(self):
        on_gpus = ("what-if", "--model", "10B", "--cluster", "dgx2", "--zero", "1", "--tp", "1",
                   "--pp", "1", "--params", "gpu", "--grads", "gpu", "--optimizer", "gpu")
        answer = self.good_json(*on_gpus, "--set", "gpu.memory=80GiB")
        self.assertRegex(answer["verdict"], r"^Fits with the change: .* a step; as it is .* needed")
        self.assertFalse(answer["before"]["feasible"])
        self.assertIsNone(answer["crossings"][0]["changed"])
        result = self.zplan(*on_gpus, "--set", "nvme=x2")
        self.assertEqual(result.returncode, INFEASIBLE)
        self.assertIn("Does not fit either way", result.stdout)

    def test_bad_input_gets_one_line(self):
        self.bad(BAD_INPUT, "what-if", *SMALL, says="expected a change")
        self.bad(BAD_INPUT, "what-if", *SMALL, "--set", "nvem=x2", says='did you mean "nvme"?')
        self.bad(BAD_INPUT, "what-if", "--set", "nvme=x2", says="expected --model and --cluster")
        self.bad(BAD_INPUT, "plan", *SMALL, "--set", "gpu.memory=1MiB", says="more than the reserve")
        self.bad(BAD_INPUT, "plan", *SMALL, "--set", "nvme=fast", says="or a factor such as x2")


if __name__ == "__main__":
    main()
