"""What happens in a run's processes: the stages and their order.

The first process of a run does everything; those that repeat it only compile and time.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from src.bench import heap, hints, judge, machine, optimizer, parameters, torch_private
from src.bench.stages import Report, Run
from src.lease import Lease
from src.spec import RunSpec
from src.timings import Repeat


def measure(spec: RunSpec, report: Report) -> None:
    """Measure one run and report its columns, and its times if it is timed.

    Raises:
        refusal.Unsupported, refusal.Excluded: the run cannot work here.
        SpecError: a dotted path of the configuration names nothing that can be used.
        Whatever torch raises while it builds, compiles or steps.
    """
    with _prepared(spec, report) as (run, lease):
        _measure(spec, report, run, lease)


def _measure(spec: RunSpec, report: Report, run: Run, lease: Lease) -> None:
    report("stage", "build")
    run.build_eager()
    if spec.measure.timed:
        with lease.alone():
            report("stage", "time before compiling")
            run.time_before_compiling()
            run.try_implementations()
        lease.share()
    report("stage", "trace of the compiled arm")
    run.trace_compiled()
    report("stage", "trace of the eager arm")
    run.trace_eager()
    if spec.measure.parity:
        report("stage", "parity")
        run.compare()
    run.settle()
    with lease.alone() if spec.measure.timed else nullcontext():
        if spec.measure.timed:
            report("stage", "warm-up")
            run.warm_up()
        report("stage", "watch")
        run.watch()
        if spec.measure.timed:
            report("stage", "time")
            run.time()
        run.tell(judge.judge(run.conduct()))
        run.tell({"hint": hints.hint(spec, run.columns)})
        if spec.measure.timed and spec.measure.explain:
            report("stage", "explain")
            run.explain()


def measure_again(repeat: Repeat, report: Report) -> None:
    """Compile and time a run that another process has measured, and report its times.

    Reports how long the warm compile took, too: the cache has what the first process compiled.

    Raises:
        As `measure` does.
    """
    with _prepared(repeat.spec, report, first=False) as (run, lease):
        report("stage", "build")
        if repeat.compiled_first:
            run.make_for_compiled()
        run.build_eager()
        with lease.alone():
            report("stage", "time before compiling")
            run.time_before_compiling()
        lease.share()
        run.best = repeat.eager_best
        run.columns["eager_path"] = repeat.eager_path
        report("stage", "trace of the compiled arm")
        run.trace_compiled()
        run.settle()
        with lease.alone():
            report("stage", "warm-up")
            run.warm_up()
            report("stage", "time")
            run.time()


def compile_again(spec: RunSpec, report: Report) -> None:
    """Compile a run that another process has measured, and report how long that took.

    Raises:
        As `measure` does.
    """
    with _prepared(spec, report, first=False) as (run, _):
        report("stage", "compile")
        run.compile_again()


@contextmanager
def _prepared(spec: RunSpec, report: Report, *, first: bool = True) -> Iterator[tuple[Run, Lease]]:
    """Return what runs the stages, and the lease of its device, which is shared with others."""
    report("stage", "prepare")
    machine.pin(spec.cpus)
    machine.limit_threads(spec.threads, spec.cpus)
    device = machine.resolve_device(spec.device)
    kept = device.type == "cpu" and spec.measure.keep_memory and heap.keep()
    run = Run(spec, device, report, first=first)
    if first:
        run.tell({"device": device.type, "keep_memory": kept or None} | machine.facts(spec, device))
        # Before it may be told that they are too large.
        run.tell(parameters.counts(spec.model))
        run.tell({"exclusion": machine.known_exclusion(spec, device)})
        optimizer.check(spec)
        machine.check_can_run(spec, device)
    if spec.compile.logs:
        torch_private.start_log(spec.compile.logs)
    lease = Lease(
        machine.lease_names(device),
        lambda: report("stage", "wait for the device"),
        lambda *held: report("lease", held),
    )
    try:
        lease.share()
        yield run, lease
    finally:
        lease.give_back()
