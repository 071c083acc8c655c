"""A lake in an S3-compatible store: moto's server, which refuses a second file of one name as S3 does."""

import os
import signal
import socket
import subprocess
import sys
import time

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from typer.testing import CliRunner

from controller.store.lake.conftest import fill
from controller.store.lake.test_sync import counts, stored
from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError, StoreUnreachableError
from enginebench_controller.store.lake.place import Lake, explained, lake_at
from enginebench_controller.store.lake.upkeep import compact
from enginebench_controller.store.lake.writing import sync
from enginebench_controller.store.store import LakeStore, Store

pytestmark = pytest.mark.slow

SECRET = "s3cr3t-of-the-test"


@pytest.fixture(scope="module")
def server():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A process of its own: whoever reads holds Python's lock until the server answers.
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield f"http://127.0.0.1:{port}"
    process.kill()
    process.wait()


@pytest.fixture
def bucket(server, monkeypatch):
    """One that is empty, in the environment of whoever may use it."""
    environment = {
        "AWS_ENDPOINT_URL": server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "key-of-the-test",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    name = f"lab-{time.monotonic_ns()}"
    for _ in range(300):
        try:
            client().create_bucket(Bucket=name)
            break
        except EndpointConnectionError:
            time.sleep(0.2)
    return f"s3://{name}"


def client():
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")


@pytest.fixture
def remote(bucket):
    return lake_at(f"{bucket}/results")


def test_what_is_written_is_read_back_also_by_sql_and_after_compaction(own, remote, tmp_path):
    sync(own.path, remote)
    other = LakeStore(tmp_path / "elsewhere" / "results.duckdb", [remote.url])
    assert counts(remote) == stored(own)
    assert other.benchmarks() == own.benchmarks()
    assert (
        other.query("SELECT count(*) FROM block_samples").rows == own.query("SELECT count(*) FROM block_samples").rows
    )

    fill(own, "b0000003")
    sync(own.path, remote)
    assert compact(remote, 0, nobody_else=True).joined > 0
    assert counts(remote) == stored(own)


def test_several_writers_at_once_and_a_killed_one_bring_everything_once(own, remote, writer, tmp_path):
    other = Store(tmp_path / "other" / "results.duckdb")
    fill(other, "b0000003")
    assert writer(own.path, remote, dies_after=4).wait(60) == -signal.SIGKILL
    assert counts(remote)["benchmarks"] == counts(remote)["blocks"] == 0

    begun = [writer(path, remote) for path in (own.path, other.path, own.path)]
    assert [(one.wait(120), one.stderr.read()) for one in begun] == [(0, "")] * 3
    found = counts(remote)
    assert (found["benchmarks"], found["measurements"], found["models"], found["profiles"]) == (3, 9, 2, 1)


def test_a_bucket_with_something_else_in_it_is_left_alone(own, bucket):
    name = bucket.removeprefix("s3://")
    client().put_object(Bucket=name, Key="mixed/notes.txt", Body=b"mine")
    result = CliRunner().invoke(make_app(), ["store", "sync", f"{bucket}/mixed"], catch_exceptions=True)
    assert "has something else in it (notes.txt)" in str(result.exception)
    assert [one["Key"] for one in client().list_objects_v2(Bucket=name)["Contents"]] == ["mixed/notes.txt"]


def test_a_store_that_does_not_answer_or_refuses_is_one_sentence_without_secrets(own, bucket, monkeypatch):
    with pytest.raises(StoreUnreachableError, match="there is no such bucket") as refused:
        sync(own.path, lake_at("s3://nobody/results"))
    assert refused.value.exit_code == 3

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{taken.getsockname()[1]}")
        for use in (lambda: sync(own.path, lake_at(bucket)), LakeStore(own.path, [bucket]).benchmarks):
            with pytest.raises(StoreUnreachableError, match="it does not answer") as silent:
                use()
            assert "\n" not in str(silent.value)
            assert SECRET not in str(silent.value)


def test_a_scheme_is_the_same_in_capitals_and_a_bucket_is_not(monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    assert lake_at("S3://Lab/Results/") == lake_at("s3://Lab/Results")


@pytest.mark.parametrize("said", [None, "false"])
def test_a_store_without_tls_is_used_only_where_that_is_allowed(own, monkeypatch, said):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    if said:
        monkeypatch.setenv("AWS_ALLOW_HTTP", said)
    with pytest.raises(InputError, match="has no TLS: set AWS_ALLOW_HTTP=true"):
        sync(own.path, lake_at("s3://lab/results"))


def test_an_error_that_nobody_knows_is_told_by_its_first_line_without_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    text = f"odd thing with {SECRET} at https://me:pass@lab/x?X-Amz-Sign=1a: {'long ' * 100}\nsecond line"
    told = pytest.raises(StoreUnreachableError, match=r"cannot be used: odd thing with \*\*\* at https:")
    with told as refused, explained(Lake("s3://lab/results")):
        raise OSError(text)
    assert not any(word in str(refused.value) for word in (SECRET, "pass", "1a", "second", "\n"))
    assert len(str(refused.value)) < 300


def test_an_address_with_credentials_is_refused_and_not_repeated():
    with pytest.raises(InputError, match="in the environment") as refused:
        lake_at(f"s3://me:{SECRET}@lab/results")
    assert SECRET not in str(refused.value)
    with pytest.raises(InputError, match="name a folder, or s3://"):
        lake_at("ftp://lab/results")
