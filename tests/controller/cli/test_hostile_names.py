"""Names that models, agents and imports bring are text and nothing else, in whatever form they are shown or written."""

import csv
import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

import invented
import invented_profiles
from enginebench_controller.cli import make_app
from enginebench_controller.records import EngineRef
from enginebench_controller.store.store import Store

pytestmark = pytest.mark.slow

BIG = "big/" * 262_144
ACTING = (
    "[/b] [link=https://example.com]x[/link] \x1b[2J\x1b]0;owned\x07\x9b31m <img src=x onerror=alert(1)>"
    "<script>alert(2)</script>&amp; first\r\nsecond\u2028third\0 \u202egnp {{ 7*7 }}${7*7}{0.__class__}%n"
)
NAMES = {"markup": f"conv{ACTING}", "command": f"=cmd|'/c calc'!A0{ACTING}", "full width": f"＝1+1{ACTING}"}
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


@pytest.fixture(params=NAMES)
def name(request):
    return NAMES[request.param]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `enginebench` over the store of this test; what it printed must be free of control characters."""
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def command(*arguments, code=None):
        """With 1 ends a comparison of benchmarks that have failures, whatever their names."""
        code = int(arguments[:2] == ("compare", "b0000001")) if code is None else code
        done = CliRunner().invoke(make_app(), [*map(str, arguments)], catch_exceptions=False)
        assert done.exit_code == code, (arguments, done.stderr)
        told = done.stderr if {"csv", "--csv"} & {*arguments} else done.stdout + done.stderr  # CSV quotes, and keeps
        assert all(one.isprintable() or one == "\n" for one in told), arguments
        return done.stdout

    return command


def fill(path, name):
    """Two benchmarks and two profiles in which everything that has a name has this one."""
    store = Store(path / "results.duckdb")
    engine = EngineRef(name, "default", name)
    failure = replace(invented.failed("x").failure, message=f"{name} failed", detail=name, stderr_tail=name)
    for number in (1, 2):
        identity = f"b000000{number}"
        store.add_benchmark(invented.benchmark(identity, name), [invented.snapshot(name)])
        measured = invented.measured(f"m{number}", identity, model_name=name, latency_ms=4.0 * number)
        store.add_measurement(replace(measured, engine=engine, target=name), invented.samples(f"m{number}"))
        failed = invented.failed(f"f{number}", identity, model_name=name, failure=failure)
        store.add_measurement(replace(failed, engine=engine, target=name))
        store.add_profile(profile(f"p000000{number}", name, engine), invented.model(name=name))
    return store


def profile(identity, name, engine):
    layers = tuple(
        replace(one, name=f"{name}{place}", type=name, kernel=name, source_nodes=(name,), parameters={name: name})
        for place, one in enumerate(invented_profiles.layers())
    )
    nodes = tuple(replace(one, name=f"{name}{one.index}", op_type=name) for one in invented_profiles.nodes())
    return invented_profiles.profile(
        identity, name=name, model_name=name, target=name, engine=engine, layers=layers, nodes=nodes
    )


@pytest.mark.fault(19)
def test_tables_and_sentences_are_plain_text(run, tmp_path, name):
    fill(tmp_path, name)
    for command in (
        ("list",),
        ("show", "b0000001"),
        ("show", "b0000001", "--failures"),
        ("profiles", "list"),
        ("profiles", "show", "p0000001"),
        ("compare", "p0000001", "p0000002"),
        ("advise", "p0000001"),
        ("targets", "list"),
        ("models", "list"),
        ("store", "check"),
        ("export", "b0000001", "--format", "openmetrics"),
        ("query", f"""SELECT model_name AS "{name.replace(chr(0), "")}" FROM measurements"""),
    ):
        run(*command)
    run("compare", "b0000001", "b0000002", code=1)  # a half of what is compared has failed


@pytest.mark.fault(19)
def test_a_question_about_a_name_is_plain_text_too(run, tmp_path, name):
    fill(tmp_path, name)
    run("remove", "b0000001", code=1)
    run("profiles", "remove", "p0000001", code=1)


@pytest.mark.fault(19)
def test_json_is_valid_and_keeps_names_as_they_are(run, tmp_path, name):
    fill(tmp_path, name)
    for command in (
        ("list", "--json"),
        ("show", "b0000001", "--json"),
        ("export", "b0000001"),
        ("profiles", "list", "--json"),
        ("profiles", "show", "p0000001", "--json"),
        ("profiles", "export", "p0000001", "--format", "json"),
        ("profiles", "export", "p0000001", "--format", "perfetto"),
        ("export", "p0000001", "p0000002", "--format", "perfetto"),
        ("export", "p0000001", "--format", "model-explorer"),
        ("export", "b0000001", "--format", "gab"),
        ("export", "b0000001", "--format", "bmf"),
        ("compare", "p0000001", "p0000002", "--json"),
        ("query", "SELECT name FROM layers", "--json"),
    ):
        assert name in texts(json.loads(run(*command), parse_constant=pytest.fail)), command


def texts(document):
    """All strings within a document, as one."""
    if isinstance(document, dict):
        return "\1".join(texts(each) for pair in document.items() for each in pair)
    if isinstance(document, list):
        return "\1".join(map(texts, document))
    return document if isinstance(document, str) else ""


@pytest.mark.fault(19)
def test_no_cell_of_a_table_for_spreadsheets_is_computed(run, tmp_path, name):
    fill(tmp_path, name)
    for command in (
        ("profiles", "export", "p0000001", "--format", "csv"),
        ("query", "SELECT name, type, kernel FROM layers", "--csv"),
    ):
        rows = list(csv.reader(io.StringIO(run(*command), newline="")))
        assert len({len(row) for row in rows}) == 1 and len(rows) > 3
        assert not [cell for row in rows for cell in row if cell.startswith(FORMULAS) and not is_number(cell)]


def is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


class Elements(HTMLParser):
    """The elements of a page, and its attributes that would do something."""

    def __init__(self):
        super().__init__()
        self.tags, self.acts = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.acts += [key for key, _ in attrs if key.startswith("on")]


@pytest.mark.fault(19)
@pytest.mark.parametrize("kind", ["b", "p"])
def test_reports_hold_no_markup_of_others(run, tmp_path, name, kind):
    fill(tmp_path, "harmless")
    first, second = f"{kind}0000001", f"{kind}0000002"
    code = 1 if kind == "b" else 0  # a half of what is compared has failed; profiles have not
    run("compare", first, second, "--html", "before.html", "--fail-if", "slower>3%", code=code)
    (tmp_path / "results.duckdb").unlink()
    fill(tmp_path, name)
    reports = ("--html", "r.html", "--markdown", "r.md", "--junit", "r.xml", "--fail-if", "slower>3%")
    run("compare", first, second, *reports, code=code)
    pages = []
    for file in ("before.html", "r.html"):
        pages.append(Elements())
        pages[-1].feed((tmp_path / file).read_text())
    assert pages[0].tags == pages[1].tags and pages[0].acts == pages[1].acts
    ElementTree.fromstring((tmp_path / "r.xml").read_text())
    markdown = (tmp_path / "r.md").read_text()
    assert "<img" not in markdown and "](http" not in markdown
    assert all(one.isprintable() or one == "\n" for one in markdown)


@pytest.mark.fault(19)
def test_a_name_of_a_megabyte_is_shown_and_written_like_any_other(run, tmp_path):
    store = Store(tmp_path / "results.duckdb")
    store.add_benchmark(invented.benchmark(name=BIG))
    store.add_profile(profile("p0000001", "short", EngineRef("fake", "default", "1.0")))
    big = profile("p0000002", "short", EngineRef("fake", "default", "1.0"))
    store.add_profile(replace(big, layers=(replace(big.layers[0], name=BIG), *big.layers[1:])))
    run("list")
    run("profiles", "show", "p0000002")
    assert BIG in texts(json.loads(run("profiles", "show", "p0000002", "--json")))
    assert BIG in run("profiles", "export", "p0000002", "--format", "csv")
    run("compare", "p0000001", "p0000002", "--html", "big.html")
    assert BIG in (tmp_path / "big.html").read_text()
