"""Find the Chromium of this machine and drive it; nothing is ever downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PLACES = ("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",)
HOW_TO_ADD = "install it (Debian: apt-get install chromium) or name one in the environment variable CHROMIUM"


def find_chromium() -> str | None:
    """Where Chromium is, or None: what CHROMIUM names, else the first of the usual names."""
    named = os.environ.get("CHROMIUM")
    if named:
        return shutil.which(named)
    found = filter(None, (shutil.which(name) for name in (*NAMES, *PLACES)))
    return next(found, None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A headless browser, closed at the end."""
    from playwright.sync_api import sync_playwright

    where = find_chromium()
    if where is None:
        raise SystemExit(f"No Chromium was found; {HOW_TO_ADD}.")
    # root has no sandbox; pages of ours are all that is opened
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=where, args=["--no-sandbox"] if root else [])
        yield browser
        browser.close()
