"""Tables: what they say, read back from Markdown, CSV, LaTeX and the terminal."""

import csv
import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from bench.reason_codes import FOREIGN_CPU_LOAD, RESUMED
from reports import formats
from reports.contenders import group
from reports.load import NO_UPDATE, load
from reports.page import make_tables
from reports.statistics import Estimate
from reports.summary import Range, summarise
from reports.table import Column, Section, Shown, Table
from reports.terminal import show
from reports.writers import csv_text, latex, latex_text, markdown
from tests.unit.reports_fixture import demo_runs, run_row, tables_of, true_top1, write_study

Cells = list[list[str]]


def tables_of_study(root: Path, runs: list[dict]) -> dict[str, Table]:
    records = load(write_study(root, runs))
    summaries = [summarise(contender, records) for contender in group(records.shown)]
    return {table.key: table for table in make_tables(records, summaries)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return tables_of_study(tmp_path_factory.mktemp("results"), demo_runs())


def from_markdown(text: str) -> Cells:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [re.split(r"(?<!\\) ?\| ?", line.strip("| ")) for line in lines]
    return [row for row in rows if not set("".join(row)) <= set(":-")]


def from_csv(table: Table) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_text(table))))


def from_latex(text: str) -> Cells:
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    return [re.split(r"(?<!\\) ?& ?", line.removesuffix(r"\\").strip()) for line in body]


# --------------------------------------------------------------------------- content


def test_the_tables_of_a_full_study(tables: dict[str, Table]) -> None:
    assert list(tables) == [
        *("step_time", "speedups", "kinds_of_step", "memory", "memory_by_cause"),
        *("memory_by_kind", "compute", "operations"),
        *("parameters", "accuracy", "transfers", "left_out", "configuration"),
    ]


def test_step_times_in_markdown_csv_and_latex_agree(tables: dict[str, Table]) -> None:
    table = tables["step_time"]
    head, *rows = from_markdown(markdown(table))
    assert head[:5] == ["method", "density", "active (of budget)", "runs", "steps"]
    assert all(re.fullmatch(r"[\d,]+ \((1\.000|0\.999)\)", row[2]) for row in rows)
    assert [row[:2] + row[3:5] for row in rows] == [
        ["dense", "1.0", "3", "540"],
        ["static", "0.1", "2", "360"],
        ["static", "0.3", "3", "540"],
        ["barter", "0.1", "2", "360"],
        [f"barter ({NO_UPDATE})", "0.1", "1", "180"],
        ["barter", "0.3", "3", "540"],
    ]
    assert rows[0][7] == "1 (reference)"
    assert rows[4][7] == "invalid"
    assert from_latex(latex(table))[1:] == rows
    for row, record in zip(rows, from_csv(table), strict=True):
        value, low, high = re.match(r"(\S+) \[(\S+), (\S+)\]$", row[5]).groups()  # type: ignore
        assert float(value) == pytest.approx(float(record["step_mean_ms"]), rel=1e-2)
        assert float(low) == pytest.approx(float(record["step_mean_ms_low"]), rel=1e-2)
        assert float(high) == pytest.approx(float(record["step_mean_ms_high"]), rel=1e-2)
        assert float(low) < float(value) < float(high)
    speedups = [record["speedup_over_dense"] for record in from_csv(table)]
    assert float(speedups[0]) == 1.0
    assert float(speedups[2]) == pytest.approx(2.0, rel=0.03)
    assert float(speedups[1]) > float(speedups[2])
    assert speedups[4] == ""


def test_every_table_says_setting_interval_and_what_is_left_out(tables: dict[str, Table]) -> None:
    for key, table in tables.items():
        if key in ("left_out", "configuration"):
            continue
        for text in (markdown(table), latex(table)):
            assert "vit-digits on Example CPU (cpu, 2 threads, torch 2.11.0), batch 64" in text
            assert "200 steps per run" in text
            assert "Left out: 1 failed of the workload's 15 runs (static 0.1 seed 2)." in text
    for key in ("step_time", "speedups", "kinds_of_step", "accuracy"):
        assert re.search("95 % intervals|Intervals: 95 %", markdown(tables[key]))
    assert "sequential processes, not interleaved blocks" in markdown(tables["speedups"])


