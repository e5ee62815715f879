"""Maximisation of mixed-integer linear models in HiGHS, reproducibly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import highspy
import numpy as np

INF = highspy.kHighsInf
"""Value for no limit."""
EXACT = 1e-6
"""Gap at which an answer counts as the optimum.

A smaller gap would be meaningless: HiGHS itself treats a variable within this distance as whole.
"""
_FOR_SMALL = (("presolve", "off"), ("mip_heuristic_run_feasibility_jump", False))


@dataclass(frozen=True, slots=True)
class Solved:
    """Best solution found, and a bound on all solutions."""

    values: list[float]
    bound: float


@dataclass(slots=True)
class Model:
    """Model that is built column by column and row by row."""

    costs: list[float] = field(default_factory=list)
    lowers: list[float] = field(default_factory=list)
    uppers: list[float] = field(default_factory=list)
    integers: list[bool] = field(default_factory=list)
    row_lowers: list[float] = field(default_factory=list)
    row_uppers: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=lambda: [0])
    indices: list[int] = field(default_factory=list)
    entries: list[float] = field(default_factory=list)

    def column(
        self, lower: float, upper: float, *, cost: float = 0.0, integer: bool = False
    ) -> int:
        """Add a variable; return its number."""
        self.costs.append(cost)
        self.lowers.append(lower)
        self.uppers.append(upper)
        self.integers.append(integer)
        return len(self.costs) - 1

    def binary(self, cost: float = 0.0) -> int:
        """Add a variable that is 0 or 1; return its number."""
        return self.column(0.0, 1.0, cost=cost, integer=True)

    def row(self, lower: float, terms: Iterable[tuple[int, float]], upper: float) -> None:
        """Add ``lower <= sum of factor * variable <= upper``."""
        for index, factor in terms:
            self.indices.append(index)
            self.entries.append(factor)
        self.starts.append(len(self.indices))
        self.row_lowers.append(lower)
        self.row_uppers.append(upper)

    def maximise(self, gap: float, *, is_small: bool = False) -> Solved:
        """Solve until bound and solution differ by no more than the share ``gap``.

        ``is_small``: leave out the presolver and the feasibility jump. With some hundred variables
        they take longer than they save.

        The solver has one thread, one seed and no time limit, so that equal models have equal
        answers.

        Raises:
            RuntimeError: there is no solution, or the solver failed; the text names the solver's
                status.
        """
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("parallel", "off"),
            ("random_seed", 0),
            ("mip_rel_gap", gap),
            ("mip_abs_gap", 1e-9),
            *(_FOR_SMALL if is_small else ()),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(self._lp())
        solver.run()
        status = solver.getModelStatus()
        if status != highspy.HighsModelStatus.kOptimal:
            raise RuntimeError(
                f"HiGHS ended with {solver.modelStatusToString(status)!r} on a model of"
                f" {len(self.costs)} variables; the model must have a solution"
            )
        return Solved(list(solver.getSolution().col_value), solver.getInfo().mip_dual_bound)

    def _lp(self) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.costs), len(self.row_lowers)
        lp.sense_ = highspy.ObjSense.kMaximize
        lp.col_cost_ = np.array(self.costs)
        lp.col_lower_, lp.col_upper_ = np.array(self.lowers), np.array(self.uppers)
        lp.row_lower_, lp.row_upper_ = np.array(self.row_lowers), np.array(self.row_uppers)
        whole, real = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [whole if integer else real for integer in self.integers]
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self.starts)
        lp.a_matrix_.index_ = np.array(self.indices)
        lp.a_matrix_.value_ = np.array(self.entries)
        return lp
