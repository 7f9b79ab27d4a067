"""Errors, and other lines for the user, that say what is wrong and what to do about it."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Write a line for the user into the log of this rank."""
    print(f"elastic: {text}", file=sys.stderr, flush=True)


class ElasticError(ValueError):
    """An invalid value of an argument or of a variable of the environment."""


class LoadError(RuntimeError):
    """A checkpoint exists and cannot be used. Training never starts over because of it."""


class MismatchError(LoadError):
    """A checkpoint of another script, data set or world. `elastic run` does not try it again."""


def whole_number(name: str, value: object, least: int) -> int:
    """Return value if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ElasticError(f"{name}={value!r}: not a whole number")
    number = int(value.__index__())
    if number < least:
        raise ElasticError(f"{name}={number}: at least {least}")
    return number
