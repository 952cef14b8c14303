"""One run measured in a Python process started for it alone, as a shell loop would do it.

Takes overrides as `src.run` does, measures with the same code, prints the facts as one JSON line.
"""

import json
import sys
from typing import Any

from hydra import compose, initialize_config_dir

from src import paths
from src.bench import child
from src.spec import from_config
from src.sweep import command_line


def main(overrides: list[str]) -> None:
    """Measure the run that `overrides` describe."""
    command_line.register()
    with initialize_config_dir(str(paths.share_root() / "conf"), version_base="1.3"):
        spec = from_config(compose("config", overrides))
    told: dict[str, Any] = {"facts": {}}

    def report(kind: str, value: Any) -> None:
        told[kind] = told["facts"] | value if kind == "facts" else value

    child.measure(spec, report)
    seconds = {"compile_s": told["facts"]["compile_s"], "timing_s": told["times"].timing.seconds}
    print(json.dumps(seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
