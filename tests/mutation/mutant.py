"""Programs with a fault, made of what was built without it.

Only what is made of the file with the fault is compiled anew, and linked in the place of what was
built. A fault that the compiler warns of is still a program, which a test must notice.
"""

import functools
import json
import os
import re
import shutil
import subprocess

# A program that another one starts, and looks for beside itself.
STARTED = {"zplan_cli": ["zplan_executor"]}


class DoesNotBuild(Exception):
    """With the output of the compiler or the linker."""


class Built:
    """A build with Ninja: its commands, and the files that each object is made of."""

    def __init__(self, tree, build):
        self.tree, self.build = tree, build
        commands = json.loads((build / "compile_commands.json").read_text())
        self.compilations = {re.search(r" -o (\S+)", entry["command"])[1]: entry for entry in commands}
        rules = (build / "build.ninja").read_text()
        self.members = {archive: objects.split() for archive, objects in
                        re.findall(r"^build (\S+\.a): \S+ ([^|\n]*)", rules, re.M)}
        self.files = {}
        for line in self.ask("deps").splitlines():
            if line.startswith("    "):
                self.files[made].add(os.path.relpath(os.path.join(build, line.strip()), tree))
            elif line:
                made = line.split(": #deps")[0]
                self.files[made] = set()
        for files in self.files.values():  # what is in precompiled headers is not named again
            for header in [each for each in files if each.endswith(".gch")]:
                files |= self.files.get(os.path.relpath(tree / header, build), set())

    def ask(self, *words):
        return subprocess.run(["ninja", "-C", str(self.build), "-t", *words], text=True, check=True,
                              capture_output=True).stdout

    @functools.cache
    def link_command(self, target):
        return self.ask("commands", target).splitlines()[-1]

    @functools.cache
    def objects_of(self, target):
        words = self.link_command(target).split()
        objects = [word for word in words if word.endswith(".o")]
        return objects + [member for word in dict.fromkeys(words)
                          for member in self.members.get(word, ())]

    def made_of(self, target, file):
        """The objects of a target that a file goes into."""
        return [each for each in self.objects_of(target) if file in self.files.get(each, ())]


class Mutant:
    """One fault; its files lie in a folder of its own. CALL(command) gives code and output."""

    def __init__(self, built, fault, folder, call):
        self.built, self.file, self.folder, self.call = built, fault["file"], folder, call
        text = (built.tree / self.file).read_text()
        self.changed = folder / "source" / self.file
        self.changed.parent.mkdir(parents=True, exist_ok=True)
        self.changed.write_text(text.replace(fault["old"], fault["new"]))
        self.objects = {}

    def compile(self, made):
        """The object with the fault that stands for this one."""
        if made in self.objects:
            return self.objects[made]
        entry = self.built.compilations[made]
        mine = str(self.folder / f"{len(self.objects)}.o")
        command, source = entry["command"].replace(made, mine), entry["file"]
        if source == str(self.built.tree / self.file):
            command = command.replace(source, str(self.changed))
        else:  # precompiled, the header would still be without the fault
            command = re.sub(r" -include \S+/cmake_pch\.hxx", "", command)
        self.run(f"{command} -Wno-error -iquote {self.folder / 'source'}")
        self.objects[made] = mine
        return mine

    def program(self, target):
        """The path of a program; none of a target that the fault does not touch."""
        together = [target, *STARTED.get(target, ())]
        if not any(self.built.made_of(each, self.file) for each in together):
            return None
        return [self.linked(each) for each in together][0]

    def linked(self, target):
        """A program in the folder of this fault, as it was built where the fault does not touch it."""
        command = self.built.link_command(target)
        path = re.search(r" -o (\S+)", command)[1]
        mine = str(self.folder / os.path.basename(path))
        touched = self.built.made_of(target, self.file)
        if not touched:
            shutil.copy(self.built.build / path, mine)
            return mine
        for made in touched:
            command = command.replace(f" {made} ", " ")
        objects = " ".join(self.compile(made) for made in touched)
        self.run(command.replace(f" -o {path} ", f" -Wl,-z,muldefs {objects} -o {mine} "))
        return mine

    def run(self, command):
        code, output = self.call(["sh", "-c", command])
        if code != 0:
            raise DoesNotBuild(output)
