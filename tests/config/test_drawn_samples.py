"""Samples that would be others when fetched again are refused before anything starts."""

from harness.contracts.workload import WorkloadSpec
from harness.run.workload_check import workload_problems

SOURCES = ("Python", "NumPy", "torch", "own", "none")


def test_samples_must_not_come_out_of_a_random_state():
    target = "tests.config.drawn_samples.Drawn"
    pool = {source: WorkloadSpec(source, target, {"source": source}) for source in SOURCES}
    problems = dict(zip(SOURCES[:-1], workload_problems(pool), strict=True))
    for library in ("Python", "NumPy", "torch"):
        place = f"workload.pool.{library}: samples() draws from the random state of {library};"
        assert str(problems[library]).startswith(place)
    assert "returns different values for the same id" in problems["own"]
    assert all("from the seed, the epoch and the id" in text for text in problems.values())


def test_where_they_may_come_out_of_the_process_s_states_the_workload_s_own_are_refused():
    target = "tests.config.drawn_samples.Drawn"
    pool = {source: WorkloadSpec(source, target, {"source": source}) for source in SOURCES}
    (problem,) = workload_problems(pool, drawn=True)
    assert str(problem).startswith("workload.pool.own: samples() returns different values")
