"""--memory-viz: a snapshot that Python and PyTorch read, whose peak is that of the memory report."""

import importlib.util
import pickle
import unittest

from cli_support import BAD_INPUT, CliTest, main

PLANS = (
    ("--dp", "2", "--zero", "3"),
    ("--dp", "1", "--pp", "2", "--zero", "0", "--global-batch", "8", "--micro-batch", "1"),
    ("--dp", "2", "--zero", "1", "--recompute", "full", "--optimizer", "cpu"),
)


def peak(device_trace, size_of_segment):
    """Most bytes allocated at a moment; every free is of what was allocated."""
    live, most, last_us = {}, 0, 0
    for entry in device_trace:
        assert last_us <= entry["time_us"], entry
        last_us = entry["time_us"]
        assert 0 <= entry["size"] <= size_of_segment, entry
        if entry["action"] == "alloc":
            assert entry["addr"] not in live, entry
            live[entry["addr"]] = entry["size"]
            most = max(most, sum(live.values()))
        elif entry["action"] == "free_completed":
            assert live.pop(entry["addr"]) == entry["size"], entry
    return most


class MemoryViz(CliTest):
    def snapshots(self):
        """Snapshot and memory report of each plan."""
        for pins in PLANS:
            with self.subTest(pins=pins):
                self.tiny_plan(*pins)
                answer = self.good_json("simulate", "plan.json", "--memory-viz", "m.pickle")
                with open(self.path("m.pickle"), "rb") as file:
                    yield pickle.load(file), answer["memory"]["classes"]

    def test_peak_is_that_of_the_memory_report(self):
        for snapshot, classes in self.snapshots():
            self.assertEqual(len(snapshot["device_traces"]), len(classes))
            for entries, segment, of in zip(
                snapshot["device_traces"], snapshot["segments"], classes, strict=True
            ):
                self.assertEqual(segment["total_size"], of["gpu"]["slab_bytes"])
                used = [e for e in entries if e["size"] > 0]
                self.assertEqual(peak(used, segment["total_size"]), of["gpu"]["live_peak_bytes"])

    def test_frames_name_buffers_and_operations(self):
        for snapshot, _ in self.snapshots():
            entries = [e for trace in snapshot["device_traces"] for e in trace]
            names = {frame["name"] for entry in entries for frame in entry["frames"]}
            self.assertTrue(any(name.startswith("forward.") for name in names), names)

    def test_blocks_fill_their_segment(self):
        for snapshot, _ in self.snapshots():
            for segment in snapshot["segments"]:
                at = segment["address"]
                for block in segment["blocks"]:
                    self.assertEqual(block["address"], at)
                    at += block["size"]
                self.assertEqual(at, segment["address"] + segment["total_size"])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "no torch here")
    def test_torch_reads_it(self):
        from torch.cuda import _memory_viz

        for snapshot, _ in self.snapshots():
            self.assertIn("alloc", _memory_viz.trace(snapshot))
            self.assertIn("GiB" if "GiB" in _memory_viz.segsum(snapshot) else "segments",
                          _memory_viz.segsum(snapshot))

    def test_a_file_that_cannot_be_written(self):
        self.tiny_plan()
        self.bad(BAD_INPUT, "simulate", "plan.json", "--memory-viz", "no/such/m.pickle",
                 says="no/such/m.pickle")


if __name__ == "__main__":
    main()
