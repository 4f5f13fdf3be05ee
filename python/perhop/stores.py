"""Folders of object stores, such as ``s3://bucket/runs``, by fsspec.

An object store cannot rename a folder. A dataset there counts once its manifest is there, which is
written last.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perhop.errors import UnsupportedError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["ObjectPath", "Place", "place"]


class ObjectPath:
    """The name of an object, or the prefix of some, with the methods of a `pathlib.Path`.

    What a store raises becomes an `OSError`.
    """

    def __init__(self, url: str) -> None:
        """Keep the name; nothing is opened yet."""
        self.url = url.rstrip("/")

    def __repr__(self) -> str:
        """Return the constructor's call."""
        return f"ObjectPath({self.url!r})"

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    def __truediv__(self, name: str) -> ObjectPath:
        """Return the path of a name below this one."""
        return ObjectPath(f"{self.url}/{name}")

    def __reduce__(self) -> tuple[type[ObjectPath], tuple[str]]:
        """Pickle the URL alone."""
        return ObjectPath, (self.url,)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> ObjectPath:
        """The path without its last part."""
        return ObjectPath(self.url.rpartition("/")[0])

    def resolve(self) -> ObjectPath:
        """Return this path: there are no relative ones."""
        return self

    def mkdir(self, *, parents: bool = False, exist_ok: bool = False) -> None:
        """Do nothing: a store has no folders, only names with slashes."""

    def exists(self) -> bool:
        """Return whether there is an object of this name, or one below it."""
        return self.is_file() or any(self.iterdir())

    def is_file(self) -> bool:
        """Return whether there is an object of this name."""
        with self._told():
            self._system.invalidate_cache()
            return bool(self._system.isfile(self._path))

    def is_dir(self) -> bool:
        """Return whether there are objects below this name."""
        return any(self.iterdir())

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield the names directly below this one."""
        with self._told():
            self._system.invalidate_cache()
            try:
                found = self._system.ls(self._path, detail=False)
            except FileNotFoundError:
                found = []
        for each in found:
            name = each.rstrip("/").rpartition("/")[2]
            if name and each.rstrip("/") != self._path.rstrip("/"):
                yield self / name

    def remove(self) -> None:
        """Remove the object of this name, and all below it; there may be none."""
        with self._told():
            self._system.invalidate_cache()
            if self._system.exists(self._path):
                self._system.rm(self._path, recursive=True)

    def unlink(self) -> None:
        """Remove the object of this name."""
        with self._told():
            self._system.rm_file(self._path)

    def read_bytes(self) -> bytes:
        """Return the content of the object."""
        with self._told():
            content: bytes = self._system.cat_file(self._path)
            return content

    def read_all(self, names: Sequence[str]) -> dict[str, bytes]:
        """Return the contents of objects below this name, which are fetched side by side."""
        paths = [f"{self._path}/{name}" for name in names]
        with self._told():
            found = self._system.cat(paths, on_error="raise")
        return {name: found[path] for name, path in zip(names, paths, strict=True)}

    def write_bytes(self, content: bytes) -> None:
        """Write the object; a store does so whole or not at all."""
        with self._told():
            self._system.pipe_file(self._path, content)

    def write_text(self, text: str, encoding: str = "utf-8") -> None:
        """Write a text as the object."""
        self.write_bytes(text.encode(encoding))

    def write_all(self, contents: Mapping[str, bytes], last: str) -> None:
        """Write objects below this name, side by side.

        Args:
            contents: Contents by name.
            last: The object that makes the others count: an earlier one is removed first, and the
                new one is written last.
        """
        with self._told():
            self._system.invalidate_cache()
            if self._system.exists(f"{self._path}/{last}"):
                self._system.rm_file(f"{self._path}/{last}")
            rest = {f"{self._path}/{k}": v for k, v in contents.items() if k != last}
            self._system.pipe(rest)
            self._system.pipe_file(f"{self._path}/{last}", contents[last])

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The file system of fsspec, and the path in it."""
        scheme = self.url.partition("://")[0]
        try:
            from fsspec.core import url_to_fs

            system, path = url_to_fs(self.url)
        except ImportError as error:
            package = "perhop[s3]" if scheme == "s3" else f"fsspec[{scheme}]"
            raise UnsupportedError(
                f"{self.url} needs {package}: pip install '{package}'"
            ) from error
        return system, str(path)

    @property
    def _system(self) -> Any:
        return self._opened[0]

    @property
    def _path(self) -> str:
        return self._opened[1]

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnsupportedError):
            raise
        except Exception as error:  # each store has exceptions of its own
            raise OSError(None, str(error) or type(error).__name__, self.url) from error


Place = Path | ObjectPath
"""A folder of this machine, or of an object store."""


def place(text: str | os.PathLike[str] | ObjectPath) -> Place:
    """Return a folder of an object store for a URL, and otherwise one of this machine."""
    if isinstance(text, ObjectPath):
        return text
    return ObjectPath(text) if isinstance(text, str) and "://" in text else Path(text)
