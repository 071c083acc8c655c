"""`enginebench targets find`: agents that announce themselves on the local network."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from enginebench_controller.cli.console import UNKNOWN, print_json, print_table, remark
from enginebench_controller.cli.options import Json
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.running.health import Health, HealthAnswer

SECONDS = 3.0
ANSWER_SECONDS = 5.0
"""How long each may take to answer for itself: they are near."""


def find_targets(
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="How long to listen.")] = SECONDS,
    interface: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Listen at this IPv4 address only; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Look for agents that announce themselves on the local network (`serve --announce`). Adds none.

    Anybody there can announce anything: each is asked by mutual TLS, and only one with a certificate of your authority
    is shown as serving.
    """
    try:
        from enginebench_controller.running.finding import ask_hints, listen  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError("this needs the library zeroconf: pip install 'enginebench[mdns]'") from error
    home = default_home()
    remark(f"listening for {seconds:g} s")
    hints = listen(seconds, interface or ())
    answers = ask_hints(hints, ANSWER_SECONDS, home.tls)
    targets = {target.address: target.name for target in home.store.targets()}
    known = [next((targets[one.address] for one in hint.places if one.address in targets), None) for hint in hints]
    if json:
        print_json({"schema_version": 1, "found": [*map(_document, answers, known)]})
        return
    _print_found(answers, known)


def _document(answer: HealthAnswer, known: str | None) -> Mapping[str, object]:
    return {
        "name": answer.target.name,
        "address": answer.target.address,
        "health": answer.health.value,
        "cause": answer.cause or None,
        "target": known,
    }


def _print_found(answers: Sequence[HealthAnswer], known: Sequence[str | None]) -> None:
    columns = [(heading, False) for heading in ("calls itself", "address", "answer", "known as")]
    rows: list[list[object]] = [
        [one.target.name, one.target.address, one.cause or one.health, name or UNKNOWN]
        for one, name in zip(answers, known, strict=True)
    ]
    print_table("Announced on this network", columns, rows)
    for one, name in zip(answers, known, strict=True):
        if one.health is Health.SERVING and name is None:
            remark(f"next: enginebench targets add {one.target.name} {one.target.address}")
    if not answers:
        remark("nothing is announced here; agents do so with `enginebench-agent serve --announce`")
