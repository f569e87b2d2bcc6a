#!/usr/bin/env python3
"""Trains two steps with exported files, as they are, in the frameworks themselves, on the CPU.

  run_exported.py ZPLAN [--save FILE] [--only TARGET]

Small plans of the catalogue's tiny models are exported with ZPLAN (the program), and each launch.sh
is run on two ranks over gloo. Demanded are a finite loss of both steps and as many parameters as
`zplan models` says. With --save what ran is written to FILE, with the versions; exit code 1 where
something failed, 77 where a framework is absent.

Accelerate, and the Trainer with it, takes FSDP on accelerators only; ON_CPU below lets it do so on
the CPU. Nothing else is changed. Needs deepspeed, accelerate, transformers and torch in the Python
that runs this.
"""

import argparse
import importlib.metadata
import json
import math
import os
import re
import socket
import subprocess
import sys
import tempfile

SKIPPED = 77
PACKAGES = ("torch", "transformers", "accelerate", "deepspeed")
RANKS, STEPS = 2, 2
LONGEST = 900  # seconds

# A target, a model and what is decided of the plan.
CASES = (
    ("deepspeed", "tiny-gpt", ("--zero", "0", "--optimizer", "gpu")),
    ("deepspeed", "tiny-llama", ("--zero", "2", "--optimizer", "cpu")),
    ("deepspeed", "tiny-llama", ("--zero", "3", "--optimizer", "gpu", "--recompute", "full")),
    ("accelerate", "tiny-gpt", ("--zero", "0", "--optimizer", "gpu")),
    ("accelerate", "tiny-neox", ("--zero", "2", "--optimizer", "gpu")),
    ("accelerate", "tiny-llama", ("--zero", "3", "--optimizer", "gpu", "--recompute", "full")),
    ("accelerate", "tiny-moe", ("--zero", "3", "--optimizer", "gpu")),
    ("hf", "tiny-t5", ("--zero", "0", "--optimizer", "gpu")),
    ("hf", "tiny-gpt", ("--zero", "1", "--optimizer", "gpu")),
    ("hf", "tiny-llama", ("--zero", "3", "--optimizer", "gpu", "--recompute", "full")),
    ("fsdp", "tiny-gpt", ("--zero", "0", "--optimizer", "gpu")),
    ("fsdp", "tiny-gemma", ("--zero", "2", "--optimizer", "gpu")),
    ("fsdp", "tiny-llama", ("--zero", "3", "--optimizer", "gpu", "--recompute", "full")),
)

ON_CPU = '''
import accelerate.state as state

made = state.AcceleratorState.__init__


def on_cpu(self, *arguments, **named):
    made(self, *arguments, **named)
    plugin = named.get("fsdp_plugin")
    if plugin is None or self.distributed_type != state.DistributedType.MULTI_CPU:
        return
    self.distributed_type = state.DistributedType.FSDP
    if self._mixed_precision != "no":
        plugin.set_mixed_precision(self._mixed_precision)
    self.fsdp_plugin = plugin
    state.PartialState._shared_state["distributed_type"] = self.distributed_type


state.AcceleratorState.__init__ = on_cpu
'''


def versions():
    """Of what is installed; None where something is not."""
    try:
        return {name: importlib.metadata.version(name) for name in PACKAGES}
    except importlib.metadata.PackageNotFoundError as error:
        print(f"skipped: {error.name} is not installed")
        return None


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(folder):
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(ON_CPU)
    return os.environ | {
        "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
        "PYTHONPATH": folder, "CUDA_VISIBLE_DEVICES": "", "DS_ACCELERATOR": "cpu",
        "ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1",
        "MASTER_PORT": str(free_port())}


def export(zplan, folder, case):
    target, model, decided = case
    plan = os.path.join(folder, "plan.json")
    subprocess.run([zplan, "plan", "--model", model, "--cluster", "dgx-h100", "--dp", str(RANKS),
                    "--tp", "1", "--pp", "1", "--micro-batch", "2", "--global-batch", "8",
                    *decided, "-o", plan], check=True, capture_output=True)
    subprocess.run([zplan, "export", plan, "--to", target, "-o", os.path.join(folder, "out")],
                   check=True, capture_output=True)


def parameters(zplan, model):
    text = subprocess.run([zplan, "models", model, "--json"], check=True, capture_output=True).stdout
    return json.loads(text)["models"][0]["parameters"]


def losses(text):
    """Of the steps, as a script prints them or as the Trainer does."""
    return [float(found) for found in
            re.findall(r"^step \d+ loss (\S+)", text, re.M) or re.findall(r"'loss': '?([^',]+)", text)]


def run(zplan, case):
    target, model, decided = case
    with tempfile.TemporaryDirectory() as folder:
        export(zplan, folder, case)
        result = subprocess.run(
            ["bash", os.path.join(folder, "out", "launch.sh"), "--steps", str(STEPS)],
            env=environment(folder), capture_output=True, text=True, timeout=LONGEST,
            check=False)
    text = result.stdout + result.stderr
    found = losses(text)
    counted = re.search(r"^parameters (\d+)", text, re.M)
    count = int(counted.group(1)) if counted else 0
    good = result.returncode == 0 and len(found) == STEPS and all(map(math.isfinite, found)) \
        and count == parameters(zplan, model)
    print(f"{target} {model} {' '.join(decided)}: {'ran' if good else 'FAILED'}, {count} parameters, "
          f"losses {found}", flush=True)
    if not good:
        print(text[-4000:], flush=True)
    return good, {"target": target, "model": model, "decided": " ".join(decided),
                  "parameters": count, "losses": found}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("zplan")
    parser.add_argument("--save")
    parser.add_argument("--only", help="a target, or target:model")
    arguments = parser.parse_args()
    found = versions()
    if found is None:
        return SKIPPED
    cases = [case for case in CASES
             if arguments.only in (None, case[0], f"{case[0]}:{case[1]}")]
    runs = [run(os.path.abspath(arguments.zplan), case) for case in cases]
    if arguments.save:
        with open(arguments.save, "w", encoding="utf-8") as file:
            json.dump({"versions": found, "ranks": RANKS, "runs": [each for _, each in runs]}, file,
                      indent=1)
            file.write("\n")
    return 0 if all(good for good, _ in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
