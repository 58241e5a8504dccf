"""object_fingerprint: a digest of an object's state and of all code that it can run.

A finished job may be used again only for the same policy, reward model, evaluator and interval. The digest therefore
covers, besides the state of an object, what its methods do: their code, defaults and closures, attributes of its class
and of the bases, and the functions, classes and constants of the user's own modules that the code names, and so on from
there. Objects of installed packages are identified by name and version, those of the standard library by name (the
version of Python is a fact of every request).

Addresses, line numbers, paths of files, comments, and the order of sets and dicts do not matter. Not covered is what
code finds in other ways than by name: ``globals()``, ``getattr`` with a computed name, files, environment variables.
"""

from __future__ import annotations

import builtins
import copyreg
import dis
import functools
import hashlib
import importlib
import importlib.util
import os
import re
import site
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from backcast.errors import OptionError

LONGEST_REPR = 60  # characters of an object's repr in the facts of a request
ATOMS = (type(None), bool, int, complex, str, bytes, bytearray, range, type(...), type(NotImplemented))
# attributes of classes that say nothing about what they do, or change from process to process
IGNORED_ATTRIBUTES = {
    *("__dict__", "__weakref__", "__module__", "__doc__", "__qualname__", "__annotations__", "__annotate__"),
    *("__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__abstractmethods__"),
    *("__slotnames__", "__parameters__", "__orig_bases__"),
    *("_abc_impl", "_abc_cache", "_is_protocol", "_is_runtime_protocol"),
}
DESCRIPTORS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.MethodWrapperType,
)


def object_fingerprint(value: Any) -> str:
    """Return a short description and a digest of an object's state and of the code that it can run.

    An object with a method ``fingerprint()`` that returns text or bytes is identified by that alone.

    >>> object_fingerprint(0.5), object_fingerprint(None)
    ('0.5', 'None')
    >>> object_fingerprint(np.zeros((2, 1))) == object_fingerprint(np.ones((2, 1)))
    False
    """
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    walker = _Walker()
    try:
        digest = walker.digest(value)
    except _CannotFingerprintError as problem:
        raise OptionError(
            f"{type(value).__name__} cannot be fingerprinted ({problem}), so a checkpoint could be used for another "
            f"object by mistake; give {type(value).__name__} a method fingerprint() that returns text which changes "
            "whenever its behaviour does, or do not use a checkpoint"
        ) from None
    return f"{_describe(value)} {digest.hex()[:16]}"


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    text = f"array of {' by '.join(map(str, shape))}" if isinstance(shape, tuple) else repr(value)
    if re.search(r" at 0x[0-9a-fA-F]+", text):
        # a memory address changes from run to run
        text = type(value).__name__
    return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 3]}..."


class _CannotFingerprintError(Exception):
    """An object without a reproducible state; the message names it and where it was found."""


