"""Golden documents in every format, and the numbers behind them."""

import io
import json
import re

import pandas as pd
import pyarrow as pa
import pytest

from src.analysis import html, latex, matrix, spreadsheet, tables, text, why
from src.analysis.facts import CELL_FACTS
from src.analysis.grid import document_of
from src.analysis.numbers import to_table
from src.analysis.summary import summarize
from tests.analysis import golden
from tests.rows import bad, best, config, explained, row, times, traced

HOSTILE = "a & b % c _ d # e { f } g ~ h ^ i \\ j $ k | l < m > [n] `o` *p* \x1b[31m é"
REASON = "1/0: self.param_groups[0]['lr'] == 0.00333  # for group in groups:  # optim/adam.py:142 in step"


def small_sweep():
    speedups = {("adam", "default"): 0.7, ("adam", "reduce-overhead"): 1.9, ("sgd", "default"): 1.0}
    rows = [
        row(optimizer=o, optimizer_args='{"lr": 0.01}', compile_mode=m, **times(240.0, 240.0 / s))
        | {"verdict": "faster" if s > 1 else "slower" if s < 1 else "no_difference"}
        for (o, m), s in speedups.items()
    ]
    rows[0] |= {"recompiles": 4, "recompile_reasons": [REASON] * 4, "warnings": ["noisy", "from_the_future"]}
    rows.append(row(optimizer="sgd", compile_mode="reduce-overhead", compile_s=0.25))
    return rows


def published():
    entry = {"label": "Adam", "eager_us": 1052.9, "compiled_us": 416.8, "recompiles": None}
    entry |= {"hardware": "A100, torch 2.3", "source": "https://example.org/tutorial"}
    text = config({"name": "tutorial", "title": "Compiled optimizers", "published": [entry]})
    after = {f"eager_after_compile_us{end}": v for end, v in (("", 865.0), ("_low", 860.0), ("_high", 870.0))}
    return [row(experiment="tutorial", config=text, **after)]


LR_CAUSE = "lr: value changed"
SCHEDULERS = [
    "none", "step", "multi_step", "constant", "linear", "exponential", "polynomial", "cosine",
    "cosine_warm_restarts", "one_cycle", "cyclic_triangular", "cyclic_exp_range", "lambda", "multiplicative",
    "reduce_on_plateau", "sequential", "chained",
]  # fmt: skip


def traces():
    """Return runs without times: one as it should be, and one of each thing that goes wrong."""
    hint = "set optimizer.lr_as_tensor=true: the learning rate is then an input of the graph"
    limit = {"verdict": "invalid", "verdict_reason": "steps ran eager: torch's recompile limit was reached"}
    return [
        traced(),
        traced(scheduler="cosine", recompiles=7, graphs=8, compiled_path="eager_fallback", hint=hint,
               eager_from_step=8, recompile_limit_hit=True, recompile_causes=[LR_CAUSE] * 7,
               recompile_summary=f"7 recompiles: 7 x {LR_CAUSE}", warnings=["fell_back_to_eager"], **limit),
        traced(optimizer="lbfgs", recompiles=0, graphs=0, compile_s=0.01, compiled_path="never_compiled"),
        traced(optimizer="sgd", scheduler="cosine", recompiles=1, graphs=2, hint=hint, parity="failed",
               parity_reason="exp_avg_sq of tensor 3 is off by 0.02", warnings=["parity_failed"],
               recompile_reasons=[REASON]),
        bad("unsupported", "SparseAdam needs sparse gradients", measure="trace", optimizer="sparse_adam"),
    ]  # fmt: skip


