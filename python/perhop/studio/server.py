"""The page, for who has its address.

Requests below the token:

==================  =========================================================================
``GET /``           the page
``GET /NAME``       its script, its style
``GET /start``      the text to begin with, the JSON Schema, names to start from
``GET /text/NAME``  the text of a template or of a scenario of the gallery
``POST /run``       runs a text; answers with a JSON object a line: progress, lines, results
``POST /stop``      ends the run of a variant early
``POST /save``      writes a text to the file that the page began with
``POST /report``    the report of a run, as one page
==================  =========================================================================

Bodies of requests are JSON: `variant`, `text` and `seed`; of `save`, `text` and the `version` of
the file that the text replaces.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from contextlib import ExitStack, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Self

from perhop import gallery, templates
from perhop.errors import OutputError, PerhopError, UnsupportedError
from perhop.loopback import NOT_FOUND, LoopbackHandler, LoopbackServer
from perhop.scenario import METRICS, json_schema
from perhop.studio.runs import LIMIT_S, Runs
from perhop.studio.saving import ScenarioFile

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Studio"]

_MOST_BYTES: Final = 4 * 2**20
"""The longest body of a request; a scenario has at most 1 MiB, which JSON may make longer."""

_PATIENCE_S: Final = 600.0
"""The time for which a connection of the page stays open without a request."""

_MOST_VARIANT: Final = 8
"""The longest name of a variant."""

_KINDS: Final = {
    "index.html": "text/html; charset=utf-8",
    "studio.js": "text/javascript; charset=utf-8",
    "studio.css": "text/css; charset=utf-8",
}
"""The files of the page, which `make` builds, and their types."""

_JSON: Final = "application/json"

_NOTHING: Final = "default-src 'none'"
"""The policy of answers that are no pages."""

_DEFAULT: Final = "dsl"
"""The template with which the page begins without a file."""


class Studio(LoopbackServer):
    """A server of the page; a context in which it serves.

    Args:
        file: The scenario to begin with, or a name of the gallery; a template by default.
        port: The port on the loopback device; 0 is a free one.
        limit_s: The longest wall time of a run.

    Raises:
        ScenarioError: The file cannot be read.
        UnsupportedError: The page was not built.
        OutputError: The port is not free.
    """

    def __init__(self, file: str | None = None, port: int = 0, limit_s: float = LIMIT_S) -> None:
        _files()
        source = None if file is None else gallery.read(file)
        self.text = templates.text(_DEFAULT) if source is None else source.text
        self.name = f"{_DEFAULT}.yaml" if source is None else Path(source.filename).name
        self.file: ScenarioFile | None = None
        with ExitStack() as closing:
            if source is not None and file not in gallery.names():
                base = source.filename
                self.file = ScenarioFile(base)
            else:
                # An empty folder: texts that no file is behind may not refer to other files.
                folder = closing.enter_context(TemporaryDirectory(prefix="perhop-studio-"))
                base = os.path.join(folder, self.name)  # noqa: PTH118
            self.runs = Runs(base, limit_s)
            super().__init__(port)
            self._closing = closing.pop_all()

    def __enter__(self) -> Self:
        """Serve the page in a thread."""
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Serve no more."""
        self.end()
        self._closing.close()

    def wait(self) -> None:
        """Wait for an interruption, such as that of Ctrl-C."""
        threading.Event().wait()

    def start(self) -> dict[str, Any]:
        """Return what the page needs at first: with a file, what this has now."""
        text = self.text if isinstance(self.text, str) else self.text.decode("utf-8", "replace")
        version = ""  # of no file: saving then says why it cannot be read
        with suppress(OutputError):
            if self.file is not None:
                text, version = self.file.read()
        return {
            "name": self.name,
            "file": self.file.name if self.file else None,
            "version": version,
            "text": text,
            "schema": _schema(),
            "targets": {name: list(metric.targets) for name, metric in METRICS.items()},
            "templates": templates.descriptions(),
            "gallery": list(gallery.names()),
        }


