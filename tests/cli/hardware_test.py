"""Hardware that no file describes, files that say little, and the catalogue, as a user meets them."""

import json

from cli_support import BAD_INPUT, INFEASIBLE, OK, CliTest, main

TINY = ("--model", "tiny-gpt", "--cluster")
QUICK = ("--simulations", "1", "--threads", "1")


class Hardware(CliTest):
    def test_every_cluster_of_the_catalogue_answers(self):
        kinds = self.good_json("clusters")["clusters"]
        self.assertGreater(len(kinds), 25)
        for kind in kinds:
            if kind["devices"] > 1000:
                continue
            result = self.zplan("plan", "--model", "llama3-8b", "--cluster", kind["name"], *QUICK,
                                "--json")
            self.assertIn(result.returncode, (OK, INFEASIBLE), (kind["name"], result.stderr))
            answer = json.loads(result.stdout)
            self.assertEqual(answer["cluster"]["name"], kind["name"])
            if kind["name"] != "workstation":
                self.assertEqual(result.returncode, OK, (kind["name"], result.stderr))

    def test_what_half_of_the_nodes_can_send_to_the_others_is_said(self):
        text = self.good("clusters", "dgx-h100x64-torus")
        self.assertRegex(text, r"\nThe first 32 nodes can send 1\.60 TB/s to the others; their ports send 1\d\.\d TB/s\.\n")
        self.assertNotIn("can send", self.good("clusters", "dgx-h100x64"))

    def test_a_kind_that_nobody_measured_says_so(self):
        text = self.good("plan", "--model", "llama3-8b", "--cluster", "mi300x", *QUICK, "--details")
        self.assertIn("no run of own", text.replace("\n", " "))

    def test_a_set_for_no_backend_is_planned_and_not_run(self):
        self.good(*("plan", *TINY, "mi300x", *QUICK, "-o", "p.json"))
        self.assertIn("rocm.gfx942.bf16", self.read("p.json"))
        self.bad(BAD_INPUT, "run", "p.json", says="for planning")
        self.bad(BAD_INPUT, "plan", *TINY, "mi300x", "--kernel-set", "cuda.sm90.bf16",
                 says="expected rocm.gfx942.bf16")

    def test_a_plan_remembers_how_its_hardware_was_varied(self):
        changes = ("--set", "device.memory=40GiB", "--set", "nic=200Gbit/s", "--gpus-per-node", "4",
                   "--set", "fabric.oversubscription=4")
        asked = self.good_json("plan", "--model", "gpt2", "--cluster", "dgx-h100x2", *QUICK, *changes,
                               "-o", "p.json")
        name = ("dgx-h100x2{gpu.memory=40GiB,network=200Gbit/s,network.oversubscription=4,"
                "gpus_per_node=4}")
        self.assertEqual(json.loads(self.read("p.json"))["hardware"], name)
        self.assertEqual(asked["cluster"]["name"], name)
        simulated = self.good_json("simulate", "p.json")
        self.assertEqual(simulated["cluster"], name)
        self.assertEqual(simulated["time"]["step_s"], asked["time"]["step_s"])
        self.assertEqual(simulated["fingerprint"], asked["fingerprint"])
        elsewhere = self.good_json("simulate", "p.json", "--cluster", "dgx-h100")
        self.assertEqual(elsewhere["fingerprint"], asked["fingerprint"], "hardware decides nothing")
        slower = self.good_json("simulate", "p.json", "--set", "gpu.peak=x0.5")
        self.assertGreater(slower["time"]["step_s"], asked["time"]["step_s"])
        self.assertIn(name[:-1] + ",gpu.peak=x0.5}", slower["cluster"])
        alone = self.good_json("simulate", "p.json", "--cluster", "{gpu.peak=x0.5}")
        self.assertEqual(alone["time"], slower["time"])

    def test_of_a_file_the_plan_remembers_path_and_settings(self):
        self.write("n.json", '{"schema": "zplan.hw/1", "name": "n", "base": "dgx2"}')
        self.good("plan", *TINY, "n.jsonx2", "--set", "nvme=x2", *QUICK, "-o", "p.json")
        self.assertEqual(json.loads(self.read("p.json"))["hardware"], "n.jsonx2{nvme=x2}")
        self.assertEqual(self.good_json("simulate", "p.json")["cluster"], "nx2{nvme=x2}")

    def test_commands_that_take_a_cluster_take_changes(self):
        self.good("plan", *TINY, "workstation", "-o", "p.json", *QUICK)
        for call in (("clusters", "dgx2x4"), ("diff", "p.json", "p.json"), ("memory", "p.json"),
                     ("goodput", "p.json", "--tokens", "1M"),
                     ("max", "--cluster", "dgx2", "--family", "zero-2", "--no-times"),
                     ("need", "--model", "tiny-gpt", "--tokens", "1M", "--cluster", "dgx2")):
            result = self.zplan(*call, "--set", "nvme=x0.5")
            self.assertEqual(result.returncode, OK, (call, result.stderr))

    def test_settings_that_cannot_be_are_one_line(self):
        for change, says in (("device.memroy=1GiB", 'did you mean "gpu.memory"'),
                             ("gpu.memory=40", "expected a size with a unit"),
                             ("gpu.memory=1MiB", "more than the reserve of the device"),
                             ("gpus_per_node=0", "a whole number from 1"),
                             ("gpus_per_node=1.5", "a whole number from 1"),
                             ("fabric.oversubscription=0.5", "a number from 1"),
                             ("nodes=1000000", "at most 100,000")):
            self.bad(BAD_INPUT, "plan", *TINY, "dgx2x2", "--set", change, says=says)
        self.bad(BAD_INPUT, "plan", *TINY, "rtx4090-12ssd", "--set", "network=x2", says="has none")
        self.bad(BAD_INPUT, "plan", *TINY, "dgx2", "--gpus-per-node", "4", "--gpus-per-node", "2",
                 says="given more than once")
        self.bad(BAD_INPUT, "plan", *TINY, "dgx2{nvme=x2", says="settings in braces")
        self.bad(BAD_INPUT, "clusters", "--set", "nvme=x2", says="expected a cluster")

    def test_templates_are_files_to_edit(self):
        self.write("node.json", self.good("clusters", "dgx-h100", "--template"))
        self.assertEqual(self.good("clusters", "node.json"), self.good("clusters", "dgx-h100"))
        self.write("m.json", self.good("models", "llama3-8b", "--template"))
        self.assertEqual(self.good("models", "m.json"), self.good("models", "llama3-8b"))
        self.bad(BAD_INPUT, "models", "--template", says="expected a NAME")
        self.bad(BAD_INPUT, "models", "gpt2", "--template", "--json", says="no --json")
        self.bad(BAD_INPUT, "clusters", "dgx2", "--template", "--set", "nvme=x2", says="no settings")

    def test_a_file_of_a_few_lines_is_enough(self):
        self.write("box.json", json.dumps({
            "schema": "zplan.hw/1", "name": "box", "base": "rtx4090-workstation",
            "host": {"memory": "128 GB"}, "nvme": {"drive_read": "3 GB/s", "drive_write": "3 GB/s"},
            "topology": {"links": {"nic": {"capacity": "25 Gbit/s"}}}}))
        answer = self.good_json("plan", "--model", "llama3-8b", "--cluster", "box.jsonx3", *QUICK)
        self.assertEqual(answer["cluster"]["devices"], 12)
        self.assertIn("stated in the file", self.good("clusters", "box.json"))

    def test_all_that_a_file_lacks_is_said_at_once(self):
        self.write("m.json", '{"schema": "zplan.model/1", "hiden": 8}')
        self.bad(BAD_INPUT, "models", "m.json",
                 says=('expected key "hidden", got "hiden" instead', '"layers", "heads", "vocab"'))
        self.write("n.json", '{"schema": "zplan.hw/1", "name": "n", "device": {}, "hots": {}}')
        self.bad(BAD_INPUT, "clusters", "n.json",
                 says=('/: expected key "host", got "hots" instead', '/device: expected keys "name"'))

    def test_a_size_is_a_model_by_a_stated_rule(self):
        answer = self.good_json("models", "12B")["models"][0]
        self.assertAlmostEqual(answer["parameters"] / 12e9, 1, delta=0.02)
        self.assertIn("by the rule", answer["source"])
        self.good("plan", "--model", "2B", "--cluster", "dgx-h100", *QUICK, "-o", "p.json")
        self.good("simulate", "p.json")
        self.bad(BAD_INPUT, "models", "3M", says="expected a size from")


if __name__ == "__main__":
    main()
