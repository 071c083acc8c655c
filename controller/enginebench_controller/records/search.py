"""A search: a chain of benchmarks, its steps, that ends in an answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class SearchKind(StrEnum):
    """What is searched for."""

    RECOMMEND = "recommend"
    BISECT = "bisect"


@dataclass(frozen=True)
class Search:
    """What was asked for, as a document, and the answer, once there is one.

    The steps are benchmarks whose plans name the search. `skipped` are the candidates that came to no benchmark, as
    one that cannot be installed, each with the reason.
    """

    id: str
    kind: SearchKind
    name: str
    created_at_unix_ns: int
    order: Mapping[str, Any]
    skipped: Mapping[str, str] = field(default_factory=dict)
    answer: Mapping[str, Any] | None = None
    ended_at_unix_ns: int | None = None
