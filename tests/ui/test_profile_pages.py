"""The pages of profiles over a real store: empty, filled, failed, hostile, and large."""

import json
import re
import time
from dataclasses import replace

import pytest

import invented
import invented_profiles
import invented_sweeps
from controller.tiny_models import save, tiny_classifier
from controller.verdicts.pruning.passes import conv, layer, one_pass, relu
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.home import default_home
from enginebench_controller.store.store import Store
from enginebench_ui.pages import PROFILE, PROFILES
from enginebench_ui.pages.profile import netron, stored
from enginebench_ui.pages.profile.page import EXPORTS
from opened_pages import opened, texts

pytestmark = pytest.mark.slow

HOSTILE = "**b** <img src=x> [x](javascript:1) $x$ "


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return Store(tmp_path / "results.duckdb")


@pytest.fixture
def swept(store):
    """A baseline, and a sweep over its model, on a calibrated target."""
    store.save_model(invented.model())
    store.add_profiles([invented_sweeps.baseline(), *invented_sweeps.passes()])
    store.add_peaks(invented_sweeps.peaks())
    return store


VIEWS = ("Layer summaries", "Layer results", "Roofline", "Pruning", "Advice")


def every_view(**query):
    """The page of a profile with each of its sections open in turn."""
    app = opened(PROFILE, **query)
    for view in VIEWS:
        app.query_params["view"] = view
        app.run()
        assert not app.exception
        yield app


def links(app):
    return {link.label: link.proto.query_string for link in app.get("page_link")}


def metrics(app):
    return {one.label: (one.value, one.delta) for one in app.metric}


def table(app, place=0):
    return app.dataframe[place].value


@pytest.mark.parametrize(
    ("show", "command"),
    [
        ("Baseline", "enginebench profile model.onnx"),
        ("FLOPS", "enginebench models add"),
        ("Pruning passes", "enginebench prospects pruning"),
    ],
)
def test_an_empty_store_tells_how_to_begin(store, show, command):
    app = opened(PROFILES, show=show)

    assert texts(app.title) == ["Performance profiles"]
    assert command in app.code[0].value
    assert not store.path.exists()


def test_baselines_flops_and_sweeps_are_lists_of_their_own(swept):
    assert list(table(opened(PROFILES))["Name"]) == ["baseline"]
    assert list(table(opened(PROFILES, show="FLOPS"))["Model"]) == ["invented"]
    assert list(table(opened(PROFILES, show="Pruning passes"))["Passes"]) == [3]


def test_a_search_is_part_of_the_address(swept):
    assert "Nothing fits the search." in texts(opened(PROFILES, q="nothing such").info)
    assert len(table(opened(PROFILES, q="invented"))) == 1


def test_a_selected_row_opens_its_profile(swept):
    app = opened(PROFILES)
    app.session_state[listing_key(app)] = {"selection": {"rows": [], "cells": [(0, "Model")]}}
    app.run()

    assert texts(app.title) == ["baseline"]
    assert app.query_params["id"] == "baseline"


def test_a_row_that_was_selected_opens_no_other_when_a_profile_has_come_meanwhile(swept):
    app = opened(PROFILES)
    swept.add_profiles([replace(invented_sweeps.baseline(), id="newer")])
    app.session_state[listing_key(app)] = {"selection": {"rows": [], "cells": [(0, "Model")]}}
    app.run()

    assert texts(app.title) == ["Performance profiles"]


def listing_key(app):
    """What the table of baselines is called as it was drawn last."""
    return re.search("profiles Baseline .*", app.dataframe[0].proto.id)[0]


def test_a_profile_has_a_summary_that_tells_measured_from_estimated(swept):
    app = opened(PROFILE, id="baseline")

    assert metrics(app) == {
        "Measured": ("30.0 ms/batch", "33.3 items/s"),
        "Estimated, pruned": ("11.0 ms/batch", "2.91× as fast as the sweep's 32.0 ms dense, with 90 % zeros"),
        "FLOPs, dense": ("4.01 kFLOP", "410 FLOP with 90 % zeros, estimated"),
        "Parameters, dense": ("200", "20 with 90 % zeros, 0 not zero now"),
    }
    assert any(text.startswith("Estimated from passes with zeros imposed") for text in texts(app.caption))
    facts = " ".join(texts(app.markdown))
    assert ":gray[Instruction sets]  \nmachine has avx2" in facts and ":gray[Engine]  \ninvented 1.0" in facts


def test_layer_summaries_show_time_by_type_and_what_pruning_would_save(swept):
    types = table(opened(PROFILE, id="baseline"))

    assert list(types["Type"]) == ["Conv", "Reorder"]
    assert types["Saves (ms)"][0] == 21.0
    assert types["Note"][1] == "engine-made: reorder, no saving"


