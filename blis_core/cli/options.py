"""Click commands whose options come from a configuration class and follow the reference's rules.

The rules are those of cli.flags, which also runs simple command lines without click.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click

from blis_core import log
from blis_core.cli.flags import Flag, FlagError, FlagReader
from blis_core.cli.values import BOOL, FLOATS, TYPES
from blis_core.config import SECTIONS
from blis_core.option import OptionSpec, ValueKind, options_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem as _Item

    CompletionItem = _Item[Any]

_COLUMN = 30
"""Width of the column of flags in help."""

_METAVARS = {
    ValueKind.INT64: "INT",
    ValueKind.INT: "INT",
    ValueKind.FLOAT: "FLOAT",
    ValueKind.FLOATS: "FLOAT,...",
    ValueKind.TEXT: "TEXT",
    ValueKind.TEXTS: "TEXT",
    ValueKind.BOOL: "",
}


class ConfigOption(click.Option):
    """A click option made from an :class:`OptionSpec`; its value is None when it is not given."""

    def __init__(self, spec: OptionSpec) -> None:
        super().__init__(
            [spec.flag, spec.name],
            type=TYPES[spec.kind],
            multiple=spec.kind is ValueKind.TEXTS,
            help=spec.help,
        )
        self.spec = spec

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """The flag with the form of its value, and the explanation with the default."""
        spec = self.spec
        form = "|".join(spec.choices) if spec.choices else _METAVARS[spec.kind]
        implied = spec.implied
        if isinstance(implied, bool):
            implied = "on" if implied else "off"
        elif isinstance(implied, float):
            implied = f"{implied:g}"
        default = f" [{implied}]" if implied not in ("", ()) else ""
        return f"{spec.flag} {form}".rstrip(), spec.help + default

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Values that may follow, for the completion of a shell."""
        from click.shell_completion import CompletionItem

        from blis_core.cli.completion import candidates, starting_with

        if self.spec.kind is ValueKind.BOOL:  # takes no value, so another option follows
            return ctx.command.shell_complete(ctx, incomplete)
        names = candidates(self.spec)
        if names is None:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(name) for name in starting_with(incomplete, names)]


class PflagCommand(click.Command):
    """A click command that reads its arguments by the rules of pflag."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        settings = kwargs.setdefault("context_settings", {})
        settings.setdefault("help_option_names", ["-h", "--help"])
        super().__init__(*args, **kwargs)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Translate ``args`` into an equivalent form without ambiguity and let click read that."""
        options = _options(self.get_params(ctx))
        reader = FlagReader({name: _flag(name, option) for name, option in options.items()})
        try:
            reader.read(args)
        except FlagError as error:
            if not ctx.resilient_parsing:  # shell completion sees half-typed lines
                raise click.UsageError(str(error), ctx) from None
        plain: list[str] = []
        for name, texts in reader.given.items():
            plain += _canonical(name, texts, options[name])
        if any(isinstance(param, click.Argument) for param in self.params):
            plain += ["--", *reader.arguments]
        rest = super().parse_args(ctx, plain)
        self._warn_of_surplus(ctx, reader.arguments)
        return rest

    def _warn_of_surplus(self, ctx: click.Context, words: list[str]) -> None:
        """Words that belong to no flag are ignored, as by the reference, but not in silence."""
        takes = any(isinstance(param, click.Argument) for param in self.params)
        if words and not takes and not ctx.resilient_parsing:
            log.warning(
                f"ignored, since no option takes it: {' '.join(words)} (a switch takes its value"
                " behind an equals sign, as in --flag=false)"
            )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under the headings of their sections, other ones last."""
        sections: dict[str, list[tuple[str, str]]] = {heading: [] for heading in SECTIONS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                heading = param.spec.section if isinstance(param, ConfigOption) else "Options"
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    # Padded to the same width, so that the explanations of all sections align.
                    formatter.write_dl([(f"{flag:<{_COLUMN}}", text) for flag, text in records])


def _options(params: Sequence[click.Parameter]) -> dict[str, click.Option]:
    """The options among ``params``, by every name that they have."""
    return {
        name: param
        for param in params
        if isinstance(param, click.Option)
        for name in (*param.opts, *param.secondary_opts)
    }


def _flag(name: str, option: click.Option) -> Flag:
    """How the ``name`` of a click option is read."""
    value_type = BOOL if option.is_flag else option.type

    def parse(text: str) -> Any:
        try:
            return value_type.convert(text, option, None)
        except click.BadParameter as error:
            raise ValueError(error.message) from None

    main = max(option.opts, key=len) if name in option.opts else name
    collects = option.multiple or option.type is FLOATS
    return Flag(main, parse, option.is_flag or option.type is BOOL, collects)


def _canonical(name: str, texts: list[str], option: click.Option) -> list[str]:
    """The values that count, as ``--name=value`` (or ``--name`` for a click flag that is on)."""
    if option.is_flag:
        return [name for text in texts if BOOL.convert(text, option, None)]
    if option.type is FLOATS:
        return [f"{name}={','.join(texts)}"]
    return [f"{name}={text}" for text in texts]


_Config = TypeVar("_Config")


class ConfigCommand(PflagCommand, Generic[_Config]):
    """A command with one option per field of a configuration class.

    A field is an option if it was made with :func:`blis_core.option.option`. Arguments are read by
    the rules of ``blis run``.
    """

    def __init__(
        self,
        name: str,
        config_class: type[_Config],
        action: Callable[[_Config], int | None],
        help: str,
        *,
        without: Collection[str] = (),
    ) -> None:
        """``action`` gets the configuration (unchecked) that the arguments describe, and may
        return an exit code.

        ``without`` names fields that keep their defaults: the command has no option for them.
        """
        self.config_class = config_class
        self.specs = tuple(spec for spec in options_of(config_class) if spec.name not in without)
        self._action = action
        super().__init__(
            name,
            params=[ConfigOption(spec) for spec in self.specs],
            help=help,
            epilog="Brackets show what applies when an option is not given. Booleans take a value "
            "only after an equals sign, as in --flag=false.",
            callback=self._act,
        )

    def _act(self, **given: Any) -> int | None:
        return self._action(self.configure({name: v for name, v in given.items() if v is not None}))

    def configure(self, given: dict[str, Any]) -> _Config:
        """The configuration that the options make, by name; those not given are not there.

        A subclass may take other sources into account, such as a file.
        """
        return self.config_class(**given)
