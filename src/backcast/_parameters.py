"""Parametrized: get_params and set_params of scikit-learn, for policies, reward models and evaluators."""

from __future__ import annotations

from collections import defaultdict
from inspect import signature
from typing import Any, Self

from backcast.errors import OptionError, did_you_mean


def constructor_arguments(value: object) -> dict[str, Any] | None:
    """Return the arguments that construct an equal object, read from its attributes; None if one is not stored.

    An argument that a method of the same name would hide is stored with an underscore.
    """
    attributes, arguments = vars(value), {}
    for name in signature(type(value)).parameters:
        stored = name if name in attributes else f"_{name}"
        if stored not in attributes:
            return None
        arguments[name] = attributes[stored]
    return arguments


class Parametrized:
    """Base of objects whose constructor stores its arguments, with scikit-learn's access to them.

    ``sklearn.base.clone``, parameter grids and Optuna use these two methods.
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name; if ``deep``, those of nested objects too, as ``a__b``.

        >>> from backcast.reward_models import Constant, CrossFit
        >>> CrossFit(Constant(0.5), folds=2).get_params()
        {'model': Constant(value=0.5), 'folds': 2, 'model__value': 0.5}
        """
        parameters = constructor_arguments(self)
        if parameters is None:
            name = type(self).__name__
            raise OptionError(f"{name} does not store every argument of its constructor; store each under its name")
        for name, value in list(parameters.items()) if deep else []:
            if hasattr(value, "get_params") and not isinstance(value, type):
                parameters |= {f"{name}__{key}": nested for key, nested in value.get_params().items()}
        return parameters

    def set_params(self, **parameters: Any) -> Self:
        """Set arguments of the constructor, of nested objects as ``a__b``, and return the object itself.

        It is then as if it had just been constructed: values are checked, and what a policy learned is forgotten.

        >>> from backcast.policies import LinUCB
        >>> LinUCB().set_params(alpha=0.5)
        LinUCB(alpha=0.5, ridge=1, batch_size=1)
        """
        arguments = self.get_params(deep=False)
        nested: dict[str, dict[str, Any]] = defaultdict(dict)
        for key, value in parameters.items():
            name, separator, nested_name = key.partition("__")
            if name not in arguments:
                known = f"Parameters: {', '.join(arguments)}" if arguments else "It has none"
                raise OptionError(
                    f"{type(self).__name__} has no parameter {name!r}{did_you_mean(name, arguments)} {known}"
                )
            if separator:
                nested[name][nested_name] = value
            else:
                arguments[name] = value
        for name, values in nested.items():
            if not hasattr(arguments[name], "set_params"):
                raise OptionError(
                    f"{name} of {type(self).__name__} is {arguments[name]!r}, which has no parameters of its own, so "
                    f"{name}__{next(iter(values))} cannot be set"
                )
            arguments[name].set_params(**values)
        constructed = type(self)(**arguments)
        # also of a frozen dataclass: scikit-learn's contract is that the object itself changes
        vars(self).clear()
        vars(self).update(vars(constructed))
        return self
