"""A headless Chromium for tests that look at pages; Debian's chromium, chromium-driver and
python3-selenium."""

import importlib.util
import shutil
import sys


def find_selenium():
    """Debian's package is for Debian's interpreter, which may be another one than this."""
    if importlib.util.find_spec("selenium") is None:
        sys.path.append("/usr/lib/python3/dist-packages")
    return importlib.util.find_spec("selenium") is not None


def missing():
    """The packages without which open_browser cannot work."""
    return [word for word, there in (
        ("chromium", shutil.which("chromium")), ("chromium-driver", shutil.which("chromedriver")),
        ("python3-selenium", find_selenium())) if not there]


def open_browser(width=1600, height=1000):
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                 f"--window-size={width},{height}"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.binary_location = shutil.which("chromium")
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
