"""Boards for ARM, made once and kept in .venvs/arm, and agents on them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_server import AgentProcess, only
from arm.boards import ARM64, ARMHF, FORMATS, Board

KEPT = Path(__file__).parents[2] / ".venvs" / "arm"
TOOLS = ("unshare", "chroot", "mmdebstrap", "qemu-aarch64-static", "qemu-arm-static")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where nothing can run programs for ARM, `install.sh` has said so."""
    here = all(map(shutil.which, TOOLS)) and (FORMATS / "register").exists()
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(900))
            item.add_marker(pytest.mark.xdist_group("arm"))  # each worker would make the boards
            if not here:
                item.add_marker(pytest.mark.skip(reason="this machine runs no programs for ARM (tests/arm/install.sh)"))


def _made(board: Board) -> Board:
    KEPT.mkdir(parents=True, exist_ok=True)
    board.make()
    return board


@pytest.fixture(scope="session")
def arm64() -> Board:
    return _made(Board(ARM64, KEPT))


@pytest.fixture(scope="session")
def armhf() -> Board:
    return _made(Board(ARMHF, KEPT))


@pytest.fixture(scope="module")
def agent(arm64: Board, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on the 64-bit board, with the engine that runs there and the one for tests."""
    folder = tmp_path_factory.mktemp("board")
    agent = AgentProcess(folder, config=only("fake", "onnxruntime"), python=str(arm64.python))
    yield agent
    agent.stop()
