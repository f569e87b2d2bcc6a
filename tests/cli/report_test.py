"""zplan report: one page that needs nothing else, whose figures are those of the other answers.

That it draws without an error, at the size of a desk and of a phone, in light and dark, is tested in
a real browser where there is one (browser.py). $ZPLAN_SCREENSHOTS: a folder for pictures of it.
"""

import json
import os
import re
import time
import unittest

import browser
from cli_support import BAD_INPUT, INFEASIBLE, OK, CliTest, main

DATA = re.compile(r'<script id="data" type="application/json">(.*?)</script>', re.DOTALL)
SIZES = {"desk": (1280, 900), "phone": (390, 844)}


def to_12_digits(value):
    """With a timeline every iteration is walked, so that sums round elsewhere."""
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, list):
        return [to_12_digits(part) for part in value]
    if isinstance(value, dict):
        return {key: to_12_digits(part) for key, part in value.items()}
    return value


class Page(CliTest):
    def page(self, *arguments, code=OK):
        result = self.zplan("report", *arguments, "-o", "report.html")
        self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
        text = self.read("report.html")
        self.assertLess(len(text), 1_000_000)
        return text

    def data(self, *arguments, code=OK):
        return json.loads(DATA.search(self.page(*arguments, code=code)).group(1))

    def test_figures_are_those_of_the_other_answers(self):
        self.tiny_plan("--dp", "2", "--pp", "2", "--zero", "1")
        data = self.data("plan.json")
        simulated = self.good_json("simulate", "plan.json")
        shown = data["plans"][0]
        self.assertEqual(to_12_digits(shown["time"]), to_12_digits(simulated["time"]))
        self.assertEqual(shown["memory"], simulated["memory"])
        self.assertEqual(shown["fingerprint"], simulated["fingerprint"])
        prices = self.good_json("sensitivity", "plan.json", "--ignore-capacity")["prices"]
        self.assertEqual(data["sensitivity"]["prices"], prices)
        self.assertTrue(shown["verdict"].startswith("yes: tiny-gpt trains on workstation"))

    def test_the_middle_of_the_grid_is_the_plan_as_it_is(self):
        self.good("plan", "--model", "10B", "--cluster", "dgx2", "-o", "plan.json")
        data = self.data("plan.json")
        grid, size = data["grid"], len(data["grid"]["factors"])
        here = grid["factors"].index(1)
        step = data["plans"][0]["time"]["step_s"]
        self.assertAlmostEqual(grid["steps_s"][here * size + here] / step, 1, places=9)
        better = grid["steps_s"][-1]
        self.assertLess(better, step)

    def test_the_highest_memory_over_the_step_is_the_live_peak(self):
        self.tiny_plan("--dp", "2", "--zero", "3")
        data = self.data("plan.json")
        for rank in data["timeline"]["ranks"]:
            for tier in rank["memory"]:
                peak = data["plans"][0]["memory"]["classes"][rank["stage"]][tier["tier"]]
                most = max(gib for _, gib in tier["points_gib"]) * 2**30
                self.assertAlmostEqual(most / peak["live_peak_bytes"], 1, places=3)

    def test_page_asks_for_nothing_from_elsewhere(self):
        self.tiny_plan()
        text = self.page("plan.json")
        self.assertNotRegex(text, r'(?:src|href)="?https?:')
        self.assertNotRegex(text, r"url\((?!#)[^)]*\)|@import")

    def test_same_files_same_page(self):
        self.tiny_plan()
        self.assertEqual(self.page("plan.json"), self.page("plan.json"))

    def test_plans_are_shown_beside_each_other(self):
        self.tiny_plan("--dp", "2")
        self.tiny_plan("--dp", "4", name="other.json")
        plans = self.data("plan.json", "other.json")["plans"]
        self.assertEqual([plan["file"] for plan in plans], ["plan.json", "other.json"])
        other = self.good_json("simulate", "other.json")
        self.assertEqual(to_12_digits(plans[1]["time"]), to_12_digits(other["time"]))

    def test_a_run_is_shown_beside_the_prediction(self):
        self.tiny_plan("--dp", "2")
        self.good("run", "plan.json", "--steps", "6", "--timeline", "run.json")
        measured = self.data("plan.json", "--measured", "run.json")["measured"]
        self.assertGreater(measured["step"]["measured_s"], 0)
        self.assertEqual(measured["only_predicted"]["operations"], 0)

    def test_the_name_of_a_timeline_may_begin_with_a_digit(self):
        self.tiny_plan("--dp", "2")
        self.good("run", "plan.json", "--steps", "6", "--timeline", "2026-01-15.json")
        measured = self.data("plan.json", "--measured", "2026-01-15.json")["measured"]
        self.assertGreater(measured["step"]["measured_s"], 0)
        self.bad(BAD_INPUT, "report", "plan.json", "--measured", "2026-01-16.json", "-o", "r.html",
                 says="--measured: expected a number with its unit")

    def test_a_run_of_another_plan_is_refused(self):
        self.tiny_plan("--dp", "2")
        self.tiny_plan("--dp", "4", name="other.json")
        self.good("run", "other.json", "--steps", "2", "--timeline", "run.json")
        self.bad(BAD_INPUT, "report", "plan.json", "--measured", "run.json", "-o", "r.html",
                 says="run.json is of another plan than plan.json")

    def test_alternatives_train_what_the_plan_trains(self):
        question = ("--model", "gpt2", "--cluster", "rtx4090-workstation")
        given = re.compile(r"\b(what|rank|kind|precision|param|grad|master|moments|clip|block)\b")
        for pins in (("--train", "lora", "--lora-rank", "16"),
                     ("--optimizer-kind", "adamw-8bit", "--precision", "lean", "--no-clip")):
            self.good("plan", *question, *pins, "-o", "plan.json")
            data = self.data("plan.json")
            self.assertGreater(len(data["search"]["plans"]), 0)
            for other in data["search"]["plans"]:
                self.assertNotRegex(other["differs"], given)
            fastest = min(other["step_s"] for other in data["search"]["plans"])
            self.assertLess(abs(fastest / data["plans"][0]["time"]["step_s"] - 1), 0.03)

    def test_doubts_of_the_answer_are_shown(self):
        answer = self.good("plan", "--model", "10B", "--cluster", "dgx2", "--for", "zplan", "-o",
                           "plan.json", "--details")
        said = re.search(r"^Certainty +(.*?)\n\n", answer, re.DOTALL | re.MULTILINE).group(1)
        text = self.page("plan.json")
        doubts = json.loads(DATA.search(text).group(1))["plans"][0]["doubts"]
        self.assertEqual(" ".join(doubts[0].split()), "Certainty: " + " ".join(said.split()))
        self.assertIn('id="doubts"', text)

    def test_a_plan_that_does_not_fit_is_shown(self):
        self.oversized_plan(name="big.json")
        data = self.data("big.json", code=INFEASIBLE)
        self.assertIs(data["plans"][0]["fits"], False)
        self.assertTrue(data["plans"][0]["verdict"].startswith("no: "))

    def test_bad_input(self):
        self.tiny_plan()
        self.bad(BAD_INPUT, "report", "plan.json", says="--output")
        self.bad(BAD_INPUT, "report", "-o", "r.html", says="plan")
        self.bad(BAD_INPUT, "report", "plan.json", "-o", "plan.json", says="input")


