"""Run skorch's test suite with `NeuralClassifier` in place of `NeuralNetClassifier`."""
import argparse
import inspect
import sys
from pathlib import Path
import os
import warnings


def make_adapter():
    import torch
    import skorch
    from skorch.dataset import ValidSplit
    from sklearn_calib import NeuralClassifier

    Original = skorch.NeuralNetClassifier
    DEFAULTS = dict(
        optimizer=torch.optim.SGD,
        lr=0.01,
        max_epochs=10,
        train_split=ValidSplit(5, stratified=True),
        verbose=1,
    )

    def translate(params):
        out = {}
        for name, value in params.items():
            if name == "criterion" or name.startswith("criterion__"):
                name = "loss" + name[len("criterion"):]
                if value is torch.nn.NLLLoss:
                    value = "cross_entropy"
            if name in ("predict_nonlinearity", "classes"):
                continue
            out[name] = value
        return out

    class NeuralNetClassifier(NeuralClassifier):
        def __init__(self, module=None, criterion="cross_entropy", **kwargs):
            kwargs = {**DEFAULTS, **translate({"criterion": criterion, **kwargs})}
            super().__init__(module, **kwargs)

        def set_params(self, **params):
            return super().set_params(**translate(params))

    NeuralNetClassifier.__module__ = "skorch.classifier"
    NeuralNetClassifier.__qualname__ = "NeuralNetClassifier"
    return NeuralNetClassifier


def main():
    checkout = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(checkout))
    os.chdir(checkout)
    import torch, pytest
    torch.set_num_threads(1)
    import skorch, skorch.toy, skorch.classifier
    if os.environ.get("PLAIN") != "1":
        cls = make_adapter()
        skorch.NeuralNetClassifier = skorch.classifier.NeuralNetClassifier = cls
        f = skorch.toy.make_classifier
        def make_classifier(output_nonlin=None, **kw):
            return f(output_nonlin=torch.nn.Identity() if output_nonlin is None else output_nonlin, **kw)
        skorch.toy.make_classifier = make_classifier
    sys.exit(pytest.main(["-q", "-c", "/dev/null", f"--rootdir={checkout}", "-p", "no:cacheprovider", "-rA", *sys.argv[2:]]))

if __name__ == "__main__":
    main()
