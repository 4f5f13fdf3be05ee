"""`python -m perhop.lab.process NAME SEED`: the process of a lab.

The scenario comes as JSON on standard input. Standard output gets one line of JSON once the lab is
up, or once it is known that it will not be; after that only standard error is used.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback

from perhop import rights
from perhop.errors import PerhopError

__all__ = ["main"]


def main() -> None:
    """Hold a lab until it is taken down, or a signal ends it."""
    name, seed = sys.argv[1], int(sys.argv[2])
    if os.fork():
        os._exit(0)  # whoever starts a lab need not be there when it ends
    tell = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def stop(_signal: int, _frame: object) -> None:
        raise SystemExit(0)

    def say(answer: dict[str, object]) -> None:
        with tell:
            json.dump(answer, tell)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    server = None
    try:
        rights.enable()
        # What these import has threads, which could not follow into a user namespace.
        from perhop.lab.server import Server, serve
        from perhop.scenario import Scenario

        server = Server(name, Scenario.model_validate(json.load(sys.stdin)), seed)
        serve(server, lambda: say({"pid": os.getpid()}))
    except PerhopError as error:
        if tell.closed:
            traceback.print_exc()
        else:
            say({"error": str(error), "kind": type(error).__name__})
        sys.exit(error.exit_code)
    finally:
        if server is not None:
            server.close()
            server.record.remove(log=False)


if __name__ == "__main__":
    main()
