"""Torch's Adam, without the compiler that it imports."""

from __future__ import annotations

from inspect import unwrap
from typing import Any

import torch


class EagerAdam(torch.optim.Adam):
    """Torch's Adam where nothing is compiled: the same numbers, without ``import torch._dynamo``.

    Torch wraps four of its methods for ``torch.compile``, and the wrappers import all of the
    compiler on first use, which takes as long as importing torch. These are the same methods
    without their wrappers.
    """

    add_param_group: Any = unwrap(torch.optim.Adam.add_param_group)
    zero_grad: Any = unwrap(torch.optim.Adam.zero_grad)
    state_dict: Any = unwrap(torch.optim.Adam.state_dict)
    load_state_dict: Any = unwrap(torch.optim.Adam.load_state_dict)
    step: Any = torch.no_grad()(unwrap(torch.optim.Adam.step))
