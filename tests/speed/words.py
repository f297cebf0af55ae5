"""What `docs/performance.md` says around its tables."""

TEXT = """# Performance: goals beside what was measured

A step that does a fraction F of the dense model's multiply-accumulates cannot take much less than F
of its time. What it takes beyond that is what compactness does not shrink: norms, residual adds,
copies, launches, the host. All contenders are the paper's models in full size, executed alike:
eager, Adam in its fused implementation, synthetic batches, on a CPU. Ratios to dense are those of
schedule-weighted mean steps, with 95 % intervals; a goal is *open* where the interval holds it.

Written by `python -m tests.speed.goals report` from what two commands record on a machine that does
nothing else:

    python -m tests.speed.goals record     # --threads 2, --pad-channels 16: the other tables
    python -m tests.speed.goals profile

What is recorded are studies of mode `time` like any other (`bench report speed-vit-1-thread` shows
all of one), of a schedule of a hundredth of the steps. [timing.md](timing.md) says how steps are
timed.

{measured}
## What is done

* **Tokens of the CCT are contiguous.** Its tokenizer computes channels-last; else the residual
  stream inherits a transposed layout from the last convolution, and every norm and product pays for
  it. The same model serves dense, compact and masked contenders.
* **Scores are made of few operators.** A layer's product of activation and gradient is made once
  for both scores, and summed over tokens there and then. Absolute values, sums over a head's
  features and over samples are taken once for all layers, after backward, of tensors without
  tokens. Signed sums are complete, per sample, before their absolute value.
* **Nothing lives longer for scores.** The activation that is looked at is one that the consumer's
  weight gradient needs, and is let go when its own gradient has come: a test counts what is alive.
* **An update touches two layers.** Their tensors and moments are rebuilt, all others stay the very
  same objects: a test compares. The donor is chosen in arrays, not among thousands of tuples.
* **FFN widths in multiples of 16** are offered by `--pad-channels 16`: channels of zeros that learn
  nothing. Widths, counts and scores stay as they are, and the record of every step says what was
  padded. Off unless asked for: memory and executed MACs grow by up to 15 channels a layer, and what
  it gains depends on the machine's kernels.

## What was tried and does not help

Seen in isolation, in turns, on a machine that was not quiet: which is slower is clear, by how much
is not.

* `torch.linalg.vecdot` for the signed sum: it makes a product of its own, and the growth score
  needs one anyway. One product for both is faster.
* A vector norm for the growth score, which would save a pass: over leading dimensions it is several
  times slower than absolute values in place and a sum.
* The sums as matrix products with vectors of ones; a product written into a buffer that is kept.
* A head's sum over tokens and features at once: tokens first and features after takes half as long.

Not tried: scores and gradients in one autograd node, and a transfer written in place into tensors
whose padded width stays.

## What was left out

{left_out}
"""

NOTHING_RECORDED = "Nothing has been recorded yet.\n"

LEFT_OUT = (
    "GPUs: no figure on this page is from one.",
    "`torch.compile`, autocast and other attention backends: the goals are for eager execution.",
    "Full schedules: the kinds of step are those of a full run, weighted as in a hundredth of it,"
    " where updates are a hundred times as frequent and still less than 1 % of the steps.",
)