def test_one_run_is_said_to_leave_launches_out(tables: dict[str, Table], tmp_path: Path) -> None:
    said = "only step-to-step variation within one process"
    notes = tables["step_time"].sections[0].notes
    assert [note for note in notes if said in note] == [
        "One run only, so that the interval covers only step-to-step variation within one "
        f"process, not that between launches: barter 0.1 ({NO_UPDATE})."
    ]
    single = tables_of_study(tmp_path, [run_row("dense", 1.0, 0), run_row("static", 0.3, 0)])
    for key in ("step_time", "speedups", "kinds_of_step"):
        assert f"Every row rests on one run: its interval covers {said}" in markdown(single[key])
    assert "One seed each: no interval" in markdown(single["accuracy"])
    assert f"{true_top1('static', 0.3, 0):.2f}" in from_markdown(markdown(single["accuracy"]))[2]


def test_runs_that_disagree_are_named(tmp_path: Path) -> None:
    runs = [run_row("dense", 1.0, 0), run_row("static", 0.3, 0)]
    store = write_study(tmp_path, runs)
    slow = run_row("dense", 1.0, 1)
    store.write_run(slow["run_id"], tables_of(slow, ordinary_ms=15.0))
    records = load(store)
    summaries = [summarise(contender, records) for contender in group(records.shown)]
    for table in make_tables(records, summaries)[:2]:
        said = r"single runs of dense 1\.0 \(10\.\d to 1[45]\.\d ms\) differ by more than 20%"
        assert re.search(said, markdown(table))


def test_runs_that_were_disturbed_are_counted(tables: dict[str, Table], tmp_path: Path) -> None:
    codes = {"reason_codes": [FOREIGN_CPU_LOAD, RESUMED]}
    runs = [run_row("dense", 1.0, 0, **codes), run_row("static", 0.3, 0), run_row("static", 0.3, 1)]
    disturbed = tables_of_study(tmp_path, runs)
    for key in ("step_time", "speedups", "kinds_of_step"):
        text = markdown(disturbed[key])
        assert "Disturbed by other programs: 1 of 3 runs (foreign_cpu_load). Their times" in text
        assert RESUMED not in text
        assert "Disturbed" not in markdown(tables[key])


def test_the_matrix_divides_the_columns_time_by_the_rows(tables: dict[str, Table]) -> None:
    head, *rows = from_markdown(markdown(tables["speedups"]))
    names = ["dense 1.0", "static 0.1", "static 0.3", "barter 0.1", "barter 0.3"]
    assert head == ["row over column", *names]
    assert [row[0] for row in rows] == names
    cell = {(row[0], name): text for row in rows for name, text in zip(names, row[1:], strict=True)}
    assert cell["dense 1.0", "dense 1.0"] == "1"
    assert float(cell["static 0.3", "dense 1.0"].split()[0]) == pytest.approx(2.0, rel=0.03)
    assert float(cell["dense 1.0", "static 0.3"].split()[0]) == pytest.approx(0.5, rel=0.03)
    records = from_csv(tables["speedups"])
    assert len(records) == 5 * 4
    (one,) = [
        r
        for r in records
        if (r["method"], r["density"], r["over_method"]) == ("static", "0.3", "dense")
    ]
    assert float(one["speedup"]) == pytest.approx(2.0, rel=0.03)
    assert float(one["speedup_low"]) < float(one["speedup"]) < float(one["speedup_high"])
    assert (one["runs"], one["over_runs"], one["over_steps"]) == ("3", "3", "540")
    assert (one["workload"], one["device_name"]) == ("vit-digits", "Example CPU")


def test_memory_is_reduced_against_dense(tables: dict[str, Table], tmp_path: Path) -> None:
    rows = from_markdown(markdown(tables["memory"]))[1:]
    assert rows[0][4:] == ["64.00", "reference", "accounted"]
    assert rows[2][4:] == ["30.40", "52.5", "accounted"]  # 0.25 + 0.75 * 0.3 of dense
    more = run_row("static", 0.3, 1, peak_allocated_bytes=32 * 2**20)
    runs = [run_row("dense", 1.0, 0), run_row("static", 0.3, 0), more]
    other = run_row("barter", 0.3, 0, memory_source="allocator", peak_reserved_bytes=2**30)
    rows = from_markdown(markdown(tables_of_study(tmp_path, [*runs, other])["memory"]))[1:]
    assert rows[1][4:6] == ["30.40 to 32.00", "50.0"]
    assert rows[2][4:] == ["30.40", "other source", "1,024", "allocator"]


