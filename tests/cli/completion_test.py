"""zplan completion: what the scripts offer, held beside the help of each subcommand."""

import re
import shutil
import subprocess
import unittest

from cli_support import BAD_INPUT, PROGRAM, CliTest, main

DRIVER = """
source {script}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _zplan
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


class Bash(CliTest):
    def setUp(self):
        super().setUp()
        self.write("script", self.good("completion", "bash"))

    def offers(self, *words):
        result = subprocess.run(["bash", "-c", DRIVER.format(script=self.path("script")), "bash",
                                 *words], capture_output=True, text=True, check=True)
        self.assertEqual(result.stderr, "")
        return result.stdout.split()

    def test_offers_all_subcommands_and_their_options(self):
        names = self.subcommands()
        self.assertGreater(len(names), 12)
        self.assertEqual(sorted(self.offers("zplan", "")), sorted(names))
        for name in names:
            shown = self.options(name)
            self.assertGreater(len(shown), 0, name)
            offered = self.offers("zplan", name, "--")
            self.assertEqual(sorted(offered), sorted(shown), name)
        self.assertEqual(self.offers("./zplan", "pl"), ["plan"])
        # Without a subcommand the options are those of plan.
        self.assertIn("--global-batch", self.offers("zplan", "--"))

    def test_offers_the_words_of_enumerated_options(self):
        text = self.good("plan", "--help") + self.good("help", "pins")
        listed = re.findall(r"(--[a-z0-9-]+) ([a-z0-9_.-]+(?:\|[a-zA-Z0-9_.:-]+)+)", text)
        self.assertGreater(len(listed), 10)
        for option, words in listed:
            known = [w for w in words.split("|") if not re.search("[A-Z]", w)]
            self.assertEqual(self.offers("zplan", "plan", option, ""), known, option)
        self.assertEqual(self.offers("zplan", "plan", "--launch", "gr"), ["graph"])
        self.assertEqual(self.offers("zplan", "plan", "--launch", "="), ["stream", "graph"])
        self.assertEqual(self.offers("zplan", "plan", "--launch", "=", "gr"), ["graph"])
        self.assertEqual(self.offers("zplan", "completion", ""), ["bash", "zsh", "fish"])

    def test_offers_names_of_the_catalogues(self):
        self.assertIn("llama3-70b", self.offers("zplan", "plan", "--model", "llama"))
        self.assertIn("1T", self.offers("zplan", "-m", ""))
        self.assertEqual(sorted(self.offers("zplan", "simulate", "plan.json", "-c", "dgx-h")),
                         ["dgx-h100", "dgx-h100x1024-2to1", "dgx-h100x64-dragonfly",
                          "dgx-h100x64-torus", "dgx-h100x64-weak", "dgx-h200"])
        self.assertIn("megatron2022", self.offers("zplan", "plan", "--for", "mega"))
        self.assertIn("cuda.sm90.bf16", self.offers("zplan", "plan", "--kernel-set", "cuda.sm90"))
        self.assertIn("nvme.read=", self.offers("zplan", "what-if", "--set", "nv"))
        axes = self.offers("zplan", "sweep", "--over", "")
        self.assertTrue({"model=", "nodes=", "global-batch=", "tp=", "zero=", "nvme="} <= set(axes))
        self.assertIn("gpt3-175b", self.offers("zplan", "models", "gpt3"))
        self.assertIn("dgx2", self.offers("zplan", "clusters", "dgx"))

    def test_numbers_and_files_are_left_alone(self):
        self.assertEqual(self.offers("zplan", "plan", "--tp", ""), [])
        self.assertEqual(self.offers("zplan", "plan", "-o", ""), [])
        self.assertEqual(self.offers("zplan", "simulate", ""), [])

    def test_an_unknown_shell_gets_one_line(self):
        self.bad(BAD_INPUT, "completion", "basch", says='did you mean "bash"?')
        self.bad(BAD_INPUT, "completion", says="bash or zsh or fish")


class OtherShells(CliTest):
    @unittest.skipUnless(shutil.which("zsh"), "no zsh")
    def test_zsh_reads_it(self):
        self.write("_zplan", self.good("completion", "zsh"))
        subprocess.run(["zsh", "-n", self.path("_zplan")], check=True)

    @unittest.skipUnless(shutil.which("fish"), "no fish")
    def test_fish_offers_the_same(self):
        script = self.write("zplan.fish", self.good("completion", "fish"))

        def offers(line):
            result = subprocess.run(["fish", "--no-config", "-c",
                                     f"source {self.path(script)}; complete -C {line!r}"],
                                    capture_output=True, text=True, check=True)
            return [row.split("\t")[0] for row in result.stdout.splitlines()]

        self.assertEqual(sorted(offers("zplan plan --launch ")), ["graph", "stream"])
        self.assertIn("--global-batch", offers("zplan plan --gl"))
        self.assertIn("simulate", offers("zplan sim"))
        self.assertIn("llama3-70b", offers("zplan plan --model llama3"))


if __name__ == "__main__":
    main()