def paths():
    """Return timed runs of which not all ran compiled, with equal kernels and a retested exclusion."""
    code = {"code_hash": "ab12cd34ef567890"}
    return [
        row(device="cpu", gpu=None, compiled_path="compiled", **code),
        row(device="cpu", gpu=None, compiled_path="compiled", compile_mode="max-autotune", **code,
            warnings=["cpu_modes_same_code"]),
        row(device="cpu", gpu=None, compiled_path="partly", eager_ops=3, optimizer="lbfgs",
            code_hash="99", exclusion="the closure cannot be traced"),
        row(device="cpu", gpu=None, compiled_path="compiled", optimizer="rprop", compile_mode="max-autotune",
            eager_path="forloop", warnings=["eager_left_foreach"], code_hash="99"),
    ]  # fmt: skip


def recompile_matrix():
    """Return optimizers and kinds of learning rate against all schedulers."""
    rows = []
    for optimizer in ("adam", "adadelta", "sgd"):
        for scheduler in SCHEDULERS:
            changing = scheduler not in ("none", "constant")
            by_float = {"recompiles": 7, "recompile_limit_hit": True, "eager_from_step": 8, "graphs": 8,
                        "compiled_path": "eager_fallback", "recompile_causes": [LR_CAUSE] * 7}  # fmt: skip
            rows.append(traced(optimizer=optimizer, scheduler=scheduler, **(by_float if changing else {})))
            for device in ("cpu", "cuda"):
                tensor = {"lr_as_tensor": True, "lr_device": device}
                rows.append(traced(optimizer=optimizer, scheduler=scheduler, **tensor))
    rows[3] |= {"recompiles": 2, "recompile_reasons": [REASON] * 2, "recompile_limit_hit": False,
                "compiled_path": "compiled", "recompile_causes": None}  # fmt: skip
    rows[4] |= {"recompiles": None}
    rows[5] |= {"recompiles": 3, "compiled_path": "recompiling"}
    rows[7] |= {"compiled_path": "partly"}
    rows[8] |= {"parity": "failed", "parity_reason": "exp_avg of tensor 0 is off by 0.5"}
    rows[10] |= {"compiled_path": "never_compiled", "graphs": 0}
    rows.append({**rows[13], "recompiles": 1, "seed": 1})
    rows += [
        bad("unsupported", "no cuda tensor here", measure="trace", optimizer="sgd(x)", scheduler="cosine"),
        bad("failed", "RuntimeError: 3 is odd", measure="trace", optimizer="sgd(x)", scheduler="step"),
        bad("failed", "RuntimeError: 5 is odd", measure="trace", optimizer="sgd(x)", scheduler="none"),
        bad("excluded", "left out on request", measure="trace", optimizer="sgd(x)", scheduler="linear"),
    ]
    return rows


def two_modes():
    """Return a small matrix for each of two compile modes."""
    return [
        row(scheduler=s, lr_as_tensor=t, compile_mode=m, recompiles=0 if t or s == "none" else 4,
            recompile_reasons=[] if t or s == "none" else [REASON] * 4)
        for m in ("default", "max-autotune") for s in ("none", "linear") for t in (False, True)
        if (m, s, t) != ("max-autotune", "none", True)
    ]  # fmt: skip


def against_best():
    """Return each way in which the verdict and that against the best eager implementation can differ."""
    arms = [  # optimizer, verdict, eager, best, its name, compiled
        ("adam", "slower", 234.0, 83.0, "fused", 339.0),
        ("adamw", "faster", 234.0, 83.0, "fused", 150.0),
        ("nadam", "no_difference", 234.0, 200.0, "foreach", 235.0),
        ("radam", "faster", 480.0, 240.0, "foreach", 241.0),
        ("sgd", "faster", 240.0, 240.0, "foreach", 120.0),
    ]
    return [
        row(optimizer=o, verdict=v, eager_path="foreach", processes=1, process_spread=0.01,
            compile_warm_s=0.28, **times(e, c), **best(name, b, c))
        for o, v, e, b, name, c in arms
    ]  # fmt: skip


