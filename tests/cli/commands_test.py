"""All subcommands: each has help with examples that work as they stand, and JSON with a schema."""

import json
import os
import re
import shutil
import subprocess

from cli_support import EVERYTHING, OK, PROGRAM, ROOT, CliTest, main

# What the examples speak of: made by commands, or copied from the sources.
MADE = (
    ("plan", "--model", "tiny-gpt", "--cluster", "workstation", "-o", "plan.json"),
    ("plan", "--model", "tiny-gpt", "--cluster", "workstation", "--zero", "1", "-o", "other.json"),
    ("simulate", "plan.json", "--timeline", "sim.json"),
    ("run", "plan.json", "--steps", "2", "--timeline", "exec.json"),
    ("run", "plan.json", "--steps", "0", "--export", "my-llama"),  # of another family
)
COPIED = {
    "my-model.json": "models/catalogue/tiny-gpt.json",
    "my-node.json": "hwprofiles/catalogue/dgx2.json",
    "book.txt": "tests/data/text.txt",
    "all_reduce.txt": "tests/data/measured/nccl_all_reduce_2x8_h100.txt",
    "fio.json": "tests/data/measured/fio_five_jobs.json",
    "ds_config.json": "tests/data/foreign/ds_config.json",
    "pretrain.sh": "tests/data/foreign/pretrain.sh",
}
RUNS = "tests/data/published_runs.jsonl"

# Of examples that do not run here; each must occur.
ELSEWHERE = {
    "torchrun ": "a launcher",
    "srun ": "a launcher",
    "--device cuda": "a GPU",
    "source <(": "changes the shell: tests/cli/completion_test.py",
    "~/": "writes into the user's home",
    "/mnt/nvme": "a drive",
    "--model 1T": "seconds: tests/cli/answers_test.py asks it",
}

# Commands that ask the search where they are given a model.
SEARCHES = "plan|memory|bandwidth|sweep|sensitivity|what-if|explain|why-not"

# A quick call of each subcommand that prints a result.
CALLS = {
    "plan": ("plan", "--model", "tiny-gpt", "--cluster", "workstation"),
    "simulate": ("simulate", "plan.json"),
    "memory": ("memory", "plan.json"),
    "bandwidth": ("bandwidth", "plan.json"),
    "run": ("run", "plan.json", "--steps", "2"),
    "compare": ("compare", "sim.json", "exec.json"),
    "validate": ("validate", "runs.jsonl"),
    "models": ("models", "gpt3"),
    "clusters": ("clusters", "dgx2"),
    "software": ("software",),
    "doctor": ("doctor",),
    "calibrate": ("calibrate", "--import", "fio.json", "--base", "dgx2"),
    "sweep": ("sweep", "--model", "tiny-gpt", "--cluster", "workstation", "--over", "dp=1,2"),
    "sensitivity": ("sensitivity", "plan.json"),
    "diff": ("diff", "plan.json", "other.json"),
    "export": ("export", "plan.json", "--to", "deepspeed"),
    "check": ("check", "ds_config.json", "--model", "llama3-8b", "--cluster", "dgx-h100",
              "--recompute", "full"),
    "what-if": ("what-if", "--model", "tiny-gpt", "--cluster", "workstation", "--set",
                "cpu.bandwidth=x2"),
    "max": ("max", "--cluster", "workstation", "--no-times"),
    "goodput": ("goodput", "plan.json", "--tokens", "1B"),
    "need": ("need", "--model", "tiny-gpt", "--cluster", "workstation", "--tokens", "1M"),
    "explain": ("explain", "plan.json", "time.mfu"),
    "why-not": ("why-not", "--model", "tiny-gpt", "--cluster", "workstation", "--zero", "3"),
}
# What they print is a file format or a script.
WITHOUT_JSON = {"lower", "completion", "manual", "schema", "report", "runs"}


def examples(text):
    """The lines behind "Examples:", without remarks in parentheses."""
    block = []
    for line in text[text.index("\nExamples:\n"):].split("\n")[2:]:
        if not line.startswith("  "):
            break
        block.append(re.sub(r"   \(.*\)$", "", line).strip())
    return block


def shortened(line):
    """`tests/run --all` runs examples as they stand; tests/run takes fewer steps of training and
    models of fewer layers, and its searches end with the first plan that they simulate."""
    if EVERYTHING:
        return line
    line = re.sub("--steps 100+ ", "--steps 20 ", line)
    line = line.replace("--model 10B ", "--model 1.5B ")
    line = line.replace("llama3-70b --cluster dgx-h100x16", "llama3-8b --cluster dgx-h100")
    return re.sub(rf"(zplan (?:{SEARCHES}) )(?=.*--model )", r"\1--simulations 1 ", line)


class Commands(CliTest):
    def setUp(self):
        super().setUp()
        os.symlink(PROGRAM, self.path("zplan"))
        for command in MADE:
            self.assertEqual(self.zplan(*command).returncode, OK, command)
        for name, source in COPIED.items():
            shutil.copy(os.path.join(ROOT, source), self.path(name))
        with open(os.path.join(ROOT, RUNS), encoding="utf-8") as file:
            lines = file.readlines()
        of_group = [line for line in lines if '"vtrain_multi"' in line]
        self.write("runs.jsonl", "".join(lines[:2] + of_group[:3]))
        self.names = self.subcommands()
        self.assertGreater(len(self.names), 12)

    def test_examples_work(self):
        found = examples(self.good("--help"))
        for page in ("pins", "kernel-sets", "all"):
            found += examples(self.good("help", page))
        for name in self.names:
            lines = examples(self.good(name, "--help"))
            self.assertTrue(any(f"zplan {name} " in line or line.endswith(f"zplan {name}")
                                for line in lines), name)
            found += lines
        skipped = {word for word in ELSEWHERE if any(word in line for line in found)}
        self.assertEqual(skipped, set(ELSEWHERE))
        done = set()
        for line in found:
            same = line.replace("zplan --", "zplan plan --")  # "plan" may be left out
            if any(word in line for word in ELSEWHERE) or (same in done and " -o " not in same):
                continue
            done.add(same)
            with self.subTest(line=line):
                short = shortened(line.replace("| less", "> /dev/null"))
                result = subprocess.run(
                    ["bash", "-o", "pipefail", "-c", short],
                    cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                    check=False)
                self.assertEqual(result.returncode, OK, result.stderr)

    def test_results_are_json_with_the_schema_that_the_help_names(self):
        self.assertEqual(set(self.names), set(CALLS) | WITHOUT_JSON)
        for name, call in CALLS.items():
            tags = re.findall(r"zplan\.[a-z_]+/[0-9]+",
                              re.search(r"--json +(Print JSON +\([^)]*\))",
                                        self.good(name, "--help").replace("\n", " ")).group(1))
            with self.subTest(name=name):
                result = self.zplan(*call, "--json")
                self.assertEqual(result.returncode, OK, result.stderr)
                answer = json.loads(result.stdout)
                self.assertIn(answer["schema"], tags)
                self.assertEqual(list(answer)[0], "schema")
        for name in WITHOUT_JSON:
            self.assertNotRegex(self.good(name, "--help"), r"(?m)^  --json")


if __name__ == "__main__":
    main()
