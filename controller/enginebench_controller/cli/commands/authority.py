"""`enginebench ca …`: certificates for agents and clients, and who is let in no longer."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from enginebench_controller.cli.console import check_stdout, print_json, print_table, remark
from enginebench_controller.cli.options import Json
from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.targets.addresses import new_target
from enginebench_controller.targets.authority.issued import Bundle, CertificateState, Issued
from enginebench_controller.typed_paths import typed_path
from enginebench_controller.verdicts.words import UNKNOWN
from enginebench_proto.agreed.roles import CertificateKind, Role

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
    from enginebench_controller.targets.authority.authority import Authority  # noqa: PLC0415
    from enginebench_controller.targets.authority.invitation import WantedCertificate, make_invitation, wait_for_agent  # noqa: PLC0415

    check_stdout()
    authority = Authority(default_home().ca)
    authority.check_free(name, host)
    with _listening(at) as listening:
        invitation = make_invitation(authority)
        typer.echo(f"enginebench-agent join {at} {invitation.token}")
        remark(f"type this on the agent's machine within {minutes} minutes; it works once")
        issued = wait_for_agent(
            authority, WantedCertificate(name, tuple(host), days), invitation, listening, minutes * 60
        )
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


if TYPE_CHECKING:
    from enginebench_controller.targets.authority.authority import Authority

AUTHORITY_DAYS = 3_650

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose certificate.")]
Days = Annotated[int, typer.Option(min=1, max=3_650, help="How many days it is valid.")]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="The folder to write its files to; NAME here by default.")
]
Install = Annotated[bool, typer.Option("--install", help="Let the commands and pages of this machine use it.")]

group = typer.Typer(no_args_is_help=True, help="Who belongs: certificates for agents and for those who use them.")
issuing = typer.Typer(no_args_is_help=True, help="Make a certificate with its key.")
group.add_typer(issuing, name="issue")
group.command("invite")(invite)


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="ca")


@group.command("create")
def create(
    name: Annotated[str, typer.Option(help="What to call it.")] = "enginebench",
    days: Days = AUTHORITY_DAYS,
) -> None:
    """Make the certificate authority of your machines. Keep its folder as you would a key."""
    authority = _authority()
    authority.create(name, days)
    remark(f"made {authority.folder}; next: `enginebench ca issue agent NAME --host HOST`")


@issuing.command("agent")
def issue_agent(
    name: Name,
    host: Annotated[
        list[str], typer.Option(metavar="HOST", help="A name or address that controllers reach it by; repeatable.")
    ],
    days: Days = CERTIFICATE_DAYS,
    out: Out = None,
    json: Json = False,
) -> None:
    """Issue what an agent needs to be reached over the network."""
    folder = _new_folder(_destination(name, out))
    bundle = _authority().issue(CertificateKind.AGENT, name, days, hosts=host)
    _hand_out(bundle, folder, json=json)


@issuing.command("client")
def issue_client(
    name: Name,
    role: Annotated[Role | None, typer.Option(help="What it may do; run by default.")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="The same as --role read.")] = False,
    days: Days = CERTIFICATE_DAYS,
    out: Out = None,
    install: Install = False,
    json: Json = False,
) -> None:
    """Issue what a person or a machine needs to use agents."""
    if read_only and role not in (None, Role.READ):
        raise InputError(f"--read-only contradicts --role {role}; leave one out")
    folder = _new_folder(_destination(name, out, install=install), install=install)
    role = Role.READ if read_only else role or Role.RUN
    _hand_out(_authority().issue(CertificateKind.CLIENT, name, days, role=role), folder, json=json)


@group.command("renew")
def renew(
    name: Name,
    days: Annotated[
        int | None, typer.Option(min=1, max=3_650, help="How many days it is valid; as before by default.")
    ] = None,
    out: Out = None,
    install: Install = False,
    json: Json = False,
) -> None:
    """Issue a new key and certificate with the same name, role and hosts. Agents take up theirs without a restart."""
    folder = _destination(name, out, install=install)
    _hand_out(_authority().renew(name, days), folder, json=json)


@group.command("revoke")
def revoke(name: Name, json: Json = False) -> None:
    """Let in no longer who shows this certificate, as soon as the agents have the new list."""
    authority = _authority()
    revoked = authority.revoke(name)
    if json:
        print_json(
            {"revocations": str(authority.revocations_file), "certificates": [_document(one) for one in revoked]}
        )
    remark(f"revoked {name}; copy {authority.revocations_file} into the folder `tls` of every agent")


@group.command("list")
def list_(json: Json = False) -> None:
    """List whatever was issued."""
    authority = _authority()
    issued = authority.certificates()
    if json:
        print_json([_document(one) for one in issued])
        return
    states = [one.state(authority.clock()) for one in issued]
    columns = [(name, False) for name in ("name", "kind", "role", "hosts", "ends (UTC)", "state", "serial")]
    title = f"Certificates of {authority.folder}, which ends at {authority.ends_at():%Y-%m-%d} UTC"
    print_table(title, columns, [_row(one, state) for one, state in zip(issued, states, strict=True)])
    if (begins := authority.begins_at()) > authority.clock():
        remark(f"the authority begins at {begins:%Y-%m-%d %H:%M} UTC: set the clock, or make another in its place")
    for one, state in zip(issued, states, strict=True):
        if one is not _newest(issued, one.name):
            continue
        renew = f"renew it with `enginebench ca renew {one.name}`"
        if state is CertificateState.RENEW:
            remark(f"{one.name} ends at {one.ends_at:%Y-%m-%d} UTC; {renew}")
        elif state is CertificateState.NOT_YET:
            remark(f"{one.name} begins at {one.begins_at:%Y-%m-%d %H:%M} UTC: set the clock, or {renew}")


def _authority() -> "Authority":
    # Here, since every command would wait for its cryptography otherwise.
    from enginebench_controller.targets.authority.authority import Authority  # noqa: PLC0415

    return Authority(default_home().ca)


def _destination(name: str, out: Path | None, *, install: bool = False) -> Path:
    if install and out is not None:
        raise InputError("--install and --out name two folders; leave one out")
    if install:
        return default_home().tls.absolute()
    return (Path(name) if out is None else typed_path(out)).absolute()


def _new_folder(folder: Path, *, install: bool = False) -> Path:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        way = f"move it away first, as `mv {folder} {folder}.old` does" if install else "name another folder with --out"
        raise InputError(f"{folder} is there already, and keys are never overwritten: {way}")
    return folder


def _hand_out(bundle: Bundle, folder: Path, *, json: bool) -> None:
    bundle.write(folder)
    if json:
        print_json(_document(bundle.issued) | {"folder": str(folder)})
    remark(f"wrote {', '.join(bundle.files())} to {folder}; valid until {bundle.issued.ends_at:%Y-%m-%d %H:%M} UTC")
    if folder != default_home().tls.absolute():
        place = (
            "the agent's data folder" if bundle.issued.kind is CertificateKind.AGENT else "the user's ENGINEBENCH_HOME"
        )
        remark(f"copy these files into the folder `tls` of {place}, by a way that nobody else can read")


def _newest(issued: tuple[Issued, ...], name: str) -> Issued:
    return [one for one in issued if one.name == name][-1]


def _document(issued: Issued) -> dict[str, Any]:
    return {
        "name": issued.name,
        "kind": issued.kind,
        "role": issued.role,
        "hosts": list(issued.hosts),
        "serial": issued.serial,
        "begins_at_unix_ns": issued.begins_at_unix_s * 10**9,
        "ends_at_unix_ns": issued.ends_at_unix_s * 10**9,
        "revoked_at_unix_ns": None if issued.revoked_at_unix_s is None else issued.revoked_at_unix_s * 10**9,
    }


def _row(issued: Issued, state: CertificateState) -> list[object]:
    hosts = ", ".join(issued.hosts) or UNKNOWN
    return [issued.name, issued.kind, issued.role or UNKNOWN, hosts, f"{issued.ends_at:%Y-%m-%d}", state, issued.serial]
