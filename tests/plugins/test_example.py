"""The example that strangers copy keeps the engine contract as our own engines do."""

import importlib.util
from pathlib import Path

from enginebench_plugins.testing import EngineContract

SOURCE = Path(__file__).parents[1] / "example_plugin" / "src" / "enginebench_example" / "plugin.py"


def _load_from_source() -> object:
    found = importlib.util.spec_from_file_location("enginebench_example.plugin", SOURCE)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


class TestExample(EngineContract):
    plugin = _load_from_source()
    layer_sum_bounds = (0.02, 10.0)
    """An evaluator a node costs more than one for the graph, on networks as small as the contract's."""
