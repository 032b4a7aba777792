"""kill -9 and restart, wrong input, a second server: what standalone's API server does then."""

import json
import pathlib
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import unittest

from standalone import OPERATOR, Standalone

MAPS = "/api/v1/namespaces/default/configmaps"


class Restart(unittest.TestCase):
    def setUp(self):
        self.server = Standalone("--api-only")

    def tearDown(self):
        self.server.close()

    def test_nothing_that_was_answered_is_lost(self):
        """Writers write until the server is killed; whatever they were told is there, and nothing twice."""
        for number in range(2):
            written, lock = set(), threading.Lock()

            def write(worker):
                try:
                    for i in range(10_000):
                        name = f"c-{number}-{worker}-{i}"
                        status, _ = self.server.request("POST", MAPS, {"metadata": {"name": name}, "data": {"k": "v" * 500}})
                        if status == 201:
                            with lock:
                                written.add(name)
                except (OSError, ValueError):
                    pass  # killed in the middle

            threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            while True:
                with lock:
                    if len(written) > 40:
                        break
            self.server.stop(signal.SIGKILL)
            for thread in threads:
                thread.join()
            server, port = self.server.server, self.server.server.rsplit(":", 1)[1]
            self.server.start()
            self.assertEqual(self.server.server.rsplit(":", 1)[1], port, "clients find it where it was")
            items = self.server.get(MAPS)["items"]
            there = {item["metadata"]["name"] for item in items}
            self.assertLessEqual(written, there, server)
            versions = [int(item["metadata"]["resourceVersion"]) for item in items]
            self.assertEqual(len(versions), len(set(versions)))
            _, made = self.server.request("POST", MAPS, {"metadata": {"generateName": "after-"}})
            self.assertGreater(int(made["metadata"]["resourceVersion"]), max(versions))

    def test_wrong_input_is_answered_as_kubernetes_does(self):
        cases = [
            ("POST", MAPS, b"{", "application/json", 400, "BadRequest"),
            ("POST", MAPS, b"[" * 100_000, "application/json", 400, "BadRequest"),
            ("POST", MAPS, b"a: b", "application/yaml", 415, "UnsupportedMediaType"),
            ("POST", MAPS, b"k8s\x00\x0a", "application/vnd.kubernetes.protobuf", 400, "BadRequest"),
            ("POST", MAPS, b"{}", "application/json", 422, "Invalid"),
            ("POST", MAPS, b'{"kind":"Pod","apiVersion":"v1"}', "application/json", 400, "BadRequest"),
            ("POST", "/api/v1/namespaces/none/configmaps", b'{"metadata":{"name":"a"}}', "application/json", 404, "NotFound"),
            ("PUT", MAPS + "/none", b'{"metadata":{"name":"none"}}', "application/json", 404, "NotFound"),
            ("PATCH", MAPS + "/none", b"{}", "application/apply-patch+yaml", 404, "NotFound"),
            ("DELETE", MAPS + "/none", None, "application/json", 404, "NotFound"),
            ("GET", MAPS + "?limit=x", None, "application/json", 400, "BadRequest"),
            ("GET", MAPS + "?continue=x", None, "application/json", 400, "BadRequest"),
            ("GET", MAPS + "?fieldSelector=data.k%3D1", None, "application/json", 400, "BadRequest"),
            ("GET", "/api/v1/nothing", None, "application/json", 404, "NotFound"),
            ("GET", "/apis/none.example.org/v1", None, "application/json", 404, "NotFound"),
            ("PUT", MAPS, b"{}", "application/json", 405, "MethodNotAllowed"),
            ("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", b"{}", "application/json", 405, "MethodNotAllowed"),
            ("POST", MAPS, b'{"data":"' + b"x" * (4 << 20) + b'"}', "application/json", 413, None),
        ]
        for method, path, body, content, code, reason in cases:
            with self.subTest(method=method, path=path, body=(body or b"")[:40]):
                try:
                    status, reply = self.server.request(method, path, body, content)
                except (OSError, json.JSONDecodeError) as error:
                    self.assertEqual(code, 413, error)  # closed in the middle of a body that is too large
                    continue
                self.assertEqual(status, code, reply)
                if reason:
                    self.assertEqual((reply["kind"], reply["reason"]), ("Status", reason))
        self.assertIsNotNone(self.server.get(MAPS))

    def test_strangers_and_seconds_are_refused(self):
        status, reply = self.server.request("GET", MAPS, headers={"Authorization": "Bearer wrong"})
        self.assertEqual((status, reply["reason"]), (401, "Unauthorized"))
        mode = pathlib.Path(self.server.kubeconfig).stat().st_mode
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        second = subprocess.run([OPERATOR, "standalone", "--data-dir", self.server.dir + "/data"],
                                capture_output=True, text=True, timeout=120)
        self.assertEqual(second.returncode, 1)
        self.assertIn("in use by process", second.stderr)
        self.assertEqual(len(second.stderr.strip().splitlines()), 1, second.stderr)

    def test_a_taken_port_is_said_in_one_line(self):
        with socket.socket() as taken, tempfile.TemporaryDirectory() as directory:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = subprocess.run([OPERATOR, "standalone", "--data-dir", directory, "--port", str(port)],
                                  capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--port", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