def processes():
    """Return a run over processes, one of a single process, and both methods of timing."""
    sequential = {"sequential_eager_us": 230.0, "sequential_compiled_us": 200.0, "sequential_speedup": 1.15}
    names = ["slowed_by_compiling", "clock_throttled", "in_cache"]
    told = {"eager_before_compile_us": 95.4, "throttle_reasons": ["sw_power_cap", "sw_thermal_slowdown"]}
    return [
        row(processes=5, compiled_path="partly", grads="static", pinned_cpus="0,1", **best("fused", 180.0),
            compile_warm_s=0.28, **sequential),
        row(processes=1, process_spread=0.01, optimizer="sgd", grads="static", pinned_cpus="0,1",
            compiled_path="compiled", **best("foreach", 240.0), warnings=names, **told),
    ]  # fmt: skip


MIB = 2**20


def explained_rows(device="cuda"):
    """Return rows that say why: the eager arm launches, the fused one moves memory, a small one is cached."""

    def facts(arm, us, bound, peak, **of_gpu):
        own = {"cpu_us": us, "bound": bound, "peak_bytes": peak * MIB}
        return explained(arm, us, **own, **(of_gpu if device == "cuda" else {}))

    sizes = {"eager_bytes": 600 * MIB, "state_bytes": 80 * MIB, "last_level_cache_bytes": 50 * MIB}
    machine = {"device": device, "gpu": "NVIDIA H200" if device == "cuda" else None, "eager_path": "foreach"}
    eager = facts("eager", 234.0, "launch", 160, device_us=93.5, kernels=7, host_us=210.0)
    fused = facts("eager_best", 83.0, "bandwidth", 160, device_us=72.1, kernels=2, host_us=65.0)
    rows = [
        row(**times(234.0, c), **best("fused", 83.0, c), **sizes, **machine, verdict=v, compile_mode=m)
        | eager | fused | facts("compiled", c, "launch", 200, device_us=72.0, kernels=2, host_us=c - 19)
        for m, c, v in (("default", 339.0, "slower"), ("max-autotune-no-cudagraphs", 150.0, "faster"))
    ]  # fmt: skip
    alone = {**times(240.0, 120.0), **best("foreach", 240.0, margin=0.01)}
    rows.append(row(optimizer="sgd", **alone, **machine, warnings=["in_cache"], eager_attained=1.3))
    return [*rows, bad("failed", "OOM", **{**machine, "optimizer": "lion"})]


WHYS = {"why": explained_rows(), "why_cpu": explained_rows("cpu")[:1]}

MATRICES = {"matrix": recompile_matrix(), "matrix_of_two_modes": two_modes()}

CASES = {
    "small_sweep": small_sweep(),
    "one_row": [row()],
    "few_rounds": [row(verdict="no_difference", warnings=["too_few_rounds"], **dict.fromkeys(
        f"{n}_{end}" for n in ("eager_us", "compiled_us", "speedup") for end in ("low", "high")))],
    "failed_run": [*small_sweep(), bad("failed", "OOM: tried 2 GiB", stage="compile", optimizer="lion"),
                   bad("timed_out", "limits.run_seconds=600", seed=1)],
    "invalid_verdict": [row(), row(optimizer="sgd", verdict="invalid", verdict_reason="steps ran eager")],
    "repeats": [row(seed=i, recompiles=4 + i, **times(240.0, 120.0 + i)) for i in range(3)],
    "mixed_machines": [row(optimizer=o, torch_version=v) for o in ("adam", "sgd") for v in ("2.12", "2.13")],
    "models": [row(), row(model="tiny", width=64, depth=2, parameters=8192, tensors=2, gate="failed",
                          gate_min_speedup=2.5)],
    "hostile_names": [row(model=HOSTILE, compile_mode=m, warnings=[HOSTILE]) for m in ("default", HOSTILE)],
    "published": published(),
    "traces": traces(),
    "paths": paths(),
    "best_eager": against_best(),
    "processes": processes(),
}  # fmt: skip


def main_of(page):
    return page.split("<main>\n")[1].split("</main>")[0]


