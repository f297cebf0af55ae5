"""Loss, top-1 accuracy and macro-F1 of a model on one split."""

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from bench.workloads.data import Data, Split


@dataclass(frozen=True)
class Evaluation:
    loss: float
    """Mean cross-entropy, without label smoothing."""
    top1_percent: float
    macro_f1_percent: float
    images: int


def evaluate(model: nn.Module, data: Data, split: Split) -> Evaluation | None:
    """The whole split, once, in evaluation mode; None where the data has no such split.

    A class that occurs but is never predicted counts with F1 zero.
    """
    if not data.images(split):
        return None
    from sklearn.metrics import f1_score  # not needed by runs on synthetic data

    was_training = model.training
    model.eval()
    losses, predictions, targets = [], [], []
    with torch.no_grad():
        for images, expected in data.evaluation(split):
            logits = model(images)
            losses.append(cross_entropy(logits, expected, reduction="sum"))
            predictions.append(logits.argmax(1))
            targets.append(expected)
    model.train(was_training)
    predicted, true = torch.cat(predictions).cpu().numpy(), torch.cat(targets).cpu().numpy()
    return Evaluation(
        loss=float(torch.stack(losses).sum()) / len(true),
        top1_percent=100 * float((predicted == true).mean()),
        macro_f1_percent=100 * float(f1_score(true, predicted, average="macro")),
        images=len(true),
    )
