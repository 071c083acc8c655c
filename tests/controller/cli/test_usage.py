"""Help without types of Python's, defaults that are true, and mistakes as sentences that name the option."""

import errno
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from filelock import FileLock

from enginebench_controller import cli
from enginebench_controller.cli import MODULES, make_app, without_types
from enginebench_controller.plan.expand import USUAL_TIME_LIMIT_NS
from enginebench_controller.plan.options import OptionGroup, fields_of
from enginebench_controller.plan.plan import INTERVAL, PROCESSES, make_plan, parse_duration_ns

COMMAND = without_types(typer.main.get_command(make_app()))
FIELDS = {"engine": "engines", "target": "targets", "device": "devices", "shape": "shapes", "option": "options"}
IN_WORDS = {"processes", "interval"} | {
    "targets",
    "devices",
    "cores",
    "requests",
    "max_duration",
    "block",
    "order_seed",
    "name",
    "timeout",
}
"""Fields whose default depends on something else: the help says on what."""


def complaint(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    monkeypatch.setattr(sys, "argv", ["enginebench", *arguments])
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.mark.parametrize("words", [["run"], ["rerun"], ["demo"], ["ladder", "throughput"], ["ladder", "latency"]])
def test_the_help_shows_what_to_write_and_no_types(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert COMMAND([*words, "-h"], standalone_mode=False) == 0
    assert not re.findall(r"<(?:str|int|bool|float|list)\b", capsys.readouterr().out)


def test_the_help_of_commands_that_plan_is_in_groups() -> None:
    ladder = COMMAND.commands["ladder"].commands
    pruning = COMMAND.commands["prospects"].commands["pruning"]
    named = [COMMAND.commands[name] for name in ("run", "profile", "gate", "flops")]
    for command in (
        *named,
        ladder["throughput"],
        ladder["latency"],
        pruning,
        COMMAND.commands["models"].commands["quantize"],
    ):
        panels = {one.name: one.rich_help_panel for one in command.params if one.param_type_name == "option"}
        assert set(panels.values()) <= set(OptionGroup), command.name
    assert {one.rich_help_panel for one in COMMAND.commands["list"].params} == {None}


def test_the_defaults_in_the_help_of_run_are_those_of_a_plan() -> None:
    plan = make_plan({"models": ["m"]}, "run").document()
    checked = set()
    for parameter in COMMAND.commands["run"].params:
        field = FIELDS.get(parameter.name, parameter.name)
        told = re.search(r"\[default: (.+)]", parameter.help or "")
        if field in plan and field not in IN_WORDS and told:
            default = plan[field][0] if isinstance(plan[field], list) else plan[field]
            assert str(default) == told[1], field
            checked.add(field)
    assert {"engines", "batch", "precision", "load", "arrivals", "duration"} <= checked


def test_the_help_says_how_many_processes_there_are_alone_and_in_turns() -> None:
    helps = {parameter.name: parameter.help for parameter in COMMAND.commands["run"].params}
    for name, defaults in (("processes", PROCESSES), ("interval", INTERVAL)):
        assert f"[default: {defaults[False]}, and {defaults[True]} in turns]" in helps[name].replace("\\", "")


def test_the_help_says_how_long_a_process_may_take_unless_it_may_measure_for_longer() -> None:
    (timeout,) = (parameter.help for parameter in COMMAND.commands["run"].params if parameter.name == "timeout")
    (told,) = re.findall(r"default: (\w+), and more", timeout)
    assert parse_duration_ns(told) == USUAL_TIME_LIMIT_NS


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "m", "--batch", "0"], "--batch: '0' is not a number of at least 1"),
        (["run", "m", "--batch", "x"], "--batch: 'x' is not a whole number"),
        (["run", "m", "--rate", "0"], "--rate: '0' is not a number above 0"),
        (["run", "m", "--processes", "0"], "--processes: 0 is not a number of at least 1"),
        (["run", "m", "--processes", "1001"], "--processes: 1001 is not a number of at most 1000"),
        (["run", "m", "--precision", "f8"], "--precision: 'f8' is not one of default, f32, bf16 or f16"),
        (["run", "m", "--hint", "speed"], "--hint: 'speed' is not one of none, latency, throughput or cumulative"),
        (["run", "m", "--load", "burst"], "--load: 'burst' is not one of sync, async or open-loop"),
        (["run", "m", "--image-mean", "a"], "--image-mean: 'a' is not a number"),
        (["run", "m", "--image-scale", "nan"], "--image-scale: nan is not a finite number"),
        (["run", "m", "--duration", "soon"], "--duration: 'soon' is not a duration: write 500us, 500ms, 5s, 2m or 1h"),
        (["run", "m", "--wait-quiet", "-1"], "--wait-quiet: '-1' is not a duration: write 500us, 500ms, 5s, 2m or 1h"),
        (
            ["profile", "m", "--wait-quiet", "abc"],
            "--wait-quiet: 'abc' is not a duration: write 500us, 500ms, 5s, 2m or 1h",
        ),
        (["run", "m", "--wait-quiet", "744h"], "--wait-quiet: 744h is longer than 30 days"),
        (["run", "m", "--wait-quiet", ""], "--wait-quiet: '' is not a duration: write 500us, 500ms, 5s, 2m or 1h"),
        (["run", "m", "--engine", ","], "--engine: at least one is needed"),
        (["run", "m", "--batch", ""], "--batch: at least one is needed"),
        (["run", "m", "--image-scale", "x"], "--image-scale: 'x' is not a number; see `enginebench run --help`"),
        (["run", "m", "--iterations", "x"], "--iterations: 'x' is not a whole number; see `enginebench run --help`"),
        (
            ["ladder", "latency", "m", "--cores", "0"],
            "--cores: '0' is not a number of at least 1; see `enginebench ladder latency --help`",
        ),
        (["run"], "missing argument 'MODEL… | PLAN.toml'; see `enginebench run --help`"),
        (["run", "m", "--quux"], "no such option: --quux; see `enginebench run --help`"),
        (
            ["export", "m", "--format", "xml"],
            "--format: 'xml' is not one of 'json', 'csv', 'parquet', 'perfetto', 'model-explorer', "
            "'model-explorer-flops', 'gab', 'gab-bigger', 'bmf', 'otava', 'openmetrics'; "
            "see `enginebench export --help`",
        ),
        (
            ["run", "m", "--iterations", "1.000"],
            "--iterations: '1.000' is not a whole number: write digits alone, such as 1000; "
            "see `enginebench run --help`",
        ),
        (["run", "m", "--batch", "1,024"], "--batch: '1,024' is two values: write 1024"),
        (
            ["ladder", "latency", "m", "--cores", "1.000"],
            "--cores: '1.000' is not a whole number: write digits alone, such as 1000; "
            "see `enginebench ladder latency --help`",
        ),
        (
            ["ladder", "throughput", "m", "--batches", "\uff14"],
            "--batches '\uff14' is not a list of batch sizes above 1, such as 4,8",
        ),
        (
            ["jobs", "show", "x", "--lines", "1_0"],
            "--lines: '1_0' is not a whole number: write digits alone, such as 1000; "
            "see `enginebench jobs show --help`",
        ),
        (
            ["run", "m", "--image-scale", "0,5"],
            "--image-scale: '0,5' is not a number: write 0.5, with a point; see `enginebench run --help`",
        ),
        (["frobnicate"], "no such command 'frobnicate'; see `enginebench --help`"),
    ],
)
def test_a_mistake_is_one_sentence_that_names_the_option_and_what_is_allowed(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complaint(capsys, monkeypatch, *arguments) == f"error: {sentence}\n"


def test_a_command_is_found_without_loading_the_others() -> None:
    whole = typer.main.get_command(make_app()).commands
    assert set(whole) == {"ui", "open", *(name for names in MODULES.values() for name in names)}
    for names in MODULES.values():
        for name in names:
            alone = typer.main.get_command(make_app(["--log-format", "json", name, "x"]))
            assert set(alone.commands) == set(names)
    for words in (
        ["ui"],
        ["open", "demo"],
        ["--verbose", "open", "run"],
    ):  # what is opened may be called like a command
        assert {"ui", "open"} <= set(typer.main.get_command(make_app(words)).commands)


def test_the_help_of_all_says_what_that_of_each_begins_with() -> None:
    whole, shown = (typer.main.get_command(app).commands for app in (make_app(), make_app(["--help"])))
    assert list(shown) == list(whole)
    for name, command in shown.items():
        assert command.help == whole[name].help.split("\n\n")[0], name


@pytest.mark.slow
def test_a_light_command_starts_without_the_heavy_libraries() -> None:
    heavy = ("onnx", "onnxruntime", "scipy", "jinja2")
    asked = "import sys; from enginebench_controller.cli import make_app; make_app(['targets']); "
    told = f"print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked + told], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_that_of_the_distribution() -> None:
    command = [sys.executable, "-m", "enginebench_controller", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == importlib.metadata.version("enginebench")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["show", "one", "--json", "--json"], ""),
        (["run", "a.onnx", "--name", "one", "--name=two"], ""),
        (["devices", "--target", "a", "--target", "b"], "--target is given 2 times: give it once, with commas between"),
        (["query", "--", "--csv", "--csv"], ""),
    ],
)
def test_a_list_of_which_one_value_would_be_lost_is_refused(
    words: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    told = complaint(capsys, monkeypatch, *words)
    assert sentence in told and ("times" in told) == bool(sentence)


def test_a_list_may_be_given_in_parts() -> None:
    assert fields_of({"engine": ["a", "b,c"], "batch": ["1,2"]}) == {"engines": ["a", "b", "c"], "batch": ["1", "2"]}
    assert fields_of({"engine": None, "cores": []}) == {"cores": []}


def test_a_home_that_can_only_be_read_is_told_alike_whichever_file_in_it_is_wanted_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(lock: FileLock, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(lock.lock_file))

    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(FileLock, "acquire", refuse)
    assert complaint(capsys, monkeypatch, "devices") == (
        f"error: {tmp_path / 'local-agent.lock'} lies on a read-only file system, where results can be looked at and "
        "nothing be stored; name another folder in ENGINEBENCH_HOME\n"
    )


def test_of_a_read_only_file_elsewhere_another_home_is_no_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(lock: FileLock, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "/elsewhere/file")

    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    monkeypatch.setattr(FileLock, "acquire", refuse)
    told = complaint(capsys, monkeypatch, "devices")
    assert told.startswith("error: cannot use /elsewhere/file: Read-only file system; mind its name")
