#!/usr/bin/env python3
"""Figures and tables of papers point by point: published, predicted, error, goal.

  tests/golden/paper_figures.py [--report] [--program PATH]

Plans of tests/data/paper_figures.json and tests/data/paper_runs.json are simulated with ./zplan,
each with the stack of its paper; figures that are groups of tests/data/published_runs.jsonl are
validated, largest models asked for. --report also writes reports/paper_figures.json and reports/paper_figures.md, which
tests/cli/paper_figures_test.py holds later versions to. No point has constants of its own.
"""

import copy
import functools
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from report import ROOT, report_options, tree_hash, write_report  # noqa: E402

DATA = ROOT / "tests" / "data"
PS_PER_S = 1e12


class Figures:
    """Simulates with one program; equal plans once."""

    def __init__(self, program):
        self.program = str(program)
        self.folder = tempfile.TemporaryDirectory()
        self.model_base = read(ROOT / "models" / "catalogue" / "zero-infinity-10b.json")

    def call(self, *arguments):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        if not done.stdout:
            raise SystemExit(done.stderr.strip())
        return json.loads(done.stdout)

    @functools.lru_cache(maxsize=None)
    def simulate_text(self, plan, stack, with_timeline):
        folder = pathlib.Path(self.folder.name)
        (folder / "plan.json").write_text(plan, encoding="utf-8")
        timeline = folder / "timeline.json"
        options = ["--timeline", str(timeline)] if with_timeline else []
        answer = self.call("simulate", str(folder / "plan.json"), "--stack", stack,
                           "--ignore-capacity", "--json", *options)
        if with_timeline:
            answer["spans"] = last_step(read(timeline)["ranks"][0]["spans"])
        return answer

    def simulate(self, plan, stack, with_timeline=False):
        return self.simulate_text(json.dumps(plan, sort_keys=True), stack, with_timeline)

    def model(self, model):
        """Name or file of a model: GPT-2's kind, heads of 128 [assumed]."""
        if "name" in model:
            return model["name"]
        name = f"gpt-{model['layers']}x{model['hidden']}"
        shape = {"name": name, "layers": model["layers"], "hidden": model["hidden"],
                 "heads": model["hidden"] // 128, "ffn": 4 * model["hidden"]}
        path = pathlib.Path(self.folder.name) / f"{name}.json"
        path.write_text(json.dumps({**self.model_base, "aliases": [], **shape}), encoding="utf-8")
        return str(path)


def read(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def last_step(spans):
    step = max(span["step"] for span in spans)
    return [span for span in spans if span["step"] == step]


def with_choices(plan, choices):
    """A copy of the plan with some members, by JSON pointer, set."""
    plan = copy.deepcopy(plan)
    for pointer, value in choices.items():
        *path, last = pointer.strip("/").split("/")
        node = plan
        for key in path:
            node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
        node[last] = value
    return plan


def phase_of(span):
    return span["op"].split(".")[0]


def seconds(picoseconds):
    return picoseconds / PS_PER_S


def step_s(figures, point):
    return figures.simulate(point["plan"], point["stack"])["time"]["step_s"]


def backward_s(figures, point):
    """From the first kernel of the backward pass until the last gradient is home."""
    spans = figures.simulate(point["plan"], point["stack"], True)["spans"]
    backward = [span for span in spans if phase_of(span) in ("backward", "recompute")]
    begin = min(span["start_ps"] for span in backward if span["lane"] == "compute")
    return seconds(max(span["end_ps"] for span in backward) - begin)


def ratio(figures, point):
    """Step time with other choices over that without."""
    other = with_choices(point["plan"], point["compared"])
    return step_s(figures, {**point, "plan": other}) / step_s(figures, point)


def cpu_adam_s(figures, point):
    """The update's kernels alone, scaled from the model's parameters to those that are printed."""
    answer = figures.simulate(point["plan"], point["stack"], True)
    time = sum(span["end_ps"] - span["start_ps"] for span in answer["spans"]
               if span["lane"] == "cpu" and phase_of(span) == "update" and ".adam" in span["op"])
    shape = read(point["plan"]["model"])
    model = 12 * shape["layers"] * shape["hidden"] ** 2 + shape["vocab"] * shape["hidden"]
    return seconds(time) * point["parameters"] / model


def layer_ms(phases):
    """Mean time between the first kernels of neighbouring layers, recomputation with backward."""

    def measure(figures, point):
        spans = figures.simulate(point["plan"], point["stack"], True)["spans"]
        begins = {}
        for span in spans:
            if span["lane"] != "compute" or phase_of(span) not in phases or ",l" not in span["op"]:
                continue
            layer = span["op"].rsplit(",l", 1)[1].rstrip("]")
            begins[layer] = min(begins.get(layer, span["start_ps"]), span["start_ps"])
        times = sorted(begins.values())
        # The outer layers stand beside the embedding and the head.
        inner = times[2:-2]
        return 1e3 * seconds(inner[-1] - inner[0]) / (len(inner) - 1)

    return measure


def tflops_per_gpu(figures, point):
    """Of 8 x 12 L h^2 flop per token, as these papers count, recomputation included."""
    shape, batch = read(point["plan"]["model"]), point["plan"]["batch"]
    tokens = batch["global_batch"] * batch["sequence"]
    gpus = point["plan"]["parallel"]["dp"] * point["plan"]["parallel"]["tp"]
    flop = 96 * shape["layers"] * shape["hidden"] ** 2 * tokens
    return flop / step_s(figures, point) / gpus / 1e12


MEASURES = {
    "tflops_per_gpu": tflops_per_gpu,
    "step_s": step_s,
    "backward_s": backward_s,
    "ratio": ratio,
    "cpu_adam_s": cpu_adam_s,
    "layer_forward_ms": layer_ms(("forward",)),
    "layer_backward_ms": layer_ms(("backward", "recompute")),
}


def entry(name, published, predicted, goal, more=None):
    error = predicted / published - 1
    return {
        "name": name,
        "published": published,
        "predicted": float(f"{predicted:.4g}"),
        "error": round(error, 3),
        "goal": goal,
        "goal_met": abs(error) <= goal,
        **(more or {}),
    }


def figure_of(figures, base, figure):
    rows = []
    for point in figure["points"]:
        choices = {**figure["plan"], **point["plan"]}
        plan = with_choices(base, choices)
        plan["model"] = figures.model(point.get("model", figure["model"]))
        full = {**figure, **point, "plan": plan}
        predicted = MEASURES[figure["measure"]](figures, full)
        rows.append(entry(point["name"], point["published"], predicted, figure["goal"],
                          missing_of(point)))
    return {**head_of(figure), "rows": rows}


def missing_of(point):
    """What a point lacks, with its seconds or bytes, where that is known."""
    return {"missing": point["missing"]} if point.get("missing") else {}


def head_of(figure):
    kept = ("name", "source", "quantity", "read_off_a_plot", "stack", "assumed", "missing")
    return {key: figure[key] for key in kept}


def paper_runs(figures):
    """The rows of tests/data/paper_runs.json, with where their simulated time goes."""
    data = read(DATA / "paper_runs.json")
    rows = []
    for row in data["rows"]:
        answer = figures.simulate(row["plan"], data["stack"])
        time = answer["time"]
        parts = {part["part"]: round(part["time_s"], 2) for part in time["split"]["parts"]
                 if part["time_s"] > 0}
        more = {"split_s": parts, "limited_by": time["limited_by"], "fits": answer["feasible"],
                "fingerprint": answer["fingerprint"],
                "profile_hash": profile_hash(row["plan"]["hardware"])}
        rows.append(entry(row["name"], row["step_s"], time["step_s"], row["goal"], more))
    return {"name": "Infinity Table 1 and Fig. 5", "source": data["source"],
            "quantity": "seconds of a step", "read_off_a_plot": False, "stack": data["stack"],
            "assumed": data["assumed"], "missing": data["missing"], "rows": rows}


def profile_hash(cluster):
    """Of the node's file: "dgx2x32" is 32 nodes of dgx2.json."""
    for path in sorted((ROOT / "hwprofiles" / "catalogue").glob("*.json")):
        if cluster == path.stem or cluster.startswith(path.stem + "x"):
            return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    raise SystemExit(f"{cluster}: no such profile")


def validated(figures, figure):
    """A group of the published runs."""
    answer = figures.call("validate", str(DATA / "published_runs.jsonl"), "--group",
                          figure["group"], "--json")
    rows = []
    for row in answer["rows"]:
        if not row["measured_s"] or not row["predicted_s"]:
            continue
        name = row["id"].split("/")[1]
        more = missing_of({"missing": figure.get("missing_by_point", {}).get(name)})
        rows.append(entry(name, row["measured_s"], row["predicted_s"], figure["goal"], more))
    return {**head_of(figure), "rows": rows}


def largest(figures, figure):
    """Of a family on some GPUs of a node, in billions."""
    rows = []
    for point in figure["points"]:
        batch = str(point.get("micro_batch", 1))
        given = ["--micro-batch", batch, "--global-batch", batch] if "micro_batch" in point else []
        answer = figures.call("max", "--cluster", figure["cluster"], "--family", point["family"],
                              "--ranks", str(point["ranks"]), "--stack", figure["stack"],
                              "--no-times", "--json", *given)
        rows.append(entry(point["name"], point["published"], answer["largest_parameters"] / 1e9,
                          figure["goal"], missing_of(point)))
    return {**head_of(figure), "rows": rows}


def predict(program):
    figures = Figures(program)
    data = read(DATA / "paper_figures.json")
    result = [paper_runs(figures)]
    for figure in data["figures"]:
        if "group" in figure:
            result.append(validated(figures, figure))
        elif figure["measure"] == "largest":
            result.append(largest(figures, figure))
        else:
            result.append(figure_of(figures, data["plan"], figure))
    return result


def table(figure):
    lines = ["| point | published | predicted | error | goal | met |", "|---|---|---|---|---|---|"]
    for row in figure["rows"]:
        lines.append(f"| {row['name']} | {row['published']:g} | {row['predicted']:g} |"
                     f" {row['error']:+.1%} | {row['goal']:.0%} |"
                     f" {'yes' if row['goal_met'] else 'no'} |")
    return lines


def summary(result):
    rows = [row for figure in result for row in figure["rows"]]
    near = sum(abs(row["error"]) <= 0.12 for row in rows)
    return f"{near} of {len(rows)} points are predicted within 12 %."


def markdown(result, not_compared):
    lines = ["# Figures of papers, point by point", "",
             "command: `tests/golden/paper_figures.py --report`  ",
             f"sources: `{tree_hash()}`  ", "",
             summary(result), "",
             "Where no program printed its plan, what a figure leaves open is assumed and said."]
    for figure in result:
        plot = ", read off a plot" if figure["read_off_a_plot"] else ""
        lines += ["", f"## {figure['name']}", "",
                  f"{figure['quantity']}; {figure['source']}{plot}; stack `{figure['stack']}`.", ""]
        if figure["assumed"]:
            lines += [f"Assumed: {figure['assumed']}.", ""]
        lines += table(figure)
        missed = [row for row in figure["rows"] if not row["goal_met"]]
        if missed and figure["missing"]:
            lines += ["", f"What is missing: {figure['missing']}."]
        points = [f"- {row['name']}: {row['missing']}." for row in missed if row.get("missing")]
        lines += ["", "What single points lack:", ""] + points if points else []
    lines += ["", "## Not compared", ""]
    lines += [f"- {figure['name']}: {figure['why']}." for figure in not_compared]
    return "\n".join(lines) + "\n"


def main():
    options = report_options(__doc__.splitlines()[0])
    result = predict(options.program)
    for figure in result:
        print(f"{figure['name']}: {figure['quantity']}")
        for row in figure["rows"]:
            print(f"    {row['name']:32} {row['published']:9g} {row['predicted']:9g}"
                  f" {row['error']:+7.1%} {row['goal']:4.0%}"
                  f"  {'met' if row['goal_met'] else 'missed'}")
    if options.report:
        write_report(__file__, result, {"published": "papers by key, models/REFERENCES.md"})
        path = ROOT / "reports" / "paper_figures.md"
        not_compared = read(DATA / "paper_figures.json")["not_compared"]
        path.write_text(markdown(result, not_compared), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
