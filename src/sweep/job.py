"""One Hydra job: a `RunSpec` becomes exactly one row, whatever happens to the run."""

import json
import os
import shutil
import time
import traceback
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from src import provenance, record, store, verdicts, vocabulary
from src.models import ModelSpec
from src.spec import RunSpec
from src.sweep import caches, gpu_place, isolate, resume
from src.sweep.limits import Watch
from src.sweep.resume import Earlier
from src.timings import ProcessTimes, Repeat

_TAIL_BYTES = 8000

_TOLD = {
    "src.bench.refusal.Unsupported": "unsupported",
    "src.bench.refusal.Excluded": "excluded",
    "src.rules.SpecError": "failed",
}
"""Exceptions of the run's process that say all there is to say, and the status of each.

With their modules: torch has an `Unsupported` of its own, for a graph break under `fullgraph`.
"""


_WORTH_ANOTHER_ATTEMPT = ("crashed", "timed_out")
"""Ends that may be the machine's fault: an exception would come again."""

_OF_A_STACK = ("width", "depth", "bias", "second_dtype", "frozen_layers", "layers_without_grad")
"""Columns that a model of any other kind leaves null."""


@dataclass(frozen=True, slots=True)
class Job:
    """What identifies one run in its sweep."""

    spec: RunSpec
    number: int
    overrides: tuple[str, ...]
    log: Path
    """File that receives the output of the run's process."""

    @property
    def torch_log(self) -> Path | None:
        """The file of torch's own log, None unless it is asked for."""
        return self.log.with_name("torch.log") if self.spec.compile.logs else None


def run(job: Job, earlier: Earlier | None = None) -> dict[str, Any]:
    """Measure in a fresh process, write the row, and return it.

    A run that crashed or timed out is started anew, `retry` times at most; its row is that of the last
    attempt, and tells how the others ended.

    Args:
        job: the run.
        earlier: the row that it left when its sweep was run before, which this one replaces.

    Ctrl-C ends the run: its row is written with status `interrupted`, then `KeyboardInterrupt`
    goes on.

    Raises:
        OSError: the row could not be written.
        KeyboardInterrupt: after the row was written.
    """
    attempts, ends = (0, []) if earlier is None else (earlier.attempts, list(earlier.ends))
    for left in range(job.spec.retry, -1, -1):
        row, interrupted = _attempt(job)
        attempts += 1
        if interrupted or left == 0 or row["status"] not in _WORTH_ANOTHER_ATTEMPT:
            break
        ends.append(resume.end(row))
    row |= {"attempts": attempts, "earlier_ends": ends}
    store.write(Path(job.spec.output_dir), row, None if earlier is None else earlier.file)
    if interrupted:
        raise KeyboardInterrupt
    return row


def _attempt(job: Job) -> tuple[dict[str, Any], bool]:
    """Measure once; return the row, and whether Ctrl-C ended it."""
    start = time.monotonic()
    row = _identity(job)
    found = _Found()
    interrupted = False
    try:
        row |= _measure(job, found)
    except KeyboardInterrupt:
        interrupted = True
        row |= _columns(found, job.spec, isolate.Ended("raised", None))[0] | {
            "status": "interrupted",
            "reason": f"{found.where(job.spec)}ended by Ctrl-C or a signal to stepsweep",
            "stage": found.stage,
            "verdict": None,
        }
    row["wall_s"] = time.monotonic() - start
    return row, interrupted


def write_lost(job: Job, status: str, reason: str, error: str | None) -> None:
    """Write the row of a run whose own process, and the one that started it, are gone.

    In a sweep that was taken up again it replaces that of an earlier attempt, unless that is good.

    Raises:
        OSError: the row could not be written.
    """
    earlier = resume.earlier(job.spec, job.number)
    if earlier is not None and earlier.good:
        return
    attempts, ends = (0, ()) if earlier is None else (earlier.attempts, earlier.ends)
    told = {"status": status, "reason": reason, "error": error or _tail(job.log)}
    row = _identity(job) | told | {"attempts": attempts + 1, "earlier_ends": list(ends)}
    store.write(Path(job.spec.output_dir), row, None if earlier is None else earlier.file)


