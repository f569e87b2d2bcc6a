"""Plan files that travel: what they remember of model and hardware, and bundles that have both."""

import json
import os
import re
import shutil
import subprocess
import unittest

from cli_support import BAD_INPUT, OK, PROGRAM, ROOT, CliTest, main

MODEL, NODE = "models/catalogue/tiny-gpt.json", "hwprofiles/catalogue/workstation.json"

# A search of a moment on two nodes.
PINS = ("--dp", "8", "--tp", "1", "--pp", "1", "--zero", "1", "--simulations", "4")

# Every command that takes a plan.
READERS = (
    ("simulate",), ("memory",), ("bandwidth",), ("lower",), ("explain",), ("sensitivity",),
    ("goodput", "--tokens", "1M"), ("run", "--steps", "1"), ("export", "--to", "deepspeed"),
    ("report", "-o", "report.html"),
)


def reading(reader, plan):
    return (reader[0], plan, *reader[1:])


class Travel(CliTest):
    def edit(self, name, old, new):
        text = self.read(name)
        self.assertIn(old, text)
        self.write(name, text.replace(old, new, 1))

    def own_files(self):
        """A model and a node of one's own in folders beside the plan's."""
        for folder in ("models", "nodes", "plans"):
            os.mkdir(self.path(folder))
        shutil.copy(os.path.join(ROOT, MODEL), self.path("models/own.json"))
        shutil.copy(os.path.join(ROOT, NODE), self.path("nodes/own.json"))

    def plan_of_own(self, *more):
        self.own_files()
        self.good("plan", "--model", "models/own.json", "--cluster", "nodes/own.json",
                  "-o", "plans/plan.json", *more)
        return "plans/plan.json"

    def told(self, *arguments, says):
        """A call that answers and says one line."""
        result = self.zplan(*arguments)
        self.assertEqual(result.returncode, OK, result.stderr)
        self.one_line(result.stderr, says)


class Seals(Travel):
    def test_a_plan_remembers_its_model_its_hardware_and_its_job(self):
        made = json.loads(self.read(self.plan_of_own()))["made_with"]
        self.assertEqual(made["model"]["name"], "../models/own.json")
        self.assertEqual(made["hardware"]["name"], "../nodes/own.json")
        for value in (made["model"]["hash"], made["hardware"]["hash"], made["decisions"]):
            self.assertRegex(value, r"\A[0-9a-f]{32}\Z")
        shown = self.good_json("simulate", "plans/plan.json")
        self.assertEqual(made["fingerprint"], shown["fingerprint"])

    def test_folders_that_move_together_read_in_silence(self):
        self.plan_of_own()
        os.mkdir(self.path("elsewhere"))
        for folder in ("models", "nodes", "plans"):
            shutil.move(self.path(folder), self.path("elsewhere"))
        self.good("memory", "elsewhere/plans/plan.json")

    def test_another_content_of_the_model_is_noticed_and_other_words_are_not(self):
        plan = self.plan_of_own()
        model = json.loads(self.read("models/own.json"))
        self.write("models/own.json", json.dumps(dict(model, source="elsewhere"), indent=1))
        self.good("memory", plan)
        self.write("models/own.json", json.dumps(dict(model, ffn=2 * model["ffn"])))
        for reader in READERS:
            with self.subTest(reader=reader):
                self.told(*reading(reader, plan),
                          says='plan.json: model "../models/own.json" is not as it was')

    def test_other_hardware_is_noticed_where_it_is_used(self):
        plan = self.plan_of_own()
        says = 'plan.json: hardware "../nodes/own.json" is not as it was'
        node = json.loads(self.read("nodes/own.json"))
        self.write("nodes/own.json", json.dumps(dict(node, description="mine")))
        self.good("memory", plan)
        memory = node["host"]["memory_bandwidth"]
        memory["value"] = "1 GB/s"
        self.write("nodes/own.json", json.dumps(node))
        self.told("memory", plan, says=says)
        self.told("simulate", plan, says=says)
        self.good("simulate", plan, "--cluster", "workstation")

    def test_decisions_may_be_edited_but_not_what_this_zplan_makes_of_them(self):
        plan = self.tiny_plan()
        text = json.loads(self.read(plan))
        text["slack"] = 0.5
        self.write(plan, json.dumps(text))
        self.good("memory", plan)
        text = json.loads(self.read(self.tiny_plan()))
        text["made_with"]["fingerprint"] = "0" * 32
        self.write(plan, json.dumps(text))
        self.told("memory", plan, says="this zplan makes another Job of the plan")

    # A pipe can be read once.
    def test_a_plan_may_come_from_a_pipe(self):
        self.good("--model", "tiny-gpt", "--cluster", "workstation", "--dp", "4", "-o", "plan.json")
        for reader in (("simulate", "--json"), ("lower",), ("export", "--to", "fsdp", "--json")):
            with self.subTest(reader=reader[0]):
                command = " ".join((PROGRAM, reader[0], "<(cat plan.json)", *reader[1:]))
                result = subprocess.run(["bash", "-c", command], cwd=self.folder,
                                        capture_output=True, text=True, check=False)
                self.assertEqual((result.returncode, result.stderr), (OK, ""))
                self.assertEqual(result.stdout, self.good(*reading(reader, "plan.json")))

    def test_a_plan_without_memories_reads_and_a_broken_one_does_not(self):
        plan = self.tiny_plan()
        text = json.loads(self.read(plan))
        del text["made_with"]
        self.write("plain.json", json.dumps(text))
        self.good("memory", "plain.json")
        text["made_with"] = {"model": {"name": "tiny-gpt", "hash": "12"}}
        self.write("broken.json", json.dumps(text))
        self.bad(BAD_INPUT, "memory", "broken.json", says="/made_with/model/hash: expected a hash")


