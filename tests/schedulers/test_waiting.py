"""The queue of waiting jobs, beside a list that is sorted anew."""

from hypothesis import given
from hypothesis import strategies as st

from systems.schedulers.common.waiting import Key, WaitingJobs

JOBS = st.integers(0, 5).map(str)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), JOBS, st.integers(0, 3), st.sampled_from([1, 2, 4])),
        st.tuples(st.just("discard"), JOBS),
        st.tuples(st.just("look"), JOBS),
    ),
    max_size=60,
)


def heads(jobs, at_most=4):
    """The best job of every demand, by demand."""
    demands = sorted({key.num_slots for key in jobs.values() if key.num_slots <= at_most})
    return [min(key for key in jobs.values() if key.num_slots == each) for each in demands]


@given(OPERATIONS)
def test_the_best_of_every_demand_is_that_of_all_its_jobs(operations):
    waiting, jobs = WaitingJobs(), {}
    for what, job_id, *numbers in operations:
        if what == "put":
            level, num_slots = numbers
            jobs[job_id] = Key(level, 0.0, 0.0, job_id, num_slots)
            waiting.put(jobs[job_id])
        elif what == "discard":
            jobs.pop(job_id, None)
            waiting.discard(job_id)
        else:  # looked up now and then, so that what is kept of it is also out of date
            assert waiting.best_of_each() == heads(jobs)
    assert waiting.best_of_each() == heads(jobs)
    assert len(waiting) == len(jobs)
    for at_most in (1, 2, 3, 4, None):
        best = min(heads(jobs, 4 if at_most is None else at_most), default=None)
        assert waiting.first(at_most) == best
