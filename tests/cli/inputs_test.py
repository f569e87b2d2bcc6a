"""What is no file to read: devices, pipes that nobody writes, folders, links that lead nowhere. Each
is one line at once; pipes with a writer are read.
"""

import json
import os
import socket
import subprocess

from cli_support import BAD_INPUT, PROGRAM, ROOT, TIMEOUT_S, CliTest, main

TINY = ("plan", "--model", "tiny-gpt", "--cluster", "workstation")


class Inputs(CliTest):
    def setUp(self):
        super().setUp()
        self.tiny_plan()

    def readers(self, path):
        """A call of each command that reads a file, with this one, in the folder of the test."""
        model = os.path.join(ROOT, "models/catalogue/tiny-gpt.json")
        return (
            ("simulate", path),
            ("run", path),
            ("lower", path),
            ("memory", path),
            ("check", path, "--cluster", "dgx-h100"),
            ("validate", path),
            ("compare", path, path),
            ("explain", path, "step"),
            ("report", path, "-o", "page.html"),
            ("plan", "--model", "./" + path, "--cluster", "dgx2"),
            ("plan", "--model", model, "--cluster", "./" + path),
            (*TINY, "--schedule", path),
            ("run", "plan.json", "--train", path),
            ("run", "plan.json", "--data", path),
            ("run", "plan.json", "--validate", path),
            ("calibrate", "--base", "dgx-h100", "--import", path),
        )

    def refused(self, path, says):
        for call in self.readers(path):
            with self.subTest(call=call):
                self.bad(BAD_INPUT, *call, says=says)

    def test_devices_have_no_end(self):
        os.symlink("/dev/zero", self.path("zero.json"))
        self.refused("zero.json", "zero.json: expected a file, got a device")

    def test_a_pipe_that_nobody_writes_is_not_waited_for(self):
        os.mkfifo(self.path("pipe.json"))
        self.refused("pipe.json", "pipe.json: expected a file, got a pipe")

    def test_sockets_and_folders(self):
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(self.path("socket.json"))
            self.refused("socket.json", "socket.json: expected a file, got a socket")
        os.mkdir(self.path("folder.json"))
        self.bad(BAD_INPUT, "run", "plan.json", "--data", "folder.json",
                 says="folder.json: expected a file, got a directory")

    def test_links_that_lead_to_themselves_cannot_be_read(self):
        os.symlink("loop.json", self.path("loop.json"))
        self.refused("loop.json", "cannot read the file: Too many levels of symbolic links")
        self.bad(BAD_INPUT, *TINY, "-o", "loop.json", says="cannot be written: Too many levels")

    def shell(self, command):
        result = subprocess.run(["bash", "-c", command], cwd=self.folder, capture_output=True,
                                env={**os.environ, "ZPLAN": PROGRAM}, text=True, timeout=TIMEOUT_S,
                                stdin=subprocess.DEVNULL, check=False)
        return result

    def test_a_pipe_with_a_writer_is_read_to_its_end(self):
        expected = self.good("simulate", "plan.json")
        for command in ('"$ZPLAN" simulate <(cat plan.json)',
                        'cat plan.json | "$ZPLAN" simulate /dev/stdin',
                        '(head -c 9 plan.json; sleep 0.3; tail -c +10 plan.json) | "$ZPLAN" simulate '
                        "/dev/stdin",
                        '"$ZPLAN" simulate /dev/stdin < plan.json'):
            result = self.shell(command)
            self.assertEqual((result.returncode, result.stdout), (0, expected),
                             (command, result.stderr))

    def test_a_pipe_without_end_is_read_up_to_a_bound(self):
        result = self.shell('yes | "$ZPLAN" simulate /dev/stdin')
        self.assertEqual(result.returncode, BAD_INPUT)
        self.one_line(result.stderr, "expected a pipe of up to 256 MiB, this one is larger")

    def test_data_and_weights_are_files(self):
        result = self.shell('"$ZPLAN" run plan.json --data <(yes)')
        self.assertEqual(result.returncode, BAD_INPUT)
        self.one_line(result.stderr, "expected a file, got a pipe")
        self.good("run", "plan.json", "--steps", "1", "--export", "weights")
        os.remove(self.path("weights/model.safetensors"))
        for make in (os.mkfifo, lambda path: os.symlink("/dev/zero", path)):
            make(self.path("weights/model.safetensors"))
            self.bad(BAD_INPUT, "run", "plan.json", "--weights", "weights",
                     says="model.safetensors: expected a file, got a")
            os.remove(self.path("weights/model.safetensors"))


class Names(CliTest):
    def test_a_file_in_place_of_a_folder(self):
        self.tiny_plan()
        self.write("file", "something")
        os.symlink("loop", self.path("loop"))
        for option in ("--save", "--export"):
            for name, says in (("file", "expected"), ("file/x", "Not a directory"),
                               ("nowhere/x", "No such file or directory"),
                               ("loop/x", "Too many levels of symbolic links")):
                self.bad(BAD_INPUT, "run", "plan.json", option, name, says=[name, says])
        self.bad(BAD_INPUT, "run", "plan.json", "--save", "file", "--resume",
                 says="file: Not a directory, expected a folder")
        self.assertEqual(self.read("file"), "something")

    def test_characters_that_turn_others_round_are_escaped(self):
        self.tiny_plan()
        turned = "\u202egpj.exe\u2066"
        self.bad(BAD_INPUT, "simulate", turned, says="\\u202egpj.exe\\u2066: ")
        self.bad(BAD_INPUT, "--model", turned, "--cluster", "dgx2", says='"\\u202egpj.exe\\u2066"')
        self.bad(BAD_INPUT, "run", "plan.json", "--data", "\u200fx", says="\\u200fx")
        model = self.read(os.path.join(ROOT, "models/catalogue/tiny-gpt.json"))
        self.write("model.json", model.replace('"tiny-gpt"', '"tiny\u202egpt"'))
        text = self.good("plan", "--model", "./model.json", "--cluster", "workstation")
        self.assertIn("tiny\\u202egpt", text)
        self.assertNotIn("\u202e", text)

    def test_json_escapes_them_too_and_reads_as_the_same_names(self):
        model = self.read(os.path.join(ROOT, "models/catalogue/tiny-gpt.json"))
        name = "tiny\u202egpt\u2066\U000e0041\u00e9"
        self.write("model.json", model.replace('"tiny-gpt"', f'"{name}"'))
        self.write(name + ".json", model)
        question = ("--model", "./model.json", "--cluster", "workstation")
        text = self.good("plan", *question, "--json")
        self.assertTrue(text.isascii())
        self.assertEqual(json.loads(text)["model"]["name"], name)
        self.good("plan", "--model", f"./{name}.json", "--cluster", "workstation", "-o", "plan.json")
        text = self.read("plan.json")
        self.assertTrue(text.isascii())
        self.assertEqual(json.loads(text)["model"], f"./{name}.json")
        self.good("simulate", "plan.json")  # the name still finds the file


if __name__ == "__main__":
    main()
