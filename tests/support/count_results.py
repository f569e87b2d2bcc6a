"""Counts test cases after a ctest run: prints "PASSED FAILED".

Usage: count_results.py FOLDER, which holds ctest.xml (ctest --output-junit) and, for each
GoogleTest program, NAME.xml (--gtest_output). Such a program counts with its test cases, any other
test counts as one. A program that died, or failed without a failing case, adds one failure.
Skipped cases count as neither and are listed on stderr.
"""

import os
import sys
import xml.etree.ElementTree as ElementTree


def count_cases(path):
    """(passed, failed, skipped names) of one GoogleTest result file; None if it is unusable."""
    try:
        cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return None
    ran = [c for c in cases if c.get("status") == "run"]
    skipped = [c for c in ran if c.get("result") == "skipped"]
    failed = [c for c in ran if c.find("failure") is not None]
    names = [f"{c.get('classname')}.{c.get('name')}" for c in skipped]
    return len(ran) - len(skipped) - len(failed), len(failed), names


def main(folder):
    passed = failed = 0
    for test in ElementTree.parse(os.path.join(folder, "ctest.xml")).getroot().iter("testcase"):
        name, status = test.get("name"), test.get("status")
        if test.find("skipped") is not None:
            # A program that ctest could not start counts as a failure, one that says that its
            # device is not there does not.
            asked_for = test.find("skipped").get("message", "").startswith("SKIP_RETURN_CODE")
            died = status == "notrun" and not asked_for
            failed += died
            print(f"{'not run' if died else 'skipped'}: {name}", file=sys.stderr)
            continue
        cases = count_cases(os.path.join(folder, f"{name}.xml"))
        if cases is None:
            cases = (1, 0, []) if status == "run" else (0, 1, [])
        elif status != "run" and cases[1] == 0:
            cases = (cases[0], 1, cases[2])
        for skipped in cases[2]:
            print(f"skipped: {name}: {skipped}", file=sys.stderr)
        passed += cases[0]
        failed += cases[1]
    print(passed, failed)


if __name__ == "__main__":
    main(sys.argv[1])
