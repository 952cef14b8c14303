"""The page in a browser: what a reader can do with it, and what it must not do."""

import re

import pytest

from src.analysis.charts import charts_of
from src.analysis.page import page_of
from src.analysis.summary import summarize
from tests.rows import bad, best, row, times, traced

HOSTILE = "<img src=x onerror=window.hit=1>\"'</script><script>window.hit=1</script>"


def cells():
    """Return rows of eight cells: two optimizers in four modes, one of them failed, one named to do harm."""
    rows = []
    for job, (optimizer, mode) in enumerate(
        (o, m) for o in ("adam", "sgd") for m in ("a10", "a9", "b", HOSTILE)
    ):
        how = {"job": job, "optimizer": optimizer, "compile_mode": mode}
        if (optimizer, mode) == ("sgd", "b"):
            rows.append(bad("failed", "it raised <b>badly</b>", **how))
        else:
            speed = times(100.0 * (job + 1), 50.0)
            rows.append(row(**{**how, **speed, **best("fused", 40.0 + 10 * job, 50.0)}, warnings=["noisy"]))
    return rows


def many(count):
    return [row(job=n, width=n + 1, **times(100.0 + n, 50.0)) for n in range(count)]


@pytest.fixture(scope="module")
def browser(chromium):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Return a function that opens the page of some rows; what went wrong in it is in `faults`."""
    contexts = []

    def opened(rows, charts=True, **context):
        summary = summarize(rows)
        file = tmp_path / "report.html"
        file.write_text(page_of(summary, rows, charts_of(summary) if charts else ()))
        contexts.append(browser.new_context(**context))
        page = contexts[-1].new_page()
        page.faults = []
        page.on("console", lambda message: page.faults.append(message.text))
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("dialog", lambda dialog: page.faults.append("dialog"))
        page.on(
            "request",
            lambda r: (
                None if r.url == file.as_uri() or r.url.startswith("data:") else page.faults.append(r.url)
            ),
        )
        page.goto(file.as_uri())
        if charts:
            page.wait_for_selector("html[data-charts=drawn]")
        return page

    yield opened
    for context in contexts:
        context.close()


def column(page, number):
    """Return the texts of a column, without the lines of notes."""
    lines = page.locator("#cell-table tbody tr:not(.notes)")
    return [line.locator("th, td").nth(number).inner_text().split("\n")[0] for line in lines.all()]


def sort(page, title):
    return page.locator("#cell-table thead button", has_text=re.compile(f"^{title}$"))


class TestQuiet:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_it_says_nothing_to_the_console_and_loads_nothing(self, opened, scheme):
        """Charts drawn, under the page's own policy."""
        page = opened(cells(), color_scheme=scheme)
        assert page.locator(f".chart .{scheme} svg").count() >= 3
        assert page.faults == []

    def test_names_that_mean_harm_are_shown_as_they_are(self, opened):
        """In the table, the filters, the charts and their tooltips."""
        page = opened(cells())
        for mark in page.locator(".chart .light svg path").all()[:40]:
            mark.dispatch_event("pointermove")
            mark.dispatch_event("mousemove")
        assert page.evaluate("window.hit") is None
        assert page.locator("#cell-table img, .chart img").count() == 0
        assert HOSTILE in page.locator("select[data-label='1'] option").all_inner_texts()
        assert page.faults == []


