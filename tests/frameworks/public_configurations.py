"""zplan check over the configurations of public repositories.

  public_configurations.py ZPLAN CHECKOUT... [-o FILE] [--jobs N] [--only WORDS]
  public_configurations.py ZPLAN --check tests/data/public_configurations.jsonl

A CHECKOUT is a git directory or a work tree, in a folder OWNER+NAME or named OWNER/NAME=PATH. Its newest
commit is searched for configurations of DeepSpeed, Megatron-LM, torchtitan, Accelerate and the Trainer.
Each is checked from the top of its repository in TIME_LIMIT_S: with MODEL where it describes none, on
CLUSTER, scripts on CLUSTER_OF_SCRIPTS, with the Trainer where it says "auto". Printed, and written to
FILE as JSON, is a line per file: repository, commit, path, sha256, and

  outcome  "read", with the framework, the verdict and the keys that were not known; "refused", with the
           line that says why; "broken", which is zplan's fault, always

Exit code 1 if any is broken. The files themselves are other people's and are not kept. --check does it
again for the checkouts that ZPLAN_CHECKOUTS names, with ":" between, where they have the files recorded, and
compares outcomes and frameworks; exit code 77, skipped, where there are none.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

MODEL = "llama3-8b"
CLUSTER = "dgx-h100"
CLUSTER_OF_SCRIPTS = "dgx-h100x8"
TIME_LIMIT_S = 120

# What a file of each ending has somewhere if it is a configuration.
SIGNS = {
    "json": r'"(zero_optimization|train_micro_batch_size_per_gpu|train_batch_size'
            r'|per_device_train_batch_size)"',
    "sh": r"--(micro-batch-size|tensor-model-parallel-size|per_device_train_batch_size)",
    "yaml": r"^(MODEL_ARGS|compute_environment|distributed_type|per_device_train_batch_size):",
    "yml": r"^(MODEL_ARGS|compute_environment|distributed_type|per_device_train_batch_size):",
    "slurm": r"--(micro-batch-size|tensor-model-parallel-size)",
    "toml": r"^\[(parallelism|training)\]",
}
SCRIPTS = (".sh", ".slurm")
READ = {0: "fits", 1: "does not fit", 5: "errors"}
REFUSED = 2
SKIPPED = 77


def git(directory, *arguments):
    return subprocess.run(["git", "-C", directory, *arguments], capture_output=True,
                          check=False).stdout


class Checkout:
    def __init__(self, text):
        name, equals, path = text.partition("=")
        self.path = path if equals else text
        self.name = name if equals else self.name_of(text)
        self.commit = git(self.path, "rev-parse", "HEAD").decode().strip()

    @staticmethod
    def name_of(path):
        for part in reversed(os.path.abspath(path).split(os.sep)):
            if "+" in part:
                return part.replace("+", "/")
        raise SystemExit(f"{path}: expected a folder OWNER+NAME, or OWNER/NAME={path}")

    def configurations(self):
        """Paths, sorted."""
        found = []
        for ending, sign in SIGNS.items():
            listed = git(self.path, "grep", "-lzE", "-e", sign, "HEAD", "--", f"*.{ending}")
            found += [each.split(":", 1)[1] for each in listed.decode().split("\0") if each]
        return sorted(found)

    def unpack(self, folder):
        """What configurations, and those that they name, end in; files that are absent are left out."""
        listed = git(self.path, "ls-tree", "-r", "-z", "--name-only", "HEAD").decode().split("\0")
        paths = [path for path in listed if path.rpartition(".")[2] in SIGNS and "\n" not in path]
        names = "".join(f"HEAD:{path}\n" for path in paths).encode()
        batch = subprocess.run(["git", "-C", self.path, "cat-file", "--batch"], input=names,
                               capture_output=True, check=False).stdout
        at = 0
        for path in paths:
            end = batch.index(b"\n", at)
            head = batch[at:end].split()
            at = end + 1
            if head[-1] == b"missing":
                continue
            size = int(head[-1])
            os.makedirs(os.path.join(folder, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(folder, path), "wb") as file:
                file.write(batch[at:at + size])
            at += size + 1


def is_one_line_about(text, name):
    """A refusal names the file, or a script that it reads, and the place."""
    reads = r"[^:]+\.sh|" if name.endswith(SCRIPTS) else ""
    return text.count("\n") == 1 and re.match(rf"zplan: ({reads}{re.escape(name)}):\d+:\d+: /", text)


def run_check(zplan, name, folder, *arguments):
    cluster = CLUSTER_OF_SCRIPTS if name.endswith(SCRIPTS) else CLUSTER
    return subprocess.run([zplan, "check", name, "--cluster", cluster, "--json", *arguments],
                          capture_output=True, text=True, timeout=TIME_LIMIT_S, cwd=folder,
                          check=False)


def outcome_of(zplan, name, folder, resolves_auto):
    filled = ("--with", "hf") if resolves_auto else ()
    try:
        result = run_check(zplan, name, folder, *filled)
        if "--model: expected the model" in result.stderr:
            result = run_check(zplan, name, folder, "--model", MODEL, *filled)
    except subprocess.TimeoutExpired:
        return {"outcome": "broken", "line": f"not answered in {TIME_LIMIT_S} s"}
    if result.returncode in READ:
        answer = json.loads(result.stdout)
        unknown = sorted({each["key"] for each in answer["findings"] if each["kind"] == "unknown"})
        out = {"outcome": "read", "framework": answer["framework"],
               "verdict": "no plan" if answer.get("illegal") else READ[result.returncode]}
        return {**out, "unknown": unknown} if unknown else out
    line = result.stderr.strip().removeprefix("zplan: ")
    if result.returncode == REFUSED and is_one_line_about(result.stderr, name):
        return {"outcome": "refused", "line": line}
    return {"outcome": "broken", "line": f"exit code {result.returncode}: {line[:300]}"}


def check_file(zplan, checkout, path, folder):
    with open(os.path.join(folder, path), "rb") as file:
        content = file.read()
    return {"repository": checkout.name, "commit": checkout.commit, "path": path,
            "sha256": hashlib.sha256(content).hexdigest(),
            **outcome_of(zplan, path, folder, b'"auto"' in content)}


def check_all(zplan, checkout, paths, jobs):
    with tempfile.TemporaryDirectory() as folder:
        checkout.unpack(folder)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            yield from pool.map(lambda path: check_file(zplan, checkout, path, folder), paths)


def differences(zplan, records, jobs):
    """Lines, and how many files were there."""
    lines, count = [], 0
    for checkout in map(Checkout, filter(None, os.environ.get("ZPLAN_CHECKOUTS", "").split(":"))):
        known = {each["path"]: each for each in records if each["repository"] == checkout.name}
        found = set(checkout.configurations())
        for now in check_all(zplan, checkout, [path for path in known if path in found], jobs):
            was = known[now["path"]]
            if now["sha256"] != was["sha256"]:
                continue
            count += 1
            for key in ("outcome", "framework"):
                if now.get(key) != was.get(key):
                    lines.append(f"{checkout.name} {now['path']}: {key} {was.get(key)}, now "
                                 f"{now.get(key)}: {now.get('line', '')}")
    return lines, count


def check_records(zplan, path, jobs):
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    lines, count = differences(zplan, records, jobs)
    print(*lines, sep="\n", end="\n" if lines else "")
    if count == 0:
        print(f"skipped: of {len(records)} files none is there; ZPLAN_CHECKOUTS names no checkout")
        return SKIPPED
    print(f"{count} of {len(records)} files, {len(lines)} differences")
    return int(bool(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("zplan")
    parser.add_argument("checkouts", nargs="*")
    parser.add_argument("--check", metavar="FILE")
    parser.add_argument("-o", "--output")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="of paths that contain this")
    options = parser.parse_args()
    zplan = os.path.abspath(options.zplan)
    if options.check:
        return check_records(zplan, options.check, options.jobs)
    records = []
    for checkout in map(Checkout, options.checkouts):
        paths = [path for path in checkout.configurations() if options.only in path]
        for each in check_all(zplan, checkout, paths, options.jobs):
            records.append(each)
            print(each["repository"], each["path"], each["outcome"],
                  each.get("line") or f"{each['framework']}: {each['verdict']}", flush=True)
    print(*(f"{count} {name}" for name, count in
            sorted(collections.Counter(each["outcome"] for each in records).items())), sep=", ")
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(each) + "\n" for each in records)
    return int(any(each["outcome"] == "broken" for each in records))


if __name__ == "__main__":
    sys.exit(main())
