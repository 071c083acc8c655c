"""The page that compares two projects, over a real store: links, points, the sweet spot, layers, and empty states."""

import shutil
from dataclasses import replace
from functools import partial

import pytest

import invented
import opened_pages
from controller.tiny_models import save, tiny_classifier
from controller.verdicts.chains import ENGINE, OTHER_ENGINE, chain, layer
from enginebench_controller.errors import StoreError
from enginebench_controller.home import default_home
from enginebench_controller.records import (
    Configuration,
    Derivation,
    DerivationKind,
    Effective,
    EngineRef,
    HostFacts,
    ModelVersion,
    Readback,
    ReadbackSource,
)
from enginebench_controller.store.store import BenchmarkBundle, Store
from enginebench_ui.pages import COMPARE
from enginebench_ui.pages.compare import stored
from enginebench_ui.shared.project_key import project_key
from opened_pages import texts

pytestmark = pytest.mark.slow

HINT = "select one: how each side ran it"
KERNELS, PRECISIONS, INFERENCE = "Kernel-level performance", "Precisions", "Inference time"


opened = partial(opened_pages.opened, COMPARE)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return Store(tmp_path / "results.duckdb")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Two engines with three batches each, a failure, and a profile of both: made once, since writing is slow."""
    store = Store(tmp_path_factory.mktemp("prepared") / "results.duckdb")
    found = {}
    for engine, factor in (("fake", 1.0), ("fake-other", 0.5)):
        for batch in (1, 2, 4):
            identity, latency_ms = f"{engine[-2:]}{batch}".ljust(32, "0"), factor * (1 + 3 * batch)
            whole = invented.measured(identity, engine=engine, batch=batch, latency_ms=latency_ms)
            found[whole] = invented.samples(identity, latency_ms=latency_ms)
    found[invented.failed("bad".ljust(32, "0"), engine="fake", configuration=Configuration("CPU", 8, 2))] = ()
    samples = {one.id: raw for one, raw in found.items()}
    store.add_bundles([BenchmarkBundle(invented.benchmark(), tuple(found), (invented.snapshot(),), samples)])
    first = [layer(0, 5_000_000), layer(1, 1_000_000), layer(2, 2_000_000)]
    other = {"engine": OTHER_ENGINE}
    second = [layer(0, 2_000_000, precision="u8", **other), layer(1, 1_500_000, **other), layer(2, None, **other)]
    store.add_profiles([chain("a" * 32, first), chain("b" * 32, second, **other)])
    return store.path


@pytest.fixture
def filled(store, prepared):
    shutil.copy(prepared, store.path)
    return store


def key(engine):
    return f"{project_key('ab' * 32, engine, 'default', 'local')}~CPU"


def unfolded(**link):
    """The page with what is compared open, which is folded once both sides are chosen."""
    app = opened(**link)
    app.session_state["setup"] = True
    return app.run()


def chosen(app):
    return [app.selectbox(key=f"project {letter}").value for letter in "AB"]


def tables(app):
    return [one.value for one in app.dataframe]


def test_an_empty_store_says_how_to_begin(store):
    app = opened()
    assert "nothing to compare" in texts(app.info)[0]
    assert "enginebench run" in app.code[0].value
    assert not store.path.exists()


def test_unasked_b_has_the_best_throughput_and_a_is_its_rival(filled):
    assert chosen(opened()) == [key("fake"), key("fake-other")]


def test_a_link_names_both_sides_and_their_points(filled):
    app = unfolded(a=key("fake-other"), b=key("fake"), ea="er1000000000", eb="ke2000000000")

    assert chosen(app) == [key("fake-other"), key("fake")]
    first, second = tables(app)[:2]
    assert first["Point"][0] == "A"
    assert list(first["Point"].isna()) == [False, True, True]
    assert second["Point"][1] == "B"


def test_a_link_to_what_is_not_here_says_so(filled):
    app = opened(a="000000000000~gone@default~local")
    assert "There is no project 000000000000~gone@default~local" in texts(app.warning)[0]


def test_a_link_to_a_point_that_is_gone_says_so(filled):
    app = opened(a=key("fake"), b=key("fake-other"), ea="ke2000000000", eb="feedfeedfeed")
    (told,) = (text for text in texts(app.warning) if "There is no" in text)
    assert told == "There is no measurement feedfeedfeed of project B in this store; another one is shown."


def test_a_link_to_profiles_that_are_gone_says_so_and_opens_no_row(filled):
    link = {"a": key("fake"), "b": key("fake-other"), "view": KERNELS, "row": "2"}
    app = opened(**link, pa="a" * 12, pb="b" * 12)
    assert "3 rows" in texts(app.caption)

    app = opened(**link, pa="a" * 12, pb="f" * 12)
    assert any(f"There is no profile {'f' * 12} of project B" in text for text in texts(app.warning))
    assert any(HINT in text for text in texts(app.caption))


def test_another_project_is_written_into_the_address_with_its_rival(filled):
    app = opened(ea="ke2000000000", row="0")
    app.selectbox(key="project A").select(key("fake-other")).run()
    assert app.query_params["a"] == key("fake-other")
    assert app.query_params["b"] == key("fake-other")
    assert not {"ea", "row"} & set(app.query_params)
    assert any("Point" in one for one in tables(app)), "what was open while one chose stays open"


def test_unasked_no_side_is_the_fastest_by_wrong_outputs(store):
    wrong = (invented.outputs(shift=0.5),)
    engines = {"right": 4.0, "slower": 8.0, "third": 9.0}
    made = [invented.measured(name, engine=name, latency_ms=took) for name, took in engines.items()]
    made.append(invented.measured("bad", engine="bad", latency_ms=0.5, captured_outputs=wrong))
    store.add_bundles([BenchmarkBundle(invented.benchmark(), tuple(made), (invented.snapshot(),))])
    app = unfolded()
    assert chosen(app) == [key("slower"), key("right")]
    assert "invented · bad · local · CPU · no numbers that count" in app.selectbox(key="project A").options


def test_both_projects_that_were_chosen_before_the_page_was_drawn_again_are_written(filled):
    app = opened(a=key("fake"), b=key("fake-other"))
    app.selectbox(key="project A").select(key("fake-other"))
    app.selectbox(key="project B").select(key("fake")).run()
    assert [app.query_params[name] for name in "ab"] == chosen(app) == [key("fake-other"), key("fake")]


def test_each_run_tells_the_browser_what_is_compared(filled):
    """Of a run that another one overtakes Streamlit throws away what it had not sent: the next one says it again."""
    app = opened(a=key("fake"), b=key("fake-other"))
    for _ in range(2):
        app.run()
        assert [app.selectbox(key=f"project {letter}").proto.set_value for letter in "AB"] == [True, True]


def test_one_profile_on_both_sides_is_advised_on_once(store, tmp_path):
    net = default_home().library.add(save(tiny_classifier(), tmp_path / "net.onnx"))
    known = {"host": HostFacts(isa=("avx512_vnni",)), "model_digest": net.digest}
    store.add_profiles([chain("a" * 32, [layer(0, 1_000_000)], **known)])
    app = unfolded(view="Performance summary")
    assert not app.exception
    assert [one.label for one in app.button if "Quantize" in one.label] == ["Quantize and compare"]


def test_layers_that_contradict_the_medians_say_so_where_the_verdict_cannot(filled):
    link = {"a": key("fake"), "b": key("fake-other"), "ea": "ke1000000000", "eb": "er1000000000"}
    slower = chain("b" * 32, [layer(0, 50_000_000), layer(1, 9_000_000)], engine=OTHER_ENGINE)
    filled.add_profile(replace(slower, id="d" * 32, created_at_unix_ns=slower.created_at_unix_ns + 1))
    assert any(
        "These layers do not explain the verdict: as measured B" in text for text in texts(opened(**link).warning)
    )


@pytest.mark.parametrize("view", ["Performance summary", KERNELS, PRECISIONS])
def test_layers_that_their_own_latencies_contradict_say_so_where_they_are_shown(filled, view):
    first = chain("d" * 32, [layer(0, 1_000_000)], unprofiled_ns=900_000)
    second = chain("e" * 32, [layer(0, 500_000, engine=OTHER_ENGINE)], engine=OTHER_ENGINE, unprofiled_ns=1_500_000)
    filled.add_profiles([first, second])
    link = {"a": key("fake"), "b": key("fake-other"), "pa": "d" * 12, "pb": "e" * 12, "view": view}
    (told,) = (text for text in texts(opened(**link).warning) if "believe neither, and profile again" in text)
    assert told.startswith("Layers and latency disagree")
    assert not any("believe neither" in text for text in texts(opened(a=link["a"], b=link["b"]).warning))


def test_the_side_that_lacks_a_point_is_named(filled):
    assert "A has no point: select a row in its table." in texts(opened(ea="none").warning)
    broken = texts(opened(a=key("fake"), b=key("fake-other"), ea="bad000000000").warning)
    assert any("has no numbers" in text and "SIGSEGV" in text for text in broken)


def test_the_threshold_moves_the_sweet_spot(filled):
    app = opened(t="3.0")
    assert any("B's sweet spot" in text and "batch 1" in text for text in texts(app.markdown))
    assert any("A has no sweet spot: none of its points stays within 3 ms." in text for text in texts(app.markdown))

    app.number_input(key="t").set_value(100.0).run()
    assert any("A's sweet spot, which is A" in text for text in texts(app.markdown))
    app.number_input(key="t").set_value(0.0).run()
    assert not any("sweet spot:" in text for text in texts(app.markdown))


def test_the_threshold_is_shown_as_it_was_typed(filled):
    field = opened(t="1234.567").number_input(key="t")
    assert field.proto.format % field.value == "1234.567"


def test_the_tables_are_not_drawn_until_they_are_unfolded(filled):
    link = {"a": key("fake"), "b": key("fake-other")}
    folded, whole = (len(tables(one(**link))) for one in (opened, unfolded))
    assert whole == folded + 2


def test_hidden_points_are_not_drawn(filled):
    (table, _, *_) = tables(unfolded(a=key("fake"), b=key("fake-other"), off="ke1000000000,ke4000000000"))
    assert list(table["Drawn"][:3]) == ["☐", "☑", "☐"]


def test_earlier_runs_are_shown_where_wanted(filled):
    later = invented.measured("again".ljust(32, "0"), engine="fake", started_at_unix_ns=invented.CREATED_NS + 5)
    filled.add_measurement(later)
    app = unfolded(a=key("fake"), b=key("fake-other"))
    assert len(tables(app)[0]) == 4
    app.toggle(key="runs").set_value(True).run()
    assert len(tables(app)[0]) == 5


def test_unequal_settings_raise_a_banner(filled):
    app = opened(a=key("fake"), b=key("fake-other"), ea="ke1000000000", eb="er4000000000")
    banner = next(text for text in texts(app.caption) if "Not the same work" in text)
    assert "the batch differs: 1 and 4" in banner


def test_processors_that_differ_are_named_though_the_targets_are_called_alike(store):
    for number, processor in ((1, "Invented CPU"), (2, "Other CPU")):
        seen = replace(invented.snapshot(), host=HostFacts(cpu_model=processor))
        store.add_benchmark(invented.benchmark(f"b{number}"), [seen])
        one = invented.measured(f"m{number}", f"b{number}", engine=f"fake{number}")
        store.add_measurement(one, invented.samples(one.id))
    app = opened(a=key("fake1"), b=key("fake2"), view=INFERENCE)
    banner = next(text for text in texts(app.caption) if "Not the same work" in text)
    assert "processors differ: Invented CPU and Other CPU" in banner
    assert any("not equals: the processors differ" in text for text in texts(app.caption))


def test_what_is_shared_of_points_alone_says_in_what_they_are_unlike(filled):
    text = stored.report(*(filled.measurement(name.ljust(32, "0")) for name in ("ke1", "er4")))
    assert "the batch differs: 1 and 4" in text
    assert "CPU, batch 1, 2 cores, sync → CPU, batch 4, 2 cores, sync" in text


def test_a_shared_comparison_of_layers_advises_by_the_models_there_are_now(store, tmp_path):
    net = default_home().library.add(save(tiny_classifier(), tmp_path / "net.onnx"))
    known = {"host": HostFacts(isa=("avx512_vnni",)), "model_digest": net.digest}
    store.add_profiles([chain(one * 32, [layer(0, 1_000_000)], **known) for one in "ab"])

    def advised():
        return stored.report_of_layers(["a" * 32, "b" * 32], ())

    assert "made where there is none" in advised()
    made = Derivation(DerivationKind.QUANTIZED)
    store.save_model(invented.model("cd" * 32, "net-int8", parent_digest=net.digest, derivation=made))
    assert "there is one already, net-int8" in advised()
    default_home().library.remove(net)
    assert "was removed" in advised()


def test_the_summary_lists_types_and_what_is_left_out(filled):
    app = opened(a=key("fake"), b=key("fake-other"))
    (types, *_) = tables(app)
    assert list(types["Type"]) == ["Conv"]
    assert list(types["B layers"]) == ["f32 ×1, u8 ×1"]
    app = opened(a=key("fake"), b=key("fake-other"), without="Conv")
    assert "No type is included: tick one in the table." in texts(app.info)


@pytest.mark.parametrize("view", ["Performance summary", KERNELS, PRECISIONS])
def test_a_model_s_record_that_cannot_be_read_takes_no_layers_away(filled, view):
    (record := default_home().path / "models" / ("ef" * 32) / "version.json").parent.mkdir(parents=True)
    record.write_text('{"broken', encoding="utf-8")
    app = opened(a=key("fake"), b=key("fake-other"), view=view)
    assert not app.error
    assert tables(app)


def test_layers_that_cannot_be_read_are_a_banner_below_the_verdict(filled, monkeypatch):
    def damaged(*_):
        raise StoreError("these layers cannot be read")

    monkeypatch.setattr(Store, "whole_profiles", damaged)
    app = opened(a=key("fake"), b=key("fake-other"))
    assert texts(app.error) == ["these layers cannot be read"]
    assert any("B is faster" in text for text in texts(app.markdown))


def test_inference_time_shows_throughput_and_then_latency(filled):
    app = opened(view=INFERENCE)
    assert "**More is better.**" in texts(app.markdown)
    assert any("× as long as A" in text for text in texts(app.markdown))
    app.button_group(key="bars").set_value("Latency").run()
    assert "**Less is better.**" in texts(app.markdown)


def test_layers_are_filtered_and_opened(filled):
    link = {"a": key("fake"), "b": key("fake-other"), "view": KERNELS}
    app = opened(**link)
    assert any(text.startswith("3 rows · ") for text in texts(app.caption))

    app.selectbox(key="new filter field").select("tb").run()
    app.selectbox(key="new filter condition tb").select("not_executed").run()
    next(button for button in app.button if button.label == "Add filter").click().run()
    assert app.query_params["f"] == "tb:not_executed"
    assert any(text.startswith("1 of 3 rows") for text in texts(app.caption))

    next(button for button in app.button if "not executed" in button.label).click().run()
    assert "f" not in app.query_params
    assert any(text.startswith("3 rows · ") for text in texts(app.caption))


def test_filters_of_a_link_stack(filled):
    app = opened(a=key("fake"), b=key("fake-other"), view=KERNELS, f=["ta:gt:1.5", "tb:executed", "nonsense"])
    assert any(text.startswith("1 of 3 rows") for text in texts(app.caption))
    assert any(button.label == "Remove all" for button in app.button)
    app = opened(view=KERNELS, f=["name:contains:nowhere"])
    assert "No layer meets all of these filters; remove one." in texts(app.info)


def test_a_useless_filter_is_answered_in_words(filled):
    app = opened(view=KERNELS)
    app.selectbox(key="new filter field").select("ta").run()
    app.text_input(key="new filter value").set_value("fast").run()
    assert any("is not a number" in text for text in texts(app.warning))


def test_a_layer_that_b_did_not_execute_says_so(filled):
    app = opened(a=key("fake"), b=key("fake-other"), view=KERNELS, row="2")
    assert any("This layer was not executed in B" in text for text in texts(app.warning))
    assert "**A: 2 source nodes → 1 executed**" in texts(app.markdown)
    assert any(tab.label.startswith("Differing") for tab in app.tabs)


def test_precisions_have_their_matrix(filled):
    app = opened(a=key("fake"), b=key("fake-other"), view=PRECISIONS)
    shares, transitions, *_ = tables(app)
    assert list(shares["Precision"]) == ["f32", "u8"]
    assert transitions["In B"][0] == "u8"


def test_where_a_profile_is_missing_the_command_and_the_page_are_told(store):
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.measured("m1".ljust(32, "0")))
    store.add_profile(chain("b" * 32, [layer(0, 5)], engine=EngineRef("fake-other", "default", "1.0")))

    app = opened(a=key("fake"), b=key("fake-other"))

    assert any("A has no profile" in text for text in texts(app.caption))
    assert any(code.value.startswith("enginebench profile abababababab --engine fake") for code in app.code)
    links = [link for link in app.get("page_link") if link.label == "New profile"]
    assert "model=abababababab&engine=fake" in links[0].proto.query_string
    sentence = "B has no point: nothing of this project was measured yet."
    assert [sentence in texts(each) for each in (app.warning, app.caption)] == [True, False], "once"


def test_a_chosen_profile_is_taken(filled):
    old = chain("c" * 32, [layer(0, 7)], engine=ENGINE)
    filled.add_profile(replace(old, name="older", created_at_unix_ns=1))
    app = opened(a=key("fake"), b=key("fake-other"), pa="c" * 12)
    assert any("profile “older”" in text for text in texts(app.caption))
    app.selectbox(key="profile A").select("a" * 12).run()
    assert app.query_params["pa"] == "a" * 12


def test_all_failed_is_a_page_without_charts(store):
    store.add_benchmark(invented.benchmark())
    store.add_measurement(invented.failed("m1".ljust(32, "0")))
    app = opened(view=INFERENCE)
    assert any("none of its experiments came to numbers" in text for text in texts(app.warning))
    assert any("There is no point to draw" in text for text in texts(app.info))


def test_a_damaged_store_is_a_banner(filled):
    filled.path.write_bytes(b"not a database")
    assert opened().error


def test_a_model_stands_beside_its_int8_version_with_verdict_and_remark(store):
    made = Derivation(DerivationKind.QUANTIZED, said="8 inputs of seed 0")
    store.save_model(ModelVersion("ab" * 32, "net", "onnx", (), 1))
    store.save_model(ModelVersion("cd" * 32, "net-int8", "onnx", (), 2, "ab" * 32, made))
    u8 = Effective(precision=Readback("u8", ReadbackSource.ENGINE_API))
    fields = {"model_digest": "cd" * 32, "model_name": "net-int8", "effective": u8}
    both = (invented.measured("m1", model_name="net"), invented.measured("m2", latency_ms=2.0, **fields))
    samples = {"m1": invented.samples("m1"), "m2": invented.samples("m2", latency_ms=2.0)}
    store.add_bundles([BenchmarkBundle(invented.benchmark(), both, (invented.snapshot(),), samples)])

    app = opened(view=INFERENCE)
    assert [key_.partition("~")[0] for key_ in chosen(app)] == ["ab" * 6, "cd" * 6]
    (unlike,) = (text for text in texts(app.caption) if "Not the same work" in text)
    assert f"net-int8 is a version of net: {made}" in unlike
    assert "outputs of net-int8 differ by at most 0.00%" in unlike
    assert "u8 on fake" in unlike
    assert any("B is faster" in text for text in texts(app.markdown))
    points = next(table for table in tables(app) if "Precision" in table and "Point" in table)
    assert [word.split()[0] for word in points["Precision"]] == ["f32", "u8"]