class TestSort:
    def test_numbers_sort_as_numbers_both_ways_and_what_is_missing_stays_last(self, opened):
        """100 to 800 us, of which the seventh failed."""
        page = opened(cells(), charts=False)
        button = sort(page, "eager")
        button.click()
        up = ["100 us", "200 us", "300 us", "400 us", "500 us", "600 us", "800 us", "-"]
        assert column(page, 3) == up
        assert button.locator("xpath=..").get_attribute("aria-sort") == "ascending"
        button.click()
        assert column(page, 3) == [*reversed(up[:-1]), "-"]
        assert button.locator("xpath=..").get_attribute("aria-sort") == "descending"

    def test_only_one_column_is_the_sorted_one(self, opened):
        """For who hears the table."""
        page = opened(cells(), charts=False)
        sort(page, "eager").click()
        sort(page, "mode").click()
        assert page.locator("th[aria-sort]").count() == 1

    def test_names_sort_by_the_numbers_in_them(self, opened):
        """a9 comes before a10."""
        page = opened(cells(), charts=False)
        sort(page, "mode").click()
        assert [name for name in column(page, 1) if name.startswith("a")] == ["a9", "a9", "a10", "a10"]

    def test_it_works_by_keyboard_alone(self, opened):
        """Focus and Enter."""
        page = opened(cells(), charts=False)
        sort(page, "speedup").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert column(page, 3)[0] == "800 us"


class TestFilter:
    def test_axes_and_verdicts_narrow_the_table_and_the_count_is_told(self, opened):
        """All must hold; the status is announced."""
        page = opened(cells(), charts=False)
        page.get_by_label("optimizer").select_option(label="sgd")
        assert set(column(page, 0)) == {"sgd"}
        status = page.get_by_role("status")
        assert status.inner_text() == "4 of 8 cells"
        page.get_by_label("verdict").select_option(label="failed")
        assert (column(page, 1), status.inner_text()) == (["b"], "1 of 8 cells")
        page.get_by_role("button", name="Show all").click()
        page.wait_for_function("document.getElementById('shown').textContent === '8 cells'")

    def test_words_are_found_in_labels_and_notes(self, opened):
        """Every word must be there, in any place."""
        page = opened(cells(), charts=False)
        page.get_by_label("text").fill("RAISED sgd")
        assert column(page, 1) == ["b"]
        page.get_by_label("text").fill("nowhere")
        assert column(page, 0) == []

    def test_notes_open_below_their_line_and_close(self, opened):
        """The reason of the failure is among them, as text."""
        page = opened(cells(), charts=False)
        page.get_by_label("verdict").select_option(label="failed")
        button = page.get_by_role("button", name=re.compile("note"))
        button.click()
        assert "it raised <b>badly</b>" in page.locator("tr.notes").inner_text()
        assert button.get_attribute("aria-expanded") == "true"
        button.click()
        assert page.locator("tr.notes").count() == 0


class TestMany:
    def test_a_long_table_is_turned_by_the_hundred(self, opened):
        """The sort and the filter are over all."""
        page = opened(many(250), charts=False)
        assert len(column(page, 0)) == 100
        page.get_by_role("button", name="Next 100").click()
        page.get_by_role("button", name="Next 100").click()
        assert len(column(page, 0)) == 50
        assert page.get_by_role("status").inner_text() == "250 cells; shown are 201 to 250"
        assert page.get_by_role("button", name="Next 100").is_disabled()
        sort(page, "eager").click()
        sort(page, "eager").click()
        assert column(page, 2)[0] == "349 us"

    def test_paper_has_all_of_it(self, opened):
        """With the notes, and without what only a screen can use."""
        page = opened(many(250), charts=False)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        assert page.locator("#cell-table tbody tr:not(.notes)").count() == 250
        assert not page.locator("#filters").is_visible()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("#cell-table tbody tr:not(.notes)").count() == 100


