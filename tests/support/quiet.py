"""Whether a machine was quiet while something was measured on it."""

import os
import time

MOST = 0.03  # of all cores, by others


def busy_seconds():
    """Of all cores since they began: everything but idling and waiting, also what a host took."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    """Of this process and of those that it started and that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Watch:
    """From when it is made on."""

    def __init__(self):
        self.start, self.busy, self.own = time.monotonic(), busy_seconds(), own_seconds()

    def others(self):
        """The share of all cores that others used."""
        elapsed = (time.monotonic() - self.start) * os.cpu_count()
        foreign = busy_seconds() - self.busy - (own_seconds() - self.own)
        return max(0.0, foreign / elapsed)
