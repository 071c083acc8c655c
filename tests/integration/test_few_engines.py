"""A command that names its engines has only these asked on this machine, unless more has changed."""

from pathlib import Path

import pytest

from enginebench_controller.home import Home
from enginebench_controller.targets.session import open_session
from plugged import Environment

pytestmark = pytest.mark.slow

ENGINE = """
from pathlib import Path
from enginebench_plugins import spec

class Counted(spec.Engine):
    def info(self):
        with Path(__file__).with_suffix(".asked").open("a") as asked:
            asked.write("x")
        return spec.EngineInfo(version="{version}", formats=frozenset({{spec.ModelFormat.ONNX}}))
    def devices(self):
        return [spec.Device(name="CPU", full_name="any processor")]
    def read(self, source): ...
    def compile(self, model, source, settings): ...

@spec.hookimpl
def enginebench_engine():
    return Counted()
"""


async def test_only_named_engines_are_asked_as_long_as_they_are_what_the_store_knows(tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv")
    for name in ("one", "two"):
        environment.add_plugin(name, ENGINE.format(version="1.0"))
    home = Home(tmp_path / "home")
    (home.path / "agent").mkdir(parents=True, mode=0o700)
    section = f"[environments.default]\npython = '{environment.python}'\nengines = ['one', 'two']\n"
    # Shut in, they could write down nowhere that they have been asked.
    (home.path / "agent" / "agent.toml").write_text(f"sandbox = false\n{section}")

    async def asked(*engines: str) -> tuple[set[str], int, int]:
        """Which engines a command has then, and how often each has been asked."""
        async with open_session(home, (), engines=engines) as session:
            found = {one.name for one in session.snapshots[0].engines}
        one, two = (next(tmp_path.rglob(f"{name}_plugin.asked")).read_text().count("x") for name in ("one", "two"))
        return found, one, two

    def stored() -> dict[str, str]:
        (snapshot,) = home.store.snapshots()
        return {one.name: one.version for one in snapshot.available}

    assert await asked("one") == ({"one", "two"}, 1, 1), "nothing is known yet"
    before = home.store.snapshots()[0].seen_at_unix_ns
    assert await asked("one") == ({"one"}, 2, 1)
    assert stored() == {"one": "1.0", "two": "1.0"} and home.store.snapshots()[0].seen_at_unix_ns == before
    assert await asked() == ({"one", "two"}, 3, 2)

    next(tmp_path.rglob("one_plugin.py")).write_text(ENGINE.format(version="1.10"))
    assert await asked("two") == ({"two"}, 3, 3), "what is not asked is not noticed"
    assert await asked("one") == ({"one", "two"}, 5, 4), "where one has changed, the other may have"
    assert stored() == {"one": "1.10", "two": "1.0"}
    assert await asked("oen") == ({"one", "two"}, 6, 5), "whoever is told what there is, is told all"
