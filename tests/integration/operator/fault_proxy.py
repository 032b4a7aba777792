"""Stands between a manager and the API server, and spoils what passes: replies that say 409, 429 or 500, connections that end
before or after the server has done what was asked, watches that end or say 410."""

import http.client
import http.server
import json
import re
import tempfile
import threading

# What can happen to a request. "lost": the server does it, and nobody hears of it.
FAULTS = ("409", "429", "500", "503", "dropped", "lost")
_REASONS = {"409": "Conflict", "410": "Expired", "429": "TooManyRequests", "500": "InternalError", "503": "ServiceUnavailable"}
_WATCH_ENDS = ("cut", "eof", "410 event", "500 event")


class FaultProxy:
    """`faults(job, n)` is the fault for the n-th request (from 0) about the job of that name, or None; `names` finds the
    job's name in a request. All watches are ended after `watch_seconds`, one way after the other, and some lists fail."""

    def __init__(self, cluster, names, faults, watch_seconds=1.5):
        self.cluster = cluster
        self.seen = {}  # job: requests so far
        self.injected = {}  # (fault): how often
        self._names = re.compile(names)
        self._faults = faults
        self._watch_seconds = watch_seconds
        self._watches = 0
        self._lists = 0
        self._lock = threading.Lock()
        proxy = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                proxy._handle(self)

            do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # connections end: that is what it is for

        self._server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self._kubeconfig = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "c",
                   "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
                   "users": [{"name": "u", "user": {}}],
                   "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}, self._kubeconfig)
        self._kubeconfig.flush()
        self.kubeconfig = self._kubeconfig.name

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._kubeconfig.close()

    def _handle(self, client):
        body = client.rfile.read(int(client.headers.get("Content-Length", 0)))
        if client.command == "GET" and "watch=" in client.path:
            return self._watch(client)
        fault = self._fault_of(client.command, client.path, body)
        if fault in _REASONS:
            return _refuse(client, fault)
        if fault == "dropped":
            return _drop(client)
        status, headers, text = self._forward(client, body)
        if fault == "lost":
            return _drop(client)
        client.send_response(status)
        for name in ("Content-Type", "Retry-After"):
            if headers.get(name):
                client.send_header(name, headers[name])
        client.send_header("Content-Length", str(len(text)))
        client.end_headers()
        client.wfile.write(text)

    def _fault_of(self, method, path, body):
        with self._lock:
            if method == "GET" and not self._names.search(path):
                self._lists += 1
                fault = (None, None, "500", None, "429", None, "410", None, "dropped")[self._lists % 9]
            else:
                found = self._names.search(path) or self._names.search(body.decode())
                if not found:
                    return None
                n = self.seen.get(found[0], 0)
                self.seen[found[0]] = n + 1
                fault = self._faults(found[0], n)
            if fault:
                self.injected[fault] = self.injected.get(fault, 0) + 1
            return fault

    def _open(self, client, body=None):
        upstream = self.cluster._connect()
        headers = {"Authorization": "Bearer " + self.cluster.info["token"]}
        for name in ("Content-Type", "Accept"):
            if client.headers.get(name):
                headers[name] = client.headers[name]
        upstream.request(client.command, client.path, body or None, headers)
        return upstream

    def _forward(self, client, body):
        upstream = self._open(client, body)
        try:
            reply = upstream.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            upstream.close()

    def _watch(self, client):
        with self._lock:
            self._watches += 1
            number = self._watches
        refusal = {3: "503", 7: "429", 11: "410"}.get(number % 13)
        if refusal:
            return _refuse(client, refusal)
        upstream = self._open(client)
        # Ends the stream from the side of the server, whatever it is waiting for.
        ended = threading.Event()
        raw = upstream.sock
        timer = threading.Timer(self._watch_seconds, lambda: (ended.set(), raw.shutdown(2)))
        try:
            reply = upstream.getresponse()
            client.send_response(reply.status)
            client.send_header("Content-Type", "application/json")
            client.send_header("Transfer-Encoding", "chunked")
            client.end_headers()
            timer.start()
            _copy_lines(reply, client)
            _end_watch(client, _WATCH_ENDS[number % len(_WATCH_ENDS)])
        except OSError:
            pass  # the manager has ended it itself
        finally:
            timer.cancel()
            upstream.close()
            client.close_connection = True


def _copy_lines(reply, client):
    while True:
        try:
            line = reply.readline()
        except (OSError, http.client.HTTPException, ValueError):
            return
        if not line.endswith(b"\n"):
            return
        _chunk(client, line)


def _chunk(client, data):
    client.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
    client.wfile.flush()


def _end_watch(client, how):
    if how == "cut":
        _chunk(client, b'{"type":"MODI')
        return
    if how.endswith("event"):
        _chunk(client, json.dumps({"type": "ERROR", "object": _status(how.split()[0])}).encode() + b"\n")
    client.wfile.write(b"0\r\n\r\n")


def _status(code):
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": _REASONS[code], "code": int(code),
            "message": f"injected {code}"}


def _refuse(client, code):
    text = json.dumps(_status(code)).encode()
    client.send_response(int(code))
    client.send_header("Content-Type", "application/json")
    if code == "429":
        client.send_header("Retry-After", "1")
    client.send_header("Content-Length", str(len(text)))
    client.end_headers()
    client.wfile.write(text)


def _drop(client):
    client.close_connection = True
    client.connection.close()