class TestLook:
    def test_dark_and_light_follow_the_reader(self, opened):
        """And the charts with them."""
        seen = {}
        for scheme in ("light", "dark"):
            page = opened(cells(), color_scheme=scheme)
            seen[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert page.locator(f".chart .{scheme}").first.is_visible()
            assert (
                page.locator(".chart .light:visible, .chart .dark:visible").count()
                == page.locator(".chart").count()
            )
        assert seen["light"] == "rgb(255, 255, 255)"
        assert sum(map(int, re.findall(r"\d+", seen["dark"]))) < 150

    def test_dark_pages_print_light(self, opened):
        """Ink is dear."""
        page = opened(cells(), color_scheme="dark")
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator(".chart .light").first.is_visible()

    @pytest.mark.parametrize("width", [320, 390, 768, 1280])
    def test_nothing_is_wider_than_the_screen(self, opened, width):
        """Wide tables scroll in their own box."""
        page = opened(cells(), viewport={"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        drawn = page.locator(".chart:not(.fixed) .light svg").evaluate_all(
            "all => all.map(s => s.getBoundingClientRect().right)"
        )
        assert all(right <= width for right in drawn)

    @pytest.mark.parametrize("width", [390, 1280])
    def test_a_chart_takes_the_room_there_is_and_no_word_is_cut(self, opened, width):
        """Its plot is not smaller than it could be, and its legend is whole."""
        page = opened(cells(), viewport={"width": width, "height": 800})
        charts = page.locator(".chart:not(.fixed)")
        for index in range(charts.count()):
            room, drawn, texts = charts.nth(index).evaluate(
                """(e) => {
                  const svg = e.querySelector(".light svg"), box = svg.getBoundingClientRect();
                  const ends = [...svg.querySelectorAll("text")].filter((t) => t.textContent)
                    .map((t) => t.getBoundingClientRect());
                  const rest = ends.map((r) => [r.left - box.left, box.right - r.right]);
                  return [e.clientWidth, box.width, rest];
                }"""
            )
            assert room - 40 <= drawn <= room + 1
            assert all(left >= -1 and right >= -1 for left, right in texts)

    def test_a_heat_map_keeps_its_size_and_scrolls_on_a_phone(self, opened):
        """Smaller, its numbers could not be read; the keyboard reaches it."""
        schedulers = [f"scheduler_{n}" for n in range(17)]
        rows = [
            traced(job=n, optimizer=optimizer, scheduler=scheduler)
            for n, (optimizer, scheduler) in enumerate((o, s) for o in ("adam", "sgd") for s in schedulers)
        ]
        page = opened(rows, viewport={"width": 390, "height": 800})
        box = page.locator(".chart.fixed")
        assert box.evaluate("e => e.scrollWidth > e.clientWidth")
        assert box.evaluate("e => e.querySelector('.light svg').getBoundingClientRect().width") > 390
        assert box.get_attribute("tabindex") == "0"
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_text_stands_out_from_what_is_behind_it(self, opened, scheme):
        """Contrast of at least 4.5 (WCAG 2.2, 1.4.3), by the colours that the browser computes."""
        page = opened(cells(), charts=False, color_scheme=scheme)
        pairs = page.evaluate(
            """() => {
              const behind = (e) => { for (; e; e = e.parentElement) {
                const c = getComputedStyle(e).backgroundColor; if (!/, 0\\)$|transparent/.test(c)) return c; }
                return getComputedStyle(document.body).backgroundColor; };
              const texts = "p, li, dt, dd, th, td, td span, button, a, label, h1, h2, h3, strong";
              return [...document.querySelectorAll(texts)]
                .filter((e) => e.checkVisibility() && !e.disabled && e.textContent.trim())
                .map((e) => [getComputedStyle(e).color, behind(e), e.tagName]);
            }"""
        )
        assert len(pairs) > 100
        for ink, paper, tag in pairs:
            assert contrast(ink, paper) >= 4.5, f"{tag}: {ink} on {paper}"

    def test_everything_that_takes_input_has_a_name(self, opened):
        """As a screen reader says it."""
        page = opened(cells())
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("input, select, button")]
              .filter((e) => !(e.labels?.length || e.textContent.trim() || e.ariaLabel))
              .map((e) => e.outerHTML)"""
        )
        assert unnamed == []
        assert page.locator("table:not(:has(caption)):not([aria-label])").count() == 0
        assert page.locator("html").get_attribute("lang") == "en"


def contrast(one, other):
    """Return the contrast ratio of two colours as `rgb(...)` (WCAG 2.2, definition of contrast ratio)."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
