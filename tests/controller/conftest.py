"""Makes `tiny_models` importable from the test modules beside it."""

import sys
from pathlib import Path

import pytest

from enginebench_controller.graph.flops.parameters import count_weights
from enginebench_controller.models.library import ModelLibrary

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def library(tmp_path: Path) -> ModelLibrary:
    return ModelLibrary(tmp_path / "library", count_weights)
