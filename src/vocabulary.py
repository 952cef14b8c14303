"""The words of a row: every value that a column of names may have, and what each means.

Knows nothing of columns or files.
"""

STATUSES = ("ok", "failed", "timed_out", "crashed", "interrupted", "unsupported", "excluded")
"""ok: measured. failed: an exception. timed_out: over `limits.run_seconds`. crashed: the process
ended by a signal or an exit. interrupted: Ctrl-C. unsupported: cannot work here, with the reason.
excluded: left out on request, or by a rule that says it cannot be measured in a useful way."""

GOOD_STATUSES = ("ok", "unsupported", "excluded")
"""Statuses that do not make a sweep's exit code 1."""

VERDICTS = ("faster", "slower", "no_difference", "invalid")

CUDAGRAPH_MODES = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that replay CUDA graphs (`list_mode_options` of torch/_inductor)."""

OTHER_CAUSE = "other"
"""Cause of a recompile whose guard no words are known for: the guard itself is then worth telling."""

COMPILED_PATHS = ("compiled", "partly", "eager_fallback", "recompiling", "never_compiled")
"""compiled: every operation of the step ran in a compiled graph. partly: some ran outside.
eager_fallback: torch's recompile limit was hit and steps ran eager. recompiling: it did not stop
compiling. never_compiled: torch compiled no operation."""

EAGER_PATHS = ("forloop", "foreach", "fused")
"""Implementations of an eager step in torch.optim: tensor by tensor, multi-tensor, fused kernels."""

PARITIES = ("passed", "failed")

TIMED_ARMS = ("eager", "compiled", "eager_best", "eager_after_compile")
"""Arms that have columns of their own for times and for what explains them."""

SHARED_SPREAD = {"cuda": 0.001, "cpu": 0.01}
"""Standard deviation of the speedup of two equal arms that all processes of a run share, as seen on an
H200 and on an AMD EPYC (docs/method.md)."""

BOUNDS = ("launch", "bandwidth", "compute")
"""What limits a step. launch: the device waits for the host. bandwidth: the device moves memory all the
time. compute: the device computes all the time (an optimizer that multiplies matrices)."""

WARNINGS: dict[str, str] = {
    "too_few_rounds": "fewer rounds than measure.min_rounds, or than a 95 % interval needs",
    "not_converged": "measure.max_seconds ended the timing before the interval was as narrow as asked",
    "short_blocks": "blocks of an arm lasted less than half of measure.min_block_seconds",
    "noisy": "the interquartile range of the block times is above 10 % of their median",
    "drift": "the block times of an arm moved over the rounds",
    "bimodal": "the block times of an arm lie on two levels, and their median on one of them or between",
    "all_equal": "all blocks of an arm took the very same time: the clock is too coarse for them",
    "slowed_by_compiling": "the eager step was faster before anything was compiled: eager_before_compile_us",
    "recompiled_while_timing": "torch compiled while the arms were timed",
    "recompiling": "the compiled arm still compiled at the end of the warm-up",
    "fell_back_to_eager": "torch's recompile limit was reached: some steps ran eager",
    "never_compiled": "torch compiled no graph with operations: the compiled arm ran eager",
    "warm_compile_failed": "the second process, with the cache of the first, failed: its log says why",
    "cache_not_warm": "compile.cache is warm, but graphs were missing from the cache",
    "cudagraphs_skipped": "the mode asks for CUDA graphs, torch skipped them",
    "cpu_modes_same_code": "on a CPU all modes generate the same code",
    "early_steps": "the warm-up ended before measure.warm_up_steps: later steps may be slower or faster",
    "parity_failed": "the compiled arm's parameters or state differ from the eager arm's",
    "parity_unknown": "compiled and eager steps were not compared: parity_reason says why",
    "no_reference": "no float64 reference: it does not fit, or the optimizer cannot take such steps",
    "partly_compiled": "operations of the compiled arm's step ran outside its graphs",
    "eager_left_foreach": "the tensor learning rate moved the eager arm from multi-tensor to for-loop",
    "eager_compiled": "the optimizer compiles code of its own: the eager arm is not eager",
    "gradients_written": "the step writes into the gradients, which are then not those of other steps",
    "non_finite_parameters": "parameters became infinite or NaN",
    "foreign_load": "other processes used more than 5 % of the host's CPUs during the timing",
    "foreign_gpu_process": "another process used the GPU",
    "clock_throttled": "the GPU lowered its clocks: throttle_reasons",
    "clocks_moved": "the GPU's clock after the timing differs by more than 5 % from that before it",
    "governor_saves_power": "the CPU's frequency governor is not for performance: cpu_governor",
    "in_cache": "parameters, gradients and states fit into the last-level cache: floor_us bounds nothing",
}
"""Names of the doubts that a row may carry, and what each means to a reader."""

INVALIDATING = ("never_compiled", "fell_back_to_eager", "recompiling", "parity_failed")
"""Warnings that leave no compiled step to compare: the verdict is `invalid`."""