@unittest.skipIf(browser.missing(), "not installed: " + ", ".join(browser.missing()))
class Drawn(CliTest):
    """In a browser: no error, nothing wider than the screen, everything reached by the keyboard."""

    PLANS = {
        "small": (("--model", "tiny-gpt", "--cluster", "workstation", "--dp", "2", "--pp", "2"),),
        "offload": (("--model", "10B", "--cluster", "dgx2", "--optimizer", "nvme"),),
    }

    def looked_at(self, name, size, dark):
        width, height = SIZES[size]
        page = browser.open_browser(width, height)
        self.addCleanup(page.quit)
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        page.get("file://" + self.path("report.html"))
        time.sleep(1)
        errors = [entry for entry in page.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(errors, [])
        across = page.execute_script("return document.documentElement.scrollWidth")
        self.assertLessEqual(across, width)
        self.assertGreater(page.execute_script("return document.querySelectorAll('section').length"), 7)
        self.assertEqual(page.execute_script(
            "return document.querySelectorAll('svg [d*=NaN], svg [x=NaN], svg [transform*=NaN]').length"
        ), 0)
        folder = os.environ.get("ZPLAN_SCREENSHOTS")
        if folder:
            tall = page.execute_script("return document.documentElement.scrollHeight")
            page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": tall, "deviceScaleFactor": 1, "mobile": False})
            time.sleep(1)
            shade = "dark" if dark else "light"
            page.save_screenshot(os.path.join(folder, f"report_{name}_{size}_{shade}.png"))
        return page

    def test_pages_draw_without_an_error(self):
        for name, (pins,) in self.PLANS.items():
            self.good("plan", *pins, "-o", "plan.json")
            self.good("report", "plan.json", "-o", "report.html")
            for size in SIZES:
                for dark in (False, True):
                    with self.subTest(name=name, size=size, dark=dark):
                        self.looked_at(name, size, dark)

    def test_timeline_is_moved_by_the_keyboard(self):
        self.tiny_plan("--dp", "2")
        self.good("report", "plan.json", "-o", "report.html")
        page = self.looked_at("keys", "desk", False)
        from selenium.webdriver.common.by import By

        canvas = page.find_element(By.TAG_NAME, "canvas")
        picture = "return document.querySelector('canvas').toDataURL()"
        before = page.execute_script(picture)
        canvas.send_keys("+")
        time.sleep(0.3)
        self.assertNotEqual(before, page.execute_script(picture))
        canvas.send_keys("0")
        time.sleep(0.3)
        self.assertEqual(before, page.execute_script(picture))


if __name__ == "__main__":
    main()
