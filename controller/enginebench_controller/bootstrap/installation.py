"""The steps from a machine with Python and SSH to a target that answers. Each does only what is not done yet."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from json import loads

from enginebench_controller.bootstrap.machine import Machine, look_at
from enginebench_controller.bootstrap.remote import Remote
from enginebench_controller.bootstrap.user_service import UNIT, UNIT_FOLDER, UserService
from enginebench_controller.bootstrap.wheel import Wheel
from enginebench_controller.running.ssh import SshPlace

FOLDER = ".local/share/enginebench"
DONE_ALREADY = "done already"

_SPECIFIER = re.compile(r"[\s=<>!~]")
_ENDS_WITH_THE_LOGIN = (
    "it ends when you log out there, unless `sudo loginctl enable-linger YOUR-NAME` is run there once"
)


@dataclass(frozen=True)
class Wish:
    """What is to be on the machine. `engines` are ours, with a version if wanted; `python` is a command there."""

    place: SshPlace
    wheel: Callable[[], Wheel]
    engines: tuple[str, ...] = ()
    python: str = "python3"


@dataclass(frozen=True)
class Step:
    """Something to do, in words, and the doing, which returns how it went in a few words."""

    title: str
    do: Callable[[], str]


class Installation:
    """One machine on its way. The steps build on one another: they are to be done in their order.

    Raises `SshError` and `RemoteError` from any of them; all can be done again.
    """

    def __init__(self, wish: Wish) -> None:
        self._wish = wish
        self._remote = Remote(wish.place)
        self._machine: Machine
        self._service: UserService
        self._wheel: Wheel
        self._has_news = False

    def steps(self) -> Sequence[Step]:
        """What there is to do."""
        return (
            Step("look at the machine: Linux, its architecture, Python 3.11 or newer", self._look),
            Step(f"copy enginebench there, below ~/{FOLDER}", self._copy),
            Step("install it into a virtual environment of its own, and into those of the engines", self._install),
            *(
                Step(f"make an environment with the engine {engine}", partial(self._add_engine, engine))
                for engine in self._wish.engines
            ),
            Step(f"have the agent kept running by systemd (~/{UNIT_FOLDER}/{UNIT})", self._serve),
        )

    @property
    def has_systemd(self) -> bool:
        """Whether the machine keeps the agent running by itself; known after the first step."""
        return self._machine.has_systemd

    @property
    def serve_by_hand(self) -> str:
        """The command line that starts the agent from here where no systemd does."""
        place = self._wish.place
        serve = shlex.join([self._agent, "serve", "--plain-text", "--port", str(place.agent_port)])
        port = ["-p", str(place.ssh_port)] if place.ssh_port else []
        return shlex.join(["ssh", *port, place.destination, f"nohup {serve} </dev/null >/dev/null 2>&1 &"])

    @property
    def _version_folder(self) -> str:
        # A folder for each build: the agent that runs is not changed under its feet, and a failure leaves it as it is.
        return f"{self._machine.home}/{FOLDER}/versions/{self._wheel.sha256[:16]}"

    @property
    def _agent(self) -> str:
        return f"{self._version_folder}/venv/bin/enginebench-agent"

    def _look(self) -> str:
        self._machine = look_at(self._remote, self._wish.python)
        self._service = UserService(self._remote, self._machine.home)
        return f"Python {self._machine.python_version} on {self._machine.architecture}"

    def _copy(self) -> str:
        self._wheel = self._wish.wheel()
        path = f"{self._version_folder}/{self._wheel.name}"
        if self._remote.succeeds("test", "-e", path):
            return DONE_ALREADY
        self._remote.write(path, self._wheel.content, self._wheel.sha256)
        return f"{self._wheel.name}, {len(self._wheel.content) / 1e6:.1f} MB"

    def _install(self) -> str:
        if self._remote.succeeds("test", "-e", f"{self._version_folder}/installed"):
            return DONE_ALREADY
        venv = f"{self._version_folder}/venv"
        self._remote.run(self._wish.python, "-m", "venv", "--clear", venv, to="make a virtual environment")
        pip = (f"{venv}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
        self._remote.run(*pip, f"{self._version_folder}/{self._wheel.name}", to="install enginebench")
        self._upgrade_environments()
        self._remote.run("touch", f"{self._version_folder}/installed", to="note that it is installed")
        self._has_news = True
        return self._remote.run(self._agent, "--version", to="start the agent").strip()

    def _upgrade_environments(self) -> None:
        """Workers of another version than the agent's would not understand it, so it rests meanwhile."""
        was_running = self._machine.has_systemd and self._service.is_active()
        if was_running:
            self._service.stop()
        try:
            self._remote.run(self._agent, "environment", "upgrade", to="upgrade the environments of the engines")
        except BaseException:
            if was_running:
                self._service.start()
            raise

    def _add_engine(self, engine: str) -> str:
        listed = loads(self._remote.run(self._agent, "environment", "list", "--json", to="list the environments"))
        name = _SPECIFIER.split(engine, maxsplit=1)[0]
        if name in {environment["name"] for environment in listed["environments"]}:
            return DONE_ALREADY
        add = (self._agent, "environment", "add", name, "--engine", engine)
        told = self._remote.run(*add, to=f"install the engine {engine}")
        self._has_news = True
        return told.strip()

    def _serve(self) -> str:
        if not self._machine.has_systemd:
            return "no systemd looks after this user's services there"
        # In plain text, and so on loopback alone, also where the machine has certificates: SSH leads there.
        serving = ("--port", str(self._wish.place.agent_port), "--plain-text")
        unit = self._remote.run(self._agent, "service", "unit", "--user", *serving, to="make the unit file")
        self._has_news = self._service.keep(unit) or self._has_news
        if self._has_news:
            self._service.restart()
        else:
            self._service.start()
        self._forget_other_versions()
        ends = "" if self._service.lingers() else f"; {_ENDS_WITH_THE_LOGIN}"
        return ("restarted" if self._has_news else "running") + ends

    def _forget_other_versions(self) -> None:
        folder, _, kept = self._version_folder.rpartition("/")
        find = ("find", folder, "-mindepth", "1", "-maxdepth", "1", "!", "-name", kept)
        self._remote.run(*find, "-exec", "rm", "-rf", "{}", "+", to="remove what was installed before")
