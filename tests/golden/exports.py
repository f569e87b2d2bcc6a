#!/usr/bin/env python3
"""Exports of answers to every framework, each read back: what is written is what was answered.

  tests/golden/exports.py [--report] [--program PATH] [--targets T,T] [--questions N,N]

Asks each question of QUESTIONS for each framework of TARGETS: `zplan export --to T QUESTION -o DIR`
searches for a plan that T can run and writes T's files; the command that it prints checks them. A
row is `ok` if the files start, fit, lose no decision, and memory and step are within WITHIN of the
answer's. `declined` means that nothing was written and one line names what T lacks; declines because
T does not have the model are counted apart. --report also writes reports/exports.json.
"""

import argparse
import collections
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, write_report  # noqa: E402

TARGETS = ("deepspeed", "megatron", "megatron-bridge", "torchtitan", "accelerate", "hf", "fsdp")
WITHIN = 0.03
DECLINED_AT_MOST = 3  # questions of a target
OUTCOMES = ("ok", "no model", "declined", "lost", "stops", "does not fit", "off", "failed")
QUESTIONS = (
    "--model gpt2-124m --cluster rtx4090-workstation",
    "--model gpt2-1.5b --cluster dgx1",
    "--model gpt2-355m --cluster dgx2",
    "--model llama3-8b --cluster dgx-h100",
    "--model llama3-8b --cluster dgx-a100x2",
    "--model llama3-8b --cluster dgx2",
    "--model llama3-8b --cluster l40s-server --global-batch 64",
    "--model llama3-8b --cluster mi300x",
    "--model llama3-8b --cluster dgx-b200 --precision fp32-gradients",
    "--model llama3-70b --cluster dgx-h100x16",
    "--model llama3-70b --cluster dgx-a100x8 --not offload",
    "--model llama3-70b --cluster mi300xx4",
    "--model llama3-405b --cluster dgx-h100x2048",
    "--model llama3-405b --cluster dgx-b200x64",
    "--model llama3.2-1b --cluster rtx4090-workstation --seq 2048",
    "--model qwen2.5-7b --cluster dgx-a100",
    "--model qwen2.5-72b --cluster dgx-h100x32",
    "--model qwen3-8b --cluster dgx-h100x2 --not offload",
    "--model qwen3-0.6b --cluster l40s-server --global-batch 256",
    "--model qwen3-30b-a3b --cluster dgx-h100x4",
    "--model mistral-7b --cluster dgx-a100 --not offload",
    "--model mistral-7b --cluster dgx-h100 --seq 8192 --global-batch 128",
    "--model mixtral-8x7b --cluster dgx-h100x8",
    "--model mixtral-8x22b --cluster dgx-h100x16",
    "--model gemma2-9b --cluster dgx-a100x2",
    "--model gemma3-27b --cluster dgx-h100x4",
    "--model phi3-mini --cluster l40s-server",
    "--model phi4 --cluster dgx-h100x2",
    "--model deepseek-v2 --cluster dgx-h100x64",
    "--model deepseek-v3 --cluster dgx-h100x256",
    "--model gpt-oss-20b --cluster dgx-h100x2",
    "--model gpt-oss-120b --cluster dgx-b200x8",
    "--model opt-1.3b --cluster rtx4090-workstation --seq 1024",
    "--model opt-30b --cluster dgx2x4",
    "--model bloom-176b --cluster dgx-a100x48",
    "--model gpt-neox-20b --cluster dgx-a100x4",
    "--model llama3-8b --cluster rtx4090-workstation --train lora --seq 2048 --global-batch 32",
    "--model llama3-70b --cluster dgx-h100 --train lora --global-batch 64",
    "--model gpt3-175b --cluster dgx-a100x64",
    "--model megatron-1t --cluster dgx2x32",
)


def call(program, arguments):
    return subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)


def last_line(done):
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {done.returncode}"


def off(found, answered):
    """By how much a figure that was checked differs from the answer's."""
    return abs(found / answered - 1) if answered else float(found != 0)


def exported(program, target, question, folder):
    """The outcome of the export, words about it, and what it answered."""
    done = call(program, ["export", "--to", target, *shlex.split(question), "-o", folder, "--json"])
    if done.returncode != 0:
        line = last_line(done)
        if done.returncode not in (1, 2) or len(done.stderr.splitlines()) > 2:
            return "failed", line, None
        return ("no model" if " does not have the model " in line else "declined"), line, None
    answer = json.loads(done.stdout)
    lost = [f"{each['decision']} {each['plan']} -> {each['framework']}" for each in answer["dropped"]]
    errors = [f"{each['key']}: {each['message']}" for each in answer["findings"]
              if each["kind"] == "error"]
    if lost or errors:
        return ("lost" if lost else "stops"), "; ".join(lost + errors), answer
    return "ok", "", answer


def checked(program, answer):
    """The same of the check of what was written."""
    done = call(program, [*shlex.split(answer["check"])[1:], "--json"])
    if not done.stdout.startswith("{"):
        return "failed", last_line(done)
    check = json.loads(done.stdout)
    if not check["starts"]:
        return "stops", check["verdict"]
    if not check["fits"]:
        return "does not fit", check["verdict"]
    step = off(check["time"]["step_s"], answer["plan"]["step_s"])
    memory = off(check["memory"]["allocator"]["allocated"]["expected_bytes"],
                 answer["plan"]["gpu_bytes"])
    if step > WITHIN or memory > WITHIN:
        return "off", f"step {100 * step:.1f} %, memory {100 * memory:.1f} %"
    return "ok", ""


def row_of(program, target, question):
    with tempfile.TemporaryDirectory() as folder:
        outcome, words, answer = exported(program, target, question, folder)
        if outcome == "ok":
            outcome, words = checked(program, answer)
    return {"target": target, "question": question, "outcome": outcome, "words": words}


def table(rows):
    counts = collections.Counter((row["target"], row["outcome"]) for row in rows)
    targets = [target for target in TARGETS if any(row["target"] == target for row in rows)]
    lines = [f"{'target':<16}" + "".join(f"{outcome:>14}" for outcome in OUTCOMES)]
    for target in targets:
        cells = "".join(f"{counts[target, outcome]:>14}" for outcome in OUTCOMES)
        lines.append(f"{target:<16}{cells}")
    return lines


def options_of():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--questions", help="numbers from 1 [all]")
    return parser.parse_args()


def main():
    options = options_of()
    numbers = range(1, len(QUESTIONS) + 1)
    if options.questions:
        numbers = [int(number) for number in options.questions.split(",")]
    rows = []
    for number in numbers:
        for target in options.targets.split(","):
            row = row_of(options.program, target, QUESTIONS[number - 1])
            rows.append(row)
            print(f"{number:>2} {target:<16} {row['outcome']:<12} {row['words']}", flush=True)
    print("\n".join(table(rows)))
    if options.report:
        write_report(__file__, rows, {"questions": len(QUESTIONS), "within": WITHIN})
    return 0 if all(row["outcome"] in ("ok", "no model", "declined") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
