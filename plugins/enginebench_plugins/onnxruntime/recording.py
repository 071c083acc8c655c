"""What a profiled session leaves in a private folder: its trace, and the graph it made of the model."""

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.onnxruntime.optimized_graph import OptimizedGraph, read_optimized_graph
from enginebench_plugins.onnxruntime.profile import layers_of

GRAPH = "optimized.onnx"
WEIGHTS = "weights.bin"


class Recording:
    """The private folder of one session. `remove` ends it."""

    def __init__(self, model: Path) -> None:
        """Give every node of the model a name, for without one nothing would tell what became of it.

        A model whose nodes all have one is taken from its file; else its copy in memory refers to the weights beside
        that file. Without the package onnx layers have the names they have, and no tensors.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="enginebench-trace-"))
        self.model: str | bytes = str(model)
        self._weights = model.parent
        self._names = None
        if find_spec("onnx") is not None:
            from enginebench_plugins.onnx_model import name_nodes, read_onnx, source_names

            proto = read_onnx(model, weights=False)
            self._names = source_names(proto)
            if name_nodes(proto):
                self.model = proto.SerializeToString()
        self._graph = OptimizedGraph(names=self._names)

    def switch_on(self, options: Any, *, graph: bool) -> None:
        """Let a session with these options write its trace and, with `graph`, its graph into the folder."""
        options.enable_profiling = True
        options.profile_file_prefix = str(self.folder / "trace")
        if isinstance(self.model, bytes):
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(self._weights))
        if graph and self._names is not None:
            options.optimized_model_filepath = str(self.folder / GRAPH)
            # A file of its own for the weights: protobuf refuses files of 2 GiB, and nobody reads them.
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", WEIGHTS)

    def read_graph(self) -> None:
        """Read the graph that a session wrote, and delete it with its weights."""
        if self._names is not None:
            self._graph = read_optimized_graph(self.folder / GRAPH, self._names)
        for name in (GRAPH, WEIGHTS):
            (self.folder / name).unlink(missing_ok=True)

    def layers(self, trace: Path, iterations: int) -> list[spec.LayerProfile]:
        """The layers of the last inferences of a trace. Raises `RuntimeError` when it holds fewer."""
        return layers_of(trace, iterations, self._graph)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
