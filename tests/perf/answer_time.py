"""How long zplan takes to answer, against its goals. Prints one line per question; asserts nothing.

  tests/perf/answer_time.py [RUNS]        default 7 runs each, after one that is not counted

Uses ./zplan on a warm build. Wall-clock seconds of the whole process: minimum, median, maximum.
"""

import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Question, goal in seconds on two cores.
GOALS = [
    (["--model", "1T", "--cluster", "dgx2x32"], 2.0),
    (["--model", "1T", "--cluster", "dgx2"], 2.0),
    (["--model", "175B", "--cluster", "dgx-a100x16"], 2.0),
    (["--model", "gpt2", "--cluster", "dgx2"], 2.0),
    (["--model", "tiny", "--cluster", "workstation"], 2.0),
    (["--version"], 0.05),  # what the launcher adds
]


def seconds(arguments):
    start = time.perf_counter()
    subprocess.run([str(ROOT / "zplan"), *arguments], capture_output=True, check=False)
    return time.perf_counter() - start


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print(f"{'question':42} {'min':>7} {'median':>7} {'max':>7} {'goal':>7}")
    for arguments, goal in GOALS:
        seconds(arguments)
        times = sorted(seconds(arguments) for _ in range(runs))
        median = statistics.median(times)
        verdict = "met" if median <= goal else f"missed by {median - goal:.2f} s"
        print(
            f"{' '.join(arguments):42} {times[0]:7.3f} {median:7.3f} {times[-1]:7.3f} {goal:7.2f}  {verdict}"
        )


if __name__ == "__main__":
    main()
