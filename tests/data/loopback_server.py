"""A web server on this machine for download tests."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """What the server says; ``broken`` promises more bytes than it sends, ``chunked`` none."""

    body: bytes = b""
    code: int = 200
    content_type: str = "application/octet-stream"
    location: str = ""
    broken: bool = False
    chunked: bool = False


@dataclass
class Server:
    """Answers under their paths; a list is used up one by one, its last answer stays."""

    base: str = ""
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def serve(self, path: str, *answers: Answer | bytes) -> str:
        self.answers[path] = [
            answer if isinstance(answer, Answer) else Answer(answer) for answer in answers
        ]
        return self.base + path

    def answer(self, path: str) -> Answer:
        self.requests.append(path)
        planned = self.answers.get(path, [Answer(b"nothing here", 404)])
        return planned.pop(0) if len(planned) > 1 else planned[0]


@contextmanager
def running_server():
    server = Server()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            answer = server.answer(self.path)
            self.send_response(answer.code)
            self.send_header("Content-Type", answer.content_type)
            if answer.chunked:
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.send_header("Content-Length", str(len(answer.body) + 10 * answer.broken))
            if answer.location:
                self.send_header("Location", answer.location)
            self.end_headers()
            if answer.chunked:
                for start in range(0, len(answer.body), 5000):
                    part = answer.body[start : start + 5000]
                    self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.wfile.write(answer.body)

        def log_message(self, *_):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.base = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
