"""Common tests of all displays. New displays are included automatically.

A display is drawn by its method ``from_predictions``, ``from_history``,
``from_monitor`` or ``from_loss``.
"""

import inspect
import sys
import warnings
from contextlib import suppress
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from sklearn_calib import NeuralClassifier, displays
from sklearn_calib._validation.arrays import as_array
from sklearn_calib.callbacks import RecordBins
from sklearn_calib.deployment import CalibrationMonitor

# Number of axes of a display if it is not one.
N_AXES = {"ClasswiseReliabilityDisplay": 2, "GroupReliabilityDisplay": 2}
# The axes given to these are replaced by panels.
OF_BINS = ["ConfidenceDynamicsDisplay", "GammaDynamicsDisplay"]
DISPLAYS = {name: getattr(displays, name) for name in displays.__all__}
# Of p-values instead of probabilities: see test_set_display.py.
OF_SETS = ["PredictionSetDisplay"]
OF_PREDICTIONS = [
    name
    for name, c in DISPLAYS.items()
    if hasattr(c, "from_predictions") and name not in OF_SETS
]
OF_MONITORS = [name for name, c in DISPLAYS.items() if hasattr(c, "from_monitor")]
all_displays = pytest.mark.parametrize("name", DISPLAYS)
OF_LOSSES = [name for name, c in DISPLAYS.items() if hasattr(c, "from_loss")]
of_estimators = pytest.mark.parametrize(
    "name", [n for n in DISPLAYS if n not in [*OF_MONITORS, *OF_SETS, *OF_LOSSES]]
)
of_predictions = pytest.mark.parametrize("name", OF_PREDICTIONS)
X, CODES = load_iris(return_X_y=True)
# The labels are not sorted, so that the tests detect a wrong order.
LABELS = np.array(["rose", "iris", "aster"])
Y = LABELS[CODES]
PVALUES = np.random.default_rng(0).uniform(size=(len(Y), 3))


@pytest.fixture(scope="module")
def classifier():
    return GaussianNB().fit(X[::3], Y[::3])


@pytest.fixture(scope="module")
def network():
    """Return a network with everything that a training can record."""
    net = NeuralClassifier(
        loss="adafocal",
        loss__n_bins=2,
        max_epochs=2,
        validation_fraction=0.5,
        callbacks=[RecordBins()],
        random_state=0,
    )
    return net.fit(X, CODES)


@pytest.fixture(scope="module")
def monitor(classifier):
    """Return a monitor whose classifier becomes useless."""
    monitor = CalibrationMonitor(labels=classifier.classes_)
    for batch in range(30):
        y = Y if batch < 10 else np.roll(Y, 50)
        monitor.update(y[batch::30], classifier.predict_proba(X[batch::30]))
    return monitor


@pytest.fixture(scope="module")
def draw(classifier, network, monitor):
    """Return a function that draws a display by name."""

    def draw(display, /, *arguments, **options):
        if display in OF_MONITORS:
            return DISPLAYS[display].from_monitor(monitor, **options)
        if display in OF_LOSSES:
            return DISPLAYS[display].from_loss("focal", quantity="phi", **options)
        if display in OF_SETS:
            arguments, options = (Y, PVALUES), {"labels": np.sort(LABELS), **options}
        elif display not in OF_PREDICTIONS:
            return DISPLAYS[display].from_history(network.history_, **options)
        from_predictions = DISPLAYS[display].from_predictions
        if not arguments:
            arguments = Y, classifier.predict_proba(X)
            options.setdefault("labels", classifier.classes_)
            options = two_panels(display, Y) | options
        fixed = basic_options(from_predictions, arguments[0])
        return from_predictions(*arguments, **fixed | options)

    return draw


def basic_options(method, y_true):
    """Return options for fast and reproducible draws, and two groups by the labels."""
    options = {"n_bins": 4, "n_resamples": 20, "random_state": 0, "groups": None}
    options["confidence_levels"] = [0.8]
    if y_true is not None:
        y_true = as_array(y_true, "y_true")
        options["groups"] = y_true == y_true[0]
    taken = {*inspect.signature(method).parameters}
    if "kind" in taken:  # of panels, which pass on the number of bins
        taken.add("n_bins")
    return {k: v for k, v in options.items() if k in taken}


