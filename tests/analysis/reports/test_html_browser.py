"""report.html in a real headless Chromium: sorting, filtering, scrolling, hostile names."""

from __future__ import annotations

import html as escapes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from instrumentor_analysis.load.table import Categorical, Table
from instrumentor_analysis.reports import detail as details
from instrumentor_analysis.reports import summary
from instrumentor_analysis.reports.detail import Detail
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.reports.summaries import run_folder, torch_folder
from tests.conftest import browser
from tests.waiting import HANG_S

pytestmark = pytest.mark.browser

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
#: Appended to a page: what a user would do, and an element that says how it went.
PROBE = """<script>
(async function () {{
  const said = [], say = (...words) => said.push(words.join(" "));
  const wait = (ms) => new Promise((done) => setTimeout(done, ms));
  const box = document.getElementById("ops");
  const rows = () => [...box.querySelectorAll("tbody tr:not(.spacer)")];
  const cells = (n) => rows().map((row) => row.cells[n].textContent);
  const text = (id) => document.getElementById(id).textContent;
  const head = (key) => box.querySelector(`th[data-key="${{key}}"]`);
  addEventListener("error", (event) => say("error:", event.message));
  try {{ {actions} }} catch (error) {{ say("error:", error.message); }}
  const result = document.createElement("pre");
  result.id = "probe"; result.textContent = said.join("\\n");
  document.body.appendChild(result);
}})();
</script>
</body>"""


