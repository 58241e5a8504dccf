"""Make the images of the manual: the report in a browser (light, dark, on a phone), and charts without one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import backcast as bc
from backcast.demo_data import news_log
from tools.chromium import chromium

LOG = news_log()  # held here, because reports draw one run of each policy on it
IMAGES = Path(__file__).parents[1] / "docs" / "images"
HORIZON, BATCH, REPLICATES = 1000, 10, 32  # as in the demo


def compare_policies() -> bc.Comparison:
    """Compare the policies of the demo, so that the manual shows the numbers that it prints."""
    policies = {
        "random": bc.EpsilonGreedy(1.0, batch_size=BATCH),
        "half random": bc.EpsilonGreedy(0.5, batch_size=BATCH),
        "epsilon-greedy": bc.EpsilonGreedy(0.1, batch_size=BATCH),
        "linucb": bc.LinUCB(0.3, batch_size=BATCH),
    }
    return bc.compare(LOG, policies, horizon=HORIZON, replicates=REPLICATES, exchangeable=True, n_jobs=1)


def replay_policies() -> dict[str, bc.Estimate]:
    """Evaluate policies in log order, for the charts that only such runs have."""
    policies = {"linucb": bc.LinUCB(0.3, batch_size=BATCH), "epsilon-greedy": bc.EpsilonGreedy(0.1, batch_size=BATCH)}
    return {name: bc.evaluate(LOG, policy, bc.DRns(q=0.01), horizon=100) for name, policy in policies.items()}


@contextmanager
def open_report(browser: Any, path: Path, *, width: int, height: int, scheme: str = "light") -> Iterator[Any]:
    """Open the page and wait until its charts are drawn."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.chart:not(.vega-embed)').length === 0")
    # without the menus of the charts
    page.add_style_tag(content=".chart details { display: none; }")
    yield page
    context.close()


def draw_report(browser: Any, folder: Path, comparison: bc.Comparison) -> None:
    """Save the top of the report, some sections, and the report in dark mode and on a phone."""
    report = bc.save_report(comparison, folder / "report.html", about={"log": "embedded: a news page"})
    with open_report(browser, report, width=940, height=1150) as page:
        page.screenshot(path=IMAGES / "report.png")
        for section in ("lifts", "differences", "learning", "trust", "runs"):
            page.locator(f"section[aria-labelledby={section}]").screenshot(path=IMAGES / f"report-{section}.png")
    with open_report(browser, report, width=940, height=1150, scheme="dark") as page:
        page.screenshot(path=IMAGES / "report-dark.png")
    with open_report(browser, report, width=390, height=844) as page:
        page.screenshot(path=IMAGES / "report-phone.png")


def draw_replays(browser: Any, folder: Path) -> None:
    """Save bias certificates and the multiplier of runs of DR-ns."""
    report = bc.save_report(replay_policies(), folder / "replays.html")
    with open_report(browser, report, width=940, height=900) as page:
        page.locator("section[aria-labelledby=bias]").screenshot(path=IMAGES / "report-bias.png")
        page.locator("figure:has(#multiplier)").screenshot(path=IMAGES / "report-multiplier.png")


def draw_charts(comparison: bc.Comparison) -> None:
    """Save charts without a browser."""
    comparison.plot().save(str(IMAGES / "comparison.png"), scale_factor=1.5)
    comparison.estimates["linucb"].plot().save(str(IMAGES / "curve.png"), scale_factor=1.5)


def main() -> None:
    """Make all images."""
    IMAGES.mkdir(exist_ok=True)
    comparison = compare_policies()
    draw_charts(comparison)
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        draw_report(browser, Path(folder), comparison)
        draw_replays(browser, Path(folder))
    for image in sorted(IMAGES.glob("*.png")):
        print(f"{image.relative_to(IMAGES.parents[1])}: {image.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
