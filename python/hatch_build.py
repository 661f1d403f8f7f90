"""The wheel's platform, and the programs in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProgramsHook(BuildHookInterface):  # type: ignore[misc]
    """Puts the programs of the directory `CLOISON_WHEEL_PROGRAMS` into the wheel, as commands.

    `CLOISON_WHEEL_TAG` is the tag of their platform, such as `py3-none-manylinux_2_17_x86_64`. Without programs the wheel is for any
    platform.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the programs to what is built."""
        directory = os.environ.get("CLOISON_WHEEL_PROGRAMS")
        if self.target_name != "wheel" or version == "editable" or not directory:
            return
        programs, tag = sorted(Path(directory).iterdir()), os.environ.get("CLOISON_WHEEL_TAG")
        if not programs or not tag:
            raise ValueError(f"no program in CLOISON_WHEEL_PROGRAMS ({directory}), or no CLOISON_WHEEL_TAG")
        build_data["pure_python"] = False
        build_data["tag"] = tag
        build_data["shared_scripts"].update({str(program): program.name for program in programs})
