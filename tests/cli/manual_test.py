"""zplan manual: the page holds every option of the help, and formatters take it without a word."""

import re
import shutil
import subprocess
import unittest

from cli_support import CliTest, main


class Manual(CliTest):
    def setUp(self):
        super().setUp()
        self.page = self.good("manual")
        self.write("zplan.1", self.page)

    def section(self, name):
        after = self.page.split(f"\n.SS {name}\n")[1]
        return re.split(r"\n\.S[SH] ", after)[0]

    def options_of(self, text):
        return {name.replace("\\-", "-") for name in re.findall(r"\\fB(\\-\\-(?:\\-|[a-z0-9])+)", text)}

    def test_has_all_subcommands_and_their_options(self):
        names = self.subcommands()
        self.assertGreater(len(names), 20)
        of_plan = self.options_of(self.section("plan"))
        self.assertGreater(len(of_plan), 50)
        for name in names:
            shown = self.options(name)
            section = self.section(name)
            here = self.options_of(section)
            self.assertLessEqual(here, shown, name)
            if "as those of" in section:
                self.assertEqual(here | (shown & of_plan), shown, name)
            else:
                self.assertEqual(here, shown, name)

    def test_is_plain_text_without_requests_by_accident(self):
        self.assertTrue(self.page.isascii())
        for line in self.page.splitlines():
            if line.startswith((".", "'")):
                self.assertRegex(line, r"^\.(TH|SH|SS|TP|PP|nf|fi|sp)\b")

    def test_says_the_exit_codes_of_the_help(self):
        codes = " ".join(self.good("help", "all").split("Exit codes: ")[1].split()).rstrip(".")
        page = " ".join(self.page.split('.SH "EXIT STATUS"\n')[1].split())
        self.assertEqual(page, codes)

    @unittest.skipUnless(shutil.which("groff"), "no groff")
    def test_groff_formats_it_without_warnings(self):
        result = subprocess.run(["groff", "-ww", "-man", "-Tascii", self.path("zplan.1")],
                                capture_output=True, text=True, check=True)
        self.assertEqual(result.stderr, "")
        plain = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", result.stdout)
        self.assertIn("--global-batch", plain)
        self.assertIn("EXIT STATUS", plain)

    @unittest.skipUnless(shutil.which("mandoc"), "no mandoc")
    def test_mandoc_finds_no_error(self):
        result = subprocess.run(["mandoc", "-T", "lint", "-W", "error", self.path("zplan.1")],
                                capture_output=True, text=True, check=False)
        self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    main()
