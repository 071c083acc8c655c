"""What a bisect can be asked for."""

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.plan.bisect import BisectKind, make_order

MODELS = {"kind": BisectKind.MODELS, "candidates": ("a.onnx", "b.onnx")}


@pytest.mark.parametrize("engine", ["ort==1.20.0", "ort==1.20.0:level=all", "plugin:mine"])
def test_an_engine_that_would_have_to_be_installed_is_refused(engine) -> None:
    with pytest.raises(InputError, match=f"--engine {engine} would have to be installed"):
        make_order({**MODELS, "engine": engine})


def test_an_engine_is_there_in_an_environment_and_with_options() -> None:
    side = make_order({**MODELS, "engine": "ort@old:level=all"}).side(0)
    assert (side.model, side.engine, side.environment, side.options) == ("a.onnx", "ort", "old", {"level": "all"})
