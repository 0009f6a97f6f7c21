"""Files from the web, and lines of a log beside progress bars."""

import logging
import os
import shutil
from pathlib import Path

from grilly.closed import closed
from grilly.errors import InvalidArgumentError

__all__ = ["LoggingHandler", "http_get"]


def http_get(url: str, path: str | os.PathLike[str]) -> None:
    """Downloads a file; it has its name only when it is complete.

    Args:
        url: An address of the web.
        path: The file to write; its folder is created if missing.

    Raises:
        InvalidArgumentError: Another kind of address.
        OSError: The file cannot be fetched or written.

    Source: `sentence_transformers.util.http_get`, version 6.2.

    Example:
        >>> from grilly.util import http_get
        >>> http_get("ftp://example.org/list.txt", "list.txt")
        Traceback (most recent call last):
        grilly.errors.InvalidArgumentError: url is 'ftp://example.org/list.txt', expected http:// or https://
    """
    if not url.startswith(("http://", "https://")):
        raise InvalidArgumentError(f"url is {url!r}, expected http:// or https://")
    import urllib.request  # with modules for every protocol, which nothing else needs

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}_part")
    try:
        with urllib.request.urlopen(url) as source, open(part, "wb") as file:
            shutil.copyfileobj(source, file)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


@closed("filters", "formatter", "level", "lock")
class LoggingHandler(logging.Handler):
    """A handler that writes lines of a log above progress bars, not into them.

    Source: `sentence_transformers.LoggingHandler`, version 6.2.

    Example:
        >>> import logging
        >>> from grilly.util import LoggingHandler
        >>> logging.getLogger("mine").addHandler(LoggingHandler())
    """

    def __init__(self, level: int | str = logging.NOTSET) -> None:
        super().__init__(level)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line.

        Example:
            >>> import logging
            >>> from grilly.util import LoggingHandler
            >>> LoggingHandler().emit(logging.makeLogRecord({"msg": "done"}))
            done
        """
        from tqdm.auto import tqdm

        try:
            tqdm.write(self.format(record))
        except Exception:
            self.handleError(record)