def two_panels(name, y_true):
    """Return options with which a display of several panels has two.

    They are for two classes, or for a group with all samples and for all samples.
    """
    return {
        "ClasswiseReliabilityDisplay": {"classes": ["rose", "iris"]},
        "GroupReliabilityDisplay": {"groups": np.zeros(len(y_true))},
    }.get(name, {})


def parameters(display):
    """Return the constructor arguments of a display, and of displays within it."""
    values = {
        k: getattr(display, k) for k in inspect.signature(type(display)).parameters
    }
    is_display = tuple(DISPLAYS.values())
    return {
        name: [parameters(each) for each in value]
        if isinstance(value, list) and isinstance(value[0], is_display)
        else value
        for name, value in values.items()
    }


def assert_close(value, expected, rtol=1e-9, case=""):
    """Compare the constructor arguments of displays."""
    if isinstance(expected, dict):
        assert value.keys() == expected.keys()
        for name in expected:
            assert_close(value[name], expected[name], rtol, f"{case} {name}")
    elif isinstance(expected, list) and isinstance(expected[0], dict):
        for one, other in zip(value, expected, strict=True):
            assert_close(one, other, rtol, case)
    elif expected is None or np.asarray(expected).dtype.kind not in "iuf":
        assert_array_equal(value, expected, err_msg=case)
    else:
        assert_allclose(value, expected, rtol=rtol, atol=rtol, err_msg=case)


def axes_of(display):
    """Return the axes that the display says it is on."""
    return display.ax_ if hasattr(display, "ax_") else display.axes_


def legend_texts(figure):
    legends = [ax.get_legend() for ax in figure.axes]
    return [text.get_text() for each in legends if each for text in each.get_texts()]


def picture(figure):
    """Return the ticks as text, and the pixels without ticks: drawing them is slow."""
    axes = [axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)]
    ticks = [str(label) for a in axes for label in a.get_ticklabels(which="both")]
    for axis in axes:
        axis.set_ticks([])
    # A layout is computed from what is drawn.
    figure.set_layout_engine("none")
    figure.canvas.draw()
    return ticks, np.asarray(figure.canvas.buffer_rgba())


@all_displays
def test_methods_are_those_of_scikit_learn(name):
    """All have `ax` and `name`, and options are keyword-only."""
    cls = DISPLAYS[name]
    assert name.endswith("Display")
    sources = {"from_predictions", "from_history", "from_monitor", "from_loss"}
    sources &= {*dir(cls)}
    assert sources, "add from_predictions, from_history, from_monitor or from_loss"
    if name not in [*OF_MONITORS, *OF_LOSSES]:
        sources.add("from_estimator")
    for method in (getattr(cls, s) for s in sources):
        options = inspect.signature(method).parameters
        assert {"ax", "options"} & {*options}
        if "name" in options:
            assert options["name"].kind is inspect.Parameter.KEYWORD_ONLY
    _, ax, *options = inspect.signature(cls.plot).parameters.values()
    assert (ax.name, ax.default) == ("ax", None)
    assert all(option.kind is option.KEYWORD_ONLY for option in options)
    assert "name" in {option.name for option in options}


@pytest.mark.usefixtures("undrawn")
def test_samples_that_require_grad(classifier):
    draw = displays.RiskCoverageDisplay.from_estimator
    tensor = torch.tensor(X, requires_grad=True)
    assert draw(classifier, tensor, Y).aurc == draw(classifier, X, Y).aurc


@pytest.mark.usefixtures("undrawn")
@of_estimators
def test_from_estimator(name, classifier, network, draw):
    cls = DISPLAYS[name]
    if name in OF_PREDICTIONS:
        options = basic_options(cls.from_predictions, Y) | two_panels(name, Y)
        display = cls.from_estimator(classifier, X, Y, name="one", **options)
    else:
        display = cls.from_estimator(network, name="one")
    assert_close(parameters(display), parameters(draw(name, name="one")), rtol=0)


