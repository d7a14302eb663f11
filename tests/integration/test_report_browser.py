# Copyright (c) 2026 The rankzero.slurm authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages in a real browser: Chromium without a screen, driven by selenium. Charts are drawn and controls work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from ansible_collections.rankzero.slurm.plugins.module_utils.report.sweep_results import ElementRow, SweepOutcome
from ansible_collections.rankzero.slurm.plugins.plugin_utils.page.render import html
from tests.unit.page.runs import found, make_launch
from tests.unit.run.test_launches import KEY

OTHER = "5" * 16
# Debian's packages chromium and chromium-driver (scripts/bootstrap).
BROWSER, DRIVER = "/usr/bin/chromium", "/usr/bin/chromedriver"
pytestmark = pytest.mark.skipif(not Path(DRIVER).exists(), reason="Chromium and its driver are packages of Debian only")


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("state")
    run = make_launch(root)
    (run / "work").mkdir(exist_ok=True)
    name = "<img src=x onerror=document.title=1>"
    (run / "work" / "metrics.jsonl").write_text("".join(f'{{"step": {n}, "{name}": {n}.5}}\n' for n in range(40)))
    make_launch(root, key=OTHER, ranks=8, steps=200)
    return root


@pytest.fixture
def opened(browser: webdriver.Chrome, root: Path, tmp_path: Path) -> Callable[..., webdriver.Chrome]:
    def opened(*launches: str, **changes: Any) -> webdriver.Chrome:
        place = tmp_path / "page.html"
        place.write_text(html({**found(root, *launches), **changes}), encoding="utf-8")
        browser.get(place.as_uri())
        assert browser.find_element(By.TAG_NAME, "html").get_attribute("data-ready") == "true"
        # A request that the policy refuses is in the log as well.
        assert browser.get_log("browser") == []
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
        return browser

    return opened


def legend(browser: webdriver.Chrome, chart: str) -> list[str]:
    labels = browser.find_elements(By.CSS_SELECTOR, f"[data-chart={chart}] .u-label")
    return [label.text.rstrip(":") for label in labels]


def painted(browser: webdriver.Chrome) -> int:
    """How many charts have anything on them."""
    script = """return [...document.querySelectorAll('canvas')].filter(canvas =>
        canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(byte => byte)).length"""
    return int(browser.execute_script(script))


def test_the_page_of_a_launch_is_clicked_through(opened: Callable[..., webdriver.Chrome]) -> None:
    browser = opened(f"gpt/{KEY}")
    title = browser.title
    assert legend(browser, "metrics") == ["step", "attempt 1", "attempt 2"] and painted(browser) == 2
    metric, axis = (Select(node) for node in browser.find_elements(By.CSS_SELECTOR, "#metrics select"))
    assert [option.text for option in metric.options][-1] == "<img src=x onerror=document.title=1>"
    for option in metric.options:
        metric.select_by_visible_text(option.text)
        assert "attempt" in legend(browser, "metrics")[1]
    metric.select_by_visible_text("loss")
    axis.select_by_visible_text("over time")
    assert legend(browser, "metrics") == ["time", "attempt 1", "attempt 2"]
    browser.find_element(By.CSS_SELECTOR, ".controls input").click()
    browser.find_element(By.CSS_SELECTOR, "[data-chart=metrics] .u-series:nth-child(2) .u-label").click()
    before = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    browser.find_element(By.ID, "theme").click()
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") != before
    assert painted(browser) == 2 and browser.title == title and browser.get_log("browser") == []
    assert len(browser.find_elements(By.CSS_SELECTOR, "[data-chart=stragglers] tbody tr")) == 8
    (quantity,) = browser.find_elements(By.CSS_SELECTOR, "[data-chart=ranks] select")
    assert [option.text for option in Select(quantity).options] == ["seconds of a step"]
    assert len(browser.find_elements(By.CSS_SELECTOR, ".heat")) == 5
    assert len(browser.find_elements(By.CSS_SELECTOR, ".cells i[title]")) > 50
    rows = browser.find_elements(By.CSS_SELECTOR, "[data-chart=timeline] .bars > span:nth-child(3n+1)")
    assert [row.text for row in rows] == [
        "queued", "preflight", "staging", "set-up", "start-up", "training", "lost", "after the last step", "waits",
        "first step", "requeue", "artifact",
    ]  # fmt: skip
    assert len(browser.find_elements(By.CSS_SELECTOR, ".track i")) == 12 + 4
    assert len(browser.find_elements(By.CSS_SELECTOR, ".track .mark")) == 4


def test_throughput_by_rank_where_the_ranks_print_it(opened: Callable[..., webdriver.Chrome], root: Path) -> None:
    (launch,) = found(root, f"gpt/{KEY}")["launches"]
    for rank in launch["ranks"]:
        rank["throughput"] = [1000.0 + rank["rank"]] * 6
    browser = opened(launches=[launch], kind="launch")
    quantity = Select(browser.find_element(By.CSS_SELECTOR, "[data-chart=ranks] select"))
    quantity.select_by_visible_text("tokens per second")
    assert painted(browser) == 2 and browser.get_log("browser") == []
    heads = browser.find_elements(By.CSS_SELECTOR, "[data-chart=stragglers] th")
    assert [head.text for head in heads][4] == "median tokens/s"


