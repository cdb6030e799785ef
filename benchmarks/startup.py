"""Time to import the package and to print the help, beside a bare interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _timing import side_by_side


def main() -> None:
    python = sys.executable
    command = str(Path(python).with_name("ncgnn"))
    calls = {
        "python -c pass": [python, "-c", "pass"],
        "import ncgnn": [python, "-c", "import ncgnn"],
        "ncgnn --help": [command, "--help"],
        "ncgnn datasets": [command, "datasets"],
    }
    ways = {
        name: lambda call=call: subprocess.run(call, check=True, capture_output=True)
        for name, call in calls.items()
    }
    seconds = side_by_side(ways)
    bare = seconds["python -c pass"]
    for name, value in seconds.items():
        goal = {"import ncgnn": "under 0.3 s", "ncgnn --help": "under 0.5 s"}.get(name, "")
        print(f"{name:<16} {value:6.3f} s   {value / bare:5.1f} × a bare interpreter   {goal}")


if __name__ == "__main__":
    main()
