"""Optuna, which not everyone needs: imported here, quietly, or missed in one line."""

from glassformer.config.errors import Misuse

try:
    import optuna as optuna
except ImportError:
    raise Misuse("tune needs optuna: pip install 'glassformer[tune]'") from None

optuna.logging.set_verbosity(optuna.logging.ERROR)  # what a trial came to is said here, in one line
