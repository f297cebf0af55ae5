"""Why a run's figures deserve caution: every code that a record may carry, and what it means. No
torch: records, workers and reports share it.

A code marks, it never hides: figures with one are in every table.
"""

FOREIGN_CORES = 0.3
"""Cores used by others above which CPU timings deserve a caution."""
CLOCK_SHARE = 0.05
"""How far a GPU's mean clock may stay below the highest of the same run."""
FEWEST_LAUNCHES = 5
"""Launches of mode time below which there is no verdict."""

NO_UPDATE_EXECUTED = "no_update_executed"
TRANSFER_SKIPPED = "transfer_skipped"
SYNTHETIC_DATA = "synthetic_data"
BUDGET_BROKEN = "budget_broken"
NO_WARM_UP = "no_warm_up"
RESUMED = "resumed"
FOREIGN_CPU_LOAD = "foreign_cpu_load"
THROTTLED = "throttled"
CLOCK_BELOW_TOP = "clock_below_top"
FOREIGN_GPU_PROCESS = "foreign_gpu_process"
GPU_PROCESSES_NOT_VISIBLE = "gpu_processes_not_visible"
ALLOCATOR_RETRY = "allocator_retry"
RECOMPILED = "recompiled"
AUTOTUNE = "autotune"
TOO_FEW_LAUNCHES = "too_few_launches"
NO_NOISE_FLOOR = "no_noise_floor"

MEANINGS = {
    NO_UPDATE_EXECUTED: "a dynamic method that changed nothing",
    TRANSFER_SKIPPED: "a scheduled transfer found no receiver or no donor",
    SYNTHETIC_DATA: "generated data: nothing can be learned",
    BUDGET_BROKEN: "active parameters left the method's own budget",
    NO_WARM_UP: "too short a run for warm-up steps: its first steps are in the times",
    RESUMED: "it went on from a checkpoint: its steps were timed in more than one process",
    FOREIGN_CPU_LOAD: f"other programs kept more than {FOREIGN_CORES} cores busy",
    THROTTLED: "the GPU's clock was held down for power or heat while steps were timed",
    CLOCK_BELOW_TOP: f"the GPU's mean clock stayed more than {CLOCK_SHARE:.0%} below its own top",
    FOREIGN_GPU_PROCESS: "a foreign process was on the GPU",
    GPU_PROCESSES_NOT_VISIBLE: "the driver does not show this run's process on the GPU, as in a "
    "container: foreign ones cannot be ruled out",
    ALLOCATOR_RETRY: "the GPU's memory ran short: the allocator had to give back its cache",
    RECOMPILED: "a graph was compiled while steps were timed",
    AUTOTUNE: "kernels were, or may have been, chosen by trial while steps were timed",
    TOO_FEW_LAUNCHES: "too few fresh processes for a verdict",
    NO_NOISE_FLOOR: "no difference between equals was measured: what noise does is unknown",
}


def worded(code: str) -> str:
    """The code and its meaning; a code of another version stays as it is."""
    return f"{code}: {MEANINGS[code]}" if code in MEANINGS else code
