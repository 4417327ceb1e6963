"""Attributes are restored if a method raises an error."""

import pytest

from sklearn_calib._sklearn.rollback import restores


class Model:
    """Object whose methods set attributes and may then fail."""

    def __init__(self):
        self.parameter = 1

    @restores()
    def fit(self, value, error=None):
        """Learn."""
        del self.parameter
        self.parameter, self.value_, self.sum_ = 2, value, value
        if error is not None:
            raise error
        return self

    @restores(unless="interrupted_")
    def go_on(self, error):
        """Learn more."""
        self.value_ += 1
        self.interrupted_ = error is KeyboardInterrupt
        raise error


@pytest.mark.parametrize("error", [ValueError, MemoryError, KeyboardInterrupt])
def test_attributes_are_put_back(error):
    model = Model()
    with pytest.raises(error):
        model.fit(3, error)
    assert vars(model) == {"parameter": 1}
    assert model.fit(3) is model
    with pytest.raises(error):
        model.fit(4, error)
    assert vars(model) == {"parameter": 2, "value_": 3, "sum_": 3}


def test_an_interruption_may_leave_what_was_done():
    model = Model().fit(3)
    with pytest.raises(ValueError, match="no"):
        model.go_on(ValueError("no"))
    assert model.value_ == 3
    with pytest.raises(KeyboardInterrupt):
        model.go_on(KeyboardInterrupt)
    assert model.value_ == 4


def test_documentation_and_signature_stay():
    assert Model.fit.__doc__ == "Learn."
    assert Model.fit.__name__ == "fit"
