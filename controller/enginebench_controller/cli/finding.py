"""`enginebench targets find`: agents that announce themselves on the local network."""

from typing import Annotated

import typer

from enginebench_controller.cli.console import UNKNOWN, print_json, print_table, remark
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.running.client import CALL_SECONDS
from enginebench_controller.running.health import Health

SECONDS = 3.0


def find_targets(
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="How long to listen.")] = SECONDS,
    interface: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Listen at this IPv4 address only; repeatable.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
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
    known = {target.address: target.name for target in home.store.targets()}
    remark(f"listening for {seconds:g} s")
    hints = listen(seconds, interface or ())
    answers = ask_hints(hints, CALL_SECONDS, home.tls)
    if json:
        documents = [
            {
                "name": one.target.name,
                "address": one.target.address,
                "health": one.health.value,
                "cause": one.cause or None,
                "target": known.get(one.target.address),
            }
            for one in answers
        ]
        print_json({"schema_version": 1, "found": documents})
        return
    columns = [(heading, False) for heading in ("calls itself", "address", "answer", "known as")]
    rows: list[list[object]] = [
        [one.target.name, one.target.address, one.cause or one.health, known.get(one.target.address, UNKNOWN)]
        for one in answers
    ]
    print_table("Announced on this network", columns, rows)
    new = [one.target for one in answers if one.health is Health.SERVING and one.target.address not in known]
    for target in new:
        remark(f"next: enginebench targets add {target.name} {target.address}")
    if not answers:
        remark("nothing is announced here; agents do so with `enginebench-agent serve --announce`")