class Bundles(Travel):
    def bundle(self, *more):
        """A bundle of files that are no more."""
        self.own_files()
        self.good("plan", "--model", "models/own.json", "--cluster", "nodes/own.jsonx2",
                  "-o", "plans/plan.json", *PINS, *more)
        self.good("plan", "--model", "models/own.json", "--cluster", "nodes/own.jsonx2",
                  "-o", "one.json", "--bundle", *PINS, *more)
        return "one.json"

    def test_every_command_that_takes_a_plan_takes_it_alone(self):
        name = self.bundle()
        wanted = {reader: self.good(*reading(reader, "plans/plan.json"), *self.as_json(reader))
                  for reader in READERS}
        for folder in ("models", "nodes", "plans"):
            shutil.rmtree(self.path(folder))
        os.mkdir(self.path("deep"))
        shutil.move(self.path(name), self.path("deep/one"))  # whatever it is called
        for reader in READERS:
            with self.subTest(reader=reader):
                found = self.good(*reading(reader, "deep/one"), *self.as_json(reader))
                if reader[0] == "run":  # it measures times
                    continue
                self.assertEqual(self.anonymous(found), self.anonymous(wanted[reader]))
        self.good("diff", "deep/one", "deep/one")

    @staticmethod
    def as_json(reader):
        return () if reader[0] in ("lower", "report") else ("--json",)

    @staticmethod
    def anonymous(text):
        """Without the names of files."""
        return re.sub(r"(deep/|plans/|models/|nodes/|\.\./)*(\bone\b|plan\.json|own\.json(x2)?)", "",
                      text)

    def test_settings_of_the_hardware_come_along(self):
        self.bundle("--set", "gpu.memory=512MiB")
        for folder in ("models", "nodes", "plans"):
            shutil.rmtree(self.path(folder))
        answer = self.good_json("memory", "one.json")
        self.assertLessEqual(answer["memory"]["gpu"]["capacity_bytes"], 512 << 20)
        held = json.loads(self.read("one.json"))
        self.assertIn("{gpu.memory=512MiB}", held["plan"]["hardware"])

    def test_model_and_cluster_are_read_from_it_as_from_files_of_their_own(self):
        name = self.bundle()
        for folder in ("models", "nodes"):
            shutil.rmtree(self.path(folder))
        self.assertIn("tiny-gpt", self.good("models", "./" + name))
        answer = self.good_json("plan", "--model", "./" + name, "--cluster", "./" + name,
                                *PINS)
        self.assertEqual(answer["plan"]["parallel"],
                         json.loads(self.read(name))["plan"]["parallel"])

    def test_what_it_holds_is_checked_like_files(self):
        name = self.bundle()
        held = json.loads(self.read(name))
        for part in ("plan", "model", "hardware"):
            self.write("b.json", json.dumps({k: v for k, v in held.items() if k != part}))
            self.bad(BAD_INPUT, "memory", "b.json", says=f'"{part}"')
        self.write("b.json", json.dumps(dict(held, more=1)))
        self.bad(BAD_INPUT, "memory", "b.json", says="more")
        self.write("b.json", json.dumps(dict(held, model=dict(held["model"], layers=0))))
        self.bad(BAD_INPUT, "memory", "b.json", says="/model/layers")
        self.write("b.json", json.dumps(dict(held, model=dict(held["model"], ffn=512))))
        self.told("memory", "b.json", says="is not as it was")
        self.bad(BAD_INPUT, "plan", "--model", "tiny-gpt", "--cluster", "workstation", "--bundle",
                 says="--bundle: expected -o FILE")

    def test_cluster_files_and_their_nodes_go_in(self):
        self.own_files()
        self.write("nodes/cluster.json", json.dumps(
            {"schema": "zplan.cluster/1", "name": "pair", "node": "own.json", "nodes": 2}))
        self.good("plan", "--model", "tiny-gpt", "--cluster", "nodes/cluster.json",
                  "-o", "one.json", "--bundle", *PINS)
        shutil.rmtree(self.path("nodes"))
        self.good("memory", "one.json")
        self.assertEqual(json.loads(self.read("one.json"))["hardware"]["name"], "pair")


class KernelSets(Travel):
    def test_a_plan_whose_device_lacks_its_kernels_is_refused_everywhere(self):
        result = self.zplan("plan", "--model", "tiny-gpt", "--cluster", "dgx-h100", "--dp", "1",
                            "-o", "plan.json")
        self.assertEqual(result.returncode, OK, result.stderr)
        plan = json.loads(self.read("plan.json"))
        self.assertEqual(plan["kernel_set"], "cuda.sm90.bf16")
        del plan["made_with"]
        plan["hardware"] = "dgx2"
        self.write("plan.json", json.dumps(plan))
        for reader in READERS:
            with self.subTest(reader=reader):
                self.bad(BAD_INPUT, *reading(reader, "plan.json"),
                         says=("plan.json: /kernel_set: expected a set that V100",
                               "which needs 9.0"))
        self.bad(BAD_INPUT, "diff", "plan.json", "plan.json", says="/kernel_set")
        self.bad(BAD_INPUT, "run", "plan.json", "--ignore-capacity", says="/kernel_set")
        self.bad(BAD_INPUT, "lower", "plan.json", "--no-place", says="/kernel_set")


if __name__ == "__main__":
    main()
