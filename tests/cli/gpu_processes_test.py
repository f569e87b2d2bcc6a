"""zplan run by processes, each with a GPU made of threads, that meet by the NCCL of the stand-in
(tests/support/gpu/plugin.cpp, which ZPLAN_CUDA_PLUGIN names): the numbers of the CPU backend, a
common end, and nothing that the stand-in judges is done wrong.
"""

import json
import os
import re
import signal

from cli_support import DEVICE, EVERYTHING, INTERRUPTED, OK, ROOT, main
from launched import ENDLESS, Processes

ALLOWED = 1e-5  # of losses and norms in fp32, as tests/crosscheck/gpu/plans_test.cpp has it
BATCH = ("--global-batch", "4", "--micro-batch", "1", "--seq", "16")
PAIR = ("--dp", "1", "--tp", "1", "--pp", "2")  # rank 1 has the loss
GRAPHS = ("--launch", "graph")
SHALLOW = "shallow.json"  # tiny-gpt with two of its layers


class GpuProcesses(Processes):
    def setUp(self):
        super().setUp()
        self.assertIn("ZPLAN_CUDA_PLUGIN", os.environ, "the stand-in's plug-in")
        os.mkdir(self.path("judged"))
        with open(os.path.join(ROOT, "models/catalogue/tiny-gpt.json"), encoding="utf-8") as file:
            shallow = {**json.load(file), "name": "shallow", "aliases": [], "layers": 2}
        self.write(SHALLOW, json.dumps(shallow))

    def plan(self, *pins, model=SHALLOW, name="plan.json"):
        result = self.zplan("plan", "--model", model, "-o", name, *pins, *BATCH)
        self.assertEqual(result.returncode, OK, result.stderr)

    def gpu_plan(self, *pins, kernel_set="cuda.sm90.fp32", model=SHALLOW):
        self.plan(*pins, "--kernel-set", kernel_set, "--cluster", "dgx-h100", "--for", "zplan",
                  model=model)

    def cpu_plan(self, *pins, model=SHALLOW):
        self.plan(*pins, "--cluster", "workstation", model=model, name="cpu.json")

    def start(self, world, *options, **environment):
        environment["ZPLAN_STAND_IN_REPORT"] = self.path("judged")
        return super().start(world, *options, **environment)

    def expect_nothing_wrong(self, ranks):
        for rank in ranks:
            first, *findings = self.read(f"judged/{rank}").splitlines()
            self.assertEqual(findings, [], rank)
            self.assertGreater(int(re.search(r"(\d+) meetings", first).group(1)), 0)

    def run_all(self, world, *options):
        """The report of the process that has the losses."""
        ends = self.ends(self.start(world, "--json", *options))
        self.assertEqual([end[0] for end in ends], [OK] * world, ends)
        self.expect_nothing_wrong(range(world))
        (report,) = [json.loads(out) for _, out, _ in ends if out]
        return report

    def expect_same_numbers(self, got, expected, allowed):
        self.assertEqual(len(got["steps"]), len(expected["steps"]))
        for mine, other in zip(got["steps"], expected["steps"]):
            for key in ("loss", "gradient_norm"):
                self.assertLessEqual(abs(mine[key] / other[key] - 1), allowed, (mine, other))

    def losses(self, report):
        return [step["loss"] for step in report["steps"]]


SEVERAL = (
    (2, ("--dp", "1", "--cp", "2", "--tp", "1", "--pp", "1"), GRAPHS),
    (4, ("--dp", "2", "--tp", "2", "--pp", "1", "--zero", "2", "--optimizer", "cpu"), ()),
)
MORE = (
    (2, ("--dp", "2", "--tp", "1", "--pp", "1", "--zero", "3"), ()),
    (3, ("--dp", "1", "--tp", "1", "--pp", "3"), GRAPHS),
    (4, ("--dp", "2", "--tp", "1", "--pp", "2", "--zero", "1"), GRAPHS),
)


