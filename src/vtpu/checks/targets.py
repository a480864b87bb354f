"""A function and its arguments, named as text: `train:step`, `path/train.py:make_step`."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from vtpu.errors import UsageError

_DEFAULT_ARGUMENTS = ("abstract_args", "args")


class TargetFailed(Exception):
    """The user's own code raised; `__cause__` is what."""


@dataclass(frozen=True, slots=True)
class Target:
    """A function with the arguments to compile it for."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def load_target(name: str, arguments: str | None) -> Target:
    """The function that `name` means, with the arguments that `arguments` names.

    `arguments` is `module:name` or a name in the function's module; what stands there is a tuple of
    positional arguments, a dictionary of keyword ones, a pair of both, or a function that returns one
    of these. By default `<function>_args`, `abstract_args` or `args` of the function's module.

    Raises:
        UsageError: there is no such module, function or arguments.
        TargetFailed: the module, or what makes the arguments, raised.
    """
    module_name, _, function_name = name.rpartition(":")
    if not module_name or not function_name:
        raise UsageError(
            f"{name!r} names no function. Write `module:function` or `file.py:function`."
        )
    module = _load_module(module_name)
    function = _find(module, function_name, name)
    given = _find_arguments(module, function_name.rpartition(".")[2], arguments)
    args, kwargs = _split(given, function)
    return Target(function, args, kwargs)


def _load_module(name: str) -> ModuleType:
    path = Path(name)
    is_file = name.endswith(".py")
    if is_file and not path.is_file():
        raise UsageError(f"there is no file {name}")
    folder = str(path.parent.absolute()) if is_file else str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as `python file.py` and `python -m module` have it
    try:
        return _import_file(path) if is_file else importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(
                f"there is no module {name} in {folder} or among the installed ones"
            ) from None
        raise TargetFailed(name) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TargetFailed(name) from error


def _import_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, name: str, whole: str) -> Any:
    value: Any = module
    for part in name.split("."):
        if not hasattr(value, part):
            names = [n for n in vars(module) if callable(getattr(module, n)) and n[0] != "_"]
            raise UsageError(
                f"{whole}: {module.__name__} has no {name}. It has: {', '.join(names) or 'no function'}."
            )
        value = getattr(value, part)
    return value


def _find_arguments(module: ModuleType, function: str, arguments: str | None) -> Any:
    if arguments is not None:
        module_name, _, name = arguments.rpartition(":")
        return _value(_find(_load_module(module_name) if module_name else module, name, arguments))
    for name in (f"{function}_args", *_DEFAULT_ARGUMENTS):
        if hasattr(module, name):
            return _value(getattr(module, name))
    raise UsageError(
        f"What are the arguments of {function}? Name them: `--args {module.__name__}:abstract_args`, "
        "a tuple of arrays or jax.ShapeDtypeStruct (or a function that returns one). Without --args "
        f"vtpu takes {function}_args, abstract_args or args of the module, which has none of these."
    )


def _value(found: Any) -> Any:
    if not callable(found) or isinstance(found, tuple | list | dict):
        return found
    try:
        return found()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TargetFailed(getattr(found, "__name__", "the arguments")) from error


def _split(given: Any, function: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments: of the ways to read `given` the first that the function takes.

    A tuple of a tuple and a dictionary may be a pair of both, or two arguments that are trees.
    """
    ways = list(_ways(given))
    return next((way for way in ways if _takes(function, *way)), ways[0])


def _ways(given: Any) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    is_named = isinstance(given, tuple) and hasattr(given, "_fields")  # a tree with names
    if isinstance(given, dict) and all(isinstance(name, str) for name in given):
        yield (), given
    elif isinstance(given, tuple | list) and not is_named:
        if _is_pair(given):
            yield tuple(given[0]), dict(given[1])
        yield tuple(given), {}
    else:
        yield (given,), {}
        if is_named:
            yield tuple(given), {}


def _is_pair(given: Sequence[Any]) -> bool:
    is_pair = len(given) == 2 and isinstance(given[0], tuple | list) and isinstance(given[1], dict)
    return is_pair and all(isinstance(name, str) and name.isidentifier() for name in given[1])


def _takes(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the function's signature has room for these; what has none takes everything."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return False
    except ValueError:
        return True
    return True
