"""Requests of OpenVINO: synchronous, and asynchronous through OpenVINO's own callbacks."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from enginebench_plugins import spec

WATCH_INTERVAL_S = 0.1


class NetworkRequest(spec.InferRequest):
    """One `openvino.InferRequest`. Inputs are read where they lie; outputs are views of the request's tensors."""

    def __init__(
        self, request: Any, input_names: Sequence[str], output_names: Sequence[str], watch: "FailureWatch"
    ) -> None:
        self._request = request
        self._numbers = {name: number for number, name in enumerate(input_names)}
        self._output_names = output_names
        self._watch = watch
        self._on_done: spec.OnDone | None = None
        self._started = False
        request.set_callback(self._completed, None)

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run in the caller's thread."""
        self._request.infer(self._numbered(inputs), share_inputs=True, share_outputs=True)
        return self._outputs()

    def start(self, inputs: spec.Tensors, on_done: spec.OnDone) -> None:
        """Start on OpenVINO's threads, which then call `on_done`."""
        self._watch.add(self)
        self._started = False
        self._on_done = on_done
        try:
            self._request.start_async(self._numbered(inputs), share_inputs=True)
        except Exception as error:  # handed to the worker, which types and reports it
            self._finish(None, error)
        else:
            self._started = True

    def report_failure(self) -> None:
        """Tell of a started inference that failed: OpenVINO then leaves the callback out and raises in `wait_for`."""
        on_done = self._on_done
        if on_done is None or not self._started:
            return
        try:
            self._request.wait_for(0)
        except Exception as error:
            if self._on_done is on_done:
                self._finish(None, error)

    def profiling_info(self) -> Sequence[Any]:
        """The counters after the last inference."""
        infos: Sequence[Any] = self._request.get_profiling_info()
        return infos

    def close(self) -> None:
        """Let go of the OpenVINO request.

        `on_done` runs within OpenVINO's callback. To destroy the request before the callback has returned is a
        deadlock: the destructor waits for it and holds the interpreter's lock, which the callback needs to return.
        """
        self._watch.remove(self)
        with suppress(RuntimeError):  # of a failed inference, which was reported
            self._request.wait()
        del self._request

    def _completed(self, _: Any) -> None:
        self._finish(self._outputs(), None)

    def _finish(self, outputs: spec.Outputs | None, error: BaseException | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(outputs, error)

    def _numbered(self, inputs: spec.Tensors) -> dict[int, Any]:
        return {self._numbers[name]: array for name, array in inputs.items()}

    def _outputs(self) -> spec.Outputs:
        return {name: self._request.get_output_tensor(number).data for number, name in enumerate(self._output_names)}


class FailureWatch:
    """Looks after started requests, ten times a second, from one thread that exists once something was started."""

    def __init__(self) -> None:
        self._requests: set[NetworkRequest] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, request: NetworkRequest) -> None:
        """Watch this request from now on."""
        self._requests.add(request)
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="openvino-failures", daemon=True)
            self._thread.start()

    def remove(self, request: NetworkRequest) -> None:
        """Watch it no longer."""
        self._requests.discard(request)

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        while not self._ended.wait(WATCH_INTERVAL_S):
            for request in tuple(self._requests):
                request.report_failure()
