"""The help: its first screen, a page for each subcommand and for the pins; what is typed from other
tools is answered with what to type here."""

import csv
import io
import re

from cli_support import BAD_INPUT, INFEASIBLE, OK, CliTest, main

TINY = ("--model", "tiny-gpt", "--cluster", "workstation")
GPT2 = ("--model", "gpt2", "--cluster", "dgx2")
WIDTH, FIRST_LINES, SUBCOMMAND_LINES, HINT_LETTERS = 100, 40, 80, 220
# Words that the style guide has others for, but in the names of options.
OTHER_WORDS = re.compile(
    r"(?<![-\w])(homes?|farther|nearer|micro-?steps?|replay\w*|pieces?|recipes?|stack'?s?|anchors?|"
    r"lanes?|exchange\w*|ring ranks|stretch|meetings?|reliance|rungs?|climb|knobs?|siblings?|"
    r"foreign|sheets?|facts?|wrong|told|complain)(?![-\w])", re.IGNORECASE)
PAGES = (("help", "all"), ("help", "pins"), ("help", "kernel-sets"), ("--help",),
         ("calibrate", "--suggest", "--help"))


class Pages(CliTest):
    def pages(self):
        calls = [*PAGES, *((name, "--help") for name in self.subcommands())]
        return {" ".join(call): self.good(*call) for call in calls}

    def test_the_first_screen_is_one(self):
        text = self.good("-h")
        lines = text.splitlines()
        self.assertLessEqual(len(lines), FIRST_LINES)
        self.assertLessEqual(max(map(len, lines)), WIDTH)
        for name in self.subcommands():
            self.assertRegex(text, rf"[ ,]{name}(,|\n)", name)
        self.assertEqual(text, self.good(*TINY, "--help"))

    def test_each_subcommand_has_two_screens_at_most(self):
        for name in self.subcommands():
            lines = self.good(name, "--help").splitlines()
            self.assertLessEqual(len(lines), SUBCOMMAND_LINES, name)

    def test_lines_fit_but_for_examples_and_lists_of_words(self):
        for page, text in self.pages().items():
            for line in text.splitlines():
                if "./zplan" not in line and "|" not in line:
                    self.assertLessEqual(len(line), WIDTH, (page, line))

    def test_speaks_in_the_words_of_the_field(self):
        for page, text in self.pages().items():
            for line in text.splitlines():
                if "An axis is" in line:  # which lists names of options
                    continue
                plain = re.sub(r'"[^"]*"|--?[a-z-]+', "", line)
                self.assertIsNone(OTHER_WORDS.search(plain), (page, line))

    def test_pins_stand_on_a_page_of_their_own_and_in_no_other(self):
        pins = self.good("help", "pins")
        for option in ("--tp", "--zero", "--optimizer", "--recompute", "--ep", "--lora-rank",
                       "--launch", "--bucket", "--precision", "--gpu-indices"):
            self.assertRegex(pins, rf"(?m)^  {option}\b")
        for subject in ("Parallelism", "Pipeline schedule", "ZeRO and sharding", "Offload",
                        "Recomputation", "Experts", "Optimizer", "LoRA", "Launch"):
            self.assertIn(subject, pins)
        self.assertNotRegex(self.good("plan", "--help"), r"(?m)^  --tp\b")

    def test_kernel_sets_are_listed(self):
        text = self.good("help", "kernel-sets")
        for words in ("cpu.f32 ", "cuda.sm90.bf16 ", "planned and simulated only"):
            self.assertIn(words, text)


class Hints(CliTest):
    """tests/unit/cli/hints_test.cpp tries all rows of the tables."""

    def hint(self, *arguments, says):
        self.bad(BAD_INPUT, *arguments, says=says)
        self.assertLess(len(self.zplan(*arguments).stderr), HINT_LETTERS, arguments)

    def test_of_options(self):
        for typed, says in (("--lora", "type --train lora"), ("--nodes", "workstationx4"),
                            ("--seq_len", "type --seq N"), ("--gpu", "--cluster"),
                            ("--gbs", "type --global-batch N"), ("--offload", "--optimizer cpu"),
                            ("--frobnicate", "zplan --help lists the options")):
            self.hint(*TINY, typed, "4", says=says)
        self.hint("memory", *TINY, "--frobnicate", says="zplan memory --help lists the options")
        self.hint("clusters", "--lora", says="zplan clusters --help")

    def test_of_subcommands(self):
        for typed, says in (("estimate", "zplan plan"), ("train", "zplan run"),
                            ("memory-usage", "zplan memory"), ("foo", "zplan help all")):
            self.hint(typed, says=says)

    def test_of_values(self):
        self.hint(*TINY, "--optimizer", "adamw", says="--optimizer-kind adamw")
        self.hint(*TINY, "--params", "13B", says="--model 13B")
        self.hint(*TINY, "--schedule", "vpp", says="interleaved")

    def test_name_the_nearest_and_the_page_where_there_are_many(self):
        self.hint(*TINY, "--kernel-set", "cpu.f23", says='"cpu.f32"? (zplan help kernel-sets lists all')
        self.hint(*TINY, "--set", "nvmee=3", says='"nvme"')
        self.hint("sweep", *TINY, "--over", "tpp=1,2", says='"tp"')
        self.hint("explain", *TINY, "time.mfuu", says='"time.mfu"')


