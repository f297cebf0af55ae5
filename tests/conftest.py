"""For all tests: one thread, so that tiny tensors do not pay for two, and no test timed."""

import torch
from hypothesis import settings

torch.set_num_threads(1)

settings.register_profile("bench", deadline=None, max_examples=60)
settings.load_profile("bench")
