"""From a machine with Python and SSH to a target that answers; each step does only what is not done yet."""

import hashlib
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from json import loads
from pathlib import Path

from enginebench_controller.errors import EnginebenchError, InputError, RemoteError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import Target
from enginebench_controller.targets.addresses import SshPlace, last_line
from enginebench_controller.targets.health import Health, ask_health
from enginebench_controller.targets.remote_machine import UNIT, UNIT_FOLDER, Remote, RemoteMachine, UserService, look_at
from enginebench_proto.agreed.wheels import lacking_wheel


@dataclass(frozen=True)
class Wheel:
    """A wheel of enginebench, in memory: a few megabytes."""

    name: str
    content: bytes

    @property
    def sha256(self) -> str:
        """The digest of its bytes, in hexadecimal digits."""
        return hashlib.sha256(self.content).hexdigest()


def given_wheel(path: Path) -> Wheel:
    """Read a wheel of enginebench. Raises `InputError` for anything else."""
    if not (path.name.startswith("enginebench-") and path.suffix == ".whl"):
        raise InputError(f"{path} is no wheel of enginebench: make one with `enginebench-agent wheel FOLDER`")
    try:
        return Wheel(path.name, path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error


def own_wheel(folder: Path) -> Wheel:
    """Pack the enginebench that is installed here into a wheel below `folder`. Raises `EnginebenchError`."""
    command = [sys.executable, "-P", "-m", "enginebench_agent", "wheel", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnginebenchError(last_line(done.stderr).removeprefix("enginebench-agent: "))
    return given_wheel(Path(done.stdout.strip()))


FOLDER = ".local/share/enginebench"
PROGRAMS = ".local/bin"
"""Where logins look for a user's own programs, as systemd's file-hierarchy(7) and most distributions have it."""
DONE_ALREADY = "done already"

_NOT_OF_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_ENDS_WITH_THE_LOGIN = (
    "it ends when you log out there, unless `sudo loginctl enable-linger YOUR-NAME` is run there once"
)


@dataclass(frozen=True)
class WantedAgent:
    """What is to be on the machine. `engines` are ours, with a version if wanted; `python` is a command there."""

    place: SshPlace
    wheel: Callable[[], Wheel]
    engines: tuple[str, ...] = ()
    python: str = "python3"


@dataclass(frozen=True)
class InstallationStep:
    """Something to do, in words, and the doing, which returns how it went in a few words."""

    title: str
    do: Callable[[], str]


class AgentInstallation:
    """One machine on its way. The steps build on one another: they are to be done in their order.

    Raises `SshError` and `RemoteError` from any of them; all can be done again.
    """

    def __init__(self, wish: WantedAgent) -> None:
        self._wish = wish
        self._remote = Remote(wish.place)
        self._machine: RemoteMachine
        self._service: UserService
        self._wheel: Wheel

    def steps(self) -> Sequence[InstallationStep]:
        """What there is to do."""
        return (
            InstallationStep("look at the machine: Linux, its architecture, Python 3.11 or newer", self._look),
            InstallationStep(f"copy enginebench there, below ~/{FOLDER}", self._copy),
            InstallationStep(
                "install it into a virtual environment of its own, and into those of the engines", self._install
            ),
            *(
                InstallationStep(f"make an environment with the engine {engine}", partial(self._add_engine, engine))
                for engine in self._wish.engines
            ),
            InstallationStep(f"have the agent kept running by systemd (~/{UNIT_FOLDER}/{UNIT})", self._serve),
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

    @property
    def _news(self) -> str:
        # On that machine, so that whoever goes on with what broke off here restarts the agent all the same.
        return f"{self._machine.home}/{FOLDER}/restart-needed"

    def _note_news(self) -> None:
        """Have the agent restarted once all is there; before what it would not know of, as that may break off."""
        self._remote.run("touch", self._news, to="note that the agent is to be restarted")

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
        is_there = self._remote.succeeds("test", "-e", f"{self._version_folder}/installed")
        told = DONE_ALREADY if is_there else self._install_anew()
        self._link()
        return told

    def _install_anew(self) -> str:
        self._note_news()
        venv = f"{self._version_folder}/venv"
        self._remote.run(self._wish.python, "-P", "-m", "venv", "--clear", venv, to="make a virtual environment")
        python = f"{venv}/bin/python"
        pip = (python, "-P", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input")
        self._run_pip(*pip, f"{self._version_folder}/{self._wheel.name}", to="install enginebench")
        self._upgrade_environments()
        # Else that note may outlive a power cut, and the rest not. Of this file system alone: some mount may be dead.
        self._remote.run("sync", "-f", self._version_folder, to="bring it to the disk")
        self._remote.run("touch", f"{self._version_folder}/installed", to="note that it is installed")
        return self._remote.run(self._agent, "--version", to="start the agent").strip()

    def _link(self) -> None:
        """Have logins there find the agent by its name, but for one of that name which was there before."""
        current, programs = f"{self._machine.home}/{FOLDER}/current", f"{self._machine.home}/{PROGRAMS}"
        self._remote.run("ln", "-sfn", self._version_folder, current, to="link the version that is installed")
        if not self._remote.succeeds("test", "-e", f"{programs}/enginebench-agent"):
            to = f"link the agent into ~/{PROGRAMS}"
            self._remote.run("mkdir", "-p", programs, to=to)
            self._remote.run("ln", "-sf", f"{current}/venv/bin/enginebench-agent", programs, to=to)

    def _run_pip(self, *words: str, to: str) -> str:
        try:
            return self._remote.run(*words, to=to)
        except RemoteError as error:
            machine = self._machine
            why = lacking_wheel(str(error), machine.architecture, machine.python_version, machine.built_for)
            raise RemoteError(f"could not {to} on {self._wish.place.destination}: {why}") if why else error from None

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
        # With the version, as a gate calls it: an environment of another one is not what is wanted.
        name = _NOT_OF_A_NAME.sub("-", engine)
        if name in {environment["name"] for environment in listed["environments"]}:
            return DONE_ALREADY
        self._note_news()
        add = (self._agent, "environment", "add", name, "--engine", engine)
        return self._run_pip(*add, to=f"install the engine {engine}").strip()

    def _serve(self) -> str:
        if not self._machine.has_systemd:
            return "no systemd looks after this user's services there"
        # In plain text, and so on loopback alone, also where the machine has certificates: SSH leads there.
        serving = ("--port", str(self._wish.place.agent_port), "--plain-text")
        unit = self._remote.run(self._agent, "service", "unit", "--user", *serving, to="make the unit file")
        if not self._service.has(unit):
            self._note_news()
        self._service.keep(unit)
        has_news = self._remote.succeeds("test", "-e", self._news)
        if has_news:
            self._service.restart()
        else:
            self._service.start()
        self._remote.run("rm", "-f", self._news, to="note that the agent was restarted")
        self._forget_other_versions()
        ends = "" if self._service.lingers() else f"; {_ENDS_WITH_THE_LOGIN}"
        return ("restarted" if has_news else "running") + ends

    def _forget_other_versions(self) -> None:
        folder, _, kept = self._version_folder.rpartition("/")
        find = ("find", folder, "-mindepth", "1", "-maxdepth", "1", "!", "-name", kept)
        self._remote.run(*find, "-exec", "rm", "-rf", "{}", "+", to="remove what was installed before")


_ANSWER_SECONDS = 15.0


def bootstrap_steps(home: Home, target: Target, installation: AgentInstallation) -> Sequence[InstallationStep]:
    """The steps until the target answers. Raises `InputError` where its name belongs to another address."""
    known = {each.name: each.address for each in home.store.targets()}
    if known.get(target.name, target.address) != target.address:
        home.store.add_target(target)  # says that the name is taken
    remember = InstallationStep(f"remember it as the target {target.name}", partial(_remember, home, target, known))
    return (*installation.steps(), remember, InstallationStep("ask its agent", partial(_ask, target, installation)))


def carry_out(steps: Sequence[InstallationStep], tell: Callable[[str], None]) -> None:
    """Do the steps in their order and tell how they go. Raises what they raise: all can be done again."""
    for number, step in enumerate(steps, start=1):
        tell(f"{number}/{len(steps)} {step.title} …")
        tell(f"    {step.do()}")


def _remember(home: Home, target: Target, known: dict[str, str]) -> str:
    if target.name in known:
        return DONE_ALREADY
    home.store.add_target(target)
    return target.address


def _ask(target: Target, installation: AgentInstallation) -> str:
    if not installation.has_systemd:
        return f"start it by hand: {installation.serve_by_hand}"
    (answer,) = ask_health([target], _ANSWER_SECONDS)
    if answer.health is not Health.SERVING:
        raise UnreachableError(answer.sentence)
    return f"it answers; see what it has with `enginebench devices --target {target.name}`"