class TestGolden:
    @pytest.mark.parametrize("name", CASES)
    def test_text_of_80_columns(self, name):
        """What a terminal of 80 columns shows."""
        rendered = text.render(document_of(summarize(CASES[name])), 80)
        golden.check(f"{name}.txt", rendered)
        assert max(map(len, rendered.splitlines())) <= 80

    @pytest.mark.parametrize("name", CASES)
    def test_markdown(self, name):
        """What goes into an issue."""
        golden.check(f"{name}.md", tables.to_markdown(document_of(summarize(CASES[name]))))

    @pytest.mark.parametrize("name", MATRICES)
    def test_matrix(self, name):
        """The recompile matrix in every format; a terminal gets blocks of schedulers that fit."""
        document = matrix.matrix_of(summarize(MATRICES[name]))
        rendered = text.render(document, 80)
        golden.check(f"{name}.txt", rendered)
        golden.check(f"{name}.md", tables.to_markdown(document))
        golden.check(f"{name}.tex", latex.to_latex(document))
        golden.check(f"{name}.html", main_of(html.to_html(document)))
        golden.check(f"{name}.csv", matrix.to_csv(document))
        assert max(map(len, rendered.splitlines())) <= 80

    @pytest.mark.parametrize("name", WHYS)
    def test_why(self, name):
        """Where the time of each arm goes, in every format."""
        summary = summarize(WHYS[name])
        document = why.why_of(summary)
        rendered = text.render(document, 80)
        golden.check(f"{name}.txt", rendered)
        golden.check(f"{name}.md", tables.to_markdown(document))
        golden.check(f"{name}.tex", latex.to_latex(document))
        golden.check(f"{name}.html", main_of(html.to_html(document)))
        golden.check(f"{name}.csv", spreadsheet.to_csv(why.to_table(summary)))
        assert max(map(len, rendered.splitlines())) <= 80

    @pytest.mark.parametrize("name", CASES)
    def test_latex(self, name):
        """What goes into a paper."""
        golden.check(f"{name}.tex", latex.to_latex(document_of(summarize(CASES[name]))))

    @pytest.mark.parametrize("name", CASES)
    def test_html(self, name):
        """What a browser shows, without the style that all pages share."""
        golden.check(f"{name}.html", main_of(html.to_html(document_of(summarize(CASES[name])))))

    def test_csv(self):
        """What goes into a spreadsheet."""
        golden.check("failed_run.csv", spreadsheet.to_csv(to_table(summarize(CASES["failed_run"]))))


