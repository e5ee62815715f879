"""Worker of an elastic job whose program is a user's script.

The script has the training loop. When it draws a batch, calls its model or updates, this module
does what ``ElasticLoop.run`` does around each step. The script sees nothing of a lost group: a step
that is lost with a worker ends without an update, and its samples are drawn again.

The membership changes only where the script draws a batch, and never between the last batch of an
epoch and the code after it. So a joining worker finds whole iterations: whatever follows
``optimizer.step()`` in the loop, for instance a scheduler's step, belongs to the same step.
"""

from __future__ import annotations

import json
import math
import runpy
import sys
import zlib
from pathlib import Path
from typing import Any

import torch

from systems.elastic.wire.order import ElasticOrder
from systems.elastic.worker.loop import ElasticLoop
from systems.elastic.worker.setup import WorkerSetup
from systems.elastic.worker.shutdown import agree_to_end, finish, leave
from systems.elastic.worker.state import Outcome
from systems.runtime.data.step_seed import EVERY_RANK, step_seed
from systems.runtime.tensors.state import hyper_parameters
from systems.runtime.wire.control import ControlClient
from systems.runtime.wire.data_order import Plan
from systems.runtime.wire.groups import GroupLost
from systems.runtime.worker.determinism import make_deterministic
from systems.runtime.worker.trainer import seed_all
from systems.script import model as script_model
from systems.script import optimizer as script_optimizer
from systems.script.carried import Carried, Snapshot
from systems.script.checks import StepChecks
from systems.script.current_run import begin
from systems.script.errors import ScriptError
from systems.script.gradients import ScriptGradients
from systems.script.program import ScriptProgram
from systems.script.script_workload import BATCH, ScriptWorkload
from systems.script.stage import Stage
from systems.script.state_comparison import CARRIED, FEED, StateComparison

RATES_PLACE = 2
"""Place among the words' losses for the checksum of a worker's hyper-parameters."""


def train(order: ElasticOrder, client: ControlClient, token: str, ordered_at: float) -> None:
    """Run the order's script as one worker, until the script ends or this worker leaves.

    Raises:
        ScriptError: the script used the calls wrongly, or ended with an exit code that is not 0.
    """
    run = ScriptRun(order, client, token, ordered_at)
    path = str(order.options["path"])
    sys.argv = [path, *order.options["arguments"]]
    sys.path.insert(0, str(Path(path).parent))
    torch.set_num_threads(order.num_threads)
    make_deterministic(torch.device("cpu"), order.num_threads)
    seed_all(order.seed, torch.device("cpu"))
    run.program.made.watch()
    run.gradients.watch()
    begin(run)
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise ScriptError(f"the script ended with {end.code!r}") from None
    run.end()


