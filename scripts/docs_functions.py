"""For the pages: examples of docstrings as code, and functions made from a table, which griffe cannot read."""

import importlib
import inspect
import re

import griffe

MODULES = ("functional.activations",)


class Examples(griffe.Extension):
    """Examples are code: the section of that kind is called `Examples:`, and `Example:` would be a quotation."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"(?m)^Example:$", "Examples:", obj.docstring.value)


class Tables(griffe.Extension):
    """Replaces what griffe found of such functions by what they are when they are imported."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        for name in MODULES if pkg.path == "grilly" else ():
            module, made = pkg[name], importlib.import_module(f"grilly.{name}")
            for public in made.__all__:
                function = getattr(made, public)
                parameters = [
                    griffe.Parameter(
                        given.name,
                        annotation=given.annotation,
                        kind=griffe.ParameterKind.positional_or_keyword,
                        default=None if given.default is given.empty else repr(given.default),
                    )
                    for given in inspect.signature(function).parameters.values()
                ]
                found = griffe.Parameters(*parameters)
                member = griffe.Function(public, parameters=found, returns="Result", parent=module)
                member.docstring = griffe.Docstring(inspect.getdoc(function) or "", parent=member)
                module.set_member(public, member)
                # Star imports are read before.
                module.parent.set_member(public, griffe.Alias(public, member, parent=module.parent))
