"""Random plans of the space that a search speaks of, held against what it has proven.

The space is drawn from what the documentation says of it, not from what the search enumerates:
stages, tensor and sequence parallelism, micro-batch, ZeRO stage, recomputation, homes, cut
checkpoints, units and tiles, prefetch, sharding groups, rank order. Half of the plans are the
answer with a few decisions changed, the others have all of them drawn.
"""

import copy
import json
import os
import subprocess
import tempfile

TIERS = ("gpu", "cpu", "nvme")
MOST_TILES = 16
MOST_PREFETCH = 4
SLACKS = (0.05, 0.0)  # as plans are enumerated, and the tightest
TIMEOUT_S = 600
ROUNDOFF = 1e-9


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


class Space:
    """Of one question: model and cluster by name, and the ranks that are pinned."""

    def __init__(self, answer, plan, pins, random):
        self.model, self.random = answer["model"], random
        self.devices = answer["cluster"]["devices"]
        self.island = answer["cluster"]["devices_per_node"]
        self.plan, self.pins = plan, pins

    def shapes(self):
        """All (dp, tp, pp) that the space has."""
        pins, found = self.pins, []
        for pp in divisors(self.devices):
            for tp in divisors(self.island):
                dp = self.devices // (tp * pp)
                wanted = pins.get("dp", dp), pins.get("tp", tp), pins.get("pp", pp)
                if dp * tp * pp == self.devices and wanted == (dp, tp, pp):
                    found.append((dp, tp, pp))
        batch = self.plan["batch"]["global_batch"]
        fit = [s for s in found if batch % s[0] == 0 and s[2] <= self.model["layers"]]
        return [s for s in fit if self.model["heads"] % s[1] == 0]

    def draw(self):
        """Decisions as a flat dictionary."""
        d = {}
        for change in self.CHANGES:
            change(self, d)
        return d

    def shape(self, d):
        d["dp"], d["tp"], d["pp"] = self.random.choice(self.shapes())
        self.micro_batch(d)
        if d["tp"] == 1:
            d["sequence_parallel"] = False

    def sequence_parallel(self, d):
        d["sequence_parallel"] = d["tp"] > 1 and self.random.random() < 0.5

    def micro_batch(self, d):
        d["micro_batch"] = self.random.choice(
            divisors(self.plan["batch"]["global_batch"] // d["dp"])
        )

    def zero_stage(self, d):
        d["zero_stage"] = self.random.choice((0, 1, 2, 3, 3))

    def recompute(self, d):
        d["recompute"] = self.random.choice(("none", "selective", "full"))

    def unit(self, d):
        layers = [f"layers:{n}" for n in (1, 2, 4)]
        tiles = [f"tiles:{2**n}" for n in range(MOST_TILES.bit_length())]
        d["unit"] = self.random.choice(layers + tiles)

    def partition_activations(self, d):
        d["partition_activations"] = self.random.random() < 0.3

    def homes(self, d):
        d["optimizer"] = self.random.choice(TIERS)
        nearer = TIERS[: TIERS.index(d["optimizer"]) + 1]
        d["params"], d["grads"] = self.random.choice(nearer), self.random.choice(nearer)
        d["activations"] = self.random.choice(TIERS)

    def prefetch(self, d):
        d["prefetch"] = self.random.randint(0, MOST_PREFETCH)

    def shards(self, d):
        d["grouped"] = self.random.random() < 0.3

    def order(self, d):
        d["order"] = self.random.choice(("data_first", "pipeline_first"))

    CHANGES = (shape, sequence_parallel, micro_batch, zero_stage, recompute, unit,
               partition_activations, homes, prefetch, shards, order)

    def of_answer(self):
        """The decisions of the answer, without what is outside the space."""
        plan, at = self.plan, self.plan["placement"]
        parallel, mode = plan["parallel"], plan["recompute"][0]["mode"]
        return {
            **{key: parallel[key] for key in ("dp", "tp", "pp", "sequence_parallel", "order")},
            "micro_batch": plan["batch"]["micro_batch"],
            "zero_stage": plan["zero_stage"],
            "recompute": mode if mode != "operators" else "full",
            "unit": {"layer": "layers:1", "operator": "tiles:1"}.get(*[plan["gather"]["unit"]] * 2),
            "partition_activations": plan["partition_activations"],
            **{key: at[key] for key in ("params", "grads", "optimizer", "activations")},
            "prefetch": plan["gather"]["prefetch"],
            "grouped": parallel["shards"] > 0,
        }

    def near_answer(self):
        d = self.of_answer()
        for change in self.random.sample(self.CHANGES, self.random.randint(1, 3)):
            change(self, d)
        return d

    def made_plain(self, d):
        """Of decisions that change nothing there is one plan in the space."""
        if d["zero_stage"] < 3:
            d["params"] = "gpu"
        if d["zero_stage"] < 2:
            d["grads"] = "gpu"
            if d["unit"].startswith("tiles"):
                d["unit"] = "layers:1"
            d["prefetch"] = 1
        if d["recompute"] != "full":
            d["activations"] = "gpu"
        if d["recompute"] != "full" or d["tp"] == 1 or d["sequence_parallel"]:
            d["partition_activations"] = False
        if d["dp"] == 1 and d["unit"].startswith("layers"):
            d["unit"] = "layers:1"
        if d["pp"] == 1 or d["dp"] == 1 or self.devices <= self.island:
            d["order"] = "data_first"
        group = self.island // d["tp"]
        d["grouped"] = d["grouped"] and d["zero_stage"] > 0 and 2 <= group < d["dp"]
        return d

    def plans(self):
        """Distinct decisions without end, half of them near the answer."""
        known = set()
        while True:
            d = self.made_plain(self.near_answer() if len(known) % 2 else self.draw())
            key = json.dumps(d, sort_keys=True)
            if key not in known:
                known.add(key)
                yield d

    def plan_of(self, d, slack):
        """A plan file with these decisions; all others as in the space."""
        plan = copy.deepcopy(self.plan)
        keys = ("model", "hardware", "kernel_set", "precision", "batch", "launch", "clip",
                "loss_scaling", "schema")
        plan = {key: plan[key] for key in keys}
        plan["parallel"] = {
            **{key: d[key] for key in ("dp", "tp", "pp", "sequence_parallel")},
            "shards": self.island // d["tp"] if d["grouped"] else 0,
            "schedule": "1f1b",
            "stage_layers": [],
            "order": d["order"],
        }
        plan["zero_stage"] = d["zero_stage"]
        plan["placement"] = {k: d[k] for k in ("params", "grads", "optimizer", "activations")}
        plan["gather"] = {"unit": d["unit"], "prefetch": d["prefetch"]}
        plan["recompute"] = [{"mode": d["recompute"], "layers": 0}]
        plan["partition_activations"] = d["partition_activations"]
        plan["delayed_update"] = False
        plan["batch"]["micro_batch"] = d["micro_batch"]
        plan["slack"] = slack
        return plan


def run(program, *arguments):
    return subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=TIMEOUT_S, check=False)


