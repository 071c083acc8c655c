"""`python -m benchmarks.fleet_sampler FILE WORD…`: the command line, and by room where its processor time went.

A thread looks now and then at which of our modules the others stand in, and at how much processor time all have used
since. What libraries do in threads of their own, as gRPC's handshakes and DuckDB's workers, is in no Python frame: that
is told by the names of the threads.
"""

import json
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from enginebench_controller.__main__ import main

PERIOD_S = 0.01
_ROOM = "enginebench_controller."


def _room(frame: FrameType | None) -> str | None:
    """The room and module that the innermost of our frames stands in."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(_ROOM):
            return ".".join(name.removeprefix(_ROOM).split(".")[:2])
        frame = frame.f_back
    return None


def _cpu_s() -> dict[int, tuple[str, float]]:
    """Processor time of each thread so far, with its name, by the kernel's id."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        fields = rest.split()
        found[int(task.name)] = (name, (int(fields[11]) + int(fields[12])) / 100)
    return found


class Sampler(threading.Thread):
    """Counts, until it is stopped, by which module the processor time of our own threads was used."""

    def __init__(self) -> None:
        super().__init__(daemon=True, name="sampler")
        self.used: Counter[str] = Counter()
        self._stopping = threading.Event()

    def run(self) -> None:
        """Look each ten milliseconds."""
        before = _cpu_s()
        while not self._stopping.wait(PERIOD_S):
            now = _cpu_s()
            frames = sys._current_frames()
            ours = {one.native_id: one for one in threading.enumerate()}
            for identity, (name, seconds) in now.items():
                more = seconds - before.get(identity, (name, 0.0))[1]
                if more <= 0 or identity == self.native_id:
                    continue
                thread = ours.get(identity)
                room = None if thread is None or thread.ident is None else _room(frames.get(thread.ident))
                self.used[room or f"thread {name}"] += more
            before = now

    def stop(self) -> dict[str, float]:
        """End, and return seconds by module, the most first."""
        self._stopping.set()
        self.join()
        return {name: round(seconds, 2) for name, seconds in self.used.most_common()}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    sys.argv = ["enginebench", *sys.argv[2:]]
    sampler = Sampler()
    sampler.start()
    begun = time.process_time()
    try:
        main()
    finally:
        target.write_text(json.dumps({"all": time.process_time() - begun, **sampler.stop()}))
