"""Every page over stores that are hard to show: empty, nearly so, all failed, large in one place, full of markup."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

import invented
import invented_bisects
import invented_recommendations
from controller.verdicts.chains import OTHER_ENGINE, chain, conv_nodes, layer, reorder
from enginebench_controller.records import Configuration
from enginebench_controller.store.store import BenchmarkBundle, Store
from enginebench_controller.verdicts.recommend.answer import answer_document
from enginebench_ui import pages
from opened_pages import opened

pytestmark = pytest.mark.slow

MARKUP = "<img src=x onerror=alert(1)> [link](https://example.com) :smile: $x$ **b** `c` |"
LONG = "long/name.of*a_layer " * 50
ACTING = "=cmd|'/c calc'!A0 \x1b[2J\x1b]0;owned\x07 {{ 7*7 }} \u202e"
PAGES = {path.parent.name: path for path in vars(pages).values() if isinstance(path, Path)}
LINKED = {
    "benchmark": [{"id": "b0000001", "view": view} for view in ("baseline", "cores", "batches", "trend")],
    "profile": [{"id": "a" * 32, "view": view} for view in ("Layer summaries", "Layer results", "Roofline", "Pruning")],
    "compare": [{"view": view} for view in ("Performance summary", "Kernel-level performance", "Precisions")],
    "new_benchmark": [{"model": "ab" * 6}],
    "new_profile": [{"model": "ab" * 6}],
    "search": [{"sql": "SELECT * FROM measurements"}, {"sql": "SELECT * FROM layers LIMIT 20"}],
    "job": [{}, {"id": "nothing"}],
    "recommend": [{}, {"id": "nothing"}, {"model": "ab" * 6, "max_latency": MARKUP}],
    "bisect": [{}, {"id": "nothing"}, {"model": "ab" * 6, "good": MARKUP, "bad": MARKUP}],
}


def empty(store):
    """Nothing at all."""


def one_run(store):
    add(store, [invented.measured("m1")])


def all_failed(store):
    add(store, [invented.failed(f"m{batch}", batch=batch) for batch in (1, 2, 4)])
    store.add_profiles([chain("a" * 32, [layer(0, None), layer(1, None)]), chain("b" * 32, [], ())])


def two_hundred_cells(store):
    cells = product(("fake", "fake-other"), range(1, 11), range(10))
    add(store, [cell(f"m{place}", *one) for place, one in enumerate(cells)])


def three_thousand_layers(store):
    nodes = tuple(conv_nodes(3000))
    add(store, [invented.measured("m1"), invented.measured("m2", engine=OTHER_ENGINE.name)])
    first = [layer(place, 1_000_000) for place in range(3000)]
    second = [layer(place, 900_000, engine=OTHER_ENGINE) for place in range(2990)]
    store.add_profiles([chain("a" * 32, first, nodes), chain("b" * 32, second, nodes, engine=OTHER_ENGINE)])


def unknown_work_and_one_sided_layers(store):
    nodes = tuple(replace(node, macs=None, flops=None, method="unknown") for node in conv_nodes(4))
    add(store, [invented.measured("m1"), invented.measured("m2", engine=OTHER_ENGINE.name)])
    first = [layer(0, 1_000_000), layer(1, None), reorder(2, 5_000)]
    second = [layer(2, 900_000, engine=OTHER_ENGINE), layer(3, None, engine=OTHER_ENGINE)]
    store.add_profiles([chain("a" * 32, first, nodes), chain("b" * 32, second, nodes, engine=OTHER_ENGINE)])


def names_of_others(store):
    for number, name in enumerate((MARKUP, LONG, ACTING)):
        identity = f"b000000{number + 1}"
        store.save_model(invented.model(digest=f"{number}b" * 32, name=name))
        add(store, [invented.measured(f"m{number}", identity, model_name=name)], identity, name)
        failure = replace(invented.failed("x").failure, message=f"{name} failed", detail=name)
        broken = invented.failed(f"x{number}", identity, model_name=name, failure=failure)
        store.add_measurement(broken)
    add(store, [], "b000000a", LONG)
    nodes = tuple(conv_nodes(4, MARKUP))
    names = (MARKUP, LONG, "", ACTING)
    layers = [replace(layer(place, 1_000_000), name=f"{name}{place}") for place, name in enumerate(names)]
    store.add_profiles([chain("a" * 32, layers, nodes), chain("b" * 32, layers, nodes)])
    add_searches(store, MARKUP)


def searches_without_answers(store):
    store.add_search(replace(invented_bisects.search(None), name=LONG))
    store.add_search(invented_recommendations.search(invented_recommendations.order()))


def add_searches(store, name):
    """A recommendation and a bisect whose names are all somebody else's."""
    asked = invented_recommendations.order()
    found = invented_recommendations.carried_out(asked, refused=(0,))
    tried = tuple(replace(one, engine=name, model=name, why=one.why and name) for one in found.tried)
    found = replace(found, sentence=name, tried=tried, remarks=(name,))
    recommended = replace(invented_recommendations.search(asked), name=name)
    answer = invented_bisects.ANSWER.model_copy(
        update={"candidates": ("1", name), "good": "1", "bad": name, "culprit": name, "command": name}
    )
    bisected = replace(invented_bisects.search(None), name=name)
    for search, told in ((recommended, answer_document(found)), (bisected, answer.model_dump(mode="json"))):
        store.add_search(search)
        store.answer_search(search.id, told)


FILLS = (
    *(empty, one_run, all_failed, two_hundred_cells, three_thousand_layers),
    *(unknown_work_and_one_sided_layers, names_of_others, searches_without_answers),
)
STORES = [pytest.param(fill, id=fill.__name__, marks=pytest.mark.xdist_group(fill.__name__)) for fill in FILLS]
"""Each is filled by one worker, for all pages."""


def cell(identity, engine, batch, cores):
    fails = cores == 9
    asked = Configuration("CPU", batch, cores + 1)
    if fails:
        return invented.failed(identity, engine=engine, configuration=asked)
    return invented.measured(identity, engine=engine, iterations=20, configuration=asked)


def add(store, measurements, identity="b0000001", name="invented"):
    samples = {one.id: invented.samples(one.id, iterations=one.iterations) for one in measurements if one.latency}
    benchmark = invented.benchmark(identity, name)
    store.add_bundles([BenchmarkBundle(benchmark, tuple(measurements), (invented.snapshot(),), samples)])


@pytest.fixture(scope="module", params=STORES)
def home(request, tmp_path_factory):
    home = tmp_path_factory.mktemp("hard")
    request.param(Store(home / "results.duckdb"))
    return home


@pytest.mark.fault(19)
@pytest.mark.parametrize("name", PAGES)
def test_no_page_fails(home, name, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(home))
    for query in LINKED.get(name, [{}]):
        app = opened(PAGES[name], **query)
        drawn = "".join(element.value for element in (*app.markdown, *app.caption, *app.title, *app.warning))
        assert MARKUP not in drawn, "names are only text"
