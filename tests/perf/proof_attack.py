"""Whether random plans are faster than what is said to be the least possible. Fails when one is.

  tests/perf/proof_attack.py [--program PROGRAM] [--plans N] [--seed N] [QUESTION ...]

N (default 200) legal plans of the space of each question, drawn anew (tests/support/proof_attack.py),
are simulated where they fit. None may be faster than the fastest plan of the answer by more than its
gap. A QUESTION names some of those below by a part of it.
"""

import argparse
import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from proof_attack import Attack  # noqa: E402
from report import ROOT  # noqa: E402

QUESTIONS = (
    "--model gpt3-175b --cluster dgx-a100x32 --dp 256 --tp 1 --pp 1",
    "--model gpt3-175b --cluster dgx-h100x16 --dp 128 --tp 1 --pp 1",
    "--model gpt3-175b --cluster dgx-h100x2",
    "--model zero-infinity-50b --cluster dgx2x2",
    "--model zero-infinity-10b --cluster dgx2",
    "--model zero-infinity-1t --cluster dgx2x32",
    "--model llama3-70b --cluster dgx-h100x16",
    "--model mixtral-8x7b --cluster dgx-a100x2",
    "--model megatron-22b --cluster dgx-a100",
    "--model llama3-8b --cluster rtx4090-12ssd",
    "--model gpt2-1.5b --cluster dgx2x4",
    "--model megatron-530b --cluster dgx-h100x64",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=str(ROOT / "zplan"))
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("question", nargs="*")
    options = parser.parse_args()
    broken = 0
    for question in QUESTIONS:
        if options.question and not any(part in question for part in options.question):
            continue
        begin = time.perf_counter()
        attack = Attack(options.program, question.split(), random.Random(options.seed))
        attack.try_plans(options.plans)
        broken += len(attack.faster)
        least = f"{attack.fastest:.4g} s" if attack.fastest else "none"
        print(f"{question}: {attack.step:.4g} s, gap {attack.gap:.1%}; {attack.legal} plans,"
              f" {attack.fitting} fit, the fastest {least}; {len(attack.faster)} beat the gap"
              f" ({time.perf_counter() - begin:.0f} s)", flush=True)
        for step, plan in sorted(attack.faster, key=lambda found: found[0]):
            print(f"  {step:.6g} s: {json.dumps(plan)}")
    sys.exit(5 if broken else 0)


if __name__ == "__main__":
    main()