class _Walker:
    """Digests of objects, each computed once; an object that contains itself is identified by its type there."""

    def __init__(self) -> None:
        self._digests: dict[int, bytes] = {}
        self._alive: list[Any] = []  # ids are unique only among objects that exist
        self._places: list[str] = []

    def digest(self, value: Any, place: str = "") -> bytes:
        """Return the digest of any object; ``place`` names it in messages."""
        if type(value) in ATOMS:
            return _join(type(value).__name__, repr(value))
        if type(value) is float:
            return _join("float", value.hex())
        known = self._digests.get(id(value))
        if known is not None:
            return known
        self._alive.append(value)
        self._digests[id(value)] = _join("itself", type(value).__qualname__)
        if place:
            self._places.append(place)
        try:
            result = _join(*self._contents(value))
        except RecursionError:
            raise _CannotFingerprintError("it is nested too deeply") from None
        if place:
            self._places.pop()
        self._digests[id(value)] = result
        return result

    def _contents(self, value: Any) -> Iterable[str | bytes]:
        """Return what identifies an object, by its type."""
        own = getattr(type(value), "fingerprint", None)
        if callable(own):
            return self._of_fingerprint(value)
        if isinstance(value, np.ndarray | np.generic):
            return self._of_array(np.asarray(value), value)
        if _is_tensor(value):
            return self._of_tensor(value)
        for kind, contents in CONTENTS:
            if isinstance(value, kind) and (type(value) is kind or kind not in CONTAINERS):
                found: Iterable[str | bytes] = contents(self, value)
                return found
        inner = _wrapped_function(value)
        if inner is not None:
            options = getattr(value, "targetoptions", None)
            return ["wrapper", *self._of_name(type(value)), self.digest(inner), self.digest(options)]
        return self._of_state(value)

    def _of_fingerprint(self, value: Any) -> Iterator[str | bytes]:
        own = value.fingerprint()
        if not isinstance(own, str | bytes):
            raise OptionError(
                f"{type(value).__name__}.fingerprint() returned {own!r}; it must return text or bytes that identify "
                "the object and its code"
            )
        yield from ("fingerprint", _module_name(type(value)), type(value).__qualname__, own)

    def _of_array(self, array: Any, value: Any) -> Iterator[str | bytes]:
        yield from ("array", type(value).__name__, repr(array.dtype.descr), repr(array.shape))
        if array.dtype.hasobject:
            yield self.digest(array.ravel().tolist())
        else:
            yield hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()

    def _of_tensor(self, tensor: Any) -> Iterator[str | bytes]:
        torch = sys.modules["torch"]
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        yield from ("tensor", str(tensor.dtype), repr(tuple(tensor.shape)), str(tensor.requires_grad))
        yield from self._of_array(flat.numpy(), flat.numpy())

    def _of_sequence(self, values: Any) -> Iterator[str | bytes]:
        yield type(values).__name__
        for i, value in enumerate(values):
            yield self.digest(value, f"[{i}]")

    def _of_set(self, values: Any) -> Iterator[str | bytes]:
        yield type(values).__name__
        yield from sorted(map(self.digest, values))

    def _of_dict(self, values: dict[Any, Any]) -> Iterator[str | bytes]:
        yield "dict"
        yield from sorted(_join(self.digest(key), self.digest(values[key], f"[{key!r}]")) for key in values)

    def _of_partial(self, value: functools.partial[Any]) -> Iterator[str | bytes]:
        yield from ("partial", self.digest(value.func), self.digest(value.args), self.digest(value.keywords))

    def _of_method(self, value: Any) -> Iterator[str | bytes]:
        yield from ("method", self.digest(value.__func__), self.digest(value.__self__))

    def _of_builtin(self, value: Any) -> Iterator[str | bytes]:
        owner = value.__self__
        yield from ("builtin", *self._of_name(value))
        if owner is not None and not isinstance(owner, types.ModuleType):
            yield self.digest(owner)

    def _of_property(self, value: Any) -> Iterator[str | bytes]:
        yield from ("property", self.digest((value.fget, value.fset, value.fdel)))

    def _of_decorated(self, value: Any) -> Iterator[str | bytes]:
        yield from (type(value).__name__, self.digest(value.__func__))

    def _of_cached_property(self, value: Any) -> Iterator[str | bytes]:
        yield from ("cached_property", self.digest(value.func))

    def _of_descriptor(self, value: Any) -> Iterator[str | bytes]:
        yield from ("descriptor", value.__name__)

    def _of_name(self, value: Any) -> Iterator[str | bytes]:
        """Identify a class or function by its name, and by the version of its package if that is installed."""
        module = _module_name(value)
        yield from (module, getattr(value, "__qualname__", repr(type(value))), package_version(module) or "")

    def _of_module(self, module: types.ModuleType) -> Iterator[str | bytes]:
        """Identify a module that is a value, so that any name of it may be used: by its source."""
        yield from ("module", module.__name__)
        version = package_version(module.__name__)
        if version is not None:
            yield version
            return
        path = getattr(module, "__file__", None)
        if path is None:
            raise self._error(f"the module {module.__name__} has no file")
        with open(path, "rb") as file:
            yield hashlib.sha256(file.read()).digest()

    def _of_function(self, function: types.FunctionType) -> Iterator[str | bytes]:
        registry = getattr(function, "registry", None)
        if registry is not None and hasattr(function, "dispatch"):  # functools.singledispatch
            yield from ("singledispatch", self.digest(dict(registry)))
            return
        yield "function"
        is_own = package_version(_module_name(function)) is None
        if is_own:
            yield from self._of_code(function.__code__)
            yield self.digest(function.__defaults__, f"a default of {function.__qualname__}")
            yield self.digest(function.__kwdefaults__, f"a default of {function.__qualname__}")
            yield self.digest({key: value for key, value in vars(function).items() if key != "__wrapped__"})
        else:
            yield from self._of_name(function)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            # a function of a package may close over one of the user's, as decorators do
            try:
                yield self.digest(cell.cell_contents, f"{name} in {function.__qualname__}")
            except ValueError:
                yield "empty cell"
        if is_own:
            yield from self._of_globals(function)

    def _of_globals(self, function: types.FunctionType) -> Iterator[str | bytes]:
        """Identify what the code of a function finds by name in its module, and in modules that it imports."""
        names = sorted(set(_names_in(function.__code__, "GLOBAL", "NAME")))
        attributes = set(_names_in(function.__code__, "ATTR", "METHOD", "IMPORT_FROM"))
        for name in names:
            if name in function.__globals__:
                place = f"{name}, which {function.__qualname__} uses"
                yield from (name, self._digest_named(function.__globals__[name], attributes, place))
            elif not hasattr(builtins, name):
                yield f"{name} is missing"
        package = str(function.__globals__.get("__package__") or "")
        for imported in sorted(set(_imports_in(function.__code__, package))):
            yield from (imported, self._digest_named(_import_module(imported), attributes, imported))

    def _digest_named(self, value: Any, attributes: set[str], place: str) -> bytes:
        """Return the digest of a global; of a module of the user's, that of its attributes with these names."""
        if not isinstance(value, types.ModuleType):
            return self.digest(value, place)
        version = package_version(value.__name__)
        if version is not None:
            return _join("module", value.__name__, version)
        reached = sorted(attributes & set(vars(value)))
        key = (value, tuple(reached))
        if key in self._modules:
            return b"module itself"
        self._modules.add(key)
        members = (self._digest_named(vars(value)[name], attributes, f"{value.__name__}.{name}") for name in reached)
        return _join("module", value.__name__, *(part for pair in zip(reached, members, strict=True) for part in pair))

    @functools.cached_property
    def _modules(self) -> set[tuple[types.ModuleType, tuple[str, ...]]]:
        return set()

    def _of_code(self, code: types.CodeType) -> Iterator[str | bytes]:
        """Identify what code does, independent of where it is written."""
        yield from ("code", code.co_code, code.co_exceptiontable, code.co_name)
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        yield repr((counts, names))
        for constant in code.co_consts:
            yield self.digest(constant)

    def _of_class(self, kind: type) -> Iterator[str | bytes]:
        yield from ("class", *self._of_name(kind))
        if package_version(_module_name(kind)) is not None:
            return
        for base in kind.__bases__:
            yield self.digest(base)
        if type(kind) is not type:
            yield self.digest(type(kind))
        for name in sorted(set(vars(kind)) - IGNORED_ATTRIBUTES):
            yield from (name, self.digest(vars(kind)[name], f"{kind.__qualname__}.{name}"))

    def _of_state(self, value: Any) -> Iterator[str | bytes]:
        """Identify any other object by its class and by the state that copying and pickling it would use."""
        yield from ("object", self.digest(type(value)))
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced: Any = reduce(value) if reduce is not None else value.__reduce_ex__(4)
        except _CannotFingerprintError:
            raise
        except Exception as problem:
            raise self._error(f"{type(problem).__name__}: {problem}") from None
        if isinstance(reduced, str):
            yield reduced
            return
        function, arguments, state, items, pairs = (tuple(reduced) + (None,) * 3)[:5]
        yield from (self.digest(function), self.digest(arguments))
        name = type(value).__name__
        if isinstance(state, dict):
            yield from sorted(
                _join(self.digest(key), self.digest(entry, f"{name}.{key}")) for key, entry in state.items()
            )
        else:
            yield self.digest(state)
        yield self.digest(None if items is None else list(items))
        yield self.digest(None if pairs is None else dict(pairs))

    def _error(self, problem: str) -> _CannotFingerprintError:
        return _CannotFingerprintError(": ".join([*self._places[-1:], problem]))


