"""Lets Megatron-Bridge be imported where only Megatron-Core and PyTorch are.

Its configuration is made of plain classes, but importing them imports every model it has, and with
them Transformer Engine and other packages that need a GPU to build. Where a module of the packages
below is missing, one stands in whose every name is an empty class: enough to define the models, of
which none is built.
The classes of the configuration, their defaults and their checks are Megatron-Bridge's own.
"""

import importlib.abc
import importlib.machinery
import sys
import types

STOOD_IN = ("transformer_engine", "transformers", "datasets", "einops", "megatron.energon", "PIL")


class _Anything(type):
    """A class that has every attribute, may be called, and decorates by leaving things as they are."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})

    def __call__(cls, *arguments, **named):
        if len(arguments) == 1 and callable(arguments[0]) and not named:
            return arguments[0]
        return super().__call__()

    def __or__(cls, _other):
        return object

    __ror__ = __or__


class _Module(types.ModuleType):
    __path__ = []
    __version__ = "2.9.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _Anything(name, (), {}))
        return getattr(self, name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, fullname, path=None, target=None):
        if any(fullname == name or fullname.startswith(name + ".") for name in STOOD_IN):
            return importlib.machinery.ModuleSpec(fullname, self)
        return None

    def create_module(self, spec):
        return _Module(spec.name)

    def exec_module(self, module):
        pass


def stand_in():
    """Before the first import of megatron.bridge."""
    sys.meta_path.append(_Finder())
