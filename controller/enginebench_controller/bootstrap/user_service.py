"""The agent as a service of one user's systemd on another machine."""

from hashlib import sha256

from enginebench_controller.bootstrap.remote import Remote

UNIT = "enginebench-agent.service"
UNIT_FOLDER = ".config/systemd/user"


class UserService:
    """What systemd there is asked. Every method raises `SshError`, and `RemoteError` with systemd's own words."""

    def __init__(self, remote: Remote, home: str) -> None:
        self._remote = remote
        self._path = f"{home}/{UNIT_FOLDER}/{UNIT}"

    def is_active(self) -> bool:
        """Whether the agent runs."""
        return self._remote.succeeds("systemctl", "--user", "is-active", "--quiet", UNIT)

    def keep(self, unit: str) -> bool:
        """Have this text as the unit file, and the service enabled; returns whether the text is new there."""
        is_new = self._remote.read(self._path) != unit
        if is_new:
            self._remote.write(self._path, unit.encode(), sha256(unit.encode()).hexdigest())
            self._remote.run("systemctl", "--user", "daemon-reload", to="load the unit file")
        self._remote.run("systemctl", "--user", "enable", "--quiet", UNIT, to="enable the service")
        return is_new

    def start(self) -> None:
        """Have the agent running, as it is where it runs already."""
        self._remote.run("systemctl", "--user", "start", UNIT, to="start the agent")

    def restart(self) -> None:
        """Have an agent running that was started now."""
        self._remote.run("systemctl", "--user", "restart", UNIT, to="restart the agent")

    def stop(self) -> None:
        """End the agent, its runs and its children; their outcomes are spooled then."""
        self._remote.run("systemctl", "--user", "stop", UNIT, to="stop the agent")

    def lingers(self) -> bool:
        """Ask that this user's services run while nobody is logged in; whether that is allowed."""
        return self._remote.succeeds("loginctl", "enable-linger")
