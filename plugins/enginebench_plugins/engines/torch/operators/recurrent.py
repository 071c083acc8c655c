"""Recurrent operators: PyTorch's own layers where they can what the node asks for, else step by step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from enginebench_plugins.engines.torch.operators.registry import Node, operator

ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where PyTorch's gates stand in ONNX's weights: ONNX has i o f c and z r h, PyTorch i f c o and r z h."""
USUAL = {"LSTM": ("sigmoid", "tanh", "tanh"), "GRU": ("sigmoid", "tanh"), "RNN": ("tanh",)}


def _activation(name: str, alpha: float | None, beta: float | None) -> Callable[[Any], Any]:
    def value(given: float | None, usual: float) -> float:
        return usual if given is None else given

    functional = torch.nn.functional
    table: dict[str, Callable[[Any], Any]] = {
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "relu": torch.relu,
        "softplus": functional.softplus,
        "softsign": functional.softsign,
        "affine": lambda x: value(alpha, 1.0) * x + value(beta, 0.0),
        "leakyrelu": lambda x: functional.leaky_relu(x, value(alpha, 0.01)),
        "thresholdedrelu": lambda x: functional.threshold(x, value(alpha, 1.0), 0.0),
        "scaledtanh": lambda x: value(alpha, 1.0) * torch.tanh(value(beta, 1.0) * x),
        "hardsigmoid": lambda x: torch.clamp(value(alpha, 0.2) * x + value(beta, 0.5), 0, 1),
        "elu": lambda x: functional.elu(x, value(alpha, 1.0)),
    }
    return table[name]


@dataclass(frozen=True)
class RecurrentCell:
    """What a node says of its kind, for all of its directions."""

    type: str
    directions: int
    backward: bool
    names: tuple[str, ...]
    activations: tuple[Callable[[Any], Any], ...]
    clip: float | None
    coupled: bool
    reset_after: bool
    batch_first: bool
    results: int
    rounded: Callable[[Any], Any] | None = None
    """What factors go through before they are multiplied, where the node rounds them."""

    @property
    def usual(self) -> bool:
        """Whether PyTorch's layer computes the same."""
        expected = USUAL[self.type] * self.directions
        plain = self.names == expected or (self.type == "RNN" and set(self.names) == {"relu"})
        return (
            plain
            and self.clip is None
            and self.rounded is None
            and not self.coupled
            and (self.type != "GRU" or self.reset_after)
        )


@operator("LSTM", "GRU", "RNN", host={4: ""})
def _recurrent(node: Node) -> Any:
    cell = cell_of(node, node.type)
    layer = _layer(cell, [node.constant(index) for index in (1, 2, 3)], node) if cell.usual else None
    return Recurrent(cell, layer)


