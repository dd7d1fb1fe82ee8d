"""Between numpy arrays and torch tensors."""

from typing import Any

import ml_dtypes
import numpy as np
import torch

from straightway.run.wire import Array


def tensor_of(array: Array) -> torch.Tensor:
    """A numpy array as a tensor of its own memory."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    tensor = torch.from_numpy(np.array(array, order="C"))
    # of nothing, numpy's strides are zeros, which ExecuTorch's bindings abort on
    return tensor if tensor.numel() else torch.empty(tensor.shape, dtype=tensor.dtype)


def array_of(given: Any) -> Array:
    """A tensor, or a number, as a numpy array, in the order of its dimensions."""
    tensor = torch.as_tensor(given).detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        return np.asarray(tensor.view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
    return np.asarray(tensor.numpy())
