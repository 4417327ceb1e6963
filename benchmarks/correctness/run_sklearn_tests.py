"""Run scikit-learn's tests of calibration with `CalibratedClassifier`.

    python benchmarks/correctness/run_sklearn_tests.py

The tests are those of the installed scikit-learn that use `CalibratedClassifierCV`,
which `sklearn_adapter.py` replaces. `DIFFERENCES` contains the tests that fail, by
reason. The script prints how many tests pass, and the differences. The exit status is 1
if a test fails without a reason, or if a test with a reason passes. Tests of the array
API need array-api-strict.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

import foreign_tests

DIFFERENCES = {
    "Folds without a class are calibrated too, such as those of LeaveOneOut": """
        test_calibration_cv_nfold""",
    "Isotonic regression is mixed with the class frequencies, and never 0 or 1": """
        test_calibration_ensemble_false[isotonic-calibrator1]""",
    "A class that is absent from a training part gets a positive probability": """
        test_calibration_less_classes[True]""",
    "The classifier gets the labels as a numpy array, and not their codes": """
        test_temperature_scaling_array_api_with_str_y_estimator_not_prefit""",
}


def main():
    """Run the tests; return whether a difference was not expected."""
    os.environ["SCIPY_ARRAY_API"] = "1"  # before scipy is loaded
    import_module("sklearn_adapter").substitute()
    root = Path(import_module("sklearn").__file__).parent
    file = "tests/test_calibration.py"
    outcomes = foreign_tests.run(root, [file], "CalibratedClassifierCV")
    return int(not foreign_tests.report(outcomes, DIFFERENCES))


if __name__ == "__main__":
    sys.exit(main())