def test_the_figure_the_scale_and_the_section_are_part_of_the_address(swept):
    app = opened(PROFILE, id="baseline", view="Layer results", data="Pruned 0.9 ms", scale="Log", draw="Bars")

    assert app.selectbox(key="data").value == "Pruned 0.9 ms"
    assert list(table(app)["Pruned 0.9 ms"]) == [4.0, 2.0, 5.0]
    drawn = json.loads(app.get("plotly_chart")[0].proto.spec)
    assert drawn["layout"]["yaxis"]["type"] == "log"
    assert {trace["type"] for trace in drawn["data"]} == {"bar"}


def test_another_figure_is_shown_when_it_is_chosen(swept):
    app = opened(PROFILE, id="baseline")
    app.selectbox(key="data").select("FLOPS").run()

    assert not app.exception
    assert list(table(app)["FLOPS (FLOP)"].dropna()) == []
    assert "FLOPS is not known of any layer." in texts(app.info)


def test_a_link_to_a_layer_selects_it_and_shows_it_in_full(swept):
    app = opened(PROFILE, id="baseline", view="Layer results", layer="2")

    assert "**#3 layer2**" in texts(app.markdown)
    said = " ".join(texts(app.markdown))
    assert "conv2" in said and "w2" in said
    assert len(app.get("plotly_chart")) == 2


def test_the_address_is_the_truth_about_the_selected_layer(swept):
    app = opened(PROFILE, id="baseline", view="Layer results", layer="2")
    app.query_params["layer"] = "0"
    app.run()
    assert "**#1 layer0**" in texts(app.markdown)

    app.query_params["layer"] = "99"
    app.run()
    assert not app.exception
    assert "**No layer is selected**" in texts(app.markdown)


def test_the_roofline_is_drawn_under_measured_roofs_or_says_how_to_measure_them(swept):
    profile = invented_sweeps.baseline("worked")
    layers = tuple(replace(one, flops=2_000_000, data_bytes=1000) for one in profile.layers)
    swept.add_profile(replace(profile, layers=layers))
    swept.add_profile(replace(profile, id="elsewhere", target="nuc", layers=layers))

    drawn = json.loads(opened(PROFILE, id="worked", view="Roofline").get("plotly_chart")[0].proto.spec)
    assert any("memory 1.00 GB/s" in trace["name"] for trace in drawn["data"])
    elsewhere = opened(PROFILE, id="elsewhere", view="Roofline")
    assert "enginebench targets calibrate nuc --engine invented --cores 2" in [one.value for one in elsewhere.code]


def test_pruning_shows_estimated_imposed_and_measured_apart(swept):
    app = opened(PROFILE, id="baseline", view="Pruning")

    assert list(table(app)["Imposed (ms)"]) == [32.0, 22.0, 11.0]
    assert links(app)["Open the dense pass"] == "id=s0.0"


def test_advice_links_to_the_layers_it_is_about(swept):
    app = opened(PROFILE, id="baseline", view="Advice")

    assert any("alone takes 60.0 %" in text for text in texts(app.markdown))
    assert "id=baseline&view=Layer+results&data=Baseline+ms&layer=2" in links(app).values()


def test_a_model_s_record_that_cannot_be_read_takes_no_profile_away(swept):
    (record := default_home().path / "models" / ("ef" * 32) / "version.json").parent.mkdir(parents=True)
    record.write_text('{"broken', encoding="utf-8")
    for app in every_view(id=invented_sweeps.baseline().id):
        assert not app.error
        assert metrics(app)


def test_without_a_sweep_the_page_says_what_it_would_take(store):
    store.add_profile(invented_sweeps.baseline())
    app = opened(PROFILE, id="baseline")

    assert "Estimated, pruned" not in metrics(app)
    assert "Saves (ms)" not in table(app)
    pruning = opened(PROFILE, id="baseline", view="Pruning")
    assert any("an engine that can impose them" in text for text in texts(pruning.info))


def test_another_profile_of_the_model_is_a_choice_away(swept):
    app = opened(PROFILE, id="baseline")
    choice = app.selectbox[0]
    assert [label for label in choice.options if "90 % zeros" in label]

    choice.select_index(len(choice.options) - 1).run()
    assert not app.exception
    assert texts(app.title) == ["FLOPS"]


def test_a_failed_profile_shows_the_sentence_and_no_layers(store):
    store.add_profile(invented_profiles.profile_of_failure())
    app = opened(PROFILE, id="p0000002")

    assert texts(app.error) == ["**Crashed**: the engine's process was killed by SIGSEGV"]
    assert {value for value, _ in metrics(app).values()} == {"unknown"}
    assert "There are no layers to show: the engine told of none." in texts(app.info)
    assert not app.get("plotly_chart")


def test_a_profile_without_nodes_or_flops_is_shown_as_far_as_it_is_known(store):
    reason = "the format torch has no ONNX graph to lead layers back to"
    store.add_profile(invented_profiles.profile(nodes=(), work=None, coverage=None, unmatched_reason=reason))

    for app in every_view(id="p0000001"):
        assert metrics(app)["FLOPs"] == ("unknown", "")
        assert reason in " ".join(texts(app.markdown))


