"""`cmake --install`: the program works without the tree that it was built from, and the package
builds a program of somebody else (tests/consumer)."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from cli_support import PROGRAM, ROOT, main

BUILD = os.path.dirname(os.path.dirname(PROGRAM))
# Whoever may mount: an empty folder in place of both trees.
HIDING = ["unshare", "--mount", "--map-root-user", "sh", "-c",
          'for d in $HIDDEN; do mount -t tmpfs none "$d" || exit 99; done; exec "$@"', "sh"]


def called(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False,
                          **options)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = os.path.join(folder.name, "usr")
        cls.work = os.path.join(folder.name, "work")
        os.mkdir(cls.work)
        result = called("cmake", "--install", BUILD, "--prefix", cls.prefix)
        if result.returncode != 0:
            raise AssertionError(result.stdout + result.stderr)

    def installed(self, *parts):
        return os.path.join(self.prefix, *parts)

    def zplan(self, *arguments):
        """stdout of the installed program, where it can be with both trees hidden."""
        command = [self.installed("bin", "zplan"), *arguments]
        environment = dict(os.environ, HIDDEN=f"{ROOT} {BUILD}")
        # Whatever lies in a hidden tree must not be needed to start either.
        result = called(*HIDING, *command, cwd=self.work, env=environment)
        if result.returncode in (1, 99, 126, 127) and "mount" in result.stderr + result.stdout:
            result = called(*command, cwd=self.work)
        self.assertEqual((result.returncode, result.stderr), (0, ""), arguments)
        return result.stdout

    def test_the_program_needs_no_source_tree(self):
        answer = json.loads(self.zplan("plan", "--model", "tiny-gpt", "--cluster", "workstation",
                                       "-o", "plan.json", "--json"))
        self.assertEqual(answer["schema"], "zplan.answer/1")
        self.assertIn("loss", self.zplan("run", "plan.json", "--steps", "1"))
        self.assertIn("llama3-70b", self.zplan("models"))
        self.assertIn("dgx-h100", self.zplan("clusters"))

    def test_completions_and_manual_are_those_of_the_program(self):
        for shell, place in (("bash", "share/bash-completion/completions/zplan"),
                             ("zsh", "share/zsh/site-functions/_zplan"),
                             ("fish", "share/fish/vendor_completions.d/zplan.fish")):
            with open(self.installed(place), encoding="utf-8") as file:
                self.assertEqual(file.read(), self.zplan("completion", shell), shell)
        with open(self.installed("share/man/man1/zplan.1"), encoding="utf-8") as file:
            self.assertEqual(file.read(), self.zplan("manual"))

    def test_schemas_and_catalogues_are_there_to_read(self):
        for place, schema in (("schemas/answer.json", None), ("models/tiny-gpt.json", "model"),
                              ("hwprofiles/dgx2.json", "hw")):
            with open(self.installed("share/zplan", place), encoding="utf-8") as file:
                read = json.load(file)
            if schema:
                self.assertEqual(read["schema"], f"zplan.{schema}/1")
        # A file of the catalogue is one that may be edited and named.
        shutil.copy(self.installed("share/zplan/models/tiny-gpt.json"), self.work)
        self.assertIn("tiny-gpt", self.zplan("models", "./tiny-gpt.json"))

    def test_a_program_of_somebody_else_finds_the_package(self):
        build = os.path.join(self.work, "consumer")
        result = called("cmake", "-S", os.path.join(ROOT, "tests/consumer"), "-B", build,
                        f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_BUILD_TYPE=Release")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = called("cmake", "--build", build)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        result = called(os.path.join(build, "consumer"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["model"], "tiny-gpt")

    def test_headers_name_no_file_that_is_not_installed(self):
        include = self.installed("include/zplan")
        for folder, _, names in os.walk(include):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    for line in file:
                        if line.startswith('#include "'):
                            wanted = line.split('"')[1]
                            self.assertTrue(os.path.exists(os.path.join(include, wanted)),
                                            f"{name}: {wanted}")


if __name__ == "__main__":
    main()
