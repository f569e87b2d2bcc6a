"""The questions of tests/data/questions.json: each command gives the line that answers it.

Times are not asserted: reports/questions.md has them beside their goal.
"""

import os
import re
import sys

from cli_support import EVERYTHING, PROGRAM, ROOT, CliTest, main

sys.path.insert(0, os.path.join(ROOT, "tests", "golden"))
import questions  # noqa: E402

# Questions that take seconds; `tests/run` leaves them to the test that asks the like.
ELSEWHERE = {
    "zplan --model 32T --cluster dgx2x32 --tp 1 --pp 1": "largest_models_test.py",
    "zplan --model llama3-8b --cluster dgx-h100x4 --objective cheapest": "objective_test.py",
    "zplan why-not --model 10B --cluster dgx2 --zero 2": "explain_test.py",
}


class Questions(CliTest):
    def test_there_are_thirty_and_no_two_are_alike(self):
        asked = questions.questions()
        self.assertGreaterEqual(len(asked), 30)
        self.assertEqual(len({one["question"] for one in asked}), len(asked))
        self.assertEqual(len({one["command"] for one in asked}), len(asked))

    def test_each_is_answered_by_its_command(self):
        asked = questions.questions()
        self.assertLessEqual(set(ELSEWHERE), {one["command"] for one in asked})
        for one in asked:
            if one["command"] in ELSEWHERE and not EVERYTHING:
                continue
            with self.subTest(question=one["question"]):
                found = questions.ask(PROGRAM, one)
                self.assertEqual(found["exit"], one.get("exit", 0), found["text"])
                self.assertIsNotNone(questions.answering(one, found["text"]), found["text"])
                for line in one.get("also", ()):
                    self.assertRegex(found["text"], re.compile(line, re.MULTILINE))

    def test_what_the_page_leaves_out_is_marked(self):
        text = "\n".join(f"line {i}" for i in range(40))
        shown = questions.shortened({"answer": "line 20"}, text)
        self.assertEqual(shown[0], "line 0")
        self.assertIn("line 20", shown)
        self.assertEqual(shown.count(".."), 2)
        short = questions.shortened({"answer": "b"}, "a\nb\n")
        self.assertEqual(short, ["a", "b"])


if __name__ == "__main__":
    main()
