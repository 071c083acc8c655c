"""The results under stress: many processes at once, some of them killed, and a disk that fills up."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import invented
from controller.store.test_sharing import start
from enginebench_controller.store.store import Store

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[2]
PATIENCE_S = 200

WRITER = f"""
    store = Store(Path(sys.argv[1]), timeout_s={PATIENCE_S})
    for number in range(int(sys.argv[3])):
        name = f"{{sys.argv[2]}}-{{number}}"
        store.add_measurement(invented.measured(name, iterations=50), invented.samples(name, iterations=50))
        print(name, flush=True)
"""

READER = f"""
    store = Store(Path(sys.argv[1]), timeout_s={PATIENCE_S})
    seen = set()
    for _ in range(2):
        bundle = store.bundle("b0000001")
        for one in bundle.measurements:
            assert sum(block.latency_ns.size for block in bundle.samples[one.id]) == one.latency.samples, one.id
        now = {{one.id for one in bundle.measurements}}
        assert seen <= now, "what was there once is gone"
        seen = now
    print("consistent")
"""


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "results.duckdb", timeout_s=PATIENCE_S)
    store.add_benchmark(invented.benchmark())
    return store


@pytest.mark.slow
@pytest.mark.fault(17)
def test_four_writers_that_are_killed_and_ten_readers_lose_nothing_that_was_acknowledged(store):
    readers = [start(READER, store.path) for _ in range(10)]
    doomed = [start(WRITER, store.path, f"doomed{number}", 1000) for number in range(4)]
    acknowledged = [writer.stdout.readline().strip() for _ in range(3) for writer in doomed]
    for writer in doomed:
        writer.send_signal(signal.SIGKILL)
        acknowledged += writer.stdout.read().split()  # which, unlike `communicate`, has what was read ahead
        writer.wait()
    heirs = [start(WRITER, store.path, f"heir{number}", 2) for number in range(4)]
    for heir in heirs:
        acknowledged += heir.communicate(timeout=PATIENCE_S)[0].split()

    assert [reader.communicate(timeout=PATIENCE_S)[0] for reader in readers] == ["consistent\n"] * 10
    stored = {one.id: store.samples(one.id) for one in store.measurements("b0000001")}
    assert len(acknowledged) == len(set(acknowledged)) >= 20
    assert set(acknowledged) <= set(stored)
    assert len(stored) <= len(acknowledged) + len(doomed), "no more than what each was about to acknowledge"
    assert all(samples_ns.size == 50 for samples_ns in stored.values())
    assert store.check().problems == ()


DYING_BEFORE_IT_CLOSES = """
    import os
    from enginebench_controller.store import connection
    class Dying:
        def __init__(self, opened):
            self.opened = opened
        def __enter__(self):
            return self.opened.__enter__()
        def __exit__(self, *_):
            print("written", flush=True)
            os._exit(9)
    up_to_date = connection._up_to_date
    connection._up_to_date = lambda *arguments: Dying(up_to_date(*arguments))
    Store(Path(sys.argv[1])).add_measurement(invented.measured("m1"), invented.samples("m1"))
"""


@pytest.mark.fault(17)
def test_what_was_acknowledged_does_not_depend_on_the_log_whatever_happens_to_that(store):
    writer = start(DYING_BEFORE_IT_CLOSES, store.path)
    assert writer.communicate(timeout=60)[0] == "written\n"
    assert writer.returncode == 9

    log = store.path.with_name(store.path.name + ".wal")
    if log.exists() and (content := log.read_bytes()):
        log.write_bytes(bytes([content[0] ^ 0xFF]) + content[1:])

    assert [one.id for one in store.measurements("b0000001")] == ["m1"]
    assert store.samples("m1").size == 200


FILLING = """
    import json, resource
    from enginebench_controller.errors import StoreError
    folder = Path(sys.argv[1])
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    store = Store(folder / "results.duckdb")
    store.add_benchmark(invented.benchmark())
    if len(sys.argv) > 2:  # no small disk can be had here: a bound on the size of files stands for its end
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), -1))
    acknowledged, sentence = [], ""
    while not sentence:
        name = f"m{len(acknowledged)}"
        try:
            store.add_measurement(invented.measured(name, iterations=12_000), invented.samples(name, iterations=12_000))
            acknowledged.append(name)
        except StoreError as error:
            sentence = str(error)
    full = sorted(one.id for one in store.measurements("b0000001"))
    problems = store.check().problems
    ballast.unlink()
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
    store.add_measurement(invented.measured("after", iterations=30), invented.samples("after", iterations=30))
    after = sorted(one.id for one in store.measurements("b0000001"))
    problems += store.check().problems
    print(json.dumps([acknowledged, sentence, full, after, problems]))
"""


@pytest.mark.fault(17)
def test_a_disk_that_fills_up_keeps_all_that_was_acknowledged_and_goes_on_when_there_is_room(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    on_a_small_disk = _on_a_small_disk(folder)
    program = "import sys, invented\nfrom pathlib import Path\nfrom enginebench_controller.store.store import Store\n"
    done = subprocess.run(
        [
            *(on_a_small_disk or ()),
            *(sys.executable, "-c", program + textwrap.dedent(FILLING), str(folder)),
            *(() if on_a_small_disk else ("6000000",)),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    acknowledged, sentence, full, after, problems = json.loads(done.stdout)
    assert "could not be written: the disk is full; free some space and try again" in sentence
    assert len(acknowledged) >= 2
    refused = f"m{len(acknowledged)}"  # it may be there too: nobody was told so, and to store it again does nothing
    assert set(acknowledged) <= set(full) <= {*acknowledged, refused}
    assert set(after) == {*full, "after"}
    assert problems == []


def _on_a_small_disk(folder):
    """What to put before a command so that the folder is a disk of 8 MB for it alone; None where none may be had."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    spaces = (["unshare", "--mount"], ["unshare", "--user", "--map-root-user", "--mount"])
    if shutil.which("unshare") is None:
        return None
    for space in spaces:
        if subprocess.run([*space, *mount], capture_output=True, check=False).returncode == 0:
            return [*space, "sh", "-c", f'{" ".join(mount)} && exec "$@"', "sh"]
    return None