def cell_of(node: Node, kind: str) -> RecurrentCell:
    """A node's cell, of this kind whatever the node is called."""
    direction = node.get("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    names = tuple(name.lower() for name in node.get("activations") or USUAL[kind] * directions)
    alphas, betas = iter(node.get("activation_alpha") or ()), iter(node.get("activation_beta") or ())
    with_alpha = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
    with_beta = {"affine", "scaledtanh", "hardsigmoid"}
    made = [
        _activation(
            name,
            next(alphas, None) if name in with_alpha else None,
            next(betas, None) if name in with_beta else None,
        )
        for name in names
    ]
    return RecurrentCell(
        type=kind,
        directions=directions,
        backward=direction == "reverse",
        names=names,
        activations=tuple(made),
        clip=node.get("clip"),
        coupled=bool(node.get("input_forget", 0)),
        reset_after=bool(node.get("linear_before_reset", 0)),
        batch_first=bool(node.get("layout", 0)),
        results=len(node.outputs),
    )


def _layer(cell: RecurrentCell, weights: Sequence[Any], node: Node) -> Any:
    """PyTorch's own layer, where the weights are known ahead."""
    given, inner, bias = weights
    if given is None or inner is None or (bias is None and node.has(3)) or node.has(7):
        return None
    more = {"nonlinearity": cell.names[0]} if cell.type == "RNN" else {}
    layer = getattr(torch.nn, cell.type)(
        given.shape[2], inner.shape[2], bias=bias is not None, bidirectional=cell.directions == 2,
        dtype=given.dtype, **more,
    )  # fmt: skip
    for parameter, values in zip(layer.parameters(), _as_torch(cell, given, inner, bias), strict=True):
        parameter.data.copy_(values)
        parameter.requires_grad_(False)
    layer.flatten_parameters()
    return layer


def _as_torch(cell: RecurrentCell, given: Any, inner: Any, bias: Any) -> list[Any]:
    """The weights in the order PyTorch has them in, gate by gate and direction by direction."""
    flat = []
    for direction in range(given.shape[0]):
        flat += [_gates(cell, given[direction]), _gates(cell, inner[direction])]
        if bias is not None:
            flat += [_gates(cell, part) for part in bias[direction].chunk(2)]
    return flat


def _gates(cell: RecurrentCell, weight: Any) -> Any:
    parts = weight.chunk(len(ORDER[cell.type]))
    return torch.cat([parts[place] for place in ORDER[cell.type]])


class Recurrent(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A recurrent node. Its arguments and results are those of ONNX."""

    def __init__(self, cell: RecurrentCell, layer: Any) -> None:
        super().__init__()
        self._cell, self.layer = cell, layer

    def _get_name(self) -> str:
        return self._cell.type

    def forward(
        self, x: Any, given: Any, inner: Any, bias: Any = None, lengths: Any = None,
        first: Any = None, first_cell: Any = None, peepholes: Any = None,
    ) -> Any:  # fmt: skip
        """All inputs of the node, in its order."""
        cell = self._cell
        if cell.batch_first:
            x = x.transpose(0, 1)
            first, first_cell = (s if s is None else s.transpose(0, 1) for s in (first, first_cell))
        if lengths is not None and all(length == x.shape[0] for length in lengths):
            lengths = None
        if first is None:
            first = x.new_zeros(cell.directions, x.shape[1], inner.shape[2])
        if first_cell is None and cell.type == "LSTM":
            first_cell = torch.zeros_like(first)
        if cell.usual and lengths is None and peepholes is None:
            results = self._natively(x, (given, inner, bias), first, first_cell)
        else:
            results = _step_by_step(cell, x, (given, inner, bias, peepholes), lengths, first, first_cell)
        return self._arranged(*results)

    def _natively(self, x: Any, weights: tuple[Any, Any, Any], first: Any, first_cell: Any) -> tuple[Any, ...]:
        cell = self._cell
        state = first if first_cell is None else (first.contiguous(), first_cell.contiguous())
        x = x.flip(0) if cell.backward else x
        if self.layer is not None:
            every, last = self.layer(x, state)
        else:
            flat = _as_torch(cell, *weights)
            function = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN": torch.rnn_tanh}[cell.type]
            function = torch.rnn_relu if cell.names[0] == "relu" else function
            both = cell.directions == 2
            every, *last = function(x, state, flat, weights[2] is not None, 1, 0.0, False, both, False)
            last = tuple(last) if cell.type == "LSTM" else last[0]
        every = every.reshape(*every.shape[:2], cell.directions, -1).transpose(1, 2)
        every = every.flip(0) if cell.backward else every
        return (every, *last) if cell.type == "LSTM" else (every, last)

    def _arranged(self, every: Any, *last: Any) -> Any:
        if self._cell.batch_first:
            every, last = every.permute(2, 0, 1, 3), tuple(each.transpose(0, 1) for each in last)
        results = (every, *last)[: self._cell.results]
        return results if self._cell.results > 1 else every


def _step_by_step(
    cell: RecurrentCell, x: Any, weights: tuple[Any, ...], lengths: Sequence[int] | None, first: Any, first_cell: Any
) -> tuple[Any, ...]:
    outputs, finals = [], []
    for direction in range(cell.directions):
        backward = cell.backward or direction == 1
        own = [None if weight is None else weight[direction] for weight in weights]
        states = [first[direction], *([first_cell[direction]] if cell.type == "LSTM" else [])]
        every, last = _one_direction(cell, x, own, lengths, states, direction, backward)
        outputs.append(every)
        finals.append(last)
    joined = (torch.stack([last[place] for last in finals]) for place in range(len(finals[0])))
    return (torch.stack(outputs, 1), *joined)


def _one_direction(
    cell: RecurrentCell, x: Any, weights: list[Any], lengths: Sequence[int] | None, states: list[Any], direction: int,
    backward: bool,
) -> tuple[Any, list[Any]]:  # fmt: skip
    given, inner, bias, peepholes = weights
    biases = (0, 0) if bias is None else bias.chunk(2)
    count = len(USUAL[cell.type])
    activations = cell.activations[direction * count : (direction + 1) * count]
    if cell.rounded:
        x = cell.rounded(x)
    step = {"LSTM": _lstm_step, "GRU": _gru_step, "RNN": _rnn_step}[cell.type]
    ends = None if lengths is None else torch.tensor(lengths, device=x.device).reshape(-1, 1)
    every: list[Any] = [None] * x.shape[0]
    for time in reversed(range(x.shape[0])) if backward else range(x.shape[0]):
        news = step(cell, x[time] @ given.t(), inner, biases, states, activations, peepholes)
        if ends is None:
            states, every[time] = news, news[0]
        else:  # beyond an item's end its state stays, and its output is zero
            live = ends > time
            states = [torch.where(live, new, old) for new, old in zip(news, states, strict=True)]
            every[time] = torch.where(live, news[0], torch.zeros_like(news[0]))
    return torch.stack(every) if every else x.new_zeros(0, *states[0].shape), states


def _clipped(cell: RecurrentCell, x: Any) -> Any:
    return x if cell.clip is None else x.clamp(-cell.clip, cell.clip)


def _lstm_step(
    cell: RecurrentCell, x: Any, inner: Any, biases: Any, states: list[Any], activations: Any, peepholes: Any
) -> list[Any]:
    hidden, memory = states
    factor = cell.rounded(hidden) if cell.rounded else hidden
    i, o, f, c = (x + factor @ inner.t() + biases[0] + biases[1]).chunk(4, -1)
    through_i, through_o, through_f = (0, 0, 0) if peepholes is None else peepholes.chunk(3)
    i = activations[0](_clipped(cell, i + through_i * memory))
    f = 1 - i if cell.coupled else activations[0](_clipped(cell, f + through_f * memory))
    memory = f * memory + i * activations[1](_clipped(cell, c))
    o = activations[0](_clipped(cell, o + through_o * memory))
    return [o * activations[2](memory), memory]


def _gru_step(
    cell: RecurrentCell, x: Any, inner: Any, biases: Any, states: list[Any], activations: Any, _peepholes: Any
) -> list[Any]:
    (hidden,) = states
    width = hidden.shape[-1]
    x = x + biases[0]
    gates = x[:, : 2 * width] + hidden @ inner[: 2 * width].t()
    more = biases[1]
    gates = gates if isinstance(more, int) else gates + more[: 2 * width]
    z, r = activations[0](_clipped(cell, gates)).chunk(2, -1)
    own = 0 if isinstance(more, int) else more[2 * width :]
    if cell.reset_after:
        fresh = x[:, 2 * width :] + r * (hidden @ inner[2 * width :].t() + own)
    else:
        fresh = x[:, 2 * width :] + (r * hidden) @ inner[2 * width :].t() + own
    return [(1 - z) * activations[1](_clipped(cell, fresh)) + z * hidden]


def _rnn_step(
    cell: RecurrentCell, x: Any, inner: Any, biases: Any, states: list[Any], activations: Any, _peepholes: Any
) -> list[Any]:
    (hidden,) = states
    return [activations[0](_clipped(cell, x + hidden @ inner.t() + biases[0] + biases[1]))]
