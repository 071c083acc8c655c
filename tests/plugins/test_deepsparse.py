"""DeepSparse under the engine contract, and what is particular to it."""

from contract import EngineContract


class TestDeepSparse(EngineContract):
    plugin = "enginebench_plugins.deepsparse.plugin"
