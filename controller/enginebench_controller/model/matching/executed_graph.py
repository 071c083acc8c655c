"""What the tensors of the executed graph tell: where a layer begins and ends in the source graph."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.matched import Layer


class ExecutedGraph:
    """The tensors that layers read and write, in the names of the source graph where they are its own.

    A layer that only moves data (`movers`, by place) makes no new tensor: what it writes stands for what it read.
    """

    def __init__(self, flow: DataFlow, layers: Sequence[Layer], movers: Collection[int]) -> None:
        self._own = flow.writer.keys() | set(flow.graph.inputs)
        self._layers = layers
        self._alias = _aliases(layers, movers, self._own)
        self._made = {name for layer in layers for name in layer.outputs}
        self.writers: dict[str, int] = {}
        self.readers: dict[str, set[int]] = defaultdict(set)
        for position in range(len(layers)):
            if position not in movers:
                self.writers.update(dict.fromkeys(self.written(position), position))
                for name in self.read(position)[0]:
                    self.readers[name].add(position)

    def written(self, position: int) -> list[str]:
        """The source graph's tensors that a layer writes."""
        names = (self._named(name) for name in self._layers[position].outputs)
        return [name for name in names if name in self._own]

    def read(self, position: int) -> tuple[list[str], bool]:
        """The source graph's tensors that a layer reads, and whether these are all but the weights."""
        names = [self._named(name) for name in self._layers[position].inputs if name]
        own = [name for name in names if name in self._own]
        # What no layer writes and the graph does not know is a weight, perhaps in a form of the engine's own.
        return own, bool(names) and not any(name in self._made for name in names if name not in self._own)

    def _named(self, name: str) -> str:
        return self._alias.get(name, name)


def _aliases(layers: Sequence[Layer], movers: Collection[int], own: Collection[str]) -> dict[str, str]:
    """Tensors of the engine's own that are one of the source graph's in another form, with that one's name."""
    alias: dict[str, str] = {}
    for position in sorted(movers):
        layer = layers[position]
        if len(layer.outputs) == 1 and layer.inputs:
            read, written = alias.get(layer.inputs[0], layer.inputs[0]), layer.outputs[0]
            if read in own and written not in own:
                alias[written] = read
            elif written in own and read not in own:
                alias[read] = written
    return alias
