"""Requests of OpenVINO.

OpenVINO's own callbacks are not used. A failed inference never reaches a callback written in Python. And a thread that
ran one needs the interpreter's lock to let go of it, while whoever destroys the network holds the lock and waits for
that thread: under load this deadlock came within minutes. A thread for each request, which starts and waits, has
neither fault, and is no slower: its next inference begins on the same thread, without a switch.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from enginebench_plugins import spec


class OpenVinoRequest(spec.InferRequest):
    """One `openvino.InferRequest`.

    With `shared` memory inputs are read where they lie and outputs are views of the request's tensors; without it the
    engine copies the inputs into tensors of its own, and outputs are copies.

    `tensor` wraps an array without a copy. With it every input is given to the request as a tensor, which is sooner
    done than what the package's `infer` does with arrays: 1 % of an inference of SqueezeNet in 1.6 ms (2026.4). None
    leaves the inputs to that.

    OpenVINO takes and shows the bits of bfloat16 as float16: an input of it is handed over as such, an output read as
    float32.

    A `stateful` network, of an LSTM or a decoder, would go on from the inference before: each has a new state instead.
    """

    def __init__(
        self,
        request: Any,
        input_names: Sequence[str],
        output_names: Sequence[str],
        *,
        shared: bool,
        tensor: Callable[[Any], Any] | None = None,
        stateful: bool = False,
        bfloat16_inputs: Sequence[str] = (),
        bfloat16_outputs: Sequence[str] = (),
    ) -> None:
        self._request = request
        self._shared = shared
        self._tensor = tensor
        self._stateful = stateful
        self._numbers = {name: number for number, name in enumerate(input_names)}
        self._output_names = output_names
        self._bfloat16_inputs = [self._numbers[name] for name in bfloat16_inputs]
        self._bfloat16_outputs = bfloat16_outputs

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run through the synchronous interface, the shortest way for a single request.

        Not for networks whose shapes depend on the data: with a single thread this interface keeps an error that only
        the data brings about to itself, and the outputs of the inference before stay (2026.4).
        """
        self._forget()
        self._request.infer(self._remaining(inputs), share_inputs=self._shared, share_outputs=True)
        return self._outputs()

    def profiling_info(self) -> Sequence[Any]:
        """The counters after the last inference."""
        infos: Sequence[Any] = self._request.get_profiling_info()
        return infos

    def close(self) -> None:
        """End the request's thread and let go of the OpenVINO request."""
        super().close()
        del self._request

    def _forget(self) -> None:
        if self._stateful:
            self._request.reset_state()

    def _remaining(self, inputs: spec.Tensors) -> dict[int, Any] | None:
        """Give the inputs to the request, and return by number those that it is yet to be given; None for none."""
        if self._tensor is None:
            given = {self._numbers[name]: array for name, array in inputs.items()}
            for number in self._bfloat16_inputs:
                given[number] = given[number].view(np.float16)
            return given
        for name, array in inputs.items():
            self._request.set_input_tensor(self._numbers[name], self._tensor(array))
        return None

    def _outputs(self) -> spec.Outputs:
        views = {name: self._request.get_output_tensor(number).data for number, name in enumerate(self._output_names)}
        for name in self._bfloat16_outputs:
            views[name] = _as_floats(views[name])
        return views if self._shared else {name: view.copy() for name, view in views.items()}


def _as_floats(halves: Any) -> Any:
    """The bits of bfloat16 are the upper half of a float's."""
    return (halves.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


class OpenVinoConcurrentRequest(OpenVinoRequest):
    """A request that shares the network's streams with others: the asynchronous interface queues it for one.

    It raises every error.
    """

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run on one of the network's streams."""
        self._forget()
        self._request.start_async(self._remaining(inputs), share_inputs=self._shared)
        self._request.wait()
        return self._outputs()
