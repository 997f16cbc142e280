"""Files of a person's own that register encoders, families or views: every process that is started imports them too.

`GLASSFORMER_PLUGINS=mine.py glassformer train …` makes the command line know them; from Python, what is registered is
noted here, so that the processes of `compare`, `tune` and `check` know it as well.
"""

import importlib
import importlib.util
import os
import sys
from pathlib import Path

from glassformer.config.errors import Misuse

VARIABLE = "GLASSFORMER_PLUGINS"


def note_plugin(module: str) -> None:
    """Processes that this one starts will import the module; a script that is run itself is not run again."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None or module == "__main__" or module.startswith("glassformer."):
        return
    entries = [entry for entry in os.environ.get(VARIABLE, "").split(os.pathsep) if entry]
    if (path := str(Path(file).resolve())) not in entries:
        os.environ[VARIABLE] = os.pathsep.join([*entries, path])


def load_plugins() -> None:
    """Import the files that the environment names."""
    for entry in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(entry).resolve()
        if any(getattr(module, "__file__", None) == str(path) for module in list(sys.modules.values())):
            continue
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise Misuse(f"{VARIABLE} names {entry}, which is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise Misuse(f"{entry} ({VARIABLE}) cannot be imported: {type(error).__name__}: {error}") from error
