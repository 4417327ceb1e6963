import pytest
import torch

from sklearn_calib.losses import CrossEntropyLoss, brier_loss, cross_entropy_loss
from sklearn_calib.losses._scoring_rules.cross_entropy import log_loss_and_confidence

REFERENCE = "loss_label_smoothing"
NOT_FOLLOWED = {}


@pytest.mark.parametrize(
    ("logit", "expected"),
    [
        # mpmath with 50 digits: log1p(exp(-logit))
        (0.0, 0.6931471805599453),
        (3.0, 0.04858735157374206),
        (40.0, 4.248354255291589e-18),
        (700.0, 9.85967654375977e-305),
        (-40.0, 40.0),
        (-700.0, 700.0),
    ],
)
def test_known_values(logit, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = cross_entropy_loss(logits, torch.tensor([0]))
    assert loss.item() == pytest.approx(expected, rel=1e-14, abs=0)


@pytest.mark.parametrize(
    ("logit", "expected"),
    [
        # mpmath with 50 digits: 1 / (1 + exp(logit)), 1 - p_t
        (0.0, 0.5),
        (40.0, 4.248354255291589e-18),
        (700.0, 9.85967654375977e-305),
        (-40.0, 1.0),
    ],
)
def test_known_gradient(logit, expected):
    """The gradient of a certain and correct prediction is not rounded to 0."""
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64, requires_grad=True)
    cross_entropy_loss(logits, torch.tensor([0])).backward()
    assert logits.grad.tolist() == [
        [pytest.approx(-expected, rel=1e-14), pytest.approx(expected, rel=1e-14)]
    ]


@pytest.mark.parametrize(
    "mix",
    [lambda *both: both[0], lambda *both: both[1], torch.mul],
    ids=["log_loss", "confidence", "product"],
)
def test_derivatives_of_log_loss_and_confidence(mix):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 3, generator=generator, dtype=torch.float64)
    target = torch.arange(3)
    assert (logits.argmax(1) == target).unique().numel() == 2

    def function(logits):
        return mix(*log_loss_and_confidence(logits, target))

    logits.requires_grad_()
    assert torch.autograd.gradcheck(function, logits)
    assert torch.autograd.gradgradcheck(function, logits)


@pytest.mark.parametrize(
    ("logit", "label_smoothing", "expected"),
    [
        # mpmath with 50 digits: -(1 - a / 2) log(p) - a / 2 log(1 - p)
        (0.0, 0.1, 0.6931471805599453),
        (3.0, 0.1, 0.19858735157374208),
        (-3.0, 0.5, 2.298587351573742),
        (100.0, 0.1, 5.0),
    ],
)
def test_known_values_of_smoothing(logit, label_smoothing, expected):
    logits = torch.tensor([[logit, 0.0]], dtype=torch.float64)
    loss = cross_entropy_loss(
        logits, torch.tensor([0]), label_smoothing=label_smoothing
    )
    assert loss.item() == pytest.approx(expected, rel=1e-14, abs=0)


def test_recorded(recorded, assert_recorded):
    params = recorded["params"]

    def loss(logits, target):
        # The convention of some papers: alpha on the other classes only.
        n_classes = logits.shape[1]
        others = params["convention"] == "others"
        scale = n_classes / (n_classes - 1) if others else 1
        return cross_entropy_loss(
            logits, target, label_smoothing=scale * params["alpha"]
        )

    assert_recorded(recorded, loss)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.3])
def test_soft_target_equals_torch(label_smoothing):
    generator = torch.Generator().manual_seed(0)
    logits, scores = torch.randn(2, 20, 5, generator=generator, dtype=torch.float64)
    target = scores.softmax(1)
    torch.testing.assert_close(
        cross_entropy_loss(logits, target, label_smoothing=label_smoothing),
        torch.nn.functional.cross_entropy(
            logits, target, label_smoothing=label_smoothing
        ),
    )


@pytest.mark.parametrize("loss", [brier_loss, cross_entropy_loss])
def test_soft_target_takes_the_precision_of_the_logits(loss):
    target = torch.full((1, 2), 0.5, dtype=torch.float64)
    assert loss(torch.zeros(1, 2), target).dtype == torch.float32


def test_gradient_flows_into_a_soft_target():
    target = torch.full((1, 2), 0.5, requires_grad=True)
    cross_entropy_loss(torch.tensor([[1.0, 0.0]]), target).backward()
    assert target.grad.tolist() == [[pytest.approx(0.3132617), pytest.approx(1.313262)]]


@pytest.mark.parametrize("bad", [1, 1.5])
def test_bad_label_smoothing(bad):
    with pytest.raises(ValueError, match=rf"in \[0, 1\), got {bad}\. Pass 0"):
        CrossEntropyLoss(label_smoothing=bad)


@pytest.mark.parametrize("loss", [brier_loss, cross_entropy_loss])
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            [[1.5, -0.5]],
            r"minimum of -0\.5 and sums that differ from one by up to 0\. Pass",
        ),
        (
            [[0.5, 0.4]],
            r"minimum of 0\.4 and sums that differ from one by up to 0\.1\. Pass",
        ),
        ([[float("nan"), 1.0]], "minimum of nan"),
        ([[0.2, 0.3, 0.5]], r"shape of logits, \(1, 2\), got shape \(1, 3\)"),
        ([[0, 1]], r"got shape \(1, 2\) and dtype torch.int64"),
        (
            [[1]],
            r"got shape \(1, 1\) and dtype torch\.int64\. For class indices call t",
        ),
    ],
)
def test_bad_soft_target(loss, target, message):
    with pytest.raises(ValueError, match=message):
        loss(torch.zeros(1, 2), torch.tensor(target))
