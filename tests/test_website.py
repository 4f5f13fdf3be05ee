"""The site of the documentation: links that lead somewhere, and a reference that is complete."""

import os
import re
import subprocess
from functools import cache
from importlib.resources import files as resources
from itertools import pairwise
from pathlib import Path

import click
import pytest
from playwright.sync_api import Browser

from conftest import PERHOP, SLOW
from perhop import charts, errors, gallery, run
from perhop.cli import perhop
from perhop.dataset import TABLES
from perhop.scenario import METRICS, json_schema
from test_report_browser import browser
from website import links, reference
from website.links import ROOT

__all__ = ["browser"]

CONFIGURATION = (ROOT / "mkdocs.yml").read_text("utf-8")


@cache
def every_page() -> dict[str, str]:
    """The text of each page by its path in the repository, the generated ones included."""
    written = {path: (ROOT / path).read_text("utf-8") for path in links.pages()}
    made = {f"docs/{links.REFERENCE}/{name}": text for name, text in reference.pages().items()}
    return written | made


def test_links_lead_to_pages_and_headings() -> None:
    pages = every_page()
    headings = {path: links.anchors(text) for path, text in pages.items()}
    wrong = []
    for page, text in pages.items():
        for link in links.links(page, text):
            there = not link.path or link.path in pages or (ROOT / link.path).exists()
            if not there or (link.anchor and link.anchor not in headings[link.path]):
                wrong.append(f"{page}: {link.target}")
    assert wrong == []


def test_headings_go_down_by_one_level() -> None:
    """As readers of screens move by them (a best practice of WCAG 2.1, 1.3.1)."""
    for page, text in every_page().items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        levels = [len(marks) for marks in re.findall(r"^(#+) ", prose, re.MULTILINE)]
        assert levels[:1] == [1], page
        assert all(b <= a + 1 for a, b in pairwise(levels)), page


def test_the_site_has_each_page_once() -> None:
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", CONFIGURATION, re.MULTILINE)
    assert sorted(listed) == sorted(str(links.in_site(page)) for page in every_page())


def test_pages_name_targets_and_programs_that_exist() -> None:
    """Targets of make, and programs of benchmarks; the changelog has those of earlier releases."""
    targets = set(
        re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    )
    for page in sorted({*links.pages()} - {"CHANGELOG.md"}):
        text = (ROOT / page).read_text("utf-8")
        named = re.findall(
            r"(?:`|^)make ([a-z0-9-]+(?: [a-z0-9-]+)*)(?=[`=\n]| [A-Z]+=)", text, re.MULTILINE
        )
        assert {target for some in named for target in some.split()} <= targets, page
        for program in re.findall(r"`((?:bench|validation)/[\w/]+\.\w+)`", text):
            assert (ROOT / program).is_file(), page


def test_links_are_those_of_the_site() -> None:
    text = "[a](docs/ci.md#one-run-or-many) ![b](docs/images/x.svg) [c](LICENSE) [d](https://e.org)"
    found = "[a](ci.md#one-run-or-many) ![b](images/x.svg) c [d](https://e.org)"
    assert links.for_site("README.md", text) == found
    text, found = "[a](../README.md) [b](lab.md)", "[a](index.md) [b](lab.md)"
    assert links.for_site("docs/ci.md", text) == found
    inner = links.for_site("docs/reference/keys.md", "[a](../scenario.md)\n\n```\n[a](x.md)\n```\n")
    assert inner == "[a](../scenario.md)\n\n```\n[a](x.md)\n```\n"


def test_anchors_are_those_of_headings() -> None:
    text = "# One `key`, two\n\n## [Sub](x.md): 5%\n\n```sh\n# no\n```\n\n## Sub 5\n## Sub 5\n"
    assert links.anchors(text) == {"one-key-two", "sub-5", "sub-5_1", "sub-5_2"}


