"""How long the search takes and how much it proves, against its goals. Prints tables; asserts nothing.

  tests/perf/search_speed.py [--report] [--program PROGRAM] [--bounds PROGRAM] [--first N]

Wall-clock seconds and CPU seconds (user and system, all threads) of whole processes, one at a time,
on a warm build and two cores. --bounds is
perf_bound_speed (cmake --build build/tests --target perf), --first N asks only the first N
questions of the catalogue. Calculon and llm-analysis are asked, too, where they are installed
(tests/support/other_planners.py). --report also writes reports/search_speed.json.
"""

import argparse
import json
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from other_planners import ask_calculon, ask_llm_analysis  # noqa: E402
from report import ROOT, machine, write_report  # noqa: E402

GOAL_BOUNDS_PER_S = 1e6  # and core
PROVEN_GAP = 0.01
# Model, cluster, goal in seconds, plans that the answer is to cover.
SINGLE = (
    ("gpt3-175b", "dgx-a100x8", 1.0, 3_300_000),
    ("llama3-405b", "dgx-h100x2048", 3.0, 0),
)
# Time to the first line of result or progress, in seconds.
GOAL_FIRST = 5.0
FIRST = (
    "sweep --model 10B --cluster dgx2 --over nodes=1..4",
    "sweep --model gpt3-175b --cluster dgx-a100x16 --over nodes=8..32 --over batch=768..1536",
    "max --cluster dgx2",
    "max --cluster dgx-h100x16",
    "need --model 10B --tokens 300B --within 30d",
    "need --model llama3-70b --tokens 300B --within 30d",
)
# Every model of the catalogue on clusters that it would be trained on.
TINY = "tiny-gpt tiny-llama tiny-moe"
SMALL = """t5-small flan-t5-small bert-base gpt2-124m t5-base flan-t5-base bert-large gpt2-355m
    qwen2.5-0.5b qwen3-0.6b t5-large gpt2-774m flan-t5-large gemma3-1b opt-1.3b pythia-1.4b
    gpt2-1.5b blenderbot-3b flan-t5-xl t5-3b phi3-mini gemma3-4b"""
MEDIUM = """pythia-6.9b mistral-7b qwen2.5-7b llama3-8b qwen3-8b gemma2-9b blenderbot-9b
    zero-infinity-10b flan-t5-xxl t5-11b gemma3-12b pythia-12b gpt-350m-moe128 phi4 gpt-neox-20b
    gpt-oss-20b megatron-22b gemma3-27b gemma2-27b opt-30b qwen3-30b-a3b"""
LARGE = """mixtral-8x7b zero-infinity-50b gpt-1.3b-moe128 llama3-70b qwen2.5-72b zero-infinity-100b
    gpt-oss-120b mixtral-8x22b gpt3-175b opt-175b megatron-175b bloom-176b"""
LARGEST = """deepseek-v2 llama4-maverick llama3-405b zero-infinity-0.5t megatron-530b deepseek-v3
    zero-infinity-1t megatron-1t"""
BEYOND = "zero-infinity-5t zero-infinity-10t zero-infinity-20t zero-infinity-32t"
CATALOGUE = (
    (TINY, "workstation"),
    (SMALL, "dgx2 dgx-h100x4"),
    ("gpt2-1.5b llama3-8b zero-infinity-10b", "rtx4090-12ssd"),
    (MEDIUM, "dgx2x2 dgx-a100x4 dgx-h100x16"),
    (LARGE, "dgx-a100x16 dgx-h100x32"),
    (LARGEST, "dgx-a100x64 dgx-h100x128"),
    (BEYOND, "dgx2x32 dgx-h100x128"),
)
GOAL_SECONDS, GOAL_SECONDS_BEYOND = 3.0, 10.0
BEYOND_PARAMETERS = 10e12
GOAL_PROVEN = 140 / 153  # of the questions


def questions():
    return [(model, cluster) for models, clusters in CATALOGUE
            for model in models.split() for cluster in clusters.split()]


def verdict(met):
    return "met" if met else "MISSED"


class Seconds(NamedTuple):
    wall: float
    cpu: float


def cpu_of_children():
    """User and system seconds of all processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ask(program, model, cluster, *options):
    """Wall-clock and CPU seconds, and the answer as JSON; nothing where there is none."""
    words = [program, "plan", "--model", model, "--cluster", cluster, "--json", *options]
    begin, cpu_begin = time.perf_counter(), cpu_of_children()
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    seconds = Seconds(time.perf_counter() - begin, cpu_of_children() - cpu_begin)
    return seconds, json.loads(done.stdout) if done.stdout.startswith("{") else None


def entry_of(model, cluster, seconds, answer):
    entry = {"command": f"./zplan plan --model {model} --cluster {cluster}",
             "seconds": round(seconds.wall, 3), "cpu_seconds": round(seconds.cpu, 3)}
    if answer is None:
        return entry
    search = answer["search"]
    entry["parameters"] = answer["model"]["parameters"]
    entry["feasible"] = answer["feasible"]
    entry.update({key: search[key] for key in ("space", "visited", "simulated")})
    if answer["feasible"]:
        entry["gap"] = search["gap"]
        entry["step_s"] = answer["time"]["step_s"]
    return entry


def measure_bounds(program):
    """perf_bound_speed's own table; its last columns are rates, at first and again."""
    if not pathlib.Path(program).exists():
        print(f"bounds: {program} is not built: cmake --build build/tests --target perf")
        return []
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    print(done.stdout)
    rows = re.findall(r"^(\S+) +(\S+) +(leaves|variants) .* (\S+) +(\S+)  (?:met|missed)$",
                      done.stdout, re.MULTILINE)
    return [{"bounds_of": f"{what} of {model} on {cluster}", "per_second": float(first) * 1e6,
             "again_per_second": float(again) * 1e6, "goal_per_second": GOAL_BOUNDS_PER_S}
            for model, cluster, what, first, again in rows]


