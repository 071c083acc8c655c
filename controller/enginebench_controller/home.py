"""The controller's folder on this machine: where the results, the model versions and the local agent live."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from enginebench_controller.errors import InputError
from enginebench_proto.agreed.home import HOME_VARIABLE, home_folder

JOB_VARIABLE = "ENGINEBENCH_JOB"
"""Names the folder of the job that a command is; a command without it is none."""

if TYPE_CHECKING:
    from enginebench_controller.models.library import ModelLibrary
    from enginebench_controller.records import FileFormat
    from enginebench_controller.store.store import Store

STORE_VARIABLE = "ENGINEBENCH_STORE"
"""What is read in place of the own store, as a shell would write several: lakes, and `own` for the own one."""


@dataclass(frozen=True)
class Home:
    """The folder `path` and what is kept in it. Nothing is created, or loaded, before it is needed.

    Where `reads` names lakes, the results are theirs, and can only be read.
    """

    path: Path
    reads: tuple[str, ...] = ()

    @cached_property
    def store(self) -> "Store":
        """The results, the targets and what they said of themselves."""
        from enginebench_controller.store.connection import DEFAULT_TIMEOUT_S  # noqa: PLC0415  # brings DuckDB

        return self.store_within(DEFAULT_TIMEOUT_S)

    def store_within(self, timeout_s: float) -> "Store":
        """The same, which waits so long for others."""
        from enginebench_controller.store.store import LakeStore, Store  # noqa: PLC0415  # brings DuckDB, NumPy and SciPy

        path = self.path / "results.duckdb"
        if not self.reads:
            return Store(path, timeout_s)
        return LakeStore(path, self.reads, timeout_s)

    @cached_property
    def library(self) -> "ModelLibrary":
        """The model versions."""
        from enginebench_controller.graph.flops.parameters import count_weights  # noqa: PLC0415  # these bring onnx
        from enginebench_controller.models.library import ModelLibrary  # noqa: PLC0415

        return ModelLibrary(self.path / "models", count_weights, self._own_formats)

    def _own_formats(self) -> "list[FileFormat]":
        """The model formats that plugins bring, of all engines that targets have listed."""
        engines = (engine for snapshot in self.store.snapshots() for engine in snapshot.available)
        return list(dict.fromkeys(one for engine in engines for one in engine.own_formats))

    @property
    def agent_data(self) -> Path:
        """The data folder of the local agent, with its environments."""
        return self.path / "agent"

    @property
    def inputs(self) -> Path:
        """Given inputs as plans name them, by their digests; those that none has named for a week are removed."""
        return self.path / "inputs"

    @property
    def converters(self) -> Path:
        """The environments of converters."""
        return self.path / "converters"

    @property
    def tls(self) -> Path:
        """The certificate that the commands and pages of this machine show to agents."""
        return self.path / "tls"

    @property
    def ca(self) -> Path:
        """The certificate authority, where it is kept on this machine."""
        return self.path / "ca"


def default_home() -> Home:
    """The folder that `ENGINEBENCH_HOME` names, or the user's data folder.

    Raises `InputError` where it is in a home that is not known.
    """
    try:
        return Home(home_folder())
    except RuntimeError:  # what pathlib says of an account that this machine does not know
        raise InputError(f"the home folder of this account is not known: set {HOME_VARIABLE} to a whole path") from None


def home_to_change() -> Home:
    """The same folder, to remove results. Raises `StoreError` where `ENGINEBENCH_STORE` has others shown instead."""
    if reads := home_to_read().reads:
        from enginebench_controller.store.lake.reading import only_read  # noqa: PLC0415  # brings DuckDB

        raise only_read(reads)
    return default_home()


def home_to_read(stores: Sequence[str] = ()) -> Home:
    """The same folder, with the results of these stores, or of those that `ENGINEBENCH_STORE` names."""
    named = os.environ.get(STORE_VARIABLE, "")
    try:
        return Home(default_home().path, tuple(stores) or tuple(shlex.split(named)))
    except ValueError as error:
        raise InputError(f"{STORE_VARIABLE} is {named!r}, which no shell could read ({error}): quote it") from None