def test_the_reference_has_every_key_with_its_meaning() -> None:
    schema, page = json_schema(), every_page()["docs/reference/keys.md"]
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert sections.keys() == {"Scenario", *schema["$defs"]}
    for name, part in {"Scenario": schema, **schema["$defs"]}.items():
        forms = [part, *part.get("anyOf", ())]
        for key in {key for form in forms for key in form.get("properties", ())}:
            row = re.search(rf"^\| `{re.escape(key)}` \|.*\|$", sections[name], re.MULTILINE)
            assert row is not None, (name, key)
            assert row[0].count(" | ") >= 3 and not row[0].endswith("|  |"), (name, key)
        of_metric = name in ("Expectation", "Published")
        assert of_metric or "unit of the metric" not in sections[name], name


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("metrics.md", list(METRICS)),
        ("tables.md", [f"{name}" for table in TABLES.values() for name in table]),
    ],
)
def test_the_reference_has_every(page: str, names: list[str]) -> None:
    text = every_page()[f"docs/reference/{page}"]
    assert [name for name in names if f"| `{name}` |" not in text] == []


def test_every_table_is_described() -> None:
    text = every_page()["docs/reference/tables.md"]
    for name in TABLES:
        assert re.search(rf"^## {name}\n\n[A-Z].{{20}}", text, re.MULTILINE), name


def test_the_reference_has_every_command_and_option() -> None:
    text = every_page()["docs/reference/commands.md"]
    with click.Context(perhop) as context:
        for name in perhop.list_commands(context):
            assert f"\n## perhop {name}\n" in text
    assert re.search(r"^  --junit ", text, re.MULTILINE)
    assert "## perhop lab exec" in text


def test_the_reference_has_every_exit_code() -> None:
    text = every_page()["docs/reference/exit-codes.md"]
    codes = [int(code) for code in re.findall(r"^\| (\d+) \|", text, re.MULTILINE)]
    assert codes == sorted(codes)
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, errors.PerhopError):
            assert error.exit_code in codes


def test_the_reference_of_python_has_public_names() -> None:
    text = every_page()["docs/reference/python.md"]
    for name in (
        "load",
        "Dataset",
        "metrics.throughput",
        "charts.mos",
        "topologies.star",
        "analysis.compare",
    ):
        assert f"\n### {name}\n" in text
    assert "* `dataset`: The run." in text


def test_generated_pages_are_not_kept() -> None:
    assert not Path(ROOT / "docs" / links.REFERENCE).exists()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, of which MkDocs has nothing to say."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [
            PERHOP.with_name("python"),
            "-m",
            "mkdocs",
            "build",
            "--strict",
            "--site-dir",
            folder,
            "-q",
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@SLOW
def test_every_page_and_picture_is_in_the_site(site: Path) -> None:
    for page in every_page():
        assert (site / str(links.in_site(page))).with_suffix(".html").exists(), page
    pictures = {path.name for path in (ROOT / "docs/images").iterdir()}
    shown = {
        found
        for page in site.rglob("*.html")
        for found in re.findall(r'<img [^>]*images/([^"/]+)"', page.read_text("utf-8"))
    }
    assert shown == pictures == {path.name for path in (site / "images").iterdir()}


@SLOW
def test_names_in_the_first_columns_of_tables_are_whole(site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1100, "height": 900})
    page.goto((site / "reference" / "metrics.html").as_uri())
    names = page.locator("td:first-child code")
    heights = names.evaluate_all("all => all.map(each => each.getClientRects().length)")
    assert len(heights) > 50
    assert set(heights) == {1}
    page.close()


@SLOW
@pytest.mark.parametrize("name", ["index", "ci", "comparison"])
def test_axe_finds_no_violation(site: Path, browser: Browser, name: str) -> None:
    axe = resources("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
    some = "runOnly: ['color-contrast', 'scrollable-region-focusable']"
    for scheme, width, options in (("light", 1100, ""), ("dark", 360, some)):
        page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        requested: list[str] = []
        page.on("request", lambda request, to=requested: to.append(request.url))
        page.goto((site / f"{name}.html").as_uri())
        page.evaluate(axe)
        shade = page.evaluate("document.body.dataset.mdColorScheme")
        assert shade == {"light": "default", "dark": "slate"}[scheme]
        found = page.evaluate(f"axe.run({{preload: false, {options}}})")["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert [url for url in requested if not url.startswith("file:")] == []
        page.close()


@SLOW
def test_the_picture_of_the_readme_is_that_of_its_command() -> None:
    def lines(svg: str) -> list[str]:
        return re.findall(r' d="(M[^"]{500,})"', svg)

    kept = (ROOT / "docs/images/qbss-1-70.svg").read_text("utf-8")
    drawn = charts.throughput(run(gallery.load("qbss-1-70"))).svg()
    assert len(lines(kept)) == 4
    assert lines(drawn) == lines(kept)