class SameNumbers(GpuProcesses):
    def test_losses_are_those_of_the_cpu(self):
        asked = [(SHALLOW, *each) for each in SEVERAL]
        asked += [("tiny-gpt", *each) for each in MORE if EVERYTHING]
        for model, world, pins, launch in asked:
            self.cpu_plan(*pins, model=model)
            expected = self.good_json("run", "cpu.json", "--steps", "3")
            self.gpu_plan(*pins, *launch, model=model)
            self.expect_same_numbers(self.run_all(world, "--steps", "3"), expected, ALLOWED)

    def test_a_check_finds_what_one_rank_on_one_gpu_does(self):
        """That of fp32 is checked below, too, with other pins."""
        for kernel_set in ("cuda.sm90.bf16",) + (("cuda.sm90.fp32",) if EVERYTHING else ()):
            self.gpu_plan("--dp", "2", "--tp", "2", "--pp", "1", "--zero", "3",
                          kernel_set=kernel_set)
            check = self.run_all(4, "--steps", "3", "--check")["check"]
            self.assertGreaterEqual(len(check["rows"]), 4)
            self.assertTrue(all(row["agrees"] for row in check["rows"]), check)

    def test_a_check_begins_with_the_weights_that_the_run_begins_with(self):
        self.cpu_plan(*PAIR)
        self.good("run", "cpu.json", "--steps", "2", "--export", "mine")
        self.gpu_plan("--dp", "1", "--tp", "2", "--pp", "2")
        answer = self.run_all(4, "--steps", "2", "--check", "--weights", "mine")
        self.assertEqual((answer["weights"], answer["check"]["agrees"]), ("mine", True), answer)


class Timelines(GpuProcesses):
    def test_the_process_with_the_loss_writes_the_timeline_of_all(self):
        self.gpu_plan("--dp", "2", "--tp", "1", "--pp", "2")
        self.good("run", "plan.json", "--steps", "2", "--timeline", "one.json")
        self.run_all(4, "--steps", "2", "--timeline", "all.json", "--trace", "t")
        self.assert_alike("one.json", "all.json", ranks=4)
        self.assertGreater(len(self.read("t")), 1000)


class Keeping(GpuProcesses):
    def test_processes_that_go_on_end_with_the_bits_of_those_before(self):
        self.gpu_plan("--dp", "2", "--tp", "1", "--pp", "2", "--zero", "1", *GRAPHS)
        whole = self.run_all(4, "--steps", "4", "--save", "kept", "--every", "2")
        rest = self.run_all(4, "--steps", "4", "--resume-from", "kept/step-000002")
        self.assertEqual(rest["first_step"], 3)
        self.assertEqual(self.losses(rest), self.losses(whole)[2:])
        again = self.run_all(4, "--steps", "5", "--save", "kept", "--resume")
        self.assertEqual(again["first_step"], 5)


class CommonEnd(GpuProcesses):
    def test_a_process_that_is_killed_is_named_by_the_others(self):
        for lost, launch in ((0, ()), (1, GRAPHS)):
            self.gpu_plan(*PAIR, *launch)
            processes = self.start(2, *ENDLESS)
            self.wait_until_training(processes)
            processes[lost].send_signal(signal.SIGKILL)
            code, out, err = self.ends(processes)[1 - lost]
            self.assertEqual((code, out), (DEVICE, ""), err)
            self.assertRegex(self.last_line(err), f"rank {lost} is lost: .*; under way here: ")
            self.expect_nothing_wrong([1 - lost])

    def test_an_interruption_of_one_ends_all_after_the_same_step(self):
        self.gpu_plan(*PAIR)
        processes = self.start(2, *ENDLESS)
        self.wait_until_training(processes)
        processes[0].send_signal(signal.SIGINT)
        ends = self.ends(processes)
        self.assertEqual([end[0] for end in ends], [INTERRUPTED] * 2, ends)
        steps = [re.search(r"interrupted after ([\d,]+) step", err) for _, _, err in ends]
        self.assertTrue(all(steps), ends)
        self.assertEqual(steps[0].group(1), steps[1].group(1))
        self.expect_nothing_wrong(range(2))


if __name__ == "__main__":
    main()
