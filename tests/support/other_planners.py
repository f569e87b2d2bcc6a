"""The same question put to other planners, where they are installed.

Calculon [Isaev23] looks for the best execution by trying all that its command has. That takes hours,
so parts of them are tried for some seconds of one core, drawn with a fixed seed; the rest is taken
to be in proportion. llm-analysis says how long a step of one given plan takes.

A package is imported as installed or from the folder of its repository, in the environment
variable CALCULON or LLM_ANALYSIS. Calculon's own descriptions of model and system are used.
"""

import argparse
import importlib
import json
import logging
import os
import pathlib
import random
import sys
import tempfile
import time

SECONDS = 60.0  # of one core, that Calculon may search


def imported(package, variable):
    """Nothing: it is not installed."""
    if os.environ.get(variable):
        sys.path.insert(0, os.environ[variable])
    try:
        return importlib.import_module(package)
    except ImportError as error:
        print(f"{package} is not installed ({error}): not compared; {variable} may name its folder")
        return None


class SampledPool:
    """In place of the pool of processes over which Calculon's command spreads its parts."""

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def starmap(self, search, parts):
        counted = [search(True, *part[1:]) for part in parts]  # loops, and estimates nothing
        SampledPool.plans = sum(part[1] for part in counted)
        random.Random(1).shuffle(parts)
        results, begin = [], time.process_time()
        while parts and time.process_time() - begin < SECONDS:
            results.append(search(*parts.pop()))
        tried = sum(part[1] for part in results)
        SampledPool.rate = tried / (time.process_time() - begin)
        SampledPool.tried = tried
        return results


def ask_calculon(devices, batch):
    """Its command llm-optimal-execution, as that is by default."""
    calculon = imported("calculon", "CALCULON")
    if calculon is None:
        return None
    from calculon.llm import optimal_execution

    root = pathlib.Path(calculon.__file__).parents[1]
    command = optimal_execution.OptimalExecution
    parser = argparse.ArgumentParser()
    command.create_parser(parser.add_subparsers())
    optimal_execution.mp.Pool = SampledPool
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "best.json")
        words = [command.NAME, root / "models" / "gpt3-175B.json", devices, batch, "float16",
                 root / "systems" / "a100_80g.json", output, "--noneok"]
        logging.disable(logging.CRITICAL)
        command.run_command(logging.getLogger(), parser.parse_args([str(w) for w in words]))
        logging.disable(logging.NOTSET)
        best = json.loads(output.read_text(encoding="utf-8")).get("0")
    execution = best and best["execution"]
    return {
        "plans": SampledPool.plans,
        "tried": SampledPool.tried,
        "plans_per_s": SampledPool.rate,
        "all_of_them_s": SampledPool.plans / SampledPool.rate,
        "best_step_s": best and execution["batch_size"] / best["stats"]["sample_rate"],
        "execution": execution,
    }


def ask_llm_analysis(plan):
    """Of a plan in one stage or more, without context parallelism, on A100."""
    analysis = imported("llm_analysis.analysis", "LLM_ANALYSIS")
    if analysis is None:
        return None
    train = analysis.train

    parallel, batch = plan["parallel"], plan["batch"]
    begin = time.perf_counter()
    said = train(
        model_name="megatron-lm-175b",
        gpu_name="a100-sxm-80gb",
        log_level="CRITICAL",
        batch_size_per_gpu=batch["micro_batch"],
        global_batch_size=batch["global_batch"],
        seq_len=batch["sequence"],
        activation_recomputation=4 if plan["recompute"][0]["mode"] == "full" else 0,
        ds_zero=plan["zero_stage"],
        dp_size=parallel["dp"],
        tp_size=parallel["tp"],
        pp_size=parallel["pp"],
    )
    return {"seconds": time.perf_counter() - begin, "step_s": said["latency_per_iter"]}
