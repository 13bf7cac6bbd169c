"""What travels between a parent and a child process: one JSON object a line.

Each side imports the messages that it needs, and no others: a child that judges a schedule is started for each search,
and is to be there soon.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

__all__ = ["Done", "Failure", "Message", "decode", "encode"]


class Message:
    """What is asked or answered: a dataclass of what JSON can hold."""

    __slots__ = ()
    classes: ClassVar[dict[str, type[Any]]] = {}
    """All that this process has imported, by name."""

    def __init_subclass__(cls) -> None:
        Message.classes[cls.__name__] = cls


@dataclass(frozen=True, slots=True)
class Done(Message):
    """The answer to `Build`, `ApplyScheduler`, `Compile` and `OpenGate`."""

    seconds: float
    """How long the task took, by the child's clock."""


@dataclass(frozen=True, slots=True)
class Failure(Message):
    """The answer to anything that raised an exception."""

    error: str
    """Name of the exception's class."""
    message: str
    """What it says."""
    is_users: bool
    """Whether it is a MetolError, that is, a mistake of whoever asked."""


def encode(message: Any) -> bytes:
    """Return a message as one line."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Any:
    """Return the message that a line holds."""
    content = json.loads(line)
    return Message.classes[content.pop("kind")](**content)