@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_window(opened: Callable[..., webdriver.Chrome], width: int) -> None:
    browser = opened(f"gpt/{KEY}")
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.refresh()
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_launches_side_by_side(opened: Callable[..., webdriver.Chrome]) -> None:
    browser = opened(f"gpt/{KEY}", f"gpt/{OTHER}")
    labels = legend(browser, "metrics")
    assert labels[1:] == [
        f"gpt/{KEY[:8]}/1", f"gpt/{KEY[:8]}/1 attempt 2", "gpt/55555555/1", "gpt/55555555/1 attempt 2",
    ]  # fmt: skip
    _metric, axis = (Select(node) for node in browser.find_elements(By.CSS_SELECTOR, "#metrics select"))
    axis.select_by_visible_text("over time")
    assert legend(browser, "metrics")[0] == "seconds" and painted(browser) == 1


def test_a_list_is_searched_and_sorted(opened: Callable[..., webdriver.Chrome]) -> None:
    browser = opened()
    shown = lambda: [row for row in browser.find_elements(By.CSS_SELECTOR, "#index tbody tr") if row.is_displayed()]  # noqa: E731
    assert len(shown()) == 2
    browser.find_element(By.ID, "search").send_keys("5555 prov")
    assert [row.text.split()[0] for row in shown()] == ["gpt/55555555/1"]
    assert browser.find_element(By.ID, "count").text == "1 of 2"
    browser.find_element(By.ID, "search").clear()
    browser.find_element(By.ID, "search").send_keys(" ")
    heads = browser.find_elements(By.CSS_SELECTOR, "#index th")
    heads[0].click()
    assert [row.text.split()[0] for row in shown()] == [f"gpt/{KEY[:8]}/1", "gpt/55555555/1"]
    assert heads[0].get_attribute("aria-sort") == "ascending"
    heads[0].find_element(By.TAG_NAME, "button").send_keys(Keys.ENTER)
    assert [row.text.split()[0] for row in shown()] == ["gpt/55555555/1", f"gpt/{KEY[:8]}/1"]
    assert [head.get_attribute("aria-sort") for head in heads if head.get_attribute("aria-sort")] == ["descending"]


def test_charts_have_a_table_behind_them_and_an_axis_says_that_it_is_logarithmic(
    opened: Callable[..., webdriver.Chrome],
) -> None:
    browser = opened(f"gpt/{KEY}")
    behind = lambda: browser.find_elements(By.CSS_SELECTOR, "[data-chart=metrics] details tbody tr")  # noqa: E731
    assert behind() == []
    browser.find_element(By.CSS_SELECTOR, "[data-chart=metrics] summary").click()
    rows = [row.text.split() for row in behind()]
    assert len(rows) > 10 and all(len(row) > 1 for row in rows)
    label = "return document.querySelector('[data-chart=metrics] [role=img]').dataset.axis"
    assert browser.execute_script(label) == "loss"
    browser.find_element(By.CSS_SELECTOR, ".controls input").click()
    assert browser.execute_script(label) == "loss, logarithmic", "the axis is painted, and its label with it"
    Select(browser.find_element(By.CSS_SELECTOR, "[data-chart=metrics] select")).select_by_index(1)
    assert [row.text.split() for row in behind()] != rows, "it follows the chart"


def swept(rows: list[ElementRow], best: int) -> dict[str, object]:
    """What module job_sweep_info returns of these elements."""
    counts = {"succeeded": len(rows)}
    return SweepOutcome("lr", KEY, "/state/sweep", "loss", "min", rows, counts, best=rows[best]).as_dict()


def test_a_sweep_has_parallel_parameters_and_small_charts(opened: Callable[..., webdriver.Chrome], root: Path) -> None:
    launches = found(root, f"gpt/{KEY}", f"gpt/{OTHER}")["launches"]
    rows = [
        ElementRow(
            number, KEY, {"lr": lr, "schedule": schedule}, "succeeded",
            metric=metric, run_dir=launch["run_dir"], wall_time=60.0,
        )
        for number, (launch, lr, schedule, metric) in enumerate(
            zip(launches, ("0.1", "0.01"), ("cosine", "<b>"), (2.5, 2.25))
        )
    ]  # fmt: skip
    sweep = swept(rows, best=1)
    browser = opened(kind="sweep", launches=launches, sweep=sweep)
    assert legend(browser, "parallel")[1:] == ["0", "1"] and painted(browser) == 3
    assert browser.find_element(By.CSS_SELECTOR, "tr.best").text.startswith("1 best 0.01 <b> succeeded 2.25")
    browser.find_elements(By.CSS_SELECTOR, ".sortable th")[4].click()
    assert browser.find_element(By.CSS_SELECTOR, ".sortable tbody tr").text.startswith("1 best")


def test_times_are_sorted_by_their_length(opened: Callable[..., webdriver.Chrome], root: Path) -> None:
    """And not as text, in which an hour comes before eight seconds."""
    launches = found(root, f"gpt/{KEY}")["launches"]
    seconds = [3720.0, 141.0, 8.0, 239.0, 45.0]
    rows = [
        ElementRow(
            number, KEY, {"lr": "0.1"}, "succeeded", metric=1.0, run_dir=launches[0]["run_dir"], wall_time=wall_time
        )
        for number, wall_time in enumerate(seconds)
    ]
    sweep = swept(rows, best=0)
    browser = opened(kind="sweep", launches=launches, sweep=sweep)
    browser.find_elements(By.CSS_SELECTOR, ".sortable th")[-1].click()
    shown = [row.text.split()[0] for row in browser.find_elements(By.CSS_SELECTOR, ".sortable tbody tr")]
    assert shown == [str(number) for number in sorted(range(len(seconds)), key=lambda number: seconds[number])]
