"""HDFS: a name node and a data node in one process, with WebHDFS."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import shutil
import urllib.parse
from pathlib import Path
from typing import Any

from peerlib import cache, loopback
from peerlib.base import HERE, Peer, PeerError, check, loopback_environment, say, tail
from peerlib.process import run, run_with_progress
from peerlib.session import Session

_SOURCES = HERE / "modules" / "hdfs"
_MAIN = "HdfsServer"


class Hdfs(Peer):
    name = "hdfs"
    version = "3.4.1"

    def get(self) -> None:
        cache.install(self.name, self.version, self._build)

    def find(self) -> Path | None:
        return cache.find(self.name, self.version)

    def _build(self, directory: Path) -> None:
        for program in ("mvn", "javac"):
            if shutil.which(program) is None:
                raise PeerError(f"hdfs: there is no {program}; run tools/deps.sh")
        for name in ("pom.xml", f"{_MAIN}.java"):
            shutil.copy(_SOURCES / name, directory)
        say(f"getting hdfs {self.version}")
        log = directory / "mvn.log"
        argv = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        argv += [f"-DoutputDirectory={directory / 'lib'}"]
        got = run_with_progress("getting hdfs", argv, log, dict(os.environ), directory, lambda _: "")
        if not got:
            raise PeerError(f"getting hdfs failed; the end of its output:\n{tail(log)}")
        run(
            ["javac", "-cp", f"{directory / 'lib'}/*", "-d", str(directory), f"{_MAIN}.java"],
            None,
            timeout=300,
            directory=directory,
        )

    def start(self, session: Session, options: argparse.Namespace) -> dict[str, Any]:
        rpc, web = session.free_port(), session.free_port()
        argv = ["java", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        # Java 17 closes what the web server looks into.
        argv += ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        argv += ["-cp", f"{self.directory() / 'lib'}/*:{self.directory()}", _MAIN]
        argv += [str(session.data / "hdfs"), str(rpc), str(web)]
        environment = {**loopback_environment(), "HADOOP_USER_NAME": "root"}
        server = session.server("hdfs", argv, lambda: _answers(web), environment, 30)
        session.start(server)
        return {"host": "127.0.0.1", "port": web, "url": f"hdfs://root@127.0.0.1:{web}/"}

    def smoke(self) -> None:
        with Session("hdfs") as session:
            port = self.start(session, self.default_options())["port"]
            put(port, "/a/b c", b"content")
            status, body = loopback.call("GET", port, _path("/a", "LISTSTATUS"))
            names = [entry["pathSuffix"] for entry in json.loads(body)["FileStatuses"]["FileStatus"]]
            check(status == 200 and names == ["b c"], f"hdfs: listed {status} {body}")


def put(port: int, path: str, content: bytes) -> None:
    """Writes a file: the name node says where to."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("PUT", _path(path, "CREATE") + "&overwrite=true")
    answer = connection.getresponse()
    answer.read()
    location = urllib.parse.urlsplit(answer.getheader("Location", ""))
    check(answer.status == 307, f"hdfs: CREATE gave {answer.status}")
    node = http.client.HTTPConnection(location.hostname or "", location.port or 0, timeout=60)
    node.request("PUT", f"{location.path}?{location.query}", content)
    status = node.getresponse().status
    check(status == 201, f"hdfs: the data node answered {status}")


def _path(path: str, operation: str) -> str:
    return f"/webhdfs/v1{urllib.parse.quote(path)}?op={operation}&user.name=root"


def _answers(port: int) -> bool:
    """Whether the name node serves and knows its data node."""
    try:
        status, _ = loopback.call("GET", port, _path("/", "LISTSTATUS"))
        _, beans = loopback.call(
            "GET", port, "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        )
        return status == 200 and json.loads(beans)["beans"][0]["NumLiveDataNodes"] >= 1
    except (*loopback.ERRORS, ValueError, KeyError, IndexError):
        return False