@of_estimators
def test_name_of_an_estimator(name, classifier, network):
    """By default, the class of the classifier or of its loss."""
    data = (classifier, X, Y) if name in OF_PREDICTIONS else (network,)
    cls, options = DISPLAYS[name], {}
    if name in OF_PREDICTIONS:
        options = basic_options(cls.from_predictions, Y) | two_panels(name, Y)
    display = cls.from_estimator(*data, **options)
    default = "GaussianNB" if name in OF_PREDICTIONS else "AdaFocalLoss"
    assert default in " ".join(legend_texts(display.figure_))


@all_displays
def test_makes_one_figure_and_holds_it(name, draw):
    display = draw(name)
    assert [plt.gcf()] == [display.figure_]
    assert len(plt.get_fignums()) == 1
    axes = np.ravel(axes_of(display))
    assert all(ax in display.figure_.axes for ax in axes)


@all_displays
def test_constructor_parameters_determine_the_plot(name, draw):
    """A display that is constructed again and plotted looks the same."""
    display = draw(name, name="a name")
    values = {
        k: getattr(display, k) for k in inspect.signature(type(display)).parameters
    }
    again = type(display)(**values)
    assert again.plot() is again
    (ticks, pixels), expected = picture(again.figure_), picture(display.figure_)
    assert ticks == expected[0]
    assert_array_equal(pixels, expected[1])


@all_displays
def test_draws_on_the_axes_given(name, draw):
    figure, axes = plt.subplots(1, N_AXES.get(name, 1))
    display = draw(name, ax=axes)
    assert display.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    if not isinstance(axes_of(display), np.ndarray):
        assert axes_of(display) is axes


@all_displays
def test_two_share_the_axes_under_their_names(name, draw):
    first = draw(name, name="first")
    again = draw(name, name="unseen", ax=axes_of(first)).plot(
        axes_of(first), name="third"
    )
    assert again.figure_ is first.figure_
    assert len(plt.get_fignums()) == 1
    texts = " ".join(legend_texts(first.figure_))
    assert all(each in texts for each in ("first", "unseen", "third"))


def set_view(axes):
    """Set limits and scales as a user does, and return a function that reads them."""
    for ax in axes:
        ax.set(xscale="symlog", yscale="symlog", xlim=(0.1, 0.7), ylim=(0.2, 0.6))
    names = "xscale", "yscale", "xlim", "ylim"
    return lambda: [plt.getp(ax, name) for ax in axes for name in names]


@all_displays
def test_limits_and_scales_of_the_user_stay(name, draw):
    """They are set before the first display, and before the second, on all axes."""
    if name not in OF_BINS:
        _, axes = plt.subplots(1, N_AXES.get(name, 1))
        view = set_view(np.ravel(axes))
        before = view()
        draw(name, ax=axes)
        assert view() == before
        plt.close()
    display = draw(name)
    view = set_view([ax for ax in display.figure_.axes if ax.axison])
    before = view()
    draw(name, ax=axes_of(display))
    assert view() == before


@pytest.mark.parametrize("name", [n for n in DISPLAYS if n not in {*N_AXES, *OF_BINS}])
def test_axes_that_share_an_axis_have_labels_at_its_numbers(name, draw):
    figure, axes = plt.subplots(2, 2, sharex=True, sharey=True)
    for ax in axes.flat:
        draw(name, ax=draw(name, ax=ax).ax_)
    places = {"x": set(), "y": set()}
    for ax in figure.axes:
        place = np.argwhere(axes == ax) if ax in axes else np.argwhere(axes == ax.above)
        for axis in (ax.xaxis, ax.yaxis):
            if axis.label.get_text() and axis.label.get_visible():
                places[axis.axis_name].add(tuple(place[0].tolist()))
    assert places == {"x": {(1, 0), (1, 1)}, "y": {(0, 0), (1, 0)}}


@all_displays
def test_sizes_of_texts_are_relative(name, draw):
    with plt.rc_context({"font.size": 5}):
        texts = draw(name).figure_.findobj(plt.Text)
    # The largest are titles, 1.2 times the size of the font.
    assert max(text.get_fontsize() for text in texts) == pytest.approx(6)


