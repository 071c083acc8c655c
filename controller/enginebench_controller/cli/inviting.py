"""`enginebench ca invite`: an agent gets its certificate over the network, with a token."""

import socket
from typing import Annotated

import typer

from enginebench_controller.cli.console import remark
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.running.target_address import new_target

CERTIFICATE_DAYS = 90
MINUTES = 15


def invite(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call the agent.")],
    host: Annotated[
        list[str], typer.Option(metavar="HOST", help="A name or address that controllers reach it by; repeatable.")
    ],
    at: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where to wait for it: an address of this machine, and a free port."),
    ],
    minutes: Annotated[int, typer.Option(min=1, max=24 * 60, help="How long to wait for it.")] = MINUTES,
    days: Annotated[
        int, typer.Option(min=1, max=3_650, help="How many days its certificate is valid.")
    ] = CERTIFICATE_DAYS,
) -> None:
    """Wait for one new agent, and give it its certificate; prints what to type there."""
    # Here, since every command would wait for its cryptography otherwise.
    from enginebench_controller.authority.authority import Authority  # noqa: PLC0415
    from enginebench_controller.authority.invitation import Wish, make_invitation, wait_for_agent  # noqa: PLC0415

    authority = Authority(default_home().ca)
    authority.check_free(name, host)
    with _listening(at) as listening:
        invitation = make_invitation(authority)
        typer.echo(f"enginebench-agent join {at} {invitation.token}")
        remark(f"type this on the agent's machine within {minutes} minutes; it works once")
        issued = wait_for_agent(authority, Wish(name, tuple(host), days), invitation, listening, minutes * 60)
    remark(f"{name} has its certificate, valid until {issued.ends_at:%Y-%m-%d %H:%M} UTC; next: start the agent there")


def _listening(at: str) -> socket.socket:
    host, _, port = new_target("agent", at).address.removeprefix("tls://").rpartition(":")
    host = host.strip("[]")
    try:
        return socket.create_server((host, int(port)), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise InputError(
            f"cannot listen at {at} ({error.strerror}): name an address of this machine and a free port with --at"
        ) from error
