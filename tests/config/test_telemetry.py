"""Optional packages do not report usage, unless the user wants it."""

import os
import subprocess
import sys

from glassformer.config.loggers import OPT_OUT_VARIABLES


def test_variables_are_set_before_any_package_is_imported() -> None:
    code = "import glassformer, os; print(*(f'{k}={v}' for k, v in os.environ.items()), sep='\\n')"
    environment = {name: value for name, value in os.environ.items() if name not in OPT_OUT_VARIABLES}
    environment |= {"WANDB_ERROR_REPORTING": "true"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    wanted = OPT_OUT_VARIABLES | {"WANDB_ERROR_REPORTING": "true"}
    assert {name: found[name] for name in wanted} == wanted