@all_displays
def test_plot_can_name_a_display(name, draw, without_drawing):
    with without_drawing():
        display = draw(name, name="first")
    display.plot(name="second")
    texts = " ".join(legend_texts(display.figure_))
    assert "second" in texts
    assert "first" not in texts


@all_displays
def test_without_matplotlib(name, draw, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        draw(name)


@pytest.mark.usefixtures("without_drawing")
@all_displays
def test_axes_of_another_type(name, draw):
    ax = ["x"] * N_AXES[name] if name in N_AXES else "x"
    with pytest.raises(TypeError, match=r"ax must be a .* got str\. .*ax=None for"):
        draw(name, ax=ax)


@pytest.mark.usefixtures("undrawn")
@of_predictions
def test_data_of_any_kind(name, classifier, draw):
    """Labels, containers, precision and the order of columns do not matter."""
    proba, classes = classifier.predict_proba(X), classifier.classes_
    expected = parameters(draw(name, Y, proba))
    index = np.arange(len(Y)) + 100
    frame = pd.DataFrame(proba, columns=classes, index=index)
    data = {
        "objects": (Y.astype(object), proba),
        "lists": (Y.tolist(), proba.tolist()),
        "pandas": (pd.Series(Y, index=index), frame),
        "fortran": (Y, np.asfortranarray(proba)),
    }
    for case, arguments in data.items():
        assert_close(parameters(draw(name, *arguments)), expected, case=case)
    # Decimals that are exact in both precisions, so that no sample changes its bin.
    coarse = np.round(proba * 64) / 64
    coarse[:, 0] += 1 - coarse.sum(axis=1)
    single = parameters(draw(name, Y, coarse.astype(np.float32)))
    assert_close(single, parameters(draw(name, Y, coarse)), rtol=1e-5)


@pytest.mark.usefixtures("undrawn")
@of_predictions
def test_arrays_of_other_devices_are_drawn(name, classifier, draw, on_device):
    proba = classifier.predict_proba(X)
    expected = parameters(draw(name, CODES, proba))
    assert_close(parameters(draw(name, on_device(CODES), on_device(proba))), expected)


@pytest.mark.usefixtures("undrawn")
@of_predictions
def test_probabilities_outside_of_0_and_1_by_rounding(name, classifier, draw):
    """Such values are clipped."""
    proba = classifier.predict_proba(X)
    certain = proba.max(axis=1) > 0.99
    off = np.where(proba[certain] > 0.5, 1.00001, -1e-5)
    for dtype in (np.float32, np.float64):
        proba = proba.astype(dtype)
        proba[certain] = off
        assert proba.max() > 1 > proba.min() + 1
        assert_close(
            parameters(draw(name, Y, proba)),
            parameters(draw(name, Y, proba.clip(0, 1))),
            rtol=0,
        )


@pytest.mark.usefixtures("undrawn")
@of_predictions
def test_classes_in_another_order(name, classifier, draw):
    proba, order = classifier.predict_proba(X), [2, 0, 1]
    classes = classifier.classes_[order]
    one = parameters(draw(name, Y, proba[:, order], labels=classes))
    other = parameters(draw(name, Y, proba))
    if "classes" in one:
        panels = dict(zip(one["classes"], one["displays"], strict=True))
        one["displays"] = [panels[label] for label in other["classes"]]
        one["classes"] = other["classes"]
    assert_close(one, other)


@of_predictions
def test_names_of_columns(name, classifier, draw, without_drawing):
    """Columns with the names of classes are in the order of the classes."""
    proba, classes = classifier.predict_proba(X), classifier.classes_
    frame = pd.DataFrame(proba, columns=classes)
    with pytest.raises(ValueError, match=r"\[\['aster', 'iris', 'rose'\]\]"):
        draw(name, Y, frame[LABELS])
    with pytest.raises(ValueError, match="or by none of them"):
        draw(name, Y, frame.rename(columns={"iris": "lily"}))
    assert not plt.get_fignums()
    with without_drawing():
        draw(name, Y, frame[LABELS], labels=LABELS)


@pytest.mark.usefixtures("undrawn")
@of_predictions
def test_predicted_labels_are_told_once(name, draw):
    y, labels = np.arange(40) % 2, np.array([0, 1, 1, 0] * 10)
    modes = inspect.signature(DISPLAYS[name].from_predictions).parameters
    for options in ({}, {"mode": "confidence"}) if "mode" in modes else ({},):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with suppress(ValueError):  # two probabilities are too few for a belt
                draw(name, y, labels, **options)
        texts = [str(each.message) for each in found]
        assert sum("look like predicted labels" in text for text in texts) == 1
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with suppress(ValueError):
                draw(name, y, labels.astype(float), **options)
        assert not any("predicted labels" in str(each.message) for each in found)


@pytest.mark.usefixtures("undrawn")
@of_predictions
def test_weights(name, classifier, draw):
    """Weights of zero remove samples; weights of one change nothing."""
    proba, options = classifier.predict_proba(X), {"labels": classifier.classes_}
    expected = parameters(draw(name, Y, proba, **options))
    ones = draw(name, Y, proba, sample_weight=np.ones(len(Y)), **options)
    assert_close(parameters(ones), expected)
    some = np.arange(len(Y)) % 3 > 0
    weighted = draw(name, Y, proba, sample_weight=some, **options)
    expected = parameters(draw(name, Y[some], proba[some], **options))
    assert_close(parameters(weighted), expected)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(parameters(weighted), parameters(ones))


@pytest.mark.usefixtures("undrawn")
@of_predictions
def test_input_is_not_changed(name, classifier, draw):
    arrays = Y, classifier.predict_proba(X), np.linspace(1, 2, len(Y))
    before = [array.copy() for array in arrays]
    draw(name, *arrays[:2], sample_weight=arrays[2])
    for array, copy in zip(arrays, before, strict=True):
        assert_array_equal(array, copy)


@of_predictions
def test_absent_class(name, classifier, draw, draw_all):
    """An absent class is an error, unless `labels` names it."""
    seen = Y != "iris"
    data = Y[seen], classifier.predict_proba(X)[seen]
    with pytest.raises(ValueError, match=r"got \['aster', 'rose'\]\. Pass labels="):
        draw(name, *data)
    options = two_panels(name, data[0])
    draw_all(draw(name, *data, labels=classifier.classes_, **options).figure_)


@of_predictions
def test_bad_input_raises(name, draw, not_refused):
    taken = inspect.signature(DISPLAYS[name].from_predictions).parameters
    assert not not_refused(partial(draw, name), taken.keys())
    assert not plt.get_fignums(), "a figure is left"


@of_estimators
def test_labels_are_those_of_the_estimator(name, classifier, network):
    cls = DISPLAYS[name]
    arguments, message = (network,), "unexpected keyword argument 'labels'"
    if name in OF_PREDICTIONS:
        arguments = classifier, X, Y
        message = "labels must not be passed to from_estimator, .*got .*use from_pred"
    for labels in (LABELS, None):
        with pytest.raises(TypeError, match=message):
            cls.from_estimator(*arguments, labels=labels)
    assert not plt.get_fignums() or name not in OF_PREDICTIONS


@of_predictions
def test_estimator_without_probabilities(name):
    classifier = RidgeClassifier().fit(X, Y)
    options = basic_options(DISPLAYS[name].from_predictions, Y)
    with pytest.raises(
        TypeError,
        match=r"predict_proba, got RidgeClassifier\(\)\. .*in CalibratedClassifier",
    ):
        DISPLAYS[name].from_estimator(classifier, X, Y, **options)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in DISPLAYS
        if name not in {*OF_PREDICTIONS, *OF_MONITORS, *OF_SETS, *OF_LOSSES}
    ],
)
def test_nothing_was_recorded(name):
    with pytest.raises(TypeError, match="estimator must be a fitted NeuralClassifier"):
        DISPLAYS[name].from_estimator(NeuralClassifier())
    with pytest.raises(
        ValueError, match=r"history must contain .*got \['epoch'\] in 1 ep"
    ):
        DISPLAYS[name].from_history([{"epoch": 1}])


@all_displays
def test_unknown_options(name, draw):
    error = ValueError if name in OF_LOSSES else TypeError  # of the loss
    with pytest.raises(error, match="no_such_option"):
        draw(name, no_such_option=1)
