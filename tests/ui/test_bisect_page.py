"""The page of bisects over a real store: the form, the answer, the line of verdicts, and one that has none yet."""

from dataclasses import replace
from functools import partial

import pytest

import invented_bisects
import opened_pages
from controller.tiny_models import save, tiny_classifier
from enginebench_controller.home import default_home
from enginebench_ui.pages import BISECT
from offered import engine, target
from opened_pages import button, texts

pytestmark = pytest.mark.slow

opened = partial(opened_pages.opened, BISECT)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return default_home()


def drawn(app):
    return "".join(element.proto.body for element in app.get("html"))


def test_without_a_bisect_the_page_says_how_to_begin(home):
    app = opened()
    assert texts(app.title) == ["Bisect"]
    assert "enginebench bisect" in app.code[0].value
    assert app.button(key="run").disabled


def test_the_answer_comes_first_then_the_way_the_gates_and_the_layers(home):
    search = invented_bisects.search()
    home.store.add_search(search)
    home.store.answer_search(search.id, search.answer)
    app = opened()
    assert "onnxruntime 1.22.0 is 9.8 % slower (1.098×, 1.070 to 1.130) than 1.21.0" in texts(app.markdown)[0]
    line = drawn(app)
    assert line.index("1.20.0") < line.index("1.21.0") < line.index("◆ culprit")
    assert "✓ as good" in line and "– skipped" in line
    layers, gates = (one.value for one in app.dataframe)
    assert list(layers["Layer"]) == ["Conv_4"]
    assert list(gates["Verdict"]) == ["worse", "skipped", "as good", "worse"]
    assert invented_bisects.ANSWER.command in [one.value for one in app.code]
    assert [one.label for one in app.get("download_button")] == ["Issue (Markdown)", "Everything (JSON)"]


def test_a_bisect_without_an_answer_says_how_far_it_is_and_can_be_gone_on_with(home):
    home.store.add_search(invented_bisects.search(None))
    app = opened()
    assert "This search was interrupted before its answer" in texts(app.warning)[0]
    assert "0 gates done; next is onnxruntime==1.22.0 against onnxruntime==1.20.0" in texts(app.warning)[0]
    assert "3 not measured" in drawn(app)
    assert button(app, "Go on with it")


def test_what_is_wrong_is_told_beside_the_field(home, tmp_path):
    model = home.library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    app = opened(model=model.digest, good="1.20.0", bad="1.20.0", worse="much")
    told = texts(app.error)
    assert "--good and --bad are both 1.20.0: there is nothing between them" in told
    assert any(one.startswith("--worse") for one in told)
    assert app.button(key="run").disabled
    app = opened(model=model.digest, good="1.20.0", bad="1.22.0")
    assert not app.button(key="run").disabled
    assert "enginebench bisect --engine=onnxruntime --good=1.20.0 --bad=1.22.0 tiny" in app.code[0].value


def test_an_engine_of_somebody_else_that_this_machine_has_can_be_bisected(home, tmp_path):
    model = home.library.add(save(tiny_classifier(), tmp_path / "tiny.onnx"))
    home.store.save_snapshot(target(engine("somebodys", "an environment of its own")))
    app = opened(model=model.digest, engine="somebodys", good="1.0", bad="2.0")
    assert not app.error
    assert "enginebench bisect --engine=somebodys --good=1.0 --bad=2.0 tiny" in app.code[0].value
    assert not app.button(key="run").disabled


def test_each_bisect_of_the_list_says_from_where_to_where_however_long_its_name(home):
    for number, bad in enumerate(("1.21.0", "1.22.0")):
        candidates = ("1.20.0", bad)
        fields = {"candidates": candidates, "option": "a_long_name_of_an_option", "model": f"{'a-long-name-' * 3}.onnx"}
        order = invented_bisects.ORDER.model_copy(update=fields)
        made = replace(invented_bisects.search(None), id=f"5ea4c000000{number}", name=order.name)
        home.store.add_search(replace(made, order=order.model_dump(mode="json")))
    offered = opened().selectbox(key="id").options
    assert [("1.20.0 to 1.21.0" in one, "1.20.0 to 1.22.0" in one) for one in offered].count((True, False)) == 1
    assert [("1.20.0 to 1.21.0" in one, "1.20.0 to 1.22.0" in one) for one in offered].count((False, True)) == 1
