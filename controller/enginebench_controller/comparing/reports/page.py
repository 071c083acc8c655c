"""HTML pages that need nothing but themselves: styles, a script for sorting and filtering, and charts are inside."""

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from enginebench_controller.comparing.profiles import precisions
from enginebench_controller.comparing.words import UNKNOWN, milliseconds, number, percent


def render(template: str, **values: Any) -> str:
    """Fill a template of this folder. Everything is escaped, since names are other people's."""
    return _environment().get_template(template).render(**values)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("enginebench_controller.comparing.reports", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ms=milliseconds, percent=percent, ratio=_ratio, number=number, precisions=precisions, signed_ms=_signed_ms
    )
    environment.globals["UNKNOWN"] = UNKNOWN
    return environment


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"


def _signed_ms(value_ns: float | None) -> str:
    return UNKNOWN if value_ns is None else f"{value_ns / 1e6:+.3f}"