class _Handler(LoopbackHandler):
    """A connection, which the page keeps for several requests."""

    server: Studio
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 65536  # a part of an answer is sent in one piece

    def asked(self) -> str | None:
        """Return the path after the token; the connection of who has the token stays open."""
        name = super().asked()
        if name is not None:
            self.connection.settimeout(_PATIENCE_S)
        return name

    def do_GET(self) -> None:  # noqa: N802
        """Send a file of the page, or a text."""
        name = self.asked()
        if name == "":
            self._page()
        elif name in _KINDS and name != "index.html":
            self.answer(200, _KINDS[name], _files()[name], _NOTHING)
        elif name == "start":
            self._json(200, self.server.start())
        elif name is not None and name.startswith("text/"):
            self._text(name.removeprefix("text/"))
        else:
            self._refuse()

    def do_POST(self) -> None:  # noqa: N802
        """Run a text, end its run, save it, or write its report."""
        name = self.asked()
        if name not in ("run", "stop", "save", "report"):
            self.close_connection = True  # what it sent was not read
            self._refuse()
            return
        body = self._body(saves=name == "save")
        if body is None:
            self.close_connection = True
            self._json(400, {"error": "malformed request"})
        elif name == "run":
            self._run(**body)
        elif name == "stop":
            self.server.runs.stop(body["variant"])
            self._json(200, {})
        elif name == "save":
            self._save(**body)
        else:
            self._report(body["text"], body["seed"])

    def _page(self) -> None:
        """Send the page, with a policy by which only its own script and styles are used."""
        nonce = secrets.token_urlsafe(12)
        policy = (
            "default-src 'none'; connect-src 'self'; script-src 'self'; img-src data:; "
            f"style-src 'self' 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        content = _files()["index.html"].replace(b"NONCE", nonce.encode())
        self.answer(200, _KINDS["index.html"], content, policy)

    def _text(self, name: str) -> None:
        """Send the text of a template, or of a scenario of the gallery."""
        if name in templates.names():
            self._json(200, {"name": f"{name}.yaml", "text": templates.text(name)})
        elif name in gallery.names():
            self._json(200, {"name": f"{name}.yaml", "text": gallery.text(name)})
        else:
            self._refuse()

    def _body(self, *, saves: bool) -> dict[str, Any] | None:
        """Return the body of a request; None if it is malformed or too long."""
        length = self.headers.get("Content-Length", "")
        if self.headers.get("Content-Type") != _JSON or not length.isdecimal():
            return None
        if len(length) > 8 or int(length) > _MOST_BYTES:
            return None
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            return None
        match body:
            case {"text": str(), "version": str(), **others} if saves and not others:
                return {**body}
            case {"variant": str(variant), "text": str(text), "seed": int(seed), **others} if (
                not (saves or others) and len(variant) <= _MOST_VARIANT and 0 <= seed < 2**64
            ):
                return {"variant": variant, "text": text, "seed": seed}
        return None

    def _run(self, variant: str, text: str, seed: int) -> None:
        """Run a text, and send progress and results, each as a line of JSON in a chunk."""
        begun = False

        def tell(line: dict[str, Any], *, last: bool = False) -> None:
            nonlocal begun
            if not begun:
                begun = True
                headers = {"Transfer-Encoding": "chunked", "Content-Security-Policy": _NOTHING}
                self.begin_answer(200, "application/x-ndjson", headers)
            content = json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n"
            end = b"0\r\n\r\n" if last else b""
            self.wfile.write(b"%x\r\n%b\r\n%b" % (len(content), content, end))
            self.wfile.flush()

        answer = self.server.runs.answer(variant, text, seed, tell)
        try:
            tell({"superseded": True} if answer is None else answer, last=True)
        except OSError:
            self.close_connection = True

    def _save(self, text: str, version: str) -> None:
        """Write a text to the file that the page began with, if this is still of a version."""
        file = self.server.file
        try:
            if file is None:
                raise OutputError("the studio has no file; start it with `perhop studio FILE`")
            saved = file.save(text, version)
        except OutputError as error:
            self._json(409, {"error": str(error)})
        else:
            self._json(200, {"version": saved})

    def _report(self, text: str, seed: int) -> None:
        """Send the report of a run."""
        from perhop.report import page

        try:
            content = page(self.server.runs.dataset(text, seed))
        except PerhopError as error:
            self._json(422, {"error": str(error)})
        else:
            self._json(200, {"page": content})

    def _json(self, status: int, content: dict[str, Any]) -> None:
        self.answer(status, _JSON, json.dumps(content, allow_nan=False).encode(), _NOTHING)

    def _refuse(self) -> None:
        self.answer(*NOT_FOUND, _NOTHING)


Studio.handler = _Handler


@cache
def _schema() -> dict[str, Any]:
    """Return the JSON Schema of scenarios, which takes a while to make."""
    return json_schema()


@cache
def _files() -> dict[str, bytes]:
    """Return the files of the page.

    Raises:
        UnsupportedError: They were not built.
    """
    folder = files("perhop.studio").joinpath("page")
    try:
        return {name: folder.joinpath(name).read_bytes() for name in _KINDS}
    except OSError:
        raise UnsupportedError(
            "the page of the studio was not built; `make studio` in perhop's sources builds it, "
            "and wheels have it"
        ) from None
