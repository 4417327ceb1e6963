import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from scipy.stats import rankdata
from torch.autograd import gradcheck, gradgradcheck

from sklearn_calib.losses import soft_rank

EPSILONS = [1e-300, 1e-8, 1e-3, 0.05, 1.0, 10.0, 1e6, 1e308]


def ranks_and_grad(values, cotangent, **params):
    values = torch.as_tensor(values, dtype=torch.float64).clone().requires_grad_()
    ranks = soft_rank(values, **params)
    ranks.backward(torch.as_tensor(cotangent, dtype=torch.float64))
    return ranks.detach().numpy(), values.grad.numpy()


def random_values(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


# Multiples of an eighth, so that ties are frequent.
grid = st.lists(st.integers(-40, 40) | st.integers(-3, 3), min_size=1, max_size=12).map(
    lambda cells: torch.tensor(cells, dtype=torch.float64) / 8
)
epsilons = st.sampled_from(EPSILONS)


def test_recorded(reference):
    """Every epsilon, tie and direction; descending ranks are those of -values."""
    data = reference("soft_rank")
    checked = 0
    for case in data["expected"]:
        batch, values = data["inputs"][case["input"]], case["values"]
        sign = -1 if case["params"]["direction"] == "DESCENDING" else 1
        tolerance = case.get("tolerance", data["tolerance"])
        epsilon = case["params"]["regularization_strength"]
        ranks, grad = ranks_and_grad(
            sign * np.array(batch["values"]), batch["cotangent"], epsilon=epsilon
        )
        if "jacobian" in values:
            rows = np.array(batch["values"])
            jacobian = torch.autograd.functional.jacobian(
                lambda v, epsilon=epsilon: soft_rank(v, epsilon=epsilon),
                torch.tensor(rows),
            )
            np.testing.assert_allclose(jacobian, values["jacobian"], **tolerance)
            continue
        np.testing.assert_allclose(ranks, values["rank"], **tolerance)
        # In a case with a note two pools touch, and the derivative is not unique.
        if "note" not in case:
            np.testing.assert_allclose(sign * grad, values["vjp"], **tolerance)
        checked += 1
    assert checked == 75


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 10.0])
@pytest.mark.parametrize("weight", [None, [1.0, 2.0, 3.0, 1.0, 0.5, 2.0]])
@pytest.mark.parametrize("shape", [(6,), (3, 6)])
def test_gradient(shape, weight, epsilon):
    values = random_values(*shape).requires_grad_()
    if weight is not None:
        weight = torch.tensor(weight, dtype=torch.float64).expand(shape)

    def ranks(v):
        return soft_rank(v, epsilon=epsilon, sample_weight=weight)

    assert gradcheck(ranks, values)
    assert gradgradcheck(ranks, values)


@given(values=grid, epsilon=epsilons)
def test_ranks_are_in_the_permutahedron(values, epsilon):
    """Sums and partial sums are those of the permutahedron; ties have equal ranks."""
    ranks = soft_rank(values, epsilon=epsilon).numpy()
    n = len(ranks)
    assert ranks.sum() == pytest.approx(n * (n + 1) / 2)
    smallest = np.sort(ranks).cumsum()
    assert (smallest >= np.arange(1, n + 1).cumsum() - 1e-9).all()
    order = np.argsort(values.numpy(), kind="stable")
    assert (np.diff(ranks[order]) >= -1e-9).all()
    tied = np.diff(values.numpy()[order]) == 0
    assert (np.diff(ranks[order])[tied] == 0).all()


@pytest.mark.parametrize("epsilon", [1e-300, 1e-12, 1e-8])
def test_ordinary_ranks_in_the_limit(epsilon):
    values = torch.rand(500, generator=torch.Generator().manual_seed(0)).double()
    values[100:120] = values[0]
    ranks, grad = ranks_and_grad(values, torch.arange(500), epsilon=epsilon)
    expected = rankdata(values, method="average")
    np.testing.assert_array_equal(ranks, expected)
    np.testing.assert_array_equal(soft_rank(values, epsilon=5e-324), expected)
    alone = np.ones(500, dtype=bool)
    alone[[0, *range(100, 120)]] = False
    assert (grad[alone] == 0).all()


def test_mean_rank_in_the_limit():
    ranks, grad = ranks_and_grad(random_values(20), torch.arange(20), epsilon=1e12)
    np.testing.assert_allclose(ranks, 10.5, rtol=1e-10)
    np.testing.assert_allclose(grad, (np.arange(20) - 9.5) / 1e12)


def test_small_epsilon_keeps_the_digits():
    """A pool with gaps below epsilon, of values much larger than epsilon."""
    gaps = np.array([0.0, 0.25, 0.5, 0.75]) * 2.0**-27
    values = np.concatenate([0.5 + gaps, [0.1, 0.9]])
    ranks, _ = ranks_and_grad(values, np.zeros(6), epsilon=2.0**-27)
    expected = [3.125, 3.375, 3.625, 3.875, 1, 6]
    np.testing.assert_array_equal(ranks, expected)


@pytest.mark.parametrize(
    "values",
    [
        np.nextafter(1, np.array([0, 0, 2, 2])) - [0, 1e-15, 0, -1e-15],
        np.array([1e-300, 2e-300, 1e300, -1e300]),
    ],
)
def test_ranks_are_between_1_and_n(values):
    """For values / epsilon so large that ranks would be lost to rounding."""
    for epsilon in (1e-30, 1e-17, 1e-16, 1e-15):
        ranks, _ = ranks_and_grad(values, np.zeros(4), epsilon=epsilon)
        assert ranks.min() >= 1
        assert ranks.max() <= 4


