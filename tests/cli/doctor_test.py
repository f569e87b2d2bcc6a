"""zplan doctor on whatever machine this is: every item is named, what is missing comes with advice."""

import os

from cli_support import BAD_INPUT, CliTest, main

ITEMS = [
    "NVIDIA driver", "CUDA toolkit", "CUDA plug-in", "cuBLASLt", "cuDNN", "NCCL", "CPU cores",
    "CPU memory", "Memory lock limit", "Huge pages", "Launcher", "io_uring", "NVMe folder",
]


class Doctor(CliTest):
    def findings(self, *arguments):
        answer = self.good_json("doctor", *arguments)
        self.assertEqual(answer["schema"], "zplan.doctor/1")
        return {f["item"]: f for f in answer["findings"]}

    def test_names_every_item_once_with_its_use(self):
        found = self.findings()
        for item in ITEMS:
            self.assertIn(item, found)
        self.assertTrue(any(item.startswith("GPU") for item in found))
        for f in found.values():
            self.assertIn(f["presence"], ("yes", "partly", "no"))
            self.assertTrue(f["found"] and f["needed_for"], f)
            self.assertTrue(f["advice"] or f["presence"] == "yes", f)

    def test_table_has_a_line_per_item_and_tells_what_to_do(self):
        text = self.good("doctor")
        table, _, advice = text.partition("\n\n")
        lines = table.split("\n")[1:]
        for item, f in self.findings().items():
            own = [line for line in lines if line.startswith(item + " ")]
            self.assertEqual(len(own), 1, item)
            self.assertIn(f" {f['presence']} ", own[0])
            self.assertEqual(f"  {item}: " in advice, f["advice"] != "", item)

    def test_tries_the_folder_and_leaves_nothing_there(self):
        os.mkdir(self.path("drive"))
        folder = self.findings("--nvme-dir", "drive")["NVMe folder"]
        self.assertIn(folder["presence"], ("yes", "partly"))
        self.assertRegex(folder["found"], r"^drive: .* free, \w+, O_DIRECT (works|is refused)$")
        self.assertEqual(os.listdir(self.path("drive")), [])

    def test_a_folder_that_is_not_there_is_a_finding(self):
        folder = self.findings("--nvme-dir", "nowhere")["NVMe folder"]
        self.assertEqual(folder["presence"], "no")
        self.assertIn("No such file or directory", folder["found"])

    def test_launchers_are_looked_for_in_path(self):
        self.write("srun", "#!/bin/sh\n")
        os.chmod(self.path("srun"), 0o755)
        self.addCleanup(os.environ.__setitem__, "PATH", os.environ["PATH"])
        os.environ["PATH"] = self.folder
        launcher = self.findings()["Launcher"]
        self.assertEqual((launcher["presence"], launcher["found"]), ("yes", self.path("srun")))
        os.environ["PATH"] = "/nowhere"
        self.assertEqual(self.findings()["Launcher"]["presence"], "no")

    def test_a_plug_in_that_is_named_is_said_by_its_path(self):
        self.addCleanup(os.environ.pop, "ZPLAN_CUDA_PLUGIN")
        os.environ["ZPLAN_CUDA_PLUGIN"] = "/nowhere/libzplan_cuda.so"
        self.assertEqual(self.findings()["CUDA plug-in"]["found"],
                         "/nowhere/libzplan_cuda.so does not exist")

    def test_unknown_options_are_refused(self):
        self.bad(BAD_INPUT, "doctor", "--nvme", "x", says="--nvme-dir")


if __name__ == "__main__":
    main()