def test_names_from_elsewhere_are_only_text_however_long(store):
    layers = tuple(replace(one, name=HOSTILE + "n" * 1000, type=HOSTILE) for one in invented_profiles.layers())
    store.add_profile(invented_profiles.profile(name=HOSTILE, model_name=HOSTILE, layers=layers))

    for app in every_view(id="p0000001", layer="0"):
        marked = [one.value for one in (*app.title, *app.markdown, *app.caption, *app.warning)]
        assert not [text for text in marked if re.search(r"(?<!\\)(\*\*b|<img|\]\(java|\$x)", text)]
    assert list(table(opened(PROFILES))["Name"]) == [HOSTILE]


def test_a_profile_that_is_not_there_and_none_at_all_are_told(store):
    assert "there is no profile 'nope'" in texts(opened(PROFILE, id="nope").error)[0]
    assert "there is no model version 'nope'" in texts(opened(PROFILE, model="nope").error)[0]
    assert "No profile is chosen" in texts(opened(PROFILE).info)[0]


def test_a_profile_that_was_removed_is_gone_although_it_was_looked_at(store):
    store.add_profile(invented_profiles.profile())
    assert texts(opened(PROFILE, id="p0000001").title) == ["invented"]

    store.remove_profile("p0000001")
    assert "there is no profile" in texts(opened(PROFILE, id="p0000001").error)[0]


def test_every_model_of_the_library_has_a_flops_profile_without_being_run(store, tmp_path):
    version = default_home().library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"), "tiny")
    listed = table(opened(PROFILES, show="FLOPS"))
    assert (list(listed["Model"]), list(listed["FLOPs"])) == (["tiny"], ["4.29 kFLOP"])

    app = opened(PROFILE, model=version.digest)
    assert texts(app.title) == ["FLOPS"]
    conv_flops = 2 * 4 * 16 * 27
    assert (table(app)["Type"][0], table(app)["FLOPS (FLOP)"][0]) == ("Conv", conv_flops)
    assert not store.path.exists()

    app = opened(PROFILE, model=version.digest, view="Layer results", data="Parameters")
    assert table(app)["Parameters (parameters)"][0] == 4 * 27


def test_a_model_whose_file_is_gone_is_counted_by_what_a_profile_brought(swept):
    app = opened(PROFILE, model="ab" * 32)
    assert metrics(app)["FLOPs, dense"][0] == "4.01 kFLOP"


def test_a_model_that_cannot_be_counted_is_a_sentence(store):
    store.save_model(replace(invented.model(), format="torch"))
    assert "the format torch shows no nodes" in texts(opened(PROFILE, model="ab" * 32).error)[0]


@pytest.mark.parametrize("form", EXPORTS)
def test_a_profile_is_saved_as_the_command_saves_it(swept, form):
    saved = stored.exported(stored.whole("baseline"), form)
    beginnings = {ExportFormat.JSON: b"{", ExportFormat.CSV: b"profile_id,", ExportFormat.PERFETTO: b'{"traceEvents'}
    assert saved.startswith(beginnings.get(form, b"PAR1"))


def test_the_buttons_that_save_are_on_the_page(swept):
    labels = [button.label for button in opened(PROFILE, id="baseline").get("download_button")]
    assert labels == ["JSON, everything", "CSV, a row a layer", "Parquet, a row a layer", "Trace for Perfetto"]


def test_netron_is_offered_where_it_is_and_else_how_to_install_it(store, tmp_path, monkeypatch):
    version = default_home().library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"), "tiny")
    started = []
    monkeypatch.setattr(netron, "program", lambda: None)
    query = {"model": version.digest, "view": "Layer results", "layer": "0"}
    assert [one.value for one in opened(PROFILE, **query).code] == ["pip install netron"]

    monkeypatch.setattr(netron, "program", lambda: "netron")
    monkeypatch.setattr(netron, "start", started.append)
    monkeypatch.setattr(netron, "running", lambda _model: "http://127.0.0.1:1" if started else None)
    app = opened(PROFILE, **query)
    assert not started
    app.button(key="start netron").click().run()
    assert started == [default_home().library.main_path(version)]
    assert app.get("link_button")[0].proto.url == "http://127.0.0.1:1"
    assert [one.value for one in app.code] == ["conv"]


def large(sparsity=None, count=3000):
    nodes = [conv(place) if place % 2 else relu(place) for place in range(count)]
    layers = [layer(f"layer{place}", 0.1, place, type_=f"T{place % 40}") for place in range(count)]
    order = None if sparsity is None else "sweep"
    return one_pass(nodes, layers, sparsity=sparsity, identity=f"large{sparsity}", order_id=order)


def test_thousands_of_layers_are_shown_without_waiting_for_the_sweep_and_then_with_it(store):
    store.add_profiles([large(), large(0.0), large(0.9)])

    app = opened(PROFILE, id="largeNone", view="Layer results")
    assert "Estimated, pruned" in metrics(app)
    begun = time.monotonic()
    app.selectbox(key="data").select("Count").run()
    assert not app.exception
    assert len(table(app)) == 3000
    assert time.monotonic() - begun < 10