def measure_single(program):
    entries = []
    for model, cluster, goal, plans in SINGLE:
        seconds, answer = ask(program, model, cluster)
        entry = {**entry_of(model, cluster, seconds, answer), "goal_s": goal, "goal_plans": plans}
        entries.append(entry)
        covered = entry.get("space", 0)
        print(f"{model} on {cluster}: {seconds.wall:.2f} s, {seconds.cpu:.2f} s of CPU time, goal"
              f" {goal} s: {verdict(seconds.wall <= goal)};"
              f" {covered:,} plans, goal {plans:,}: {verdict(covered >= plans)};"
              f" gap {entry.get('gap', 1):.1%}")
    return entries


def measure_others(program):
    """175B on 64 A100, by all."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "plan.json")
        model, cluster = SINGLE[0][:2]
        seconds, answer = ask(program, model, cluster, "-o", str(path))
        plan = json.loads(path.read_text(encoding="utf-8"))
    devices, batch = answer["cluster"]["devices"], plan["batch"]["global_batch"]
    space, step = answer["search"]["space"], answer["time"]["step_s"]
    print(f"zplan: {space:,} plans in {seconds.wall:.2f} s, {space / seconds.wall:,.0f} a second;"
          f" step {step:.1f} s")
    entries = []
    theirs = ask_calculon(devices, batch)
    if theirs:
        best = theirs["best_step_s"]
        entries.append({"planner": "calculon", **theirs, "our_seconds": seconds.wall,
                        "our_plans": space, "our_step_s": step})
        print(f"calculon: {theirs['plans']:,} plans, {theirs['plans_per_s']:,.0f} a second of one"
              f" core over {theirs['tried']:,} of them: about {theirs['all_of_them_s'] / 3600:.1f} h"
              f" for all; best step of those tried {best:.1f} s" if best else "")
    theirs = ask_llm_analysis(plan)
    if theirs:
        entries.append({"planner": "llm-analysis", **theirs, "our_step_s": step})
        print(f"llm-analysis: {theirs['seconds'] * 1e3:.1f} ms for zplan's plan, whose step it"
              f" takes to be {theirs['step_s']:.1f} s")
    return entries


def first_line_s(words):
    """Until the first line, of result or of progress."""
    begin = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        process.stdout.readline()
        seconds = time.perf_counter() - begin
        process.terminate()
    return seconds


def measure_first(program):
    entries = []
    for command in FIRST:
        seconds = first_line_s([program, *command.split()])
        entries.append({"command": f"./zplan {command}", "first_line_s": round(seconds, 3),
                        "goal_s": GOAL_FIRST})
        print(f"{command}: first line after {seconds:.2f} s, goal {GOAL_FIRST} s:"
              f" {verdict(seconds <= GOAL_FIRST)}")
    return entries


def measure_catalogue(program, asked):
    entries = []
    print(f"{'model':20} {'cluster':14} {'seconds':>8} {'CPU':>8} {'goal':>5} {'space':>11}"
          f" {'gap':>7}")
    for model, cluster in asked:
        seconds, answer = ask(program, model, cluster)
        entry = entry_of(model, cluster, seconds, answer)
        large = entry.get("parameters", 0) >= BEYOND_PARAMETERS
        entry["goal_s"] = GOAL_SECONDS_BEYOND if large else GOAL_SECONDS
        entries.append(entry)
        words = f"{entry['gap']:7.1%}" if "gap" in entry else "no plan"
        print(f"{model:20} {cluster:14} {seconds.wall:8.2f} {seconds.cpu:8.2f}"
              f" {entry['goal_s']:5.0f}"
              f" {entry.get('space', 0):11,} {words}"
              f"{'' if seconds.wall <= entry['goal_s'] else '  over the goal'}", flush=True)
    over = [entry for entry in entries if entry["seconds"] > entry["goal_s"]]
    answered = [entry for entry in entries if "gap" in entry]
    proven = [entry for entry in answered if entry["gap"] <= PROVEN_GAP]
    needed = GOAL_PROVEN * len(answered)
    print(f"{len(entries)} questions: {sum(entry['cpu_seconds'] for entry in entries):.1f} s of CPU"
          f" time, {sum(entry['seconds'] for entry in entries):.1f} s by the clock")
    print(f"{len(entries)} questions: {len(over)} over their time, goal 0: {verdict(not over)};"
          f" {len(proven)} of {len(answered)} with a plan proven, goal {needed:.0f}:"
          f" {verdict(len(proven) >= needed)}")
    return entries


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--bounds", default=str(ROOT / "build/tests/bin/perf_bound_speed"))
    parser.add_argument("--first", type=int, default=None)
    options = parser.parse_args()
    ask(options.program, "tiny-gpt", "workstation")  # builds it, if need be
    entries = measure_bounds(options.bounds)
    entries += measure_single(options.program)
    entries += measure_others(options.program)
    entries += measure_first(options.program)
    entries += measure_catalogue(options.program, questions()[: options.first])
    if options.report:
        write_report(__file__, entries, machine())


if __name__ == "__main__":
    main()