# how each type is identified; containers of exactly this type, since subclasses have state and code of their own
CONTAINERS = (list, tuple, dict, set, frozenset)
CONTENTS: tuple[tuple[type, Callable[[_Walker, Any], Iterable[str | bytes]]], ...] = (
    (list, _Walker._of_sequence),
    (tuple, _Walker._of_sequence),
    (dict, _Walker._of_dict),
    (set, _Walker._of_set),
    (frozenset, _Walker._of_set),
    (types.FunctionType, _Walker._of_function),
    (types.CodeType, _Walker._of_code),
    (type, _Walker._of_class),
    (types.ModuleType, _Walker._of_module),
    (functools.partial, _Walker._of_partial),
    (types.MethodType, _Walker._of_method),
    (types.BuiltinFunctionType, _Walker._of_builtin),
    (property, _Walker._of_property),
    (classmethod, _Walker._of_decorated),
    (staticmethod, _Walker._of_decorated),
    (functools.cached_property, _Walker._of_cached_property),
    *((kind, _Walker._of_descriptor) for kind in DESCRIPTORS),
)


def _join(*parts: str | bytes) -> bytes:
    """Return a digest of parts and of where each ends."""
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _wrapped_function(value: Any) -> Any:
    """Return the Python function in an object that wraps one: functions compiled by Numba, and ``lru_cache``."""
    if type(value).__module__.startswith("numba."):
        inner = getattr(value, "_dispatcher", value)  # of numba.vectorize
        return getattr(inner, "py_func", None) or getattr(inner, "_pyfunc", None)
    return value.__wrapped__ if isinstance(value, functools._lru_cache_wrapper) else None


