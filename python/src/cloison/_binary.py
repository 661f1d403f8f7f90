"""The programs of Cloison: where they are, and running them."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from .errors import BinaryNotFoundError, CommandError, InputError

_USAGE: Final = 2


def find(program: str) -> Path:
    """The path of a program: of the directory that `CLOISON_BIN` names (or of the program there), else the wheel's, else on `PATH`.

    Raises:
        BinaryNotFoundError: It is in none of them.
    """
    named = os.environ.get("CLOISON_BIN")
    if named:
        given = Path(named)
        place = given / program if given.is_dir() else given.with_name(program)
        if place.is_file() and os.access(place, os.X_OK):
            return place.absolute()
        raise BinaryNotFoundError(f"CLOISON_BIN is {named}, and there is no program `{program}` there")
    found = shutil.which(program, path=_commands()) or shutil.which(program)
    if found is None:
        raise BinaryNotFoundError(
            f"the program `{program}` is neither in this environment nor on PATH; install the wheel that holds it, or build it "
            "(cargo build --release --workspace --bins --features full) and name its "
            "directory in CLOISON_BIN"
        )
    return Path(found).absolute()


def _commands() -> str:
    """Where a wheel's programs are, beside this package."""
    own, user = Path(__file__), site.getusersitepackages()
    scheme = sysconfig.get_preferred_scheme("user") if own.is_relative_to(user) else sysconfig.get_default_scheme()
    return sysconfig.get_path("scripts", scheme)


def run(
    program: str,
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    timeout: float | None = None,
    accepted: Sequence[int] = (0,),
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end.

    Args:
        program: Its name.
        arguments: Its arguments.
        cwd: Its working directory.
        timeout: Seconds after which it is ended.
        accepted: Exit codes that are no error.
        environment: Variables beside those of this process.

    Raises:
        BinaryNotFoundError: It is not there.
        InputError: It did not take its input.
        CommandError: It failed, or was ended for want of time.
    """
    path = find(program)
    called = f"{program} {arguments[0]}" if arguments else program
    try:
        ended = subprocess.run(
            [str(path), *arguments],
            cwd=cwd,
            timeout=timeout,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired as error:
        said = error.stderr.decode(errors="replace") if isinstance(error.stderr, bytes) else (error.stderr or "")
        raise CommandError(f"{called} was not done within {timeout:g} s", None, said) from error
    if ended.returncode not in accepted:
        kind = InputError if ended.returncode == _USAGE else CommandError
        raise kind(
            f"{called}: {ended.stderr.strip() or f'exit code {ended.returncode}'}", ended.returncode, ended.stderr
        )
    return ended
