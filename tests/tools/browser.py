"""A real browser without a window, for the pages that are looked at in one: Debian's chromium, driven by selenium."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def chromium(width: int = 1280, height: int = 900, dark: bool = False, requests: bool = False) -> Iterator:
    """Yield a driver of selenium's; with `requests`, its log "performance" has them, and the network is cut.

    Where there is no browser the test is skipped with a sentence; with NEEDS_BROWSER=1, as `.ci/run` sets it, it fails.
    """
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    try:
        from selenium import webdriver
    except ImportError:
        missing.append("selenium")
    if missing:
        message = f"no {' and no '.join(missing)}: apt-get install chromium chromium-driver, pip install selenium"
        if os.environ.get("NEEDS_BROWSER") == "1":
            pytest.fail(message)
        pytest.skip(message)
    options = webdriver.ChromeOptions()
    quiet = ("quic", "background-networking", "component-update", "sync")  # it shall ask nothing of the network
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    for argument in ("--no-first-run", *(f"--disable-{what}" for what in quiet)):
        options.add_argument(argument)
    options.binary_location = shutil.which("chromium")
    logs = {"browser": "ALL"}
    if requests:
        logs["performance"] = "ALL"
        options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", logs)
    service = webdriver.ChromeService(shutil.which("chromedriver"))  # told, so that selenium looks for none online
    driver = webdriver.Chrome(options, service)
    try:
        scheme = {"features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
    finally:
        driver.quit()