class TestText:
    def test_a_wide_terminal_has_one_line_for_each_cell(self):
        """Numbers and their intervals stand side by side where there is room."""
        rendered = text.render(document_of(summarize(small_sweep())), 200)
        assert re.search(r"adam +reduce-overhead +240 us ±1.0 % +126 us ±1.0 %", rendered)

    @pytest.mark.parametrize("name", ["failed_run", "best_eager", "processes"])
    @pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 100, 120, 200])
    def test_no_width_loses_anything(self, name, width):
        """Every number survives every width, in pieces at worst."""
        wide = text.render(document_of(summarize(CASES[name])), 500)
        narrow = text.render(document_of(summarize(CASES[name])), width)
        for number in (r"\d\.\d+x", r"\[\d\.\d+,", r"\d\.\d+\]", r"±\d+\.\d", r"\d+ [um]?s\b"):
            assert set(re.findall(number, wide)) == set(re.findall(number, narrow))
        assert "…" not in narrow

    @pytest.mark.parametrize("width", [40, 50, 60, 70, 80])
    def test_a_table_that_is_too_wide_is_dealt_out_over_tables_that_fit(self, width):
        """Each line of each of them has its label, and no line is wider than the terminal."""
        rendered = text.render(document_of(summarize(CASES["processes"])), width)
        tables_of_cells = rendered.split("Geomean")[0]
        adams, sgds = (re.findall(rf"^{name}\b", tables_of_cells, re.M) for name in ("adam", "sgd"))
        assert len(adams) == len(sgds) >= 2
        assert max(map(len, rendered.splitlines())) <= width

    def test_labels_stand_beside_the_numbers_where_that_takes_no_more_tables(self):
        """At 80 columns; at 60 they would take one more, and stand above the numbers."""
        document = document_of(summarize(CASES["processes"]))
        for width, beside in ((80, True), (60, False)):
            tables_of_cells = text.render(document, width).split("Geomean")[0].splitlines()
            assert any(line.startswith("optimizer  ") for line in tables_of_cells) == beside
            assert ("adam" in tables_of_cells) != beside

    @pytest.mark.parametrize("width", [40, 60, 80, 200])
    def test_labels_that_lines_share_stand_above_them_once(self, width):
        """The arms of a cell belong to one head; in every table where they are several."""
        rendered = text.render(why.why_of(summarize(WHYS["why"])), width).split("Where the time")[1]
        assert rendered.count("adam, default\n") == rendered.count("optimizer, mode\n")
        assert rendered.count("eager (foreach)") == 2 * rendered.count("optimizer, mode\n")

    def test_ascii_is_ascii(self):
        """A terminal without Unicode gets no question marks and no crash."""
        rendered = text.render(document_of(summarize(CASES["hostile_names"])), 80, unicode=False)
        assert rendered.isascii()
        assert "+-1.0 %" in rendered

    def test_escape_sequences_are_shown(self):
        """A name cannot steer the terminal."""
        assert "\x1b" not in text.render(document_of(summarize(CASES["hostile_names"])), 80)

    def test_an_address_is_never_cut(self):
        """A link too long for the terminal stays a link."""
        assert "https://example.org/tutorial" in text.render(document_of(summarize(CASES["published"])), 22)

    def test_filters_are_named(self):
        """A table of some rows says so."""
        assert "Only rows with optimizer=adam." in text.render(
            document_of(summarize([row()]), ["optimizer=adam"]), 80
        )


class TestToMarkdown:
    def test_a_pipe_in_a_name_makes_no_column(self):
        """Every line of a table has the same number of bare pipes."""
        markdown = tables.to_markdown(document_of(summarize(CASES["hostile_names"])))
        counts = [
            [len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()]
            for block in markdown.split("\n\n")
            if block.startswith("|")
        ]
        assert counts
        assert all(len(set(block)) == 1 for block in counts)


class TestToTable:
    def test_numbers_stay_numbers(self):
        """One row for each cell, unit in the name, null where there is none."""
        table = to_table(summarize(CASES["failed_run"]))
        lion = next(r for r in table.to_pylist() if r["optimizer"] == "lion")
        assert table.schema.field("eager_us").type == pa.float64()
        assert table.schema.field("break_even_steps_high").type == pa.float64()
        assert (lion["eager_us"], lion["recompiles_low"], lion["outcome"]) == (None, None, "failed")
        assert set(CELL_FACTS) <= set(table.column_names)

    def test_what_explains_a_time_is_in_it(self):
        """Nulls stay nulls, and what an arm lacks is null beside one that has it."""
        (line,) = to_table(summarize(WHYS["why_cpu"])).to_pylist()
        assert (line["eager_best"], line["verdict_vs_best"]) == ("fused", "slower")
        assert (line["eager_best_bound"], line["eager_kernels"], line["step_bytes"]) == (
            "bandwidth",
            None,
            293_601_280,
        )
        assert line["compiled_attained"] == pytest.approx(28 * 10_485_760 / 4450e3 / 339)

    def test_csv_holds_the_same_numbers(self):
        """CSV and Parquet agree to the last digit."""
        summary = summarize(CASES["small_sweep"])
        frame = pd.read_csv(io.StringIO(spreadsheet.to_csv(to_table(summary))))
        assert list(frame["speedup"]) == [r["speedup"] for r in to_table(summary).to_pylist()]
        assert json.loads(frame["optimizer_args"][0]) == {"lr": 0.01}
