#!/usr/bin/env python3
"""The script ./zplan in a copy of the checkout whose cmake is a stand-in, and the program that asks
it for the executor."""

import os
import shutil
import signal
import subprocess
import time

from cli_support import BAD_INPUT, DEVICE, INTERRUPTED, OK, PROGRAM, ROOT, TIMEOUT_S, CliTest, main

BUILD_FAILED = 3
# What the script uses; neither apt-get nor a compiler is there.
TOOLS = "bash cat env find flock grep mkdir mv readlink rm sleep touch".split()
# Writes what it is asked for to `asked`. FAIL and WAIT are files that make it fail, or last long.
CMAKE = """#!/usr/bin/env bash
echo "$*" >>asked
if [[ $1 == --preset ]]; then
  mkdir -p build/release/bin
  echo zplan_cuda_plugin >build/release/build.ninja
  exit
fi
if [[ -e WAIT ]]; then touch waits; sleep 60; fi
if [[ -e FAIL ]]; then exit 1; fi
case $4 in
  zplan_cli) name=zplan ;;
  zplan_executor) name=zplan-executor ;;
  *) name=libzplan_cuda.so ;;
esac
touch build/release/bin/$name
"""


def write_script(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


def wait_for(path):
    """Until the file is there."""
    end = time.monotonic() + TIMEOUT_S
    while not os.path.exists(path):
        if time.monotonic() > end:
            raise AssertionError(f"{path} does not appear")
        time.sleep(0.01)


class Launcher(CliTest):
    """self.folder is the checkout."""

    def setUp(self):
        super().setUp()
        for folder in ("sim", "planner", "exec", "hwprofiles", "models", "tools", "tests/support"):
            os.makedirs(self.path(folder))
        for name in ("CMakeLists.txt", "CMakePresets.json", "planner/source.cpp"):
            self.write(name, "")
        for name in ("zplan", "tests/support/packages.sh"):
            shutil.copy(os.path.join(ROOT, name), self.path(name))
        for tool in TOOLS:
            os.symlink(shutil.which(tool), self.path(f"tools/{tool}"))
        write_script(self.path("tools/cmake"), CMAKE)

    def start(self, *arguments):
        process = subprocess.Popen(
            [self.path("zplan"), *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={"PATH": self.path("tools")})
        self.addCleanup(process.kill)
        return process

    def build(self, *arguments):
        process = self.start("--build", *arguments)
        out, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(out, "")
        return process.returncode, err

    def asked(self):
        """What cmake was asked for since the last call."""
        if not os.path.exists(self.path("asked")):
            return []
        lines = self.read("asked").splitlines()
        os.remove(self.path("asked"))
        return lines

    def target(self, name):
        return f"--build {self.path('build/release')} --target {name}"

    def test_a_part_is_built_when_it_is_missing_or_older_than_its_sources(self):
        self.assertEqual(self.build("executor")[0], OK)
        self.assertEqual(self.asked(), ["--preset release", self.target("zplan_executor")])
        self.assertEqual(self.build("executor"), (OK, ""))
        self.assertEqual(self.asked(), [])
        future = time.time() + 60
        os.utime(self.path("planner/source.cpp"), (future, future))
        self.assertEqual(self.build("executor")[0], OK)
        self.assertEqual(self.asked(), [self.target("zplan_executor")])
        os.utime(self.path("planner/source.cpp"))
        os.remove(self.path("build/release/bin/zplan-executor"))
        self.assertEqual(self.build("executor")[0], OK)
        self.assertEqual(self.asked(), [self.target("zplan_executor")])

    def test_each_part_has_a_target_of_its_own(self):
        for part, target in (("program", "zplan_cli"), ("cuda", "zplan_cuda_plugin")):
            code, err = self.build(part)
            self.assertEqual(code, OK)
            self.assertRegex(err, "zplan: building .*the first time takes some minutes")
            self.assertEqual(self.asked()[-1], self.target(target))

    def test_without_a_toolkit_there_is_no_target_for_gpus(self):
        self.build("program")
        self.write("build/release/build.ninja", "")
        self.asked()
        self.assertEqual(self.build("cuda"), (OK, ""))
        self.assertEqual(self.asked(), [])

    def test_a_checkout_that_was_moved_is_built_anew(self):
        self.build("program")
        self.write("build/release/.built-program", "/elsewhere\n")
        self.write("build/release/left", "")
        self.asked()
        self.assertEqual(self.build("program")[0], OK)
        self.assertEqual(self.asked(), ["--preset release", self.target("zplan_cli")])
        self.assertFalse(os.path.exists(self.path("build/release/left")))

    def test_an_unknown_part_is_refused(self):
        for part in ("everything", ""):
            self.assertEqual(self.build(part), (
                BAD_INPUT, "zplan: --build: expected program, executor or cuda\n"))
        self.assertEqual(self.build()[0], BAD_INPUT)
        self.assertEqual(self.asked(), [])

    def test_a_build_that_fails_is_tried_again(self):
        self.write("FAIL", "")
        code, err = self.build("executor")
        self.assertEqual(code, BUILD_FAILED)
        self.assertIn("zplan: the build failed, see the messages above", err)
        os.remove(self.path("FAIL"))
        self.asked()
        self.assertEqual(self.build("executor")[0], OK)
        self.assertEqual(self.asked(), [self.target("zplan_executor")])

    def test_an_interrupted_build_is_no_failure(self):
        """As Ctrl-C does, which all processes of the terminal get."""
        self.write("WAIT", "")
        process = self.start("--build", "executor")
        wait_for(self.path("waits"))
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.assertNotIn("failed", err)


class HandOver(CliTest):
    """The program alone in a folder, with a stand-in for ./zplan, which has its first word."""

    def setUp(self):
        super().setUp()
        self.program = self.path("zplan")
        try:
            os.link(PROGRAM, self.program)
        except OSError:  # another file system
            shutil.copy(PROGRAM, self.program)

    def start(self, launcher, *arguments, **environment):
        write_script(self.path("launcher"), f"#!/usr/bin/env bash\ncd '{self.folder}'\n{launcher}\n")
        process = subprocess.Popen(
            [self.program, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "ZPLAN_LAUNCHER": self.path("launcher"), **environment})
        self.addCleanup(process.kill)
        return process

    def end(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=TIMEOUT_S)
        return process.returncode, out, err

    def test_the_executor_is_built_first_and_takes_over(self):
        launcher = """echo "$@" >asked
            printf '#!/usr/bin/env bash\\necho ran "$@"\\nexit 5\\n' >zplan-executor
            chmod +x zplan-executor"""
        self.assertEqual(self.end(launcher, "run", "a plan.json", "--steps", "2"),
                         (5, "ran run a plan.json --steps 2\n", ""))
        self.assertEqual(self.read("asked"), "--build executor\n")

    def test_answers_do_without_the_executor(self):
        code, _, err = self.end("touch asked", "models")
        self.assertEqual((code, err), (OK, ""))
        self.assertFalse(os.path.exists(self.path("asked")))

    def test_a_build_that_fails_is_a_line(self):
        code, out, err = self.end("exit 3", "run", "plan.json")
        self.assertEqual((code, out), (DEVICE, ""))
        self.one_line(err, "--build executor failed, see the messages above")

    def test_an_interrupted_build_has_the_code_of_an_interruption(self):
        for launcher in ("exit 130", "kill -INT $$"):
            code, out, err = self.end(launcher, "run", "plan.json")
            self.assertEqual((code, out), (INTERRUPTED, ""))
            self.one_line(err, "--build executor was interrupted")

    def test_an_interrupt_is_for_the_build_which_is_waited_for(self):
        process = self.start("trap 'touch ended; exit 130' INT; touch waits;"
                             "for ((i = 0; i < 600; ++i)); do sleep 0.1; done",
                             "run", "plan.json")
        wait_for(self.path("waits"))
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, INTERRUPTED, err)
        self.one_line(err, "was interrupted")
        self.assertTrue(os.path.exists(self.path("ended")))


if __name__ == "__main__":
    main()
