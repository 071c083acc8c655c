"""Addresses that lead over SSH: which can be ones, and what ssh is told."""

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.targets.addresses import SshPlace, last_line, new_target


@pytest.mark.parametrize(
    ("address", "destination", "ssh_port", "agent_port"),
    [
        ("ssh://nuc", "nuc", None, 50151),
        ("ssh://pi@nuc.local", "pi@nuc.local", None, 50151),
        ("ssh://pi@nuc:2222", "pi@nuc", 2222, 50151),
        ("ssh://pi@nuc/50152", "pi@nuc", None, 50152),
        ("ssh://pi@[fe80::1]:2222/50152", "pi@fe80::1", 2222, 50152),
        ("ssh://my_alias", "my_alias", None, 50151),
    ],
)
def test_an_address_says_where_to_log_in_and_where_the_agent_is(
    address: str, destination: str, ssh_port: int | None, agent_port: int
) -> None:
    place = SshPlace.parse(address)
    assert (place.destination, place.ssh_port, place.agent_port) == (destination, ssh_port, agent_port)
    assert place.address == new_target("nuc", address).address == address


@pytest.mark.parametrize(
    "address",
    [
        "ssh://",
        "ssh://-oProxyCommand=touch",
        "ssh://-lroot@nuc",
        "ssh://pi@-nuc",
        "ssh://pi@nuc:0",
        "ssh://nuc:99999",
        "ssh://nuc/70000",
        "ssh://nuc/x",
        "ssh://nuc;id",
        "ssh://nuc\n",
        "ssh://n uc",
        "ssh://a@b@c",
    ],
)
def test_what_ssh_could_mistake_for_something_else_is_no_address(address: str) -> None:
    with pytest.raises(InputError, match="is not an address: write ssh://"):
        new_target("nuc", address)


@pytest.mark.parametrize("port", ["٥٠", "\uff15\uff10", "5\u0660", "1.000", "+50"])
@pytest.mark.parametrize("address", ["127.0.0.1:{}", "tls://127.0.0.1:{}", "nuc:{}", "ssh://nuc:{}", "ssh://nuc/{}"])
def test_a_port_is_digits_that_grpc_and_ssh_read(address: str, port: str) -> None:
    with pytest.raises(InputError, match="is not an address"):
        new_target("k", address.format(port))


def test_ssh_asks_nobody_and_takes_the_destination_for_nothing_else() -> None:
    command = SshPlace.parse("ssh://pi@nuc:2222").command("true", ("-N",))
    assert command[0] == "ssh" and "-oBatchMode=yes" in command
    assert not [word for word in command if "StrictHostKeyChecking" in word]
    assert command[command.index("-p") + 1] == "2222"
    assert command[-3:] == ["--", "pi@nuc", "true"]


def test_the_last_line_is_what_they_said() -> None:
    assert last_line("a warning\nno such host.\n\n") == "no such host"
    assert last_line("") == "it said nothing"
