"""The worked examples of planner/cli/foreign/EXAMPLES.md: each command answers as the page quotes it."""

import os
import re
import shlex

from cli_support import CHECK_FAILED, INFEASIBLE, OK, ROOT, CliTest, main, zplan

PAGE = os.path.join(ROOT, "planner", "cli", "foreign", "EXAMPLES.md")
PROMPT = "$ ./zplan "
ELIDED = ".."


def sections():
    """Title, and (command, quoted lines) of each."""
    with open(PAGE, encoding="utf-8") as file:
        text = file.read()
    for part in text.split("\n## ")[1:]:
        examples = []
        for block in re.findall(r"```\n(.*?)```", part, re.DOTALL):
            for line in block.splitlines():
                if line.startswith(PROMPT):
                    examples.append((line[len(PROMPT):], []))
                else:
                    examples[-1][1].append(line)
        yield part.split("\n")[0], examples


def words(line):
    return " ".join(line.split())


def is_quote(quoted, line):
    """".." within a line stands for anything."""
    pattern = ".*".join(re.escape(words(part)) for part in quoted.split(f" {ELIDED} "))
    return re.fullmatch(pattern.removesuffix(re.escape(f" {ELIDED}")) + ".*", words(line))


class Examples(CliTest):
    def test_ten_questions_have_an_answer(self):
        self.assertEqual([title.split(".")[0] for title, _ in sections()],
                         [str(n) for n in range(1, 11)])

    def test_commands_answer_what_is_quoted(self):
        for title, examples in sections():
            self.assertTrue(examples, title)
            for command, quoted in examples:
                with self.subTest(question=title, command=command):
                    result = zplan(*shlex.split(command), cwd=ROOT)
                    self.assertIn(result.returncode, (OK, INFEASIBLE, CHECK_FAILED), result.stderr)
                    rest = iter(result.stdout.splitlines())
                    for line in quoted:
                        if line != ELIDED:
                            self.assertTrue(any(is_quote(line, each) for each in rest), line)

    def test_figures_of_the_text_are_quoted_below_it(self):
        """A figure with a unit that the sentences name stands in the answers of its section."""
        with open(PAGE, encoding="utf-8") as file:
            text = file.read()
        for part in text.split("\n## ")[1:]:
            blocks = "".join(re.findall(r"```\n(.*?)```", part, re.DOTALL))
            prose = re.sub(r"```\n.*?```", "", part, flags=re.DOTALL)
            for figure in re.findall(r"\d[\d.]* (?:GiB|TiB|s)\b", prose):
                self.assertIn(figure, blocks, part.split("\n")[0])


if __name__ == "__main__":
    main()
