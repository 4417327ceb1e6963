"""Tables of hostile tensors, like those of arrays in `values`."""

import numpy as np
import torch

from hostile.values import NO_ARRAYS, OPEN, Hostile, table


def changed(tensor, value):
    """Return a copy with another second row, or another first number in it."""
    tensor = tensor.clone()
    tensor[(1,) + (0,) * (tensor.ndim - 1)] = value
    return tensor


NO_TENSORS = {
    "nothing": lambda _: None,
    "word": NO_ARRAYS["word"],
    "number": NO_ARRAYS["number"],
    "list": lambda t: t.tolist(),
    "array": lambda t: t.numpy(),
    "objects": lambda t: t.numpy().astype(object),
    "frame": lambda t: t.numpy().astype(str),
    "complex": lambda t: t + 0.5j,
    "sparse": lambda t: t.to_sparse(),
    "sparse rows": lambda t: torch.atleast_2d(t).to_sparse_csr(),
    "meta": lambda t: t.to("meta"),
    "empty": lambda t: t[:0],
    "short": lambda t: t[:-1],
    "scalar": lambda t: t.flatten()[0],
    "three dimensions": lambda t: t.reshape(len(t), -1, 1, 1),
}
SAME_NUMBERS = {
    "every other": lambda t: t.repeat_interleave(2, dim=0)[::2],
    "with grad": lambda t: t.clone().requires_grad_(),
    "Fortran": lambda t: torch.as_tensor(np.asfortranarray(t.numpy())),
    "negated view": lambda t: torch._neg_view(-t),
}


def right(logits, scale):
    """Return logits that are largest for the first class or for the target."""
    return scale * torch.nn.functional.one_hot(
        torch.arange(len(logits)) % logits.shape[1], logits.shape[1]
    ).to(logits)


TENSORS = table(
    same=SAME_NUMBERS,
    valid={
        "expanded": lambda t: t[:1].expand(t.shape),
        "float16": lambda t: t.half(),
        "bfloat16": lambda t: t.bfloat16(),
        "float32": lambda t: t.float(),
        "zeros": torch.zeros_like,
        "ties": lambda t: torch.full_like(t, 3.0),
        **{
            f"times {f:g}": lambda t, f=f: t * f
            for f in (1e-300, 1e-160, 1e-30, 1e-8, 10.0, 1e4, 1e8, 1e18)
        },
        **{
            f"right by {f:g}": lambda t, f=f: right(t, f)
            for f in (50.0, 1e4, 1e18, 1e30, 1e150)
        },
        **{
            f"wrong by {f:g}": lambda t, f=f: right(t, f).roll(1, 0)
            for f in (50.0, 1e4, 1e18)
        },
        **{
            f"float32 right by {f:g}": lambda t, f=f: right(t.float(), f)
            for f in (100.0, 1e10, 2e19, 5e19, 1e30, 3e38)
        },
        "float32 denormal": lambda t: t.float() * 1e-42,
        "far away": lambda t: t + 1e12,
    },
    invalid={
        **NO_TENSORS,
        "integers": lambda t: t.long(),
        "booleans": lambda t: t > 0,
        "one dimension": lambda t: t[:, 0],
        "one column": lambda t: t[:, :1],
        "no columns": lambda t: t[:, :0],
    },
    nan={
        "NaN": lambda t: changed(t, torch.nan),
        "only NaN": lambda t: torch.full_like(t, torch.nan),
        "float32 NaN": lambda t: changed(t.float(), torch.nan),
    },
    any={
        "largest": lambda t: t.sign() * torch.finfo(t.dtype).max,
        "infinity": lambda t: changed(t, torch.inf),
        "minus infinity": lambda t: changed(t, -torch.inf),
        "float32 wrong by 3e38": lambda t: right(t.float(), 3e38).roll(1, 0),
    },
)
ANY_INTEGERS = {"negative", "too large", "huge", "ignored", "column", "columns"}
SHARES = {"floats", "sums", "booleans"}
CLASS_INDICES = table(
    same={
        "every other": SAME_NUMBERS["every other"],
        "int32": lambda t: t.int(),
        "int16": lambda t: t.short(),
        "int8": lambda t: t.to(torch.int8),
        "uint8": lambda t: t.to(torch.uint8),
    },
    valid={"one class": torch.zeros_like},
    invalid={
        **NO_TENSORS,
        "negative": lambda t: changed(t, -1),
        "too large": lambda t: changed(t, 99),
        "huge": lambda t: changed(t, 2**62),
        "ignored": lambda t: changed(t, -100),
        "floats": lambda t: t.double(),
        "booleans": lambda t: t > 0,
        "column": lambda t: t[:, None],
        "columns": lambda t: torch.stack([t, t], dim=1),
        "sums": lambda t: torch.full((len(t), 3), 0.5, dtype=torch.float64),
        "NaN rows": lambda t: torch.full((len(t), 3), torch.nan, dtype=torch.float64),
    },
    open={
        "probabilities": lambda t: torch.nn.functional.one_hot(t, 3).double(),
        "uint64": lambda t: t.to(torch.uint64),
    },
)
TENSOR_WEIGHTS = table(
    valid={
        "nothing": lambda _: None,
        "every other": SAME_NUMBERS["every other"],
        "float32": lambda t: t.float(),
        "float16": lambda t: t.half(),
        "integers": lambda t: torch.ones_like(t).long(),
        "zeros": torch.zeros_like,
        "denormal": lambda t: torch.full_like(t, 5e-324),
        **{f"times {f:g}": lambda t, f=f: t * f for f in (1e-300, 1e-30, 1e30, 1e300)},
        "wide": lambda t: t * 10.0 ** (torch.arange(len(t)).to(t) % 3 * 100 - 100),
    },
    invalid={
        **{name: make for name, make in NO_TENSORS.items() if name != "nothing"},
        "negative": lambda t: changed(t, -1.0),
        "NaN": lambda t: changed(t, torch.nan),
        "infinity": lambda t: changed(t, torch.inf),
        "column": lambda t: t[:, None],
    },
    open={
        "booleans": lambda t: t > 0.5,
        "with grad": SAME_NUMBERS["with grad"],
        "1.7e308": lambda t: torch.full_like(t, 1.7e308),
        **{f"one {w:g}": lambda t, w=w: changed(t, w) for w in (1e20, 1e200, 1e300)},
    },
)
# Labels that are only compared with each other.
LABELS = {
    name: Hostile(each.make, OPEN if name in ANY_INTEGERS else each.verdict)
    for name, each in CLASS_INDICES.items()
}
# A number in [0, 1] for each label.
INDICATORS = {
    name: Hostile(each.make, OPEN if name in SHARES else each.verdict)
    for name, each in CLASS_INDICES.items()
    if name not in ("one class", "column", "columns", "probabilities")
}
NO_INPUTS = table(
    invalid={
        name: NO_TENSORS[name]
        for name in ("nothing", "word", "number", "list", "array", "objects", "frame")
    }
)
