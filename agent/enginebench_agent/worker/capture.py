"""What comes out for each input of the set, while the requests are under the load of the measurement."""

from collections.abc import Sequence

from enginebench_agent.worker.loads.choice import closed_load
from enginebench_agent.worker.output_tensors import describe_outputs
from enginebench_agent.worker.outputs import capture
from enginebench_plugins.spec import InferRequest, Load, OnDone, Outputs, Tensors
from enginebench_proto.v1.measurement_pb2 import CapturedOutput


def run_each_input(
    load: Load, requests: Sequence[InferRequest], inputs: Sequence[Tensors]
) -> tuple[list[CapturedOutput], int]:
    """Run every request and every input at least once; returns the outputs by input, and the number of inferences.

    Outputs belong to the input their own request was started with, so an engine that mixes up requests in flight is
    caught. Raises the first error of an inference, and `BrokenOutputError` for outputs that are no named arrays.
    """
    captured: dict[int, list[CapturedOutput]] = {}
    positions = {id(tensors): index for index, tensors in enumerate(inputs)}
    capturing = [_CapturingRequest(request, positions, captured) for request in requests]
    timed = closed_load(load, capturing, inputs).block(0, max(len(inputs), len(requests)), drain=True)
    return [output for index in sorted(captured) for output in captured[index]], len(timed.latency_ns)


class _CapturingRequest(InferRequest):
    """A request whose outputs are noted before it counts as done, since it may reuse their memory afterwards."""

    def __init__(
        self, request: InferRequest, positions: dict[int, int], captured: dict[int, list[CapturedOutput]]
    ) -> None:
        self._request = request
        self._positions = positions
        self._captured = captured

    def infer(self, inputs: Tensors) -> Outputs:
        """As the request itself."""
        outputs = self._request.infer(inputs)
        self._note(inputs, outputs)
        return outputs

    def start(self, inputs: Tensors, on_done: OnDone) -> None:
        """As the request itself."""

        def note_then_done(outputs: Outputs | None, error: BaseException | None) -> None:
            if error is None:
                try:
                    self._note(inputs, outputs)
                except BaseException as broken:  # on an engine's thread: carried to the one that waits
                    outputs, error = None, broken
            on_done(outputs, error)

        self._request.start(inputs, note_then_done)

    def _note(self, inputs: Tensors, outputs: Outputs | None) -> None:
        index = self._positions[id(inputs)]
        if index not in self._captured:
            describe_outputs(outputs)
            self._captured[index] = capture(index, outputs or {})
