"""What is typed behind `enginebench ladder` becomes a wish that can be repeated from anywhere."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from enginebench_controller.cli import ladder, make_app
from enginebench_controller.ladder.planning import Wish
from integration.bench import tiny_model


class CarriedOutError(Exception):
    """Ends the command where the ladder would be climbed."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish


@pytest.mark.parametrize("kind", ["throughput", "latency"])
def test_a_folder_of_inputs_is_kept_by_its_absolute_path(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def climb(_home: object, _source: object, wish: Wish, _announce: object) -> None:
        raise CarriedOutError(wish)

    monkeypatch.setattr(ladder, "climb", climb)
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    model = tiny_model(tmp_path / "tiny.onnx")
    (tmp_path / "photos").mkdir()
    result = CliRunner().invoke(make_app(), ["ladder", kind, str(model), "--inputs", "photos"])
    assert isinstance(result.exception, CarriedOutError), result.output
    assert result.exception.wish.fields["input_folder"] == str(tmp_path / "photos")
