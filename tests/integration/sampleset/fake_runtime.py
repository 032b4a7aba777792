"""A Cache Runtime Server that does nothing: jobs end when the test says so, figures are the test's."""

import http.server
import json
import pathlib
import ssl
import threading

KINDS = ("sync", "warmup", "clear", "rmr")


class Store:
    """What the runtimes of one set have in common, and what the test wants of them."""

    def __init__(self):
        self.lock = threading.Lock()
        self.total = 58 << 20
        self.files = 1300
        self.cached = 0
        self.outcome = {}       # kind: "succeeded" (default), "failed", "running"
        self.message = ""
        self.posts = []         # (kind, name, body)
        self.jobs = {}
        self.cancelled = []
        self.purged = set()
        self.refused = 0        # requests without the token
        self.peers = {}         # pod: table

    def post(self, kind, name, body):
        with self.lock:
            self.posts.append((kind, name, body))
            if name not in self.jobs:
                self.jobs[name] = {"name": name, "kind": kind, "runs": 1}
            return self._result(name)

    def result(self, name):
        with self.lock:
            return self._result(name) if name in self.jobs else None

    def cancel(self, name):
        with self.lock:
            self.cancelled.append(name)
            if name in self.jobs:
                self.jobs[name]["ended"] = "cancelled"

    def _result(self, name):
        job = self.jobs[name]
        state = job.get("ended") or self.outcome.get(job["kind"], "succeeded")
        if state in ("succeeded", "failed", "cancelled"):
            if "ended" not in job and state == "succeeded":
                if job["kind"] in ("sync", "warmup"):
                    self.cached = self.total
                if job["kind"] == "clear":
                    self.cached = 0
                if job["kind"] == "rmr":
                    self.total = self.cached = 0
            job["ended"] = state
        done = self.files if state == "succeeded" else self.files * 2 // 5
        count = {"total": self.files, "done": done, "skipped": 0, "failed": 0}
        return {"name": name, "kind": job["kind"], "state": state, "runs": 1, "message": self.message,
                "status": {"succeeded": "success", "running": "running"}.get(state, "fail"),
                "progress": {"files": count, "bytes": {**count, "total": 1000, "done": 1000 * done // self.files},
                             "bytesPerSecond": 120.0 * (1 << 20), "etaSeconds": 200}}


class FakeRuntime:
    """One server on ip:7716 with the files of a set's Secret."""

    def __init__(self, pod, ip, auth_dir, store, cache_id):
        self.cache_id = cache_id
        self.pod, self.store = pod, store
        self.token_file = pathlib.Path(auth_dir) / "token"
        self.generation = 0
        runtime = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, status, body=None):
                data = b"" if body is None else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def handle_any(self):
                size = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(size)
                runtime.serve(self, body)

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *args):
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pathlib.Path(auth_dir) / "tls.crt", pathlib.Path(auth_dir) / "tls.key")
        http.server.ThreadingHTTPServer.allow_reuse_address = True
        self.server = http.server.ThreadingHTTPServer((ip, 7716), Handler)
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def ready(self):
        return True

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, request, body):
        path = request.path.split("?")[0]
        if path in ("/healthz", "/readyz"):
            return request.answer(200)
        if request.headers.get("Authorization") != "Bearer " + self.token_file.read_text():
            self.store.refused += 1
            return request.answer(401, {"code": "kPermission", "message": "token"})
        if path == "/cacheStatus/cacheInfo.json":
            return request.answer(200, self.info())
        if path == "/peers" and request.command == "PUT":
            table = json.loads(body)
            self.generation = table["generation"]
            self.store.peers[self.pod] = table
            return request.answer(200, {})
        if path == "/purge":
            self.store.purged.add(self.pod)
            return request.answer(200, {})
        if path.startswith("/upload/"):
            kind = path.removeprefix("/upload/").removesuffix("Options")
            name = request.headers.get("filename")
            if name == "terminate":
                for job in list(self.store.jobs):
                    self.store.cancel(job)
                return request.answer(200, {})
            return request.answer(200, self.store.post(kind, name, json.loads(body)))
        if path.startswith("/jobs/") and path.endswith("/cancel"):
            name = path.split("/")[2]
            self.store.cancel(name)
            found = self.store.result(name)
            return request.answer(200, found) if found else request.answer(404, {"code": "kNotFound", "message": ""})
        for kind in KINDS:
            if path.startswith(f"/{kind}Result/"):
                found = self.store.result(path.split("/")[2])
                return request.answer(200, found) if found else request.answer(
                    404, {"code": "kNotFound", "message": "no such job"})
        return request.answer(404, {"code": "kNotFound", "message": path})

    def info(self):
        index = int(self.pod.rsplit("-", 1)[1])
        count = max(1, len(self.store.peers))
        store = self.store
        return {"index": index, "ready": True, "errorMassage": "", "bootID": "b", "volume": "v",
                "volumeUUID": "u", "cacheID": self.cache_id, "totalSize": str(store.total),
                "totalFiles": f"{store.files:,}",
                "cachedSize": str(store.cached // count + (store.cached % count if index == 0 else 0)),
                "pinnedSize": "0", "capacity": "0", "diskSize": str(16 << 20), "diskUsed": str(4 << 20),
                "diskAvail": str(12 << 20), "peersGeneration": self.generation, "activeJobs": 0,
                "reads": {"local": 0, "peer": 0, "store": 0, "localBytes": 0, "peerBytes": 0, "storeBytes": 0}}
