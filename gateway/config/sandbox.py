"""What can be configured about the sandbox of the terminal."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from gateway.config.section import Section, off_is_a_word, refuse_booleans

Megabytes = Annotated[int, Field(ge=1, le=1_000_000), BeforeValidator(refuse_booleans)]
Memory = Annotated[int, Field(ge=64, le=1_000_000), BeforeValidator(refuse_booleans)]
Processes = Annotated[int, Field(ge=4, le=10_000), BeforeValidator(refuse_booleans)]
Seconds = Annotated[int, Field(ge=1, le=600), BeforeValidator(refuse_booleans)]
CpuSeconds = Annotated[int, Field(ge=1, le=100_000), BeforeValidator(refuse_booleans)]


class SandboxConfig(Section):
    """Where the commands of the terminal run. The limits are for each command."""

    mode: Annotated[Literal["bubblewrap", "off"], BeforeValidator(off_is_a_word)] = Field(
        default="bubblewrap",
        description="`bubblewrap` must be installed, or `terminal` refuses to run anything. `off`: no sandbox; a "
        "command may do whatever Hermes itself may, and the keys below count for nothing.",
    )
    network: bool = Field(
        default=False,
        description="Whether commands reach the network: all of it, with whatever listens on this machine.",
    )
    memory_mb: Memory = Field(
        default=1024, description="Memory of all its processes together, with what it puts into /tmp."
    )
    processes: Processes = Field(default=128, description="Processes and threads at the same time.")
    seconds: Seconds = Field(default=600, description="The longest a command may take.")
    cpu_seconds: CpuSeconds = Field(default=300, description="Computing time of each of its processes.")
    file_mb: Megabytes = Field(default=512, description="The largest file it may write.")
