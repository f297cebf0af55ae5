"""The records: which tables there are, their columns, types, units and meaning. No torch here.

A reader ignores columns that it does not know; a writer fills every column (null where a
value does not apply). Rows are never left out: a run that failed is a row with a reason.
"""

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 1

OK, FAILED, SKIPPED = "ok", "failed", "skipped"
STATUSES = (OK, FAILED, SKIPPED)

CONTENDER, AGAIN = "contender", "again"
"""Roles in a launch: a contender, and the reference's second entry."""
BARE, BARE_AGAIN = "bare", "bare-again"
LOOP = BARE, BARE_AGAIN
"""Roles of the frozen loop, a gate's reference. Recorded with the first contender's blocks."""

WARM_UP = "warm_up"
COLLECTING = "collecting"
UPDATE = "update"
DENSE_GRADIENT = "dense_gradient"
RECOMPILE = "recompile"
CAPTURE = "capture"
FLAGS = (WARM_UP, COLLECTING, UPDATE, DENSE_GRADIENT, RECOMPILE, CAPTURE, "evaluation")
"""Flags of a step; a step without any is ordinary."""

MEMORY_PARTS = (
    *("parameters", "gradients", "optimizer_state", "method_state"),
    *("batch", "activations", "rest"),
)
"""What the memory of a step is for (bench.memory_parts says how a tensor is attributed)."""

EXECUTION_DEFAULTS = {
    "autocast": "none",
    "compile": False,
    "attention": "auto",
    "optimizer": "fused",
    "recompute": "none",
    "cuda_graphs": False,
}
"""Columns of how a run was executed, and what null means there: older records lack them."""


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    meaning: str

    def field(self) -> pa.Field:
        return pa.field(self.name, self.type, metadata={"meaning": self.meaning})


_TEXT, _BOOL, _INT, _REAL = pa.string(), pa.bool_(), pa.int64(), pa.float64()
_WIDTHS = pa.list_(pa.int32())
_TEXTS = pa.list_(pa.string())

_PEAK_PARTS = tuple(
    Column(f"peak_{part}_bytes", _INT, f"{part} at the accounted peak; the parts add up to it")
    for part in MEMORY_PARTS
)

