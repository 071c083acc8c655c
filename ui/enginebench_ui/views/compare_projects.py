"""Which two projects are compared: how an address names one, how a list does, and who stands there unasked.

A project, as a contender, is a model version on an engine of a target, on one device. Its name in addresses is its
project key, and the device beside it where that is not the only one.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.store.experiments import Contender
from enginebench_ui.views.magnitudes import number
from enginebench_ui.views.project_key import DIGEST_CHARACTERS, project_key
from enginebench_ui.views.text import count_of


@dataclass(frozen=True)
class Choice:
    """The contenders A and B, None where the store has none; `unknown` are names that mean nothing here."""

    first: Contender | None
    second: Contender | None
    unknown: tuple[str, ...] = ()


def contender_key(contender: Contender) -> str:
    """Name a contender in an address: its project key, and its device: `0bebac693939~torch@default~local~CPU`."""
    return f"{_project(contender)}~{contender.device}"


def find(contenders: Iterable[Contender], key: str) -> Contender | None:
    """Return the contender with this key; of a key without device, the fastest of the project's devices."""
    exact = [one for one in contenders if contender_key(one) == key]
    return best(exact or [one for one in contenders if _project(one) == key])


def choose(contenders: Sequence[Contender], families: Mapping[str, str], first: str = "", second: str = "") -> Choice:
    """Choose A and B by their keys; what is not named, or not there, is chosen by throughput.

    B is the fastest: of A's family of models where A is named, else of all. A is then the fastest rival that B has
    in its family, else anywhere; alone in a store a project stands against itself.
    """
    one, other = (find(contenders, key) if key else None for key in (first, second))
    if other is None:
        rivals = contenders if one is None else [*_family(contenders, families, one)]
        other = best([rival for rival in rivals if rival != one]) or one
    if one is None and other is not None:
        rest = [rival for rival in contenders if rival != other]
        one = best([*_family(rest, families, other)]) or best(rest) or other
    unknown = tuple(key for key in (first, second) if key and find(contenders, key) is None)
    return Choice(one, other, unknown)


def best(contenders: Iterable[Contender]) -> Contender | None:
    """Return the contender of most throughput, those without numbers last, the smallest key where equal."""
    ranked = sorted(contenders, key=lambda one: (-(one.best_items_per_s or 0.0), contender_key(one)))
    return ranked[0] if ranked else None


def labels(contenders: Sequence[Contender]) -> dict[str, str]:
    """Return what each contender, by its key, is called in a list; no two alike."""
    plain = {contender_key(one): _label(one) for one in contenders}
    counts = Counter(plain.values())
    return {key: name if counts[name] == 1 else f"{name} · {key.partition('~')[0]}" for key, name in plain.items()}


def engine_in_environment(engine: str, environment: str) -> str:
    """Name an engine as commands do: NAME, or NAME@ENVIRONMENT where that is not the default one."""
    return engine if environment in ("", "default") else f"{engine}@{environment}"


def facts(contender: Contender) -> str:
    """Say in a line which model file this is, and how much is known of it."""
    known = [count_of(contender.experiments, "measurement"), count_of(contender.profiles, "profile")]
    return f"model {contender.model_digest[:DIGEST_CHARACTERS]} · {', '.join(known)}"


def _project(contender: Contender) -> str:
    return project_key(contender.model_digest, contender.engine, contender.environment, contender.target)


def _label(contender: Contender) -> str:
    speed = "no numbers yet" if contender.best_items_per_s is None else f"{number(contender.best_items_per_s)} items/s"
    engine = engine_in_environment(contender.engine, contender.environment)
    return " · ".join((contender.model_name, engine, contender.target, contender.device, speed))


def _family(contenders: Iterable[Contender], families: Mapping[str, str], one: Contender) -> Iterable[Contender]:
    """Those of versions of one model; a version that the library has lost is a family of its own."""
    own = families.get(one.model_digest, one.model_digest)
    return (other for other in contenders if families.get(other.model_digest, other.model_digest) == own)