class Gpus(CliTest):
    def test_are_a_number(self):
        for count in (1, 4, 16):
            plan = self.good_json(*GPT2, "--gpus", str(count))["plan"]["parallel"]
            self.assertEqual(plan["dp"] * plan["tp"] * plan["pp"], count)
        self.bad(BAD_INPUT, *GPT2, "--gpus", "17", says="at most 16")
        for word in ("0", "1.5", "x"):
            self.bad(BAD_INPUT, *GPT2, "--gpus", word, says="--gpus: expected a whole number")
        self.bad(BAD_INPUT, *GPT2, "--gpus", "4", "--objective", "cheapest", says="--gpus: ")

    def test_are_an_axis_whose_rows_count_per_gpu_that_is_used(self):
        rows = self.zplan("sweep", *GPT2, "--over", "gpus=4,16", "--simulations", "1", "--csv")
        self.assertEqual(rows.returncode, OK, rows.stderr)
        table = list(csv.DictReader(io.StringIO(rows.stdout)))
        few, all_of_them = (float(row["tokens_per_s_per_device"]) for row in table)
        self.assertLess(abs(few / all_of_them - 1), 0.1)

    def test_of_a_list_have_another_name(self):
        self.bad(BAD_INPUT, *GPT2, "--gpus", "0,4", says="type --gpu-indices 0,4")
        plan = self.good_json(*GPT2, "--dp", "2", "--tp", "1", "--pp", "1", "--gpu-indices", "0,8",
                              "--gpus", "2")
        self.assertEqual(plan["plan"]["parallel"]["gpus"], [0, 8])

    def test_are_the_same_for_what_is_explained(self):
        answer = self.good_json("why-not", *GPT2, "--zero", "3", "--gpus", "2")
        self.assertEqual(answer["schema"], "zplan.why_not/1")
        self.bad(BAD_INPUT, "memory", self.tiny_plan(), "--gpus", "2", says="--gpus: expected no plan")


class PlanOrQuestion(CliTest):
    def test_either_is_taken(self):
        question = (*TINY, "--dp", "2", "--tp", "1", "--pp", "1")
        for name, rest in (("simulate", ()), ("memory", ()), ("bandwidth", ()), ("lower", ()),
                           ("explain", ()), ("sensitivity", ()), ("goodput", ("--tokens", "1B")),
                           ("export", ("--to", "deepspeed"))):
            with self.subTest(name=name):
                self.tiny_plan("--dp", "2", "--tp", "1", "--pp", "1")
                of_file = self.zplan(name, "plan.json", *rest)
                asked = self.zplan(name, *question, *rest)
                self.assertEqual((of_file.returncode, asked.returncode), (OK, OK), asked.stderr)
        self.bad(BAD_INPUT, "simulate", "plan.json", *TINY, says="expected no plan file")

    def test_no_plan_is_said_once(self):
        question = ("--model", "1T", "--cluster", "workstation")
        answer = self.zplan(*question)
        self.assertEqual((answer.returncode, answer.stderr), (INFEASIBLE, ""))
        self.assertEqual(answer.stdout.count("does not fit"), 1)
        for name in ("simulate", "memory", "lower"):
            self.bad(INFEASIBLE, name, *question, says="does not fit on workstation")


class Run(CliTest):
    def test_tokens_and_a_price_go_with_every_objective(self):
        self.good(*TINY, "--tokens", "1B", "--price", "2.5/h")
        for option in ("--tokens", "--price"):
            self.bad(BAD_INPUT, *TINY, option, "0", says=f"{option}: expected a number above 0")
        self.bad(BAD_INPUT, "what-if", *TINY, "--set", "nodes=2", "--price", "2", says="cheapest")


if __name__ == "__main__":
    main()
