"""Models with experts on clusters that they were trained on, in their published layouts.

Each layout of tests/data/expert_layouts.jsonl is planned with all of its decisions pinned: it is
legal, it fits, and the printed interval contains the published time. A layout that says what it
`misses` must miss it, so that the file stays true.
"""

import json
import pathlib
import re

from cli_support import OK, ROOT, CliTest, main

DATA = pathlib.Path(ROOT) / "tests" / "data"


def models_with_experts():
    """Those of the catalogue, without the tiny ones of the tests."""
    for path in sorted((pathlib.Path(ROOT) / "models" / "catalogue").glob("*.json")):
        if '"experts"' in path.read_text() and not path.stem.startswith("tiny-"):
            yield path.stem


class ExpertLayouts(CliTest):
    layouts = [json.loads(line) for line in (DATA / "expert_layouts.jsonl").read_text().splitlines()]

    def planned(self, layout):
        options = layout["options"].split()
        result = self.zplan("plan", "--model", layout["model"], "--cluster", layout["cluster"],
                            *options, "--json")  # fmt: skip
        self.assertEqual(result.returncode, OK, result.stderr)
        return json.loads(result.stdout)

    def test_published_layouts_are_legal_fit_and_take_a_time_of_their_interval(self):
        for layout in self.layouts:
            with self.subTest(layout["id"]):
                answer = self.planned(layout)
                self.assertTrue(answer["feasible"])
                interval, published = answer["time"]["interval"], layout["step_time_s"]
                if published is None:
                    continue
                inside = interval["low_s"] <= published <= interval["high_s"]
                self.assertEqual(inside, "misses" not in layout,
                                 f"{published} s, {interval}")  # fmt: skip

    def test_each_model_of_the_catalogue_has_one(self):
        told = {layout["model"] for layout in self.layouts}
        # DeepSeek-V3 has a record of its own (automodel/deepseek_v3_256), read below.
        self.assertEqual(set(models_with_experts()) - told, {"deepseek-v3"})

    def test_deepseek_v3_on_256_h100(self):
        runs = (DATA / "expert_runs.jsonl").read_text().splitlines()
        record = next(line for line in runs if '"automodel/deepseek_v3_256"' in line)
        row = self.good_json("validate", self.write("one.jsonl", record + "\n"))["rows"][0]
        self.assertLess(row["low_s"], row["measured_s"])
        self.assertGreater(row["high_s"], row["measured_s"])

    def test_of_six_runs_those_that_ran_out_of_memory_do_not_fit(self):
        runs = [json.loads(line) for line in (DATA / "expert_runs.jsonl").read_text().splitlines()]
        six = [run for run in runs if run["id"].startswith("mbridge_skills/nemotron3_nano_16h100_")]
        self.assertEqual(len(six), 6)
        file = self.write("six.jsonl", "".join(json.dumps(run) + "\n" for run in six))
        for row in self.good_json("validate", file)["rows"]:
            self.assertEqual(row["fits"], not row["out_of_memory"], row["id"])

    def test_what_twice_the_imbalance_would_cost_is_said(self):
        text = self.good("plan", "--model", "qwen3-30b-a3b", "--cluster", "dgx-h100x2", "--ep", "8",
                         "--details")
        said = re.search(
            r"busiest rank is taken to have ([\d.]+) times the mean to\s+do; with ([\d.]+) times", text
        )
        self.assertIsNotNone(said, text)
        self.assertAlmostEqual(2 * float(said[1]), float(said[2]))
        worst = self.good("plan", "--details", "--model", "qwen3-30b-a3b", "--cluster", "dgx-h100x2",
                          "--ep", "8", "--expert-imbalance", "worst")  # fmt: skip
        self.assertNotIn("busiest rank is taken", worst)


if __name__ == "__main__":
    main()
