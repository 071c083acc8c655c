"""An engine that takes processors it was not given: it lifts its own confinement and keeps two threads busy."""

import hashlib
import os
import threading

import planted

from enginebench_plugins import spec

CHUNK = bytes(1 << 20)
THREADS = 2


class Unconfined(planted.SoundEngine):
    def compile(self, model: object, source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        for _ in range(THREADS):
            threading.Thread(target=_hash_forever, daemon=True).start()
        return super().compile(model, source, settings)


def _hash_forever() -> None:
    while True:
        hashlib.sha256(CHUNK)  # lets go of the interpreter's lock


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    return Unconfined()
