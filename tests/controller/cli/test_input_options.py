"""What a model is fed is said alike wherever one is run: each command takes the options, and they reach its plan."""

from pathlib import Path
from typing import Any, NoReturn

import pytest
from typer.testing import CliRunner

from enginebench_controller.cli import make_app
from enginebench_controller.cli.commands import ladder, profiles, prospects, running
from integration.bench import tiny_model

COMMANDS = {
    "run": (running, "_carry_out", 1),
    "profile": (profiles, "run_profiles", 1),
    "ladder throughput": (ladder, "climb", 2),
    "ladder latency": (ladder, "climb", 2),
    "prospects pruning": (prospects, "run_pruning", 1),
}
"""Where each carries out what it was told, and which argument of that holds it."""


class CarriedOutError(Exception):
    """Ends a command where its order would be carried out."""

    def __init__(self, order: Any) -> None:
        self.order = order


def told(order: Any, name: str) -> object:
    """A field of the plan of a command, or of the wish of a ladder."""
    return order.fields.get(name) if hasattr(order, "fields") else getattr(order.plan, name)


@pytest.fixture(params=COMMANDS)
def ordered(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Types options behind a command and its model; returns what would have been carried out."""
    module, function, place = COMMANDS[request.param]

    def carry_out(*arguments: Any, **_: Any) -> NoReturn:
        raise CarriedOutError(arguments[place])

    monkeypatch.setattr(module, function, carry_out)
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos").mkdir()
    model = tiny_model(tmp_path / "tiny.onnx")

    def order(*options: str) -> Any:
        result = CliRunner().invoke(make_app(), [*request.param.split(), str(model), *options])
        assert isinstance(result.exception, CarriedOutError), result.output
        return result.exception.order

    return order


def test_a_folder_of_inputs_is_kept_by_its_absolute_path(ordered: Any, tmp_path: Path) -> None:
    assert told(ordered("--inputs", "photos"), "input_folder") == str(tmp_path / "photos")


def test_values_of_inputs_and_where_the_batch_is_are_kept(ordered: Any) -> None:
    order = ordered("--input", "sr=16000", "--input", "mask=ones", "--batch-axis", "x=1")
    assert told(order, "input_values") == {"sr": "16000", "mask": "ones"}
    assert dict(told(order, "batch_axis")) in ({"x": "1"}, {"x": 1})
