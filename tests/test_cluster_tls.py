"""A scheduler of Dask with TLS, by Dask's configuration."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path

import pytest

import perhop as library
from clusters import SCENARIO, Dask
from conftest import DEADLINES, SLOW, Start, ended
from perhop import ensembles
from perhop.cluster import connect
from perhop.errors import ClusterError
from tools import need

pytestmark = [DEADLINES, SLOW]


def certify(folder: Path) -> dict[str, object]:
    """Make an authority, and a certificate of it for all; return Dask's configuration of them."""
    folder.mkdir()
    days = ("-days", "2")
    authority = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    for command in (
        ("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", *days),
        ("req", *new, "-keyout", "key.pem", "-out", "request.pem", "-subj", "/CN=perhop"),
        ("x509", "-req", "-in", "request.pem", *authority, "-out", "cert.pem", *days),
    ):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    own = {"cert": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
    return {"ca-file": str(folder / "ca.pem"), "scheduler": own, "worker": own, "client": own}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("openssl")
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def tls(folder: Path) -> dict[str, object]:
    return certify(folder / "certificates")


@pytest.fixture(scope="module")
def dask(folder: Path, tls: dict[str, object]) -> Iterator[Dask]:
    comm = {"tls": tls, "require-encryption": True}
    (folder / "dask.yaml").write_text(json.dumps({"distributed": {"comm": comm}}))
    with Dask(folder, "tls") as made:
        yield made


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "pair.yaml"
    path.write_text(SCENARIO)
    return str(path)


def test_runs_are_the_same_over_tls(
    dask: Dask, folder: Path, source: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_CONFIG", str(folder))
    command = ("run", source, "--seeds", "6", "--json")
    found = [ended(start(*command, *more)) for more in ((), ("--cluster", dask.address))]
    assert found[0].code == found[1].code == 0, found[1].err
    assert found[0].out == found[1].out
    assert f"runs on tls://127.0.0.1:{dask.port}" in found[1].err


def configured(tls: dict[str, object], **more: object) -> AbstractContextManager[None]:
    config: AbstractContextManager[None] = import_module("dask.config").set(
        {"distributed.comm": {**import_module("dask.config").get("distributed.comm"), **more}}
        | {f"distributed.comm.tls.{key}": value for key, value in tls.items()}
    )
    return config


def test_wrong_certificates_are_told(dask: Dask, tls: dict[str, object], folder: Path) -> None:
    import_module("distributed")  # which sets defaults
    others = certify(folder / "others")
    one, other = folder / "certificates", folder / "others"
    for changed, message in (
        ({"ca-file": None}, "configuration has no distributed.comm.tls.ca-file; set"),
        ({"client": {"cert": None, "key": None}}, "has no distributed.comm.tls.client.cert; set"),
        ({"ca-file": "/none.pem"}, "distributed.comm.tls.ca-file: cannot read /none.pem; set"),
        ({"ca-file": str(one / "key.pem")}, "distributed.comm.tls: .*no certificate or crl found"),
        (
            {"client": {"cert": str(one / "cert.pem"), "key": str(other / "key.pem")}},
            "distributed.comm.tls: .*key values mismatch",
        ),
        (
            {"ca-file": others["ca-file"]},
            "its certificate is not accepted: .*; set distributed.comm.tls",
        ),
        (
            {"client": others["client"]},
            "it does not accept the certificate of this command; set distributed.comm.tls",
        ),
    ):
        with (
            configured({**tls, **changed}),
            pytest.raises(ClusterError, match=message),
            connect(dask.address),
        ):
            pass


def test_a_scheduler_with_or_without_tls_is_told(
    dask: Dask, tls: dict[str, object], source: str, tmp_path: Path
) -> None:
    import_module("distributed")
    plain = dask.address.replace("tls", "tcp")
    message = "closes the connection; if it uses TLS, give tls://HOST:PORT"
    with pytest.raises(ClusterError, match=message), connect(plain):
        pass
    message = "configuration has distributed.comm.require-encryption; give tls://HOST:PORT"
    with (
        configured(tls, **{"require-encryption": True}),
        pytest.raises(ClusterError, match=re.escape(message)),
        connect(plain),
    ):
        pass
    with Dask(tmp_path) as other, configured(tls):
        message = "it does not use TLS; give tcp://HOST:PORT"
        with pytest.raises(ClusterError, match=message), connect(f"tls://127.0.0.1:{other.port}"):
            pass
        with connect(other.address) as cluster:
            assert ensembles.run(library.load(source), 6, cluster=cluster)
