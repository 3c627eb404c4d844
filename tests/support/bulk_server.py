"""A local server that keeps to the `_bulk` protocol of Elasticsearch, with its errors."""

from __future__ import annotations

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class BulkServer(ThreadingHTTPServer):
    """Stores documents; each request first takes the next of `faults`, a function of the handler, if there is one."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        #: index → id → document
        self.indices, self.faults, self.requests, self.refused = {}, [], [], {}
        #: bytes of a request; a larger one is answered with 413
        self.largest = math.inf
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def bulk(self, index, lines):
        """What the server answers: an item for each operation."""
        kept, items = self.indices.setdefault(index, {}), []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            id_ = action["create"]["_id"]
            status = self.refused.pop(id_, 409 if id_ in kept else 201)
            result = {"_index": index, "_id": id_, "status": status}
            if status == 201:
                kept[id_] = document
            else:
                result["error"] = {"type": "some_exception", "reason": f"status {status}"}
            items.append({"create": result})
        errors = any(item["create"]["status"] >= 300 for item in items)
        return {"took": 1, "errors": errors, "items": items}


class Handler(BaseHTTPRequestHandler):
    server: BulkServer
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        lines = [json.loads(line) for line in body.splitlines()]
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, headers, lines))
        if self.server.faults:
            self.server.faults.pop(0)(self)
        elif len(body) > self.server.largest:
            self.answer(413, {"error": {"reason": "too large"}})
        else:
            self.answer(200, self.server.bulk(self.path.split("/")[1], lines))

    do_POST = do_PUT  # noqa: N815

    def answer(self, status, document, **headers):
        """Answer; `headers`: with _ in place of -."""
        self.send(status, json.dumps(document).encode(), **headers)

    def send(self, status, body, *, length=None, **headers):
        """Answer with these bytes, and say that there are so many."""
        self.send_response(status)
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.close_connection = length is not None

    def log_message(self, *args):
        pass
