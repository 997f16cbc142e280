"""What the trainings of a comparison will hold on a GPU, by their plans, so that several can share one."""

from collections.abc import Iterable

from glassformer.config.errors import GlassformerError, Say, silent
from glassformer.config.units import size
from glassformer.planning.build import gpu_step_bytes
from glassformer.planning.setup import from_data
from glassformer.trials.outcome import GIVEN, TRAINED, Cell
from glassformer.trials.running.folder import id_of


def takes_gpu(cell: Cell) -> bool:
    """Whether a cell computes on a GPU if it is given one."""
    return cell.kind in (TRAINED, GIVEN) and cell.settings.get("training.device", "auto") in ("auto", "cuda")


def gpu_needs(cells: Iterable[Cell], say: Say = silent) -> dict[str, int | None]:
    """The most bytes that a step of each cell holds, by the cell's name; seeds and folds of a row are alike. Cells that
    take no GPU are left out. None: of such a cell no plan is made.
    """
    by_row: dict[str, int | None] = {}
    needs = {}
    for cell in filter(takes_gpu, cells):
        if cell.row not in by_row:
            by_row[cell.row] = need = _planned_bytes(cell)
            say(f"{id_of(cell)}: " + ("a GPU of its own, without a plan" if need is None else f"{size(need)} on a GPU"))
        needs[id_of(cell)] = by_row[cell.row]
    return needs


def _planned_bytes(cell: Cell) -> int | None:
    if cell.kind != TRAINED:
        return None
    try:
        return gpu_step_bytes(from_data(dict(cell.settings), None, silent, gpus=1))
    except GlassformerError:  # where it cannot be trained either, its process says why
        return None
