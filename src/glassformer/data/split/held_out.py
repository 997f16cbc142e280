"""What is asked to be held out, and how a sentence names it."""

from glassformer.config.sections import DataSettings

PURPOSES = {"validation": "for validation", "test": "for the test"}
"""The parts that can be held out, and how a sentence names them."""

REFITTED = "the validation part is learned from too (data.refit): nothing here tells how good this training is"


def asked_for(settings: DataSettings) -> tuple[dict[str, str], dict[str, float]]:
    """The parts that come from files, with these, and those that are split off, with their fractions."""
    files = {name: path for name in PURPOSES if (path := getattr(settings, name)) is not None}
    fractions = {name: getattr(settings, f"{name}_fraction") for name in PURPOSES if name not in files}
    if settings.folds is not None:
        fractions.pop("validation", None)
    return files, {name: fraction for name, fraction in fractions.items() if fraction > 0}