def _identity(job: Job) -> dict[str, Any]:
    spec = job.spec
    return {
        "schema_version": record.SCHEMA_VERSION,
        "sweep_id": spec.sweep_id,
        "run_key": spec.run_key(),
        "job": job.number,
        "experiment": spec.experiment.name,
        "started_at": datetime.now(UTC),
        "overrides": list(job.overrides),
        "config": spec.to_json(),
        "stepsweep_version": provenance.stepsweep_version(),
        "stepsweep_commit": provenance.stepsweep_commit(),
        "workload": spec.workload.name,
        **_of_training(spec),
        "model": spec.model.name,
        "model_args": _model_args(spec.model),
        **{name: getattr(spec.model, name, None) for name in _OF_A_STACK},
        "dtype": spec.model.dtype,
        "param_groups": spec.model.param_groups,
        "optimizer": spec.optimizer.name,
        "optimizer_args": json.dumps(spec.optimizer.described()),
        "scheduler": spec.scheduler.name,
        "scheduler_args": json.dumps(spec.scheduler.described()),
        "lr_as_tensor": spec.lr_as_tensor,
        "lr_device": spec.lr_device,
        "compile_backend": spec.compile.backend,
        "compile_mode": spec.compile.mode,
        "compile_target": spec.compile.target,
        "compile_fullgraph": spec.compile.fullgraph,
        "compile_dynamic": spec.compile.dynamic,
        "compile_cache": spec.compile.cache,
        "device": None if spec.device == "auto" else spec.device,
        "threads": spec.threads,
        "pinned_cpus": None if spec.cpus is None else ",".join(map(str, spec.cpus)),
        "baseline": spec.measure.baseline,
        "grads": spec.measure.grads,
        "flush_cache": spec.measure.flush_cache,
        "seed": spec.seed,
        "measure": spec.measure.name,
        "gate_min_speedup": spec.gate.min_speedup,
    }


def _model_args(model: ModelSpec) -> str | None:
    described = model.described()
    return None if described is None else json.dumps(described)


def _of_training(spec: RunSpec) -> dict[str, Any]:
    """Return the axes that a training step alone has."""
    if spec.training is None:
        return {}
    return {name: value for name, value in asdict(spec.training).items() if name != "name"}


def _measure(job: Job, found: "_Found") -> dict[str, Any]:
    """Run the child with a cache of its own and return the columns that this gave."""
    spec = job.spec
    try:
        cache = caches.prepare(
            Path(spec.output_dir),
            spec.sweep_id,
            f"{spec.run_key()}-{job.number}",
            shared=_shared_cache(spec),
            probe=lambda folder: _probe_toolchain(job, folder),
        )
    except OSError as error:
        return {"status": "failed", "reason": f"compile cache: {str(error)[:300]}", "stage": "cache"}
    try:
        with gpu_place.placed(spec) as place:
            found.facts["near_cpus"] = place.near_cpus
            ended = _measure_in_processes(job, cache, place, found)
        columns, ended = _columns(found, spec, ended)
        columns |= _outcome(ended, found, job.log)
        columns |= {"toolchain_s": cache.toolchain_s, "cache_bytes": found.cache_bytes}
        if job.torch_log is not None and job.torch_log.exists():
            columns["torch_log"] = os.path.relpath(job.torch_log, spec.output_dir)
    finally:
        if cache.temporary and not spec.compile.keep_cache:
            shutil.rmtree(cache.folder, ignore_errors=True)
    return columns


def _columns(found: "_Found", spec: RunSpec, ended: isolate.Ended) -> tuple[dict[str, Any], isolate.Ended]:
    """Return the columns of all that was found; a fault in judging it is one of the run, and costs no row."""
    try:
        return found.columns(spec), ended
    except Exception as error:  # our own fault: the traceback goes into the row
        reason = f"judging the times: {type(error).__name__}: {error}"
        return dict(found.facts), isolate.Ended("raised", reason, traceback.format_exc())


def _shared_cache(spec: RunSpec) -> str | None:
    """Return the name of the warm cache of a run, None for a cold one.

    torch 2.11 takes a cached graph for one that it is not. Compiled for gradients that may lie elsewhere and
    found by a run whose gradients stay in place, it copies what needs no copy; compiled under autocast to
    bfloat16 and found under float16, it computes in bfloat16 (pytorch#181564, mended in 2.13).
    """
    if spec.compile.cache != "warm":
        return None
    grads = [] if spec.measure.grads == "fresh" else [f"{spec.measure.grads}-grads"]
    amp = [] if spec.training is None or spec.training.amp == "none" else [spec.training.amp]
    return "-".join(["warm", *grads, *amp])