RUNS = (
    Column("run_id", _TEXT, "content hash of the run's configuration"),
    Column("study", _TEXT, "name of the study"),
    Column("workload", _TEXT, "model and data"),
    Column("method", _TEXT, "sparse-training method"),
    Column("density", _REAL, "target density; 1 for dense"),
    Column("seed", _INT, "seed of initial weights, data order, augmentation and method"),
    Column("mode", _TEXT, "train, or time (blocks of steps side by side); null: train"),
    Column("total_steps", _INT, "optimizer steps of this run's schedule (T)"),
    Column("full_schedule_steps", _INT, "optimizer steps of the workload's own full schedule"),
    Column("schedule_shortened", _BOOL, "whether --steps replaced the workload's schedule"),
    Column("batch_size", _INT, "images per optimizer step"),
    Column("learning_rate", _REAL, "peak of the schedule; null: see config_json"),
    Column("start", _TEXT, "null: from scratch; finetune, continue (bench.start)"),
    Column("start_run_id", _TEXT, "run whose model (finetune) or end (continue) it started from"),
    Column("steps_before", _INT, "steps of the run that this one continues; else null"),
    Column(
        "training_macs_before",
        _REAL,
        "forward plus backward of that run, which cumulative figures include; else null",
    ),
    Column("synthetic_data", _BOOL, "whether batches were generated: nothing can be learned"),
    Column("config_json", _TEXT, "full configuration"),
    Column("environment_json", _TEXT, "everything recorded about the machine"),
    Column("device", _TEXT, "cpu, cuda or mps"),
    Column("device_name", _TEXT, "model of the processor or GPU that ran the steps"),
    Column("driver", _TEXT, "GPU driver; null without one"),
    Column("torch_version", _TEXT, "torch"),
    Column("threads", _INT, "intra-op threads"),
    Column("tf32", _BOOL, "whether TF32 was allowed in matrix products"),
    Column("autocast", _TEXT, "none, bf16 or fp16: forward pass and loss; null: none"),
    Column("compile", _BOOL, "whether torch.compile compiled the blocks; null: no"),
    Column("attention", _TEXT, "attention backend that was asked for; null: auto"),
    Column("optimizer", _TEXT, "implementation of Adam: fused, foreach, loop; null: fused"),
    Column("recompute", _TEXT, "what backward computes again: norm, gelu, norm,gelu; null: none"),
    Column("cuda_graphs", _BOOL, "whether steps were replayed from CUDA graphs; null: no"),
    Column("captures", _INT, "times that a step was recorded as CUDA graphs; null: unknown"),
    Column("recompiles", _INT, "graphs compiled after the first step; null: unknown"),
    Column("git_commit", _TEXT, "commit of the harness, with +dirty for local changes"),
    Column("started_at", _TEXT, "UTC, ISO 8601"),
    Column("resumed", _INT, "times that it went on from a checkpoint; null: unknown"),
    Column("wall_s", _REAL, "seconds from the start of the run's (last) process to its end"),
    Column("foreign_cpu_cores", _REAL, "cores that other programs used meanwhile; null: unknown"),
    Column(
        "energy_j_per_step",
        _REAL,
        "of the whole GPU, per timed step; of mode time per step of a block, unscored ones and "
        "the restoring of state included, kinds as blocks have them; null if not counted",
    ),
    Column("status", _TEXT, "ok, failed or skipped"),
    Column("reason", _TEXT, "why a run is not ok; null otherwise"),
    Column("reason_codes", _TEXTS, "why a run's figures deserve caution (bench.reason_codes)"),
    Column("bare_version", _INT, "of mode time: version of the frozen loop beside it"),
    Column("launches", _INT, "of mode time: fresh processes that timed it"),
    Column("side_by_side", _BOOL, "of mode time: contenders lived at once, or every block alone"),
    Column("stopped", _TEXT, "of mode time: target reached, time limit; null: interrupted"),
    Column("is_dynamic", _BOOL, "whether the method is meant to change its topology"),
    Column("realisation", _TEXT, "compact or masked"),
    Column("update_order", _TEXT, "how a topology update stands to the optimizer step"),
    Column("scheduled_head_transfers", _INT, "head transfers that the schedule asks for"),
    Column("scheduled_channel_transfers", _INT, "channel transfers that the schedule asks for"),
    Column("executed_head_transfers", _INT, "head transfers done"),
    Column("executed_channel_transfers", _INT, "channel transfers done"),
    Column("skipped_transfers", _INT, "scheduled transfers that found no receiver or no donor"),
    Column("executed_updates", _INT, "steps whose topology update changed something"),
    Column("budget_parameters", _INT, "parameters that the density allows, whole model"),
    Column("allowed_parameters", _INT, "the same, as the method's own rule makes of the density"),
    Column("budget_invariant", _TEXT, "how active ones stand to allowed ones, at any time"),
    Column("active_parameters", _INT, "active parameters at the end"),
    Column("active_parameters_min", _INT, "smallest number active at any update"),
    Column("active_parameters_max", _INT, "largest number active at any update"),
    Column("stored_parameters", _INT, "parameters physically stored in the exported model"),
    Column("macs_forward_per_image", _INT, "executed algorithmic multiply-accumulates, forward"),
    Column("macs_backward_per_image", _INT, "the same, backward"),
    Column("macs_recomputed_per_image", _INT, "products that a fused backward repeats"),
    Column("training_macs_total", _REAL, "forward plus backward of all steps done"),
    Column("ideal_training_macs_total", _REAL, "the same, were nothing inactive computed"),
    Column("peak_allocated_bytes", _INT, "largest over all kinds of step"),
    Column("peak_reserved_bytes", _INT, "the same, reserved by the allocator; null on CPU"),
    Column("memory_source", _TEXT, "accounted (untimed pass over tensors) or allocator"),
    *_PEAK_PARTS,
    Column("selected_step", _INT, "step of the validation-selected checkpoint"),
    Column("test_loss", _REAL, "cross-entropy on the test split, selected checkpoint"),
    Column("test_top1_percent", _REAL, "top-1 accuracy on the test split, selected checkpoint"),
    Column("test_macro_f1_percent", _REAL, "macro-F1 on the test split, selected checkpoint"),
    Column("test_images", _INT, "images in the test split"),
)

STEPS = (
    Column("run_id", _TEXT, "the run"),
    Column("step", _INT, "1-based optimizer step"),
    Column("flags", _TEXTS, "kinds of this step; empty = ordinary"),
    Column("step_ms", _REAL, "whole step: forward to end of topology update"),
    Column("forward_ms", _REAL, "forward pass and loss"),
    Column("backward_ms", _REAL, "backward pass and reading of scores"),
    Column("optimizer_ms", _REAL, "optimizer step, weight decay, clearing of gradients"),
    Column("topology_ms", _REAL, "topology update and re-imposed invariant"),
    Column("loss", _REAL, "minibatch training loss"),
    Column("learning_rate", _REAL, "learning rate of this step"),
    Column("heads_per_layer", _WIDTHS, "active heads during this step's forward pass"),
    Column("channels_per_layer", _WIDTHS, "active FFN channels, likewise"),
    Column("training_macs", _INT, "forward plus backward multiply-accumulates of the minibatch"),
    Column("ideal_training_macs", _INT, "the same, were nothing inactive computed"),
    Column("peak_allocated_bytes", _INT, "peak of this step"),
    Column("peak_reserved_bytes", _INT, "peak reserved; null on CPU"),
    Column("dispatched_operators", _INT, "ATen operators, counted at the first step of its kind"),
    Column("host_synchronisations", _INT, "times the host waits for the device, likewise"),
)