def test_compute_and_parameters(tables: dict[str, Table]) -> None:
    static = from_csv(tables["compute"])[2]
    assert float(static["macs_forward_per_image"]) == 3e6
    assert float(static["macs_training_per_image"]) == 9e6
    assert float(static["macs_ideal_per_image"]) == 9e6
    assert float(static["executed_speedup"]) == pytest.approx(1 / 0.3)
    assert float(static["ideal_speedup"]) == pytest.approx(1 / 0.3)
    assert float(static["training_flops_total"]) == pytest.approx(2 * 9e6 * 200 * 64)
    row = from_markdown(markdown(tables["parameters"]))[3]
    assert row == [
        *("static", "0.3", "29,990 (1.000)", "3"),
        *("29,990", "29,990", "exact", "30,000", "0.99967", "29,990"),
    ]


def test_accuracy_and_its_differences(tables: dict[str, Table]) -> None:
    rows = from_markdown(markdown(tables["accuracy"]))[1:]
    assert rows[5][:4] == ["barter", "0.3", "29,990 (1.000)", "3"]
    assert rows[5][4].startswith("92.50 [91.01, ")
    assert rows[5][6] == "-3.00 [-3.25, -2.75]"
    assert rows[5][7] == "+0.50 [+0.25, +0.75]"
    assert rows[4][4] == "92.10"  # one seed: no interval
    barter = from_csv(tables["accuracy"])[5]
    assert float(barter["minus_dense_points"]) == pytest.approx(-3.0)
    assert float(barter["minus_static_points_low"]) == pytest.approx(0.2516, abs=1e-4)


def test_transfers_are_executed_of_scheduled(tables: dict[str, Table]) -> None:
    rows = from_markdown(markdown(tables["transfers"]))[1:]
    assert [row[:2] + row[3:9] for row in rows] == [
        ["barter", "0.1", "2", "1 of 1", "5 of 5", "3.0", "0", "6"],
        [f"barter ({NO_UPDATE})", "0.1", "1", "0 of 1", "0 of 5", "3.0", "6", "0"],
        ["barter", "0.3", "3", "1 of 1", "5 of 5", "3.0", "0", "6"],
    ]


def test_left_out_runs_are_listed_with_reasons(tables: dict[str, Table]) -> None:
    records = from_csv(tables["left_out"])
    assert [(r["standing"], r["method"], r["seeds"], r["reason"]) for r in records] == [
        ("failed", "static", "2", "loss is not finite | step 31"),
        ("invalid", "barter", "2", NO_UPDATE),
    ]
    assert from_markdown(markdown(tables["left_out"]))[1][-1] == r"loss is not finite \| step 31"


def test_alike_cautions_share_a_row(tmp_path: Path) -> None:
    runs = [run_row("dense", 1.0, seed, reason_codes=["throttled"]) for seed in (2, 0, 1)]
    (record,) = from_csv(tables_of_study(tmp_path, runs)["left_out"])
    assert (record["standing"], record["seeds"], record["runs"]) == ("caution", "0, 1, 2", "3")


def test_synthetic_data_has_words_for_accuracy(tmp_path: Path) -> None:
    none = {"test_top1_percent": None, "test_macro_f1_percent": None, "test_images": None}
    long = {"full_schedule_steps": 105_400, "schedule_shortened": True}
    runs = [run_row("dense", 1.0, 0, synthetic_data=True, **none, **long)]
    made = tables_of_study(tmp_path, runs)
    row = from_markdown(markdown(made["accuracy"]))[1]
    assert row[4:6] == ["synthetic data", "synthetic data"]
    assert from_csv(made["accuracy"])[0]["top1_percent"] == ""
    assert "200 steps per run (schedule shortened from 105,400), synthetic data" in markdown(
        made["step_time"]
    )


def test_without_dense_the_table_says_so(tmp_path: Path) -> None:
    table = tables_of_study(tmp_path, [run_row("static", 0.3, 0)])["step_time"]
    assert "No valid dense run in this setting: no speed-up over dense." in markdown(table)
    assert from_csv(table)[0]["speedup_over_dense"] == ""


def test_the_configuration_names_every_value(tables: dict[str, Table]) -> None:
    rows = from_markdown(markdown(tables["configuration"]))[1:]
    assert ["recipe.rule", "uniform"] in rows
    assert ["seed", "0; 1; 2"] in rows


