"""The worked examples of planner/cli/foreign/EXAMPLES.md and the quoted answers of README.md: each
command answers as the page quotes it.

  examples_test.py PROGRAM ROOT --write   puts the answers of today into README.md
"""

import difflib
import os
import re
import shlex
import sys
import tempfile

from cli_support import CHECK_FAILED, INFEASIBLE, OK, ROOT, CliTest, main, zplan

PAGE = os.path.join(ROOT, "planner", "cli", "foreign", "EXAMPLES.md")
README = os.path.join(ROOT, "README.md")
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


def answers_of_readme(text):
    """Of each fence that quotes an answer: (commands, quoted lines)."""
    for block in re.findall(r"^```\n(\$ \./zplan .*?)```", text, re.DOTALL | re.MULTILINE):
        typed, quoted = re.fullmatch(r"((?:\$ (?:[^\n]*\\\n)*[^\n]*\n)+)(.*)", block, re.DOTALL).groups()
        lines = typed.replace("\\\n", " ").replace(";", "\n").splitlines()
        yield [line.split("./zplan ", 1)[1] for line in lines], quoted.splitlines()


def answer(commands, folder):
    """What the last of them prints."""
    for command in commands:
        result = zplan(*shlex.split(command), cwd=folder)
        if result.returncode != OK:
            raise AssertionError(f"{command}: {result.stderr}")
    return result.stdout.splitlines()


def missing(quoted, lines):
    """The quoted lines that do not stand in the answer, in order."""
    rest = iter(lines)
    return [line for line in quoted
            if line.strip() not in ("", ELIDED) and not any(is_quote(line, each) for each in rest)]


def write_readme():
    with open(README, encoding="utf-8") as file:
        text = file.read()
    for commands, quoted in list(answers_of_readme(text)):
        with tempfile.TemporaryDirectory() as folder:
            lines = answer(commands, folder)
        kept = [line for line in quoted if line.strip() not in ("", ELIDED)]
        closest = {line: difflib.get_close_matches(line, lines, 1, 0.5) or [line] for line in kept}
        new = [closest[line][0] if line in closest else line for line in quoted]
        text = text.replace("\n".join(quoted), "\n".join(new), 1)
    with open(README, "w", encoding="utf-8") as file:
        file.write(text)


class Readme(CliTest):
    def test_commands_answer_what_is_quoted(self):
        with open(README, encoding="utf-8") as file:
            examples = list(answers_of_readme(file.read()))
        self.assertGreaterEqual(len(examples), 6)
        for commands, quoted in examples:
            with self.subTest(commands=commands), tempfile.TemporaryDirectory() as folder:
                lines = answer(commands, folder)
                self.assertEqual(missing(quoted, lines), [], "\n".join(lines))


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
    if sys.argv[3:] == ["--write"]:
        write_readme()
    else:
        main()