class ScriptRun:
    """A script's run in one worker process; ``api`` calls its methods."""

    def __init__(
        self, order: ElasticOrder, client: ControlClient, token: str, ordered_at: float
    ) -> None:
        """Prepare to run the script.

        Args:
            order: this worker's part.
            client: the connection to the driver.
            token: token that the workers of the job show each other.
            ordered_at: when the order came, on ``time.monotonic``.
        """
        self._order = order
        self._client = client
        self._token = token
        self._ordered_at = ordered_at
        self.program = ScriptProgram()
        self.gradients = ScriptGradients()
        self._workload: ScriptWorkload | None = None
        self._loop: ElasticLoop | None = None
        self._checks: StepChecks | None = None
        self._carried: Carried | None = None
        self._snapshot: Snapshot | None = None
        """Carried objects' state at the beginning of the present step."""
        self._is_repeated = False
        """Whether changes of carried state until the next draw are taken back."""
        self._is_lost_step = False
        """Whether the last step was lost; the next draw then undoes changes of the model."""
        self._kept_parameters: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Parameters and copies from the step's beginning; empty if they may not be changed."""
        self._comparison: StateComparison | None = None
        self._compared_generation = -1
        self._last_rates: tuple[int, int] | None = None
        """Generation of the last update, and a checksum of its hyper-parameters."""
        self.step_at_hand = 0
        """Number of the step whose batch was drawn last, from 0."""
        self._stage = Stage.BETWEEN
        self._is_noted = True
        """Whether the last committed step is logged."""
        self._plan: Plan | None = None
        self._lost: GroupLost | None = None
        self._is_first: bool | None = None
        """Whether this worker is the first, which reports the results; None before it has left."""

    # What the script asks.

    @property
    def is_training(self) -> bool:
        """True if a call of the model now computes the gradients of a step."""
        ready = (Stage.DRAWN, Stage.FORWARD, Stage.REDUCED)
        return self._stage in ready and torch.is_grad_enabled()

    @property
    def step(self) -> int:
        """Number of steps executed so far."""
        return self._loop.worker.bench.session.step if self._loop is not None else 0

    @property
    def rank(self) -> int:
        """Present rank of this worker, from 0."""
        loop = self._loop
        if loop is not None and loop.worker.membership.members:
            return loop.worker.rank
        members = self._order.members  # empty for a joiner, which is never the first
        return members.index(self._order.worker) if members else 1

    @property
    def num_workers(self) -> int:
        """Present number of workers of the job."""
        return len(self._present.worker.membership.members)

    @property
    def is_over(self) -> bool:
        """True if no step follows in any worker."""
        return self._loop is not None and self._loop.is_over

    def record(self, metrics: dict[str, float]) -> None:
        """Add metrics to the results."""
        assert self._workload is not None
        self._workload.metrics.update(metrics)

    # A step, in the order of the calls.

    def first_epoch(self) -> int:
        """Return the epoch that this worker begins with, once it can train.

        Raises:
            SystemExit: this worker has left.
        """
        loop = self._loop or self._open()
        self._advance()
        assert self._checks is not None
        self._checks.note_parameters()
        return loop.worker.bench.session.data_state.consumed // len(self.program.feed.dataset)

    def draw(self, epoch: int | None) -> Any:
        """Return this worker's next batch; None when the epoch, or all training, is over.

        Args:
            epoch: counted from 0; None: epochs do not matter.

        Raises:
            ScriptError: the epoch begins before all samples of the epochs before it were used.
            SystemExit: this worker has left.
        """
        loop = self._loop or self._open()
        assert self._carried is not None
        assert self._checks is not None
        session, num_samples = loop.worker.bench.session, len(self.program.feed.dataset)
        end = math.inf if epoch is None else (epoch + 1) * num_samples
        has_stepped = self._stage is Stage.COMMITTED
        self.end_batch(None)
        self._stage = Stage.BETWEEN
        if self._is_lost_step:
            self._is_lost_step = False
            loop.worker.bench.reduction.restore_buffers()
            for parameter, copy in self._kept_parameters:
                parameter.copy_(copy)
        if self._is_repeated:
            self._is_repeated = False
            assert self._snapshot is not None
            self._carried.restore(self._snapshot)
        if has_stepped and session.data_state.consumed >= end:
            return None  # the script's code after an epoch runs before any change of members
        self._check_parameters()
        self.gradients.see_old()
        before = session.step
        while self._advance():
            if epoch is not None and session.data_state.consumed < epoch * num_samples:
                raise ScriptError(
                    f"epoch {epoch} begins before all samples of the epochs before it were used."
                    " Either the loop has left an epoch early: give batches() fewer samples."
                    " Or the job went back to a checkpoint: choose --recovery exact, or one loop"
                    " without epochs"
                )
            if session.data_state.consumed >= end:
                # Another worker's state has come, with what its script did after this epoch.
                self._is_repeated = session.step != before
                self._snapshot = self._carried.snapshot()
                return None
            try:
                loop.begin_step()
            except GroupLost as error:
                loop.lose(error)
                continue
            self._keep()
            self._checks.note_parameters()
            self._compare()
            self.step_at_hand = session.step
            self._plan = loop.worker.trainer.draw()
            self._stage = Stage.DRAWN
            return loop.worker.trainer.fetch(self._plan)[BATCH]
        return None

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the model as all workers share it, and begin the reduction.

        Raises:
            ScriptError: the model was called for this step before, or the trained parameters have
                changed.
        """
        if self._stage is not Stage.DRAWN:
            raise ScriptError(
                "the model was called twice in one step; call it once for a batch, and other"
                " times under torch.no_grad(). To accumulate gradients over several batches, give"
                " batches() their sum as its batch_size"
            )
        loop, checks = self._present, self._checks
        assert checks is not None
        checks.check_parameters()
        reduction = loop.worker.bench.reduction
        self._stage = Stage.CALLED
        outputs = reduction.parallel(*args, **kwargs)
        self._stage = Stage.FORWARD
        reduction.weight = loop.worker.trainer.weight
        reduction.call_after_backward(self._end_backward)
        try:
            reduction.begin()
            loop.begin_words([(0, 0.0), (RATES_PLACE, float(self._told_rates))])
            loop.before_backward()
        except GroupLost as error:
            self._lost = error
        return outputs

    def _end_backward(self) -> None:
        """Finish the reduction: the script sees the workers' mean gradients after ``backward()``.

        DistributedDataParallel does the same.
        """
        if self._stage is not Stage.FORWARD:
            return
        assert self._plan is not None
        self._stage = Stage.REDUCED
        if self._lost is None:
            try:
                self._present.worker.trainer.finish(self._plan)
            except GroupLost as error:
                self._lost = error
        self.gradients.are_new(self._present.worker.bench.reduction)
        # Noise that a script adds to its gradients must be the same in all workers.
        session = self._present.worker.bench.session
        seed_all(step_seed(session.seed, session.step, EVERY_RANK), session.device)

    def zeroed(self) -> None:
        """Note that the script set gradients to zero; calls during a draw do not count."""
        if self._stage is not Stage.BETWEEN:
            self.gradients.zeroed()

    def update(self) -> None:
        """Commit the step with the gradients as they are; a lost step is drawn again instead.

        Raises:
            ScriptError: there are no gradients of this step, or a check of the script failed.
        """
        if self._stage is Stage.FORWARD:
            raise ScriptError(self._why_no_gradients())
        if self._stage is not Stage.REDUCED:
            raise ScriptError(
                "optimizer.step() without a forward pass in this step; call the model that"
                " init() returned, once for every batch, and step once"
            )
        loop = self._present
        assert self._checks is not None
        lost, self._lost = self._lost, None
        try:
            if lost is not None:
                loop.worker.bench.reduction.undo()
                raise lost
            self._check_parameters()
            self.gradients.check(loop.worker.bench.reduction, self._checks)
            if self._comparison is not None:
                comparison, self._comparison = self._comparison, None
                assert loop.worker.group is not None
                comparison.end(loop.worker.group, self.step)
            is_finite = script_optimizer.unscale(self.program.optimizer)
            rates = zlib.crc32(json.dumps(hyper_parameters(self.program.optimizer)).encode())
            losses = loop.end_step(updates=is_finite)
            rates = self._checks.part_checksum(self.step, rates)
        except GroupLost as error:
            self._stage = Stage.BETWEEN
            self._is_repeated = self._is_lost_step = True
            loop.lose(error)
        else:
            self._stage = Stage.COMMITTED
            self._is_noted = False
            self._checks.note_parameters()
            self.gradients.are_old(loop.worker.bench.reduction)
            self._check_rates(losses[RATES_PLACE])
            self._last_rates = loop.worker.generation, rates

    def end_batch(self, loss: float | None) -> None:
        """Log the step that has ended.

        Raises:
            ScriptError: there was no update in this step.
        """
        if self._stage not in (Stage.BETWEEN, Stage.COMMITTED):
            raise ScriptError(
                "a batch ended without optimizer.step(); all workers must update for every batch."
                " To accumulate gradients over several batches, give batches() their sum as its"
                " batch_size; to skip updates that are not finite, use a GradScaler"
            )
        if not self._is_noted:
            self._is_noted = True
            self._present.note((math.nan if loss is None else loss,))

    def shutdown(self) -> bool:
        """End training, and return whether this is the first worker.

        Raises:
            ScriptError: other workers train on, or have another state.
            SystemExit: this worker has left before.
        """
        if self._is_first is None:
            loop = self._present
            self.end_batch(None)
            self._stage = Stage.BETWEEN
            self._end_alike()
            loop.worker.outcome = loop.worker.outcome or Outcome.FINISHED
            self._is_first = leave(loop.worker, loop.worker.outcome)
            script_model.own_buffers(self.program.model)
            self.program.made.is_closed = False
        return self._is_first

    def end(self) -> None:
        """End training after the script has ended; the first worker reports the results."""
        if self.shutdown():
            worker = self._present.worker
            finish(worker, *worker.bench.report.records.results())

    @property
    def _present(self) -> ElasticLoop:
        if self._loop is None:
            raise ScriptError("the script has drawn no batch from batches()")
        return self._loop

    def _advance(self) -> bool:
        loop = self._present
        if loop.advance():
            return True
        if loop.worker.outcome is not Outcome.FINISHED and self._is_first is None:
            assert loop.worker.outcome is not None
            self._is_first = leave(loop.worker, loop.worker.outcome)
            raise SystemExit(0)
        return False

    # Checks.

    def _keep(self) -> None:
        """Copy what the script may change in the present step, in case the step is lost."""
        assert self._carried is not None
        self._snapshot = self._carried.snapshot()
        if self.program.may_change_parameters:
            parameters = self.program.model.parameters()
            self._kept_parameters = [(p.detach(), p.detach().clone()) for p in parameters]

    def _compare(self) -> None:
        """Begin to compare the state with the other workers' if the membership has changed."""
        loop = self._present
        if loop.worker.generation == self._compared_generation:
            return
        self._compared_generation = loop.worker.generation
        self._comparison = None  # an unfinished comparison belongs to a lost step
        if len(loop.worker.membership.members) > 1:
            self._comparison = self._begin_comparison()

    def _begin_comparison(self) -> StateComparison:
        assert self._carried is not None
        feed = self.program.feed
        sizes = [len(feed.dataset), feed.batch_size, feed.epochs]
        values = {FEED: sizes, CARRIED: self._carried.values()}
        return StateComparison(self._present.worker.training_state, values)

    @property
    def _told_rates(self) -> int:
        """Checksum for the other workers; 0 in a generation's first step: joiners have none yet."""
        generation, rates = self._last_rates or (-1, 0)
        return rates if generation == self._present.worker.generation else 0

    def _check_rates(self, total: float) -> None:
        """Compare the hyper-parameters of the update before this one among all workers.

        Args:
            total: sum of all workers' checksums.

        Raises:
            ScriptError: the script's hyper-parameters or parameters are not the same in all
                workers.
        """
        if total != self._told_rates * len(self._present.worker.membership.members):
            raise ScriptError(
                f"in step {self.step - 1} the workers had different learning rates or other"
                " hyper-parameters, or came to different parameters. Set rates by a scheduler or by"
                " elastic.step(), and change gradients alike in all workers"
            )

    def _end_alike(self) -> None:
        """Check that all workers end here, and with the same state.

        Raises:
            ScriptError: they do not.
        """
        loop = self._present
        while loop.worker.outcome in (None, Outcome.FINISHED):
            group = loop.worker.group
            if group is None or group.size == 1:
                return
            try:
                if not loop.is_over and not agree_to_end(loop.worker):
                    raise ScriptError(
                        f"this worker's loop ended after step {self.step}, and others' go on. Leave"
                        " the loop only for a reason that all workers share, computed from the"
                        " model and from the same data in all of them"
                    )
                self._begin_comparison().end(group, self.step)
                return
            except GroupLost as error:
                if loop.is_over:  # the state is complete here, and the driver knows of the loss
                    print(f"elastic: the final comparison was not made ({error})", file=sys.stderr)
                    return
                loop.lose(error)
                loop.advance()

    def _check_parameters(self) -> None:
        """Refuse parameters that the script has changed outside updates.

        A joiner replays only updates, so it would miss such a change.

        Raises:
            ScriptError: a parameter was changed.
        """
        assert self._checks is not None
        if self.program.may_change_parameters:
            return
        if name := self._checks.changed_outside_updates():
            raise ScriptError(
                f"the script has changed {name} outside optimizer.step(), which a worker that joins"
                " would not see, and a step that is lost would not take back. Pass"
                " changes_parameters=True to init()"
            )

    def _why_no_gradients(self) -> str:
        assert self._checks is not None
        names = self._checks.without_gradient()
        if len(names) == self._checks.num_trained:
            return "optimizer.step() without a backward pass; call backward() of the loss once"
        return (
            f"{len(names)} parameters had no part in the loss of step {self.step + 1}, such as"
            f" {names[0]}; each needs one in every step. Add its sum times 0 to the loss, or freeze"
            " it before init() (requires_grad_(False))"
        )

    def _open(self) -> ElasticLoop:
        """Make this worker ready, and warm it up.

        Raises:
            ScriptError: the script has not said what it trains, or carries state that cannot be
                sent.
        """
        order = self.program.order(self._order)
        program, self._workload, self._carried = self.program.complete(order)
        self._checks = StepChecks(program.model, program.optimizer)
        before = self._carried.snapshot()
        bench = WorkerSetup(order, self._client, self._ordered_at, program)
        self._carried.restore(before)  # the model may count the passes that warm up
        self._loop = ElasticLoop(order, self._client, self._token, bench)
        return self._loop
