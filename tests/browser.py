"""Headless Chromium by the WebDriver protocol, on the pages of a folder."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

#: SwiftShader is WebGPU's software device in Chromium, which no list of drivers refuses.
GPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--window-size=1100,1600",
)  # fmt: skip
#: Runs a text as the body of an asynchronous function of `args`.
ASYNC = """
const done = arguments[arguments.length - 1], args = arguments[0];
(async () => { %s })().then((value) => done({ value }), (error) => done({ error: String(error.stack || error) }));
"""


def programs() -> tuple[str | None, str | None]:
    """Chromium and its driver, where they are installed."""
    return shutil.which("chromium"), shutil.which("chromedriver")


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    extensions_map = http.server.SimpleHTTPRequestHandler.extensions_map | {".mjs": "text/javascript"}

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Browser:
    """A browser with one page; `folder` is served on localhost, which is a secure context."""

    def __init__(self, folder: Path, flags: tuple[str, ...] = GPU) -> None:
        binary, driver = programs()
        assert binary and driver
        handler = functools.partial(Quiet, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://localhost:{self.server.server_port}/"
        self.profile = tempfile.TemporaryDirectory(prefix="chromium-")
        self.driver = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, text=True)
        assert self.driver.stdout
        self.url = ""
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.url = f"http://127.0.0.1:{found[1]}"
                break
        # What it prints later must not fill the pipe.
        threading.Thread(target=self.driver.stdout.read, daemon=True).start()
        options = {"binary": binary, "args": [*FLAGS, *flags, f"--user-data-dir={self.profile.name}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "timeouts": {"script": 600_000}}
        session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]
        self.url += f"/session/{session}"

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, page: str = "") -> None:
        self.call("POST", "/url", {"url": self.address + page})

    def run(self, body: str, args: Any = None) -> Any:
        """The value of the body of an asynchronous function; its exceptions are RuntimeErrors."""
        answer = self.call("POST", "/execute/async", {"script": ASYNC % body, "args": [args]})
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer.get("value")

    def screenshot(self) -> bytes:
        return base64.b64decode(self.call("GET", "/screenshot"))

    def close(self) -> None:
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
            self.server.shutdown()
            self.profile.cleanup()