# ------------------------------------------------------------------------ formatting


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (Estimate(12.345, 11.91, 12.83), "12.3 [11.9, 12.8]"),
        (Estimate(105.94, 105.52, 106.31), "105.9 [105.5, 106.3]"),
        (Estimate(105.94, 95.2, 116.3), "106 [95, 116]"),
        (Estimate(0.019312, 0.0171, 0.0214), "0.0193 [0.0171, 0.0214]"),
        (Estimate(12345.6, 12000.0, 12700.0), "12,346 [12,000, 12,700]"),
        (Estimate(12.345), "12.3"),
        (Estimate(257.0, 1e-9, 1e12), "257 [<25.7, >2,570]"),
        (Estimate(0.0), "0"),
        (Estimate(-0.0004, -0.01, 0.009, log_scale=False), "-0.000400 [-0.010000, 0.009000]"),
    ],
)
def test_estimates_have_three_to_four_digits(estimate: Estimate, text: str) -> None:
    assert formats.estimate(estimate) == text


def test_percentages_points_and_counts() -> None:
    assert formats.percent(Estimate(98.6, 96.123, 101.2)) == "98.60 [96.12, 100.00]"
    assert formats.points(Estimate(-0.274, -0.5, 0.1)) == "-0.27 [-0.50, +0.10]"
    assert formats.integer(189_503_616) == "189,503,616"
    assert formats.millions(189_503_616) == "189.5"
    assert formats.mib(3.5 * 2**20) == "3.500"
    assert formats.spread(Range(1, 1, 1), formats.integer) == "1"
    assert formats.spread(Range(1, 3, 2), formats.integer) == "1 to 3"


def test_latex_escapes_everything_it_would_read_as_a_command() -> None:
    assert latex_text(r"50 % of a_b & {c} # $d ~ ^ \e < f") == (
        r"50 \% of a\_b \& \{c\} \# \$d \textasciitilde{} \textasciicircum{} "
        r"\textbackslash{}e \textless{} f"
    )


def odd_table() -> Table:
    columns = [Column("name", "name", text=True)]
    columns += [Column(f"v{i}", f"value {i}", formats.estimate, interval=True) for i in range(9)]
    estimates = {f"v{i}": Estimate(10.0 + i, 9.0 + i, 11.0 + i) for i in range(9)}
    row = {"name": "a|b [red]c[/red]\nd", **estimates, "v8": Shown("none yet", 7.0)}
    return Table("odd", "Odd_table", [Section("50 % & more", columns, [row])])


def test_odd_text_survives_every_format() -> None:
    table = odd_table()
    assert from_markdown(markdown(table))[1][0] == r"a\|b [red]c[/red] d"
    (record,) = from_csv(table)
    assert record["name"] == "a|b [red]c[/red]\nd"
    assert (record["v1"], record["v1_low"], record["v1_high"]) == ("11.0", "10.0", "12.0")
    assert (record["v8"], record["v8_low"]) == ("7.0", "")
    text = latex(table)
    assert r"Odd\_table: 50 \% \& more" in text
    assert text.count(r"\begin{tabular}") == text.count(r"\bottomrule") == 2  # a wide table is cut
    assert text.count("name &") == 2


@pytest.mark.parametrize("width", [40, 80, 120, 300])
def test_the_terminal_never_cuts_a_number_off(tables: dict[str, Table], width: int) -> None:
    console = Console(width=width, file=io.StringIO(), force_terminal=False)
    said: set[str] = set()
    for table in (*tables.values(), odd_table()):
        show(table, console, said)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    assert "…" not in text
    words = set(re.split(r"[\s\[\],]+", text))
    for table in (*tables.values(), odd_table()):
        for section in table.sections:
            for row in section.rows:
                for column in section.columns:
                    if column.interval:
                        numbers = re.findall(r"[+-]?\d+\.\d+", column.cell(row))
                        assert set(numbers) <= words
    assert "[red]" in text


def test_the_terminal_says_a_note_once(tables: dict[str, Table]) -> None:
    console = Console(width=300, file=io.StringIO(), force_terminal=False)
    said: set[str] = set()
    for table in tables.values():
        show(table, console, said)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("95 % intervals: hierarchical bootstrap") == 1
    assert text.count("Left out: 1 failed") == 1
