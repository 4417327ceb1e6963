"""Blocks of rows: other blocks of the same samples, and values from one pass."""

import numpy as np

from sklearn_calib._numerics.sample_blocks import array_blocks

N, N_CLASSES = 100, 65536 // 30  # blocks of 30, 30, 30 and 10 rows


def make_blocks():
    """Return blocks, and the arrays that they contain."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((N, N_CLASSES), dtype=np.float32)
    arrays = logits, rng.integers(0, 5, N), rng.random(N)
    return array_blocks(*arrays), arrays


def lengths(data):
    return [len(block.weight) for block in data]


def test_joined_blocks():
    data, arrays = make_blocks()
    assert lengths(data) == [30, 30, 30, 10]
    for n_rows, expected in [(1, [30, 30, 30, 10]), (31, [60, 40]), (500, [100])]:
        joined = data.joined(n_rows)
        assert lengths(joined) == lengths(joined) == expected
        for found, array in zip(zip(*joined, strict=True), arrays, strict=True):
            np.testing.assert_array_equal(np.concatenate(found), array)


def test_values_of_all_samples():
    data, (logits, codes, _) = make_blocks()
    largest, classes = data.collect(
        lambda block: (block.logits.max(axis=1), block.codes)
    )
    np.testing.assert_array_equal(largest, logits.max(axis=1))
    np.testing.assert_array_equal(classes, codes)


def test_other_weights():
    data, (_, codes, _) = make_blocks()
    weight = np.arange(N) / N
    other = data.reweighted(codes, weight)
    np.testing.assert_array_equal(*other.collect(lambda each: [each.weight]), weight)
    np.testing.assert_array_equal(other.counts, np.bincount(codes, weight, N_CLASSES))
    np.testing.assert_array_equal(other.sizes, data.sizes)


def test_elementwise_functions_of_columns():
    """They are computed for the columns that are read, from the given blocks."""
    data, (logits, codes, _) = make_blocks()
    sizes = []

    def doubled(values):
        sizes.append(values.size)
        return 2 * values

    twice = data.transform(doubled, is_elementwise=True)
    few = twice.select(np.arange(N) % 2 == 0)
    other = twice.reweighted(codes, np.ones(N))
    sizes.clear()
    for blocks, rows in [(twice, slice(None)), (few, slice(0, None, 2)), (other, ...)]:
        columns = [*blocks.columns(slice(3, 5))]
        assert all(each.flags.f_contiguous for each in columns)
        np.testing.assert_array_equal(np.concatenate(columns), 2 * logits[rows][:, 3:5])
    assert sum(sizes) == 2 * N + 2 * N  # the selected rows have been kept
    np.testing.assert_array_equal(twice.arrays().logits, 2 * logits)
    for blocks in (twice, twice.kept()):
        np.testing.assert_array_equal(blocks.given.arrays().logits, logits)
    whole = data.transform(lambda values: values - values.max(axis=1, keepdims=True))
    np.testing.assert_array_equal(
        np.concatenate([*whole.columns(slice(3, 4))])[:, 0],
        logits[:, 3] - logits.max(axis=1),
    )


def test_all_samples_as_arrays():
    data, arrays = make_blocks()
    for found, array in zip(data.arrays(), arrays, strict=True):
        np.testing.assert_array_equal(found, array)
