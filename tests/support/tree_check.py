"""What checks of the source tree have in common: their command line and their self-test.

A check is a function of a root that returns its breaches, a line each. A case of its self-test is
(path, text, expected): a tree that has the file with this text has one breach, which contains
`expected`, or none where that is None."""

import os
import tempfile


def write(root, path, text):
    os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
        file.write(text)


def self_test(check_tree, cases, files):
    """`files` are (path, text) of what each tree has besides; returns how many cases went wrong."""
    wrong = 0
    for path, text, expected in cases:
        with tempfile.TemporaryDirectory() as root:
            for name, content in (*files, (path, text)):
                write(root, name, content)
            breaches = check_tree(root)
        good = not breaches if expected is None else len(breaches) == 1 and expected in breaches[0]
        if not good:
            print(f"self-test: {path}: {text!r}: expected {expected!r}, got {breaches}")
            wrong += 1
    print(f"self-test: {len(cases) - wrong} of {len(cases)} cases as expected")
    return wrong


def main(subject, check_tree, cases, files, arguments):
    """[--self-test | ROOT]; returns the exit code."""
    if arguments == ["--self-test"]:
        return 1 if self_test(check_tree, cases, files) else 0
    root = arguments[0] if arguments else os.path.join(os.path.dirname(__file__), "..", "..")
    breaches = check_tree(root)
    for breach in breaches:
        print(breach)
    if not breaches:
        print(f"{subject}: no breach")
    return 1 if breaches else 0
