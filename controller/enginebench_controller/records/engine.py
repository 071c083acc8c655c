"""Engines: which one ran, and what it really used."""

from dataclasses import dataclass

from enginebench_proto.agreed.words import ReadbackSource


@dataclass(frozen=True)
class EngineRef:
    """An engine in an environment; `version` is None until the agent told it."""

    name: str
    environment: str
    version: str | None = None


@dataclass(frozen=True)
class Readback:
    """A value read back from an engine, with how it was obtained."""

    value: int | str
    source: ReadbackSource


@dataclass(frozen=True)
class Effective:
    """What the engine really used; None where unknown. `affinity` lists logical processors.

    `prepared` holds a short phrase for each thing done to the model before the engine took it.
    """

    threads: Readback | None = None
    streams: Readback | None = None
    precision: Readback | None = None
    provider: Readback | None = None
    isa: Readback | None = None
    affinity: tuple[int, ...] = ()
    prepared: tuple[str, ...] = ()

    @property
    def preparation(self) -> str:
        """What was done to the model, in one line; empty where nothing was."""
        return f"Prepared: {'; '.join(self.prepared)}" if self.prepared else ""