def chromium(arguments: list[str], tmp_path: Path, page: Path, fragment: str = "") -> str:
    """Run Chromium on a page with a profile of its own; returns what it prints."""
    executable = browser()
    assert executable is not None
    command = [executable, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *arguments]
    done = subprocess.run(
        [*command, f"{page.as_uri()}{fragment}"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    return done.stdout


def dump(text: str, tmp_path: Path, fragment: str = "", actions: str = "") -> str:
    """The page's DOM after its scripts, and after some actions, have run."""
    if actions:
        # The page allows its own script alone: the probe needs the policy out of the way.
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
        text = text.replace("</body>", PROBE.format(actions=actions))
    page = tmp_path / "page.html"
    page.write_text(text, encoding="utf-8")
    return chromium(["--virtual-time-budget=4000", "--dump-dom"], tmp_path, page, fragment)


def probe(text: str, tmp_path: Path, actions: str, fragment: str = "") -> list[str]:
    """What the actions said."""
    found = re.search(r'<pre id="probe">(.*?)</pre>', dump(text, tmp_path, fragment, actions), re.S)
    assert found, "the probe did not come to its end"
    return escapes.unescape(found[1]).split("\n")


def body_rows(dom: str) -> list[list[str]]:
    """Texts of the rows of the op table that are there."""
    table = re.search(r'<div id="ops".*?<tbody>(.*?)</tbody>', dom, re.S)
    assert table
    rows = re.findall(r"<tr aria-rowindex[^>]*>(.*?)</tr>", table[1], re.S)
    return [
        [escapes.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.S)]
        for row in rows
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    analysis = analyse(run_folder(tmp_path_factory.mktemp("run") / "mnist", hostile=True))
    return summary.html(analysis.summary, details.of(analysis))


def test_the_address_sorts_and_filters(page: str, tmp_path: Path) -> None:
    rows = body_rows(dump(page, tmp_path, "#sort=gap&dir=asc&q=deviceop"))
    assert [row[1] for row in rows] == [
        "PermuteDeviceOperation",
        "MorehAdamWDeviceOperation",
        "LayerNormDeviceOperation",
    ]
    assert [row[6] for row in rows] == ["6.5", "6.6", "240.0"]
    filtered = dump(page, tmp_path, "#bound=HOST&sort=op&dir=asc")
    assert [row[1] for row in body_rows(filtered)] == ["(torch) aten::add"]
    assert re.search(r'data-key="op"[^>]*aria-sort="ascending"', filtered)


def test_a_person_sorts_filters_and_resets(page: str, tmp_path: Path) -> None:
    said = probe(
        page,
        tmp_path,
        """
        say(head("time").getAttribute("aria-sort"), cells(1)[0]);
        head("gap").querySelector("button").click();
        say(head("gap").getAttribute("aria-sort"), cells(6)[0]);
        say(head("time").hasAttribute("aria-sort"));
        head("gap").querySelector("button").click();
        say(head("gap").getAttribute("aria-sort"), cells(6)[0], cells(6).slice(-1)[0] === "");
        head("op").querySelector("button").click();
        say(head("op").getAttribute("aria-sort"), cells(1)[1]);
        const search = document.getElementById("search");
        search.value = "MATMUL"; search.dispatchEvent(new Event("input")); await wait(200);
        say(cells(1).length, text("ops-status"), location.hash);
        const select = document.querySelector('select[data-filter="category"]');
        select.value = "TM"; select.dispatchEvent(new Event("change"));
        say(cells(0)[0], box.querySelector("table").getAttribute("aria-rowcount"));
        document.getElementById("reset").click();
        say(cells(0).length, search.value === "", select.value === "");
        """,
    )
    assert said == [
        "descending Matmul 32 x 1280 x 5120",
        "descending 240.0",
        "false",
        "ascending 0.6 true",
        'ascending "><svg onload=alert(2)>',
        "2 2 of 17 ops, 0.247 ms device time #sort=op&dir=asc&q=MATMUL",
        "No op fits. 1",
        "17 true true",
    ]


def test_hostile_names_run_nothing(page: str, tmp_path: Path) -> None:
    text = page.replace(
        "<head>", "<head><script>window.alert = () => { window.hacked = 1; };</script>"
    )
    said = probe(
        text,
        tmp_path,
        """
        await wait(300);
        say(window.hacked === undefined, document.images.length, box.querySelector("svg"));
        say(cells(1).includes("<" + "/script><img src=x onerror=alert(1)>"));
        """,
    )
    assert said == ["true 0 ", "true"]


def test_a_script_that_got_in_does_not_run(page: str, tmp_path: Path) -> None:
    hack = "document.body.dataset.hacked = 1"
    text = page.replace("<h1>", f"<h1><img src=x onerror='{hack}'><script>{hack}</script>")
    dom = dump(text, tmp_path)
    assert "data-hacked" not in dom
    assert len(body_rows(dom)) == 17, "the page's own script ran"


def test_colours_say_what_the_legend_says(page: str, tmp_path: Path) -> None:
    said = probe(
        page,
        tmp_path,
        """
        const classes = (name) => {
          const row = rows().find((row) => row.cells[1].textContent === name + "DeviceOperation");
          return `gap ${row.cells[6].className}, cores ${row.cells[7].className}`;
        };
        say(classes("LayerNorm"));
        say(classes("Permute"));
        say(classes("MorehAdamW"));
        """,
    )
    assert said == ["gap bad, cores bad", "gap , cores good", "gap bad, cores good"]


def test_the_roofline_is_walked_by_keyboard(page: str, tmp_path: Path) -> None:
    said = probe(
        page,
        tmp_path,
        """
        const chart = document.getElementById("roofline");
        const press = (key) => chart.dispatchEvent(new KeyboardEvent("keydown", { key }));
        press("ArrowRight");
        say(text("roofline-said").split(":")[0], document.getElementById("tip").hidden);
        press("ArrowRight");
        say(text("roofline-said").split(":")[0]);
        press("Escape");
        say(document.getElementById("tip").hidden);
        """,
    )
    assert said == [
        "Matmul 32 x 1280 x 5120 HiFi4 BF16 x BF16 => BF16 false",
        "Matmul 512 x 1024 x 1024 HiFi4 BF16 x BF16 => BF16",
        "true",
    ]


def test_twenty_thousand_ops_are_few_elements(tmp_path: Path) -> None:
    folder = analyse(torch_folder(tmp_path / "run"))
    count = 20_000
    frame = Table(
        {
            "op": Categorical.of([f"aten::op_{at % 300}" for at in range(count)]),
            "torch_category": Categorical.of(["Compute"] * count),
            "start_us": np.arange(count, dtype=np.float64),
            "duration_us": np.ones(count),
            "self_time_us": np.arange(count) % 977.0,
            "device_time_us": np.full(count, np.nan),
        }
    )
    text = summary.html(folder.summary, Detail(ops=frame))
    said = probe(
        text,
        tmp_path,
        """
        say(cells(0).length < 80, text("ops-status").split(", ")[0]);
        // Sent by hand: without a screen the browser may not draw a frame within the budget.
        const scrolled = (top) => {
          box.scrollTop = top;
          box.dispatchEvent(new Event("scroll"));
        };
        scrolled(28 * 12345);
        const row = box.querySelector('tr[aria-rowindex="12347"]');
        say(row !== null, cells(0).length < 80, Math.abs(box.scrollHeight - 28 * 20001) < 60);
        scrolled(box.scrollHeight);
        say(rows().pop().getAttribute("aria-rowindex"), box.scrollTop > 500000);
        """,
    )
    assert said == ["true 20,000 ops", "true true true", "20001 true"]


def test_a_narrow_page_keeps_names_readable(page: str, tmp_path: Path) -> None:
    said = probe(
        page,
        tmp_path,
        """
        const whole = document.querySelector(".page");
        whole.style.width = "420px";
        const names = [...document.querySelectorAll("th.wide")];
        say(names.length > 0, Math.min(...names.map((name) => name.offsetWidth)) >= 160);
        say(names.every((name) => name.closest(".scroll")), whole.scrollWidth <= 420);
        """,
    )
    assert said == ["true true", "true true"]


@pytest.mark.parametrize("width", [1180, 800, 520])
def test_cards_are_of_one_width_and_hold_their_figures(
    page: str, tmp_path: Path, width: int
) -> None:
    said = probe(
        page,
        tmp_path,
        f"""
        const whole = document.querySelector(".page");
        whole.style.width = "{width}px";
        const row = document.querySelector(".tiles");
        const short = '<li class="tile"><div class="value figure">1,490 samples/s</div></li>';
        const long = '<li class="tile long"><div class="value figure">12,345,678 samples/s</div>';
        row.innerHTML = short.repeat(5) + long + "</li>";
        const cards = [...row.children];
        say(new Set(cards.slice(0, 5).map((one) => Math.round(one.offsetWidth))).size);
        say(cards.every((one) => one.scrollWidth <= one.clientWidth), whole.scrollWidth <= {width});
        """,
    )
    assert said == ["1", "true true"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_drawn_in_both_schemes(page: str, tmp_path: Path, scheme: str) -> None:
    pytest.importorskip("PIL")
    from PIL import Image

    file, picture = tmp_path / "page.html", tmp_path / "page.png"
    file.write_text(page, encoding="utf-8")
    blink = f"--blink-settings=preferredColorScheme={0 if scheme == 'dark' else 1}"
    chromium([blink, "--window-size=1240,900", f"--screenshot={picture}"], tmp_path, file)
    with Image.open(picture) as image:
        pixels = image.convert("L").resize((62, 45))
        corner = pixels.getpixel((1, 30))
    assert isinstance(corner, int)
    assert corner < 40 if scheme == "dark" else corner > 230