EVALS = (
    Column("run_id", _TEXT, "the run"),
    Column("step", _INT, "optimizer steps done"),
    Column("split", _TEXT, "validation or test"),
    Column("loss", _REAL, "cross-entropy"),
    Column("top1_percent", _REAL, "top-1 accuracy"),
    Column("macro_f1_percent", _REAL, "macro-averaged F1"),
    Column("images", _INT, "images evaluated"),
    Column("cumulative_training_macs", _REAL, "forward plus backward spent so far"),
)

UPDATES = (
    Column("run_id", _TEXT, "the run"),
    Column("step", _INT, "optimizer step after which it was attempted"),
    Column("unit_type", _TEXT, "head, channel or weight"),
    Column("executed", _BOOL, "whether it happened"),
    Column("skip_reason", _TEXT, "why not; null if executed"),
    Column("receiver_layer", _INT, "layer that gained a unit"),
    Column("parent_unit", _INT, "cloned unit (index before)"),
    Column("donor_layer", _INT, "layer that lost a unit"),
    Column("donor_unit", _INT, "removed unit (index before)"),
    Column("dropped", _INT, "entries or units dropped"),
    Column("grown", _INT, "entries or units grown"),
    Column("active_parameters", _INT, "active parameters after the step's updates"),
)

TELEMETRY = (
    Column("run_id", _TEXT, "the run"),
    Column("moment", _TEXT, "start or end of the run; timed: while its steps were timed"),
    Column("launch", _INT, "of mode time: number of the launch whose blocks were timed; else null"),
    Column("statistic", _TEXT, "of timed: min, mean, max, difference, union of bits; else null"),
    Column("readings", _INT, "of timed: readings behind it; null: this one"),
    Column("field", _TEXT, "what was read"),
    Column("unit", _TEXT, "its unit"),
    Column("value", _REAL, "the reading or statistic; null unless measured"),
    Column("status", _TEXT, "measured, unsupported or absent"),
)

SEGMENTS = (
    Column("run_id", _TEXT, "the run, of mode time"),
    Column("segment", _TEXT, "kind of step, or update: windows of an update and steps after it"),
    Column("share", _REAL, "steps of this kind (or updates) per step of the full schedule"),
    Column("window_steps", _INT, "steps of one update window; null for single steps"),
    Column("base", _TEXTS, "per step of a window, the segment that would stand there without it"),
    Column("final_widths", _BOOL, "whether timed at the topology after the last update"),
    Column("training_macs", _INT, "forward plus backward of one step; of windows, of the update's"),
    Column("ideal_training_macs", _INT, "the same, were nothing inactive computed"),
    Column("dispatched_operators", _INT, "ATen operators of that step"),
    Column("host_synchronisations", _INT, "times that the host waits for the device in it"),
    Column("peak_allocated_bytes", _INT, "peak of that step"),
    Column("peak_reserved_bytes", _INT, "peak reserved, saved states included; null on CPU"),
    *_PEAK_PARTS,
)

BLOCKS = (
    Column("run_id", _TEXT, "the run, of mode time"),
    Column("role", _TEXT, "contender; again: the reference's second entry (A/A); bare, bare-again"),
    Column("launch", _INT, "number of the launch (fresh processes), from 0"),
    Column("round", _INT, "round within the launch; contenders of a round are paired"),
    Column("position", _INT, "place in the round's random order, from 0"),
    Column("segment", _TEXT, "what was timed"),
    Column("step_ms", pa.list_(_REAL), "every scored step; of windows all their steps in a row"),
    Column("unscored_steps", _INT, "steps of the block that came before scored ones"),
    Column("foreign_cpu_cores", _REAL, "cores that other programs used meanwhile; null: unknown"),
    Column("reason_codes", _TEXTS, "what torch did meanwhile that makes the times doubtful"),
)

TABLES = {
    "runs": RUNS,
    "steps": STEPS,
    "evals": EVALS,
    "updates": UPDATES,
    "telemetry": TELEMETRY,
    "segments": SEGMENTS,
    "blocks": BLOCKS,
}


def arrow_schema(table: str) -> pa.Schema:
    """The table's pyarrow schema, with the schema version in its metadata (parquet footer)."""
    return pa.schema(
        [column.field() for column in TABLES[table]],
        metadata={"schema_version": str(SCHEMA_VERSION), "table": table},
    )
