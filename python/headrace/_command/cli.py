"""The command line: ``headrace``, and ``python -m headrace``."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

import typer

from headrace import __version__
from headrace._command import looking, making, measuring, options, output
from headrace.errors import HeadraceError

app = typer.Typer(
    name="headrace",
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def headrace(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Pack images, look at datasets, measure how fast they load, and run programs."""
    if version:
        output.say(f"headrace {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help(), end="")  # if typer uses rich, it has already printed it
        raise typer.Exit(2)


# In the order in which --help lists them.
app.command()(making.pack)
app.command()(making.index)
app.command()(making.verify)
app.command()(looking.info)
app.command()(measuring.bench)
app.command()(measuring.doctor)
app.command()(measuring.plan)
app.command()(looking.view)


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="A Python file, or with -m a module's name.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENTS", help="The program's arguments.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="PROGRAM is a module.")] = False,
) -> None:
    """Run a Python program with Headrace's loaders instead of torch's, and list its loaders."""
    from headrace._command import running

    running.run([*(["-m"] if module else []), program, *(arguments or [])])


def main() -> None:
    """Runs the command line: a failure is one sentence on stderr and an exit status.

    The status is 0, 1 for a failure or a fault found, 2 for a wrong command line, 130 for Ctrl-C.
    If nobody reads the output any more, the status is 141, and no sentence is printed.
    """
    try:
        status = app(standalone_mode=False)
    except options.UsageError as failure:
        status = _fail(_usage(failure), 2)
    except HeadraceError as failure:
        status = _fail(_by_option(str(failure)))
    except KeyboardInterrupt:
        status = 130
    except MemoryError:
        status = _fail("memory is short")
    except OSError as failure:
        output.discard()
        where = failure.filename or "the output cannot be written"
        status = _fail(f"{where}: {failure.strerror or failure}")
    except SystemExit:  # a closed pipe, noticed while typer printed the help
        output.discard()
        status = output.SIGPIPE
    if status == 130:
        _fail("interrupted")
    sys.exit(status)


def _usage(failure: Any) -> str:
    asked = failure.ctx.command_path if failure.ctx is not None else "headrace"
    text = failure.format_message().rstrip(".")
    lacking = getattr(failure, "param", None)
    if lacking is not None and lacking.nargs == -1 and text.startswith("Missing argument"):
        # The last word was taken for the last argument, so SOURCE is missing: the error names both.
        known = [one for one in failure.ctx.command.params if one.param_type_name == "argument"]
        needed = [one.metavar for one in known if one.required]
        text = f"Missing argument: {' and '.join(needed)} are needed" if needed[1:] else text
    return f"{text}; see {asked} --help"


def _by_option(sentence: str) -> str:
    """Returns a sentence about arguments with the options that give them.

    The sentence begins with the wrong argument, ``size=0``, and may name others, ``give size=``.
    """
    name, equals, rest = sentence.partition("=")
    given = {word.partition("=")[0] for word in sys.argv[1:]}
    if equals and _option(name) in given:
        sentence = f"{_option(name)} {rest}"
    known = _options_of(sys.argv[1:])

    def said(found: re.Match[str]) -> str:
        return _option(found[1]) if _option(found[1]) in known else found[0]

    return re.sub(r"(?<= )([a-z_]+)=(?= |$)", said, sentence)


def _option(name: str) -> str:
    """The option that gives an argument."""
    return "--" + name.removeprefix("num_").replace("_", "-")


def _options_of(words: list[str]) -> set[str]:
    """The options of the command that a command line begins with."""
    commands: Any = typer.main.get_command(app)
    command = commands.commands.get(words[0]) if words else None
    return {option for one in command.params for option in one.opts} if command else set()


def _fail(sentence: str, status: int = 1) -> int:
    output.complain([f"headrace: {sentence}"])
    return status


if __name__ == "__main__":
    main()