class Attack:
    """One question, its answer, and plans held against it."""

    def __init__(self, program, question, random, options=()):
        self.program, self.question = program, list(question)
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "answer.json")
        ran = run(program, "plan", *question, *options, "-o", path, "--json")
        if ran.returncode != 0:
            raise RuntimeError(f"zplan plan {' '.join(question)}: {ran.stderr}")
        self.answer = json.loads(ran.stdout)
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
        words = self.question
        pins = {key: int(words[words.index(f"--{key}") + 1])
                for key in ("dp", "tp", "pp") if f"--{key}" in words}
        self.space = Space(self.answer, plan, pins, random)
        self.legal = self.fitting = 0
        self.fastest = None  # of the plans tried
        self.faster = []  # (step, plan) of those that the gap rules out

    @property
    def gap(self):
        return self.answer["search"]["gap"]

    @property
    def step(self):
        """Of the fastest plan found: gap and proof speak of it."""
        return self.answer.get("fastest", self.answer["time"])["step_s"]

    def try_plans(self, count):
        """Simulates `count` legal plans, those that fit."""
        for decisions in self.space.plans():
            if self.legal == count:
                return
            self.try_plan(decisions)

    def try_plan(self, decisions):
        path = os.path.join(self.folder.name, "plan.json")
        for slack in SLACKS:
            plan = self.space.plan_of(decisions, slack)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(plan, file)
            ran = run(self.program, "simulate", path, "--json")
            if ran.returncode == 2:  # no legal plan
                return
            if ran.returncode == 0:
                break
        self.legal += 1
        if ran.returncode != 0:
            return
        self.fitting += 1
        step = json.loads(ran.stdout)["time"]["step_s"]
        self.fastest = min(self.fastest or step, step)
        if step < self.step * (1 - self.gap) * (1 - ROUNDOFF):
            self.faster.append((step, plan))
