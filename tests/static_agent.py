"""The program `perhop-agent`, linked statically, for tests that copy it to a bare host.

As a program of its own: links it and prints its path.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LOW: Final = ("nice", "-n", "19")


def static_agent() -> Path:
    """Link the program if its library has changed, and return its path.

    The library is the one of `cargo test --workspace`. `cargo rustc`, which could link statically,
    builds one package, whose dependencies lack features that other crates ask for, and so are
    compiled once more.
    """
    # The dependencies of these two have all features that they have in the workspace.
    build = (os.environ.get("CARGO", "cargo"), "build", "--quiet", "--message-format", "json")
    packages = ("--package", "perhop-agent", "--package", "perhop-py", "--bin", "perhop-agent")
    done = subprocess.run(
        [*LOW, *build, *packages], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    [library] = [
        Path(name)
        for message in messages
        if message.get("target", {}).get("name") == "perhop_agent"
        for name in message["filenames"]
        if name.endswith(".rlib")
    ]
    source = ROOT / "crates" / "perhop-agent" / "src" / "main.rs"
    program = library.with_name(f"{library.stem}-static")
    newest = max(library.stat().st_mtime, source.stat().st_mtime)
    if program.exists() and program.stat().st_mtime > newest:
        return program
    # Several processes may link it at the same time.
    linked = program.with_name(f"{program.name}-{os.getpid()}")
    link = (os.environ.get("RUSTC", "rustc"), "--edition", "2024", "--crate-name", "static_agent")
    flags = ("-C", "target-feature=+crt-static", "-C", "strip=symbols", "-o", str(linked))
    parts = ("-L", f"dependency={library.parent}", "--extern", f"perhop_agent={library}")
    subprocess.run([*LOW, *link, *flags, *parts, str(source)], cwd=ROOT, check=True)
    return linked.replace(program)


if __name__ == "__main__":
    try:
        print(static_agent())
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