def _measure_in_processes(
    job: Job, cache: caches.Cache, place: gpu_place.Place, found: "_Found"
) -> isolate.Ended:
    """Measure in one process, and again in as many as are asked for; return how the last one ended.

    They use one compile cache: what the first leaves there makes the others' compile a warm one.
    """
    spec = job.spec
    watch = Watch(spec.limits)

    began: list[float] = []

    def receive(kind: str, value: Any) -> None:
        if kind == "stage":
            watch.enter(value)
            began.append(time.monotonic())
        found.receive(kind, value)

    def call(function: str, payload: Any) -> isolate.Ended:
        began.clear()
        ended = isolate.call(
            f"src.bench.child:{function}",
            payload,
            environment=cache.environment() | place.environment | _log_environment(job),
            log=job.log,
            watch=watch,
            on_message=receive,
            cpus=place.near_cpus,
        )
        if began:
            seconds = time.monotonic() - began[0]
            found.facts["process_s"] = found.facts.get("process_s", 0.0) + seconds
        return ended

    ended = call("measure", spec)
    found.cache_bytes = cache.grown_bytes()
    if ended.how != "returned" or not spec.measure.timed:
        return ended
    for number in range(2, spec.measure.processes + 1):
        found.number = number
        facts = found.facts
        repeat = Repeat(
            spec, facts.get("eager_best"), facts.get("eager_path"), compiled_first=number % 2 == 0
        )
        ended = call("measure_again", repeat)
        if ended.how != "returned":
            return replace(ended, reason=f"{found.where(spec)}{ended.reason}")
    if spec.measure.processes == 1 and spec.measure.warm_compile and found.facts.get("graphs"):
        # Its times are there already: a fault here costs no row.
        found.warm_compile_failed = call("compile_again", spec).how != "returned"
    return ended


def _log_environment(job: Job) -> dict[str, str]:
    """Return the variable that tells torch where to log besides the run's output."""
    return {} if job.torch_log is None else {"TORCH_LOGS_OUT": str(job.torch_log)}


@dataclass
class _Found:
    """What the processes of a run have reported so far."""

    stage: str = "starting"
    facts: dict[str, Any] = field(default_factory=dict)
    processes: list[ProcessTimes] = field(default_factory=list)
    cache_bytes: int | None = None
    warm_compile_failed: bool = False
    number: int = 1
    """Of the process that runs, from 1."""

    def where(self, spec: RunSpec) -> str:
        """Return which of several processes it is, to begin a reason with."""
        return f"process {self.number} of {spec.measure.processes}: " if self.number > 1 else ""

    def receive(self, kind: str, value: Any) -> None:
        if kind == "stage":
            self.stage = value
        elif kind == "times":
            self.processes.append(value)
        elif kind == "warm":
            self.facts.setdefault("compile_warm_s", value)
        elif kind == "lease":
            self._leased(*value)
        else:
            self.facts |= value

    def _leased(self, waited: float, start: datetime | None, end: datetime | None) -> None:
        """Take what a process waited, and when it had the device alone; one may do that several times."""
        self.facts["lease_wait_s"] = self.facts.get("lease_wait_s", 0.0) + waited
        if start is not None:
            for name, at in (("timed_from", start), ("timed_until", end)):
                self.facts[name] = [*self.facts.get(name, ()), at]

    def columns(self, spec: RunSpec) -> dict[str, Any]:
        """Return the columns that all of this gives."""
        if not self.processes:
            return dict(self.facts)
        columns = self.facts | verdicts.columns(self.processes, spec, self.facts)
        if self.warm_compile_failed:
            named = {*columns["warnings"], "warm_compile_failed"}
            columns["warnings"] = [name for name in vocabulary.WARNINGS if name in named]
        return columns


def _outcome(ended: isolate.Ended, found: "_Found", log: Path) -> dict[str, Any]:
    stage, known = found.stage, found.facts.get("exclusion")
    if ended.how == "returned":
        return {"status": "ok"}
    if ended.how == "raised" and known is not None:
        reason = f"{known} (tried again: {ended.reason})"
        return {"status": "unsupported", "reason": reason, "stage": stage, "verdict": None}
    if ended.exception in _TOLD:
        # The number of a process may precede the name.
        name = ended.exception.rpartition(".")[2]
        reason = (ended.reason or "").replace(f"{name}: ", "", 1)
        return {"status": _TOLD[ended.exception], "reason": reason, "stage": stage, "verdict": None}
    status = {"raised": "failed", "too_large": "failed"}.get(ended.how, ended.how)
    return {
        "status": status,
        "reason": ended.reason,
        "stage": stage,
        "error": ended.error or _tail(log),
        # A run that did not end has no verdict, even if it got as far as timing.
        "verdict": None,
    }


def _tail(log: Path) -> str | None:
    try:
        with log.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            return file.read().decode(errors="replace") or None
    except OSError:
        return None


_needs_no_probe: set[tuple[Any, ...]] = set()
"""Devices of parameters and learning rate for which a probe has said that no C++ is compiled."""


def _probe_toolchain(job: Job, folder: Path) -> float | None:
    """Probe the compiler in `folder`; a probe that fails leaves the answer to the run itself."""
    spec = job.spec
    devices = (spec.device, spec.lr_type)
    if spec.compile.backend != "inductor" or devices in _needs_no_probe:
        return None
    told: dict[str, Any] = {}
    isolate.call(
        "src.bench.toolchain:probe",
        spec,
        environment={"TORCHINDUCTOR_CACHE_DIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton")},
        log=job.log,
        watch=Watch(spec.limits),
        on_message=told.__setitem__,
    )
    if told.get("needed") is False:
        _needs_no_probe.add(devices)
    return told.get("seconds")
