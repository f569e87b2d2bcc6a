"""Writes reports/*.json: what was measured, by which command, on which sources and machine."""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import subprocess

import sources

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tree_hash():
    """Of the tracked files without reports/."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-s", "--", ":!reports"],
        capture_output=True,
        check=True,
    ).stdout
    return hashlib.sha256(listing).hexdigest()[:16]


def processor():
    for line in open("/proc/cpuinfo", encoding="utf-8"):
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def machine():
    """For reports whose figures depend on it."""
    return {"processor": processor(), "cores": os.cpu_count()}


def report_options(description):
    """Options of a script that asks zplan and may write a report."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    return parser.parse_args()


def write_report(script, results, about, name=None):
    """reports/NAME.json, by default for the script NAME.py; `about` stands before the results."""
    script = pathlib.Path(script).resolve()
    path = ROOT / "reports" / f"{name or script.stem}.json"
    report = {
        "schema": "zplan.report/1",
        "made_by": f"{script.relative_to(ROOT)} --report",
        "date": datetime.date.today().isoformat(),
        "source_hash": tree_hash(),
        **about,
        "results": results,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    sources.stamp(path.name)
    print(f"wrote {path.relative_to(ROOT)}; `tests/documents_check.py --mark` brings it into the documents")


def write_report_of_runs(script, rows, about, markdown, profile):
    """The same with its page NAME.md, which markdown(report) makes, and the profile it rests on."""
    write_report(script, rows, about)
    path = ROOT / "reports" / f"{pathlib.Path(script).stem}.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    path.with_suffix(".md").write_text(markdown(report), encoding="utf-8")
    path.with_name(f"{path.stem}_profile.json").write_text(profile, encoding="utf-8")
