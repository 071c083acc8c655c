"""What a bisect can be asked for."""

from pathlib import Path

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.plan.bisect import (
    BisectKind,
    bisect_command,
    listed_models,
    make_order,
    narrowed,
    parse_option,
)

MODELS = {"kind": BisectKind.MODELS, "candidates": ("a.onnx", "b.onnx")}


@pytest.mark.parametrize("engine", ["ort==1.20.0", "ort==1.20.0:level=all", "plugin:mine"])
def test_an_engine_that_would_have_to_be_installed_is_refused(engine) -> None:
    with pytest.raises(InputError, match=f"--engine {engine} would have to be installed"):
        make_order({**MODELS, "engine": engine})


@pytest.mark.parametrize("metric", ["speed", "size"])
def test_a_metric_is_one_of_those_that_can_be_bisected(metric: str) -> None:
    offered = "latency, first-inference, compile, memory"
    with pytest.raises(InputError, match=f"^--metric {metric} cannot be bisected: give one of {offered}$"):
        make_order({**MODELS, "engine": "ort", "metric": metric})


def test_a_search_is_called_by_its_ends_and_the_metric_that_is_not_latency() -> None:
    versions = {"kind": BisectKind.VERSIONS, "candidates": ("1.20.1", "1.21.0", "1.23.0"), "package": "ort"}
    net = {"engine": "ort", "model": "models/net.onnx"}
    options = {"kind": BisectKind.OPTIONS, "candidates": ("all", "basic"), "option": "level"}
    assert make_order({**versions, **net}).name == "bisect of ort 1.20.1 to 1.23.0 with net.onnx"
    assert make_order({**versions, **net, "metric": "memory"}).name.endswith(" with net.onnx, memory")
    assert make_order({**options, **net}).name == "bisect of ort.level all to basic with net.onnx"
    assert make_order({**MODELS, "engine": "ort"}).name == "bisect of a.onnx to b.onnx on ort"


def test_an_engine_is_there_in_an_environment_and_with_options() -> None:
    side = make_order({**MODELS, "engine": "ort@old:level=all"}).side(0)
    assert (side.model, side.engine, side.environment, side.options) == ("a.onnx", "ort", "old", {"level": "all"})


@pytest.mark.parametrize(
    ("text", "engine", "known", "owner", "option"),
    [
        ("ort.level=1,2", None, (), "ort", "level"),
        ("level=1,2", "ort", (), "ort", "level"),
        ("ort.session.spinning=1,2", None, ("ort",), "ort", "session.spinning"),
        ("ort.session.spinning=1,2", None, (), "ort", "session.spinning"),
        ("iree-3.1.threads=1,2", None, ("iree-3", "iree-3.1"), "iree-3.1", "threads"),
        ("iree-3.1.threads=1,2", "iree-3.1", (), "iree-3.1", "threads"),
    ],
)
def test_an_engine_and_an_option_may_have_points_in_their_names(
    text: str, engine: str | None, known: tuple[str, ...], owner: str, option: str
) -> None:
    assert parse_option(text, engine, known) == (owner, option, ("1", "2"))


def test_an_option_of_another_engine_than_the_one_that_is_named_is_refused() -> None:
    with pytest.raises(InputError, match=r"is of iree-3\.1, and --engine says iree-3: leave"):
        parse_option("iree-3.1.threads=1,2", "iree-3", ("iree-3.1",))


def test_a_comma_between_thousands_parts_no_values_of_an_option() -> None:
    with pytest.raises(InputError, match=r"'1,024' is two values: write 1024$"):
        parse_option("fake.latency_us=1,024", None)


@pytest.mark.parametrize("engine", ["ort", "ort@old"])
def test_an_option_that_is_bisected_cannot_be_fixed_too(engine: str) -> None:
    order = {"kind": BisectKind.OPTIONS, "candidates": ("all", "basic"), "engine": engine, "option": "level"}
    with pytest.raises(InputError, match=r"^--option ort\.level=off fixes the very option that --options bisects: "):
        make_order({**order, "model": "net.onnx", "fields": {"options": {"ort.level": "off"}}})
    assert make_order({**order, "model": "net.onnx", "fields": {"options": {"ort.threads": "1"}}}).option == "level"


def test_the_command_that_asks_again_has_what_was_said_and_no_defaults() -> None:
    said = {"models": "a.onnx,my b.onnx", "engine": "ort", "good": None, "worse": "5%", "budget": "30s"}
    told = bisect_command(None, said, {"batch": [4], "options": {"ort.threads": "1"}}, trusted=True)
    assert told == (
        "enginebench bisect --models 'a.onnx,my b.onnx' --engine ort --budget 30s --trust --batch 4 "
        "--option ort.threads=1"
    )
    assert bisect_command("net", {"engine": "ort"}, {}) == "enginebench bisect net --engine ort"


GIVEN = ("./v1.onnx", "k/v2.onnx", "v3.onnx", "zoo:net", "v5.onnx")


@pytest.mark.parametrize(
    ("good", "bad", "found"),
    [
        ("v1.onnx", None, GIVEN),
        ("./v3.onnx", None, GIVEN[2:]),
        ("{}/k/../v3.onnx", "zoo:net", GIVEN[2:4]),
        ("v2.onnx", "./v5.onnx", GIVEN[1:]),
        ("net", None, None),
        ("v4.onnx", None, None),
    ],
)
def test_good_and_bad_of_models_are_meant_by_any_path_or_by_what_they_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: str, bad: str | None, found: tuple[str, ...] | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k").mkdir()
    if found is not None:
        assert narrowed(GIVEN, good.format(tmp_path), bad, are_models=True) == found
        return
    with pytest.raises(InputError, match=f"^--good {good} is not among those given: "):
        narrowed(GIVEN, good, bad, are_models=True)


def test_a_label_that_two_models_have_is_no_good_one() -> None:
    given = ("a/net.onnx", "b/net.onnx", "c/net.onnx")
    with pytest.raises(InputError, match=r"^--good net\.onnx may mean a/net\.onnx or b/net\.onnx or c/net\.onnx: give"):
        narrowed(given, "net.onnx", None, are_models=True)
    assert narrowed(given, "b/net.onnx", None, are_models=True) == given[1:]


def test_one_model_by_two_paths_is_there_twice() -> None:
    with pytest.raises(InputError, match=r"^\./v1\.onnx is there twice, as v1\.onnx, too: "):
        narrowed(("v1.onnx", "./v1.onnx"), None, None, are_models=True)
    with pytest.raises(InputError, match=r"^--good and --bad are both v1\.onnx: "):
        narrowed(("v1.onnx", "v2.onnx"), "./v1.onnx", "v1.onnx", are_models=True)
    assert narrowed(("1.0", "./1.0"), None, None) == ("1.0", "./1.0"), "values of options are no paths"


def test_a_file_with_a_comma_in_its_name_is_told_from_two_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("m, 5.onnx", "v1.onnx", "v2.onnx", "v1.onnx,v2.onnx"):
        Path(name).touch()
    assert listed_models("v1.onnx, v2.onnx,,zoo:net,gone.onnx") == ("v1.onnx", "v2.onnx", "zoo:net", "gone.onnx")
    with pytest.raises(InputError, match=r"^commas part the models of --models, and m, 5\.onnx has one in its name: "):
        listed_models("v1.onnx,m, 5.onnx,v2.onnx")
    with pytest.raises(InputError, match=r"NAME, after `enginebench models add 'm, 5\.onnx' --name NAME`$"):
        listed_models("m, 5.onnx")