@given(values=grid, epsilon=epsilons, data=st.data())
def test_order_does_not_matter(values, epsilon, data):
    order = data.draw(st.permutations(range(len(values))))
    cotangent = np.arange(len(values)) ** 2.0
    ranks, grad = ranks_and_grad(values, cotangent, epsilon=epsilon)
    permuted = ranks_and_grad(values[order], cotangent[order], epsilon=epsilon)
    np.testing.assert_allclose(permuted[0], ranks[order], rtol=1e-12)
    np.testing.assert_allclose(permuted[1], grad[order], rtol=1e-9, atol=1e-9 / epsilon)


@pytest.mark.parametrize("epsilon", [1e-9, 0.02, 0.5, 10.0])
def test_rows_are_ranked_separately(epsilon):
    values, cotangent = random_values(4, 9), random_values(4, 9, seed=1)
    together = ranks_and_grad(values, cotangent, epsilon=epsilon)
    for i in range(4):
        alone = ranks_and_grad(values[i], cotangent[i], epsilon=epsilon)
        np.testing.assert_allclose(together[0][i], alone[0], rtol=1e-12)
        np.testing.assert_allclose(together[1][i], alone[1], rtol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 0.02, 0.5, 10.0])
def test_weights_are_repetitions(epsilon):
    values, weight = random_values(6), torch.tensor([1, 0, 3, 1, 2, 1])
    values[4] = values[2]
    index = torch.repeat_interleave(torch.arange(6), weight)
    cotangent = random_values(6, seed=1)
    ranks, grad = ranks_and_grad(values[index], cotangent[index], epsilon=epsilon)
    weighted = ranks_and_grad(
        values, weight * cotangent, epsilon=epsilon, sample_weight=weight.double()
    )
    np.testing.assert_allclose(weighted[0][index], ranks, rtol=1e-12)
    summed = np.bincount(index, weights=grad, minlength=6)
    np.testing.assert_allclose(weighted[1], summed, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(1,), (7,), (1, 1), (5, 2)])
def test_dtype_and_shape_are_kept(dtype, shape):
    values = random_values(*shape).to(dtype).requires_grad_()
    ranks = soft_rank(values, epsilon=0.1)
    ranks.sum().backward()
    assert ranks.dtype == values.grad.dtype == dtype
    assert ranks.shape == values.grad.shape == shape
    expected = soft_rank(values.double(), epsilon=0.1)
    torch.testing.assert_close(ranks, expected.to(dtype))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_accelerator():
    values = random_values(3, 50)
    on_gpu = values.cuda().requires_grad_()
    ranks = soft_rank(on_gpu, epsilon=0.1)
    ranks.square().sum().backward()
    expected, grad = ranks_and_grad(values, 2 * ranks.detach().cpu(), epsilon=0.1)
    assert ranks.device == on_gpu.grad.device == on_gpu.device
    np.testing.assert_array_equal(ranks.detach().cpu(), expected)
    np.testing.assert_array_equal(on_gpu.grad.cpu(), grad)


@pytest.mark.parametrize(
    ("values", "epsilon", "error", "message"),
    [
        (
            torch.ones(3),
            0,
            ValueError,
            "epsilon must be finite and > 0, got 0. Use a small",
        ),
        (torch.ones(3), -1.0, ValueError, "epsilon must be finite and > 0, got -1.0"),
        (torch.ones(3), np.inf, ValueError, "epsilon must be finite and > 0, got inf"),
        (torch.ones(3), np.nan, ValueError, "epsilon must be finite and > 0, got nan"),
        (torch.ones(3), "1", TypeError, "epsilon must be a number, .*'1' of type str"),
        (torch.ones(3), True, TypeError, "epsilon must be a number, .*of type bool"),
        ([1.0, 2.0], 0.1, TypeError, "values must be a torch.Tensor .*got list"),
        (torch.arange(3), 0.1, TypeError, "of float32 or float64, got torch.int64"),
        (torch.ones(3).half(), 0.1, TypeError, "of float32 or float64, got torch.floa"),
        (torch.ones(2, 2, 2), 0.1, ValueError, r"shape \(n,\) .*got shape \(2, 2, 2\)"),
        (torch.ones(0), 0.1, ValueError, r"shape \(n,\) .*got shape \(0,\)"),
        (torch.tensor(1.0), 0.1, ValueError, r"shape \(n,\) .*got shape \(\)"),
        (torch.tensor([1, np.nan]), 0.1, ValueError, "values must be finite, got nan"),
        (torch.tensor([1, -np.inf]), 0.1, ValueError, "must be finite, got -inf"),
        (torch.tensor([[1, 2], [3, np.inf]]), 0.1, ValueError, "be finite, got inf"),
    ],
)
def test_bad_input(values, epsilon, error, message):
    with pytest.raises(error, match=message):
        soft_rank(values, epsilon=epsilon)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (torch.ones(2), r"sample_weight must have shape \(3,\), .*got \(2,\)"),
        (
            torch.tensor([1.0, -1.0, 2.0]),
            r"non-negative and finite, got weights in \[-1, 2\]",
        ),
    ],
)
def test_bad_weight(weight, message):
    with pytest.raises(ValueError, match=message):
        soft_rank(torch.ones(3), epsilon=0.1, sample_weight=weight)