def _names_in(code: types.CodeType, *kinds: str) -> Iterator[str]:
    """Yield names that instructions of these kinds load, in nested functions too."""
    for instruction in dis.get_instructions(code):
        if isinstance(instruction.argval, str) and any(kind in instruction.opname for kind in kinds):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant, *kinds)


def _imports_in(code: types.CodeType, package: str) -> Iterator[str]:
    """Yield the absolute names of modules that a function imports when it runs."""
    before: list[Any] = [None, None]
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            # the level of a relative import and the imported names are the two constants before
            level = before[-2] if isinstance(before[-2], int) else 0
            relative = "." * level + instruction.argval
            if level == 0 or package:
                yield importlib.util.resolve_name(relative, package)
        if instruction.opname != "EXTENDED_ARG":
            before.append(instruction.argval)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _imports_in(constant, package)


def _import_module(name: str) -> Any:
    """Return a module that the user's code would import; its name if that fails, as it may be optional."""
    if package_version(name) is not None and name not in sys.modules:
        return f"{name} {package_version(name)}"
    try:
        return importlib.import_module(name)
    except Exception:
        return f"{name} cannot be imported"


def _module_name(value: Any) -> str:
    """Return the name of the module in which a class or function was written."""
    if isinstance(value, types.FunctionType):
        name = value.__globals__.get("__name__", "")  # __module__ may be that of a function it wraps
    else:
        name = getattr(value, "__module__", None) or getattr(getattr(value, "__self__", None), "__name__", "")
    if not isinstance(name, str) or not name:
        return "builtins"
    # the main module of a parent process has another name in its children
    return "__main__" if name == "__mp_main__" else name


@cache
def package_version(module: str) -> str | None:
    """Return what identifies the code of a module that users do not edit; None for a module of the user's own.

    >>> package_version("json"), package_version("__main__")
    ('standard library', None)
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names and top != "__main__":
        return "standard library"
    if top in ("", "__main__"):
        return None
    if top == "backcast":
        return f"backcast {source_digest()}"
    loaded = sys.modules.get(top)
    path = getattr(loaded, "__file__", None)
    if path is None and loaded is not None:
        path = next(iter(getattr(loaded, "__path__", ())), None)
    if path is None and loaded is None:
        try:
            found = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            found = None
        path = None if found is None else found.origin
    if path is None or not os.path.realpath(path).startswith(_installation_folders()):
        return None
    names = _distributions().get(top, ())
    versions = [f"{name} {metadata.version(name)}" for name in sorted(set(names))]
    return ", ".join(versions) or f"{top} {getattr(loaded, '__version__', '')}"


@cache
def _installation_folders() -> tuple[str, ...]:
    """Return the folders of installed packages; packages installed from a folder of sources are not in them."""
    paths = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    paths |= {*site.getsitepackages()} if hasattr(site, "getsitepackages") else set()
    paths |= {site.getusersitepackages()} if hasattr(site, "getusersitepackages") else set()
    return tuple(os.path.join(os.path.realpath(path), "") for path in sorted(paths))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(metadata.packages_distributions())


@cache
def source_digest() -> str:
    """Return the version of backcast with a digest of its sources, which may have been edited."""
    import backcast

    digest = hashlib.sha256()
    folder = os.path.dirname(backcast.__file__)
    for parent, _, files in sorted(os.walk(folder)):
        for name in sorted(name for name in files if name.endswith(".py")):
            with open(os.path.join(parent, name), "rb") as file:
                digest.update(f"{name} ".encode() + file.read())
    return f"{metadata.version('backcast')} {digest.hexdigest()[:12]}"
