"""Run skorch's tests with `NeuralClassifier` in place of skorch's classifier.

    git clone --depth 1 --branch v1.4.0 https://github.com/skorch-dev/skorch checkout
    python benchmarks/correctness/run_skorch_tests.py checkout

`skorch_adapter.py` gives `NeuralClassifier` skorch's defaults and names, and lets the
tests import it as `skorch.NeuralNetClassifier`. `DIFFERENCES` contains the tests that
fail, by reason. The script prints how many tests pass, and the differences. The exit
status is 1 if a test fails without a reason, or if a test with a reason passes. Without
a checkout, or without a package that the tests need, no test is run.
"""

import argparse
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import foreign_tests
import torch

# The tests that use the classifier in this process.
FILES = (
    *("callbacks", "test_classifier.py", "test_dataset.py", "test_doctor.py"),
    *("test_helper.py", "test_net.py", "test_scoring.py", "test_utils.py"),
)

DIFFERENCES = {
    "`partial_fit` trains for one epoch, and holds out no validation data": """
        test_activation_recs_general_content test_activation_recs_values
        test_criterion_training_set_correctly test_gradient_recs_general_content
        test_gradient_recs_values test_lr_callback_batch_steps_correctly_fallback
        test_param_update_recs_general_content test_reduce_lr_monitor_with_string
        test_save_and_load_from_checkpoint test_save_and_load_from_checkpoint_formatting
        test_steps_called_with_split_data""",
    "`max_epochs` is at least 1, and `lr` is positive": """
        test_call_fit_twice_retrains test_call_fit_twice_warmstart
        test_call_partial_fit_after_fit test_classes_data_torch_tensor
        test_classes_are_set_with_tensordataset_explicit_y
        test_classes_are_set_with_tensordataset_implicit_y
        test_classes_with_gaps test_clone_results_in_uninitialized_net
        test_error_when_classes_could_not_be_inferred test_initialization_is_effective
        test_lr_scheduler_set_params test_non_binary_classes_set_by_default
        test_with_initialized_module_partial_fit test_with_initialized_module_warm_start
        """,
    "Errors have other types and messages": """
        test_compile_missing_dunder_in_prefix_arguments
        test_fit_with_dataset_one_item_error test_fit_with_dataset_three_items_error
        test_net_init_missing_dunder_and_unknown
        test_net_init_missing_dunder_in_2_prefix_arguments
        test_net_init_missing_dunder_in_prefix_argument
        test_net_init_one_unknown_argument test_net_init_two_unknown_arguments
        test_net_initialized_with_initalized_dataset_and_kwargs_raises
        test_net_use_caching_wrong_value_raises test_one_dimensional_x_raises
        test_predict_with_dataset_one_item_error
        test_predict_with_dataset_three_items_error
        test_unknown_set_params_gives_helpful_message""",
    "New parameters take effect in the next fit": """
        test_changing_model_reinitializes_optimizer
        test_reinitializing_module_optimizer_message test_score_unknown_reduction_raises
        test_scored_net_with_reduction_none
        test_set_params_on_callback_then_initialize_remembers_param
        test_set_params_on_custom_criterion_triggers_reinit_of_optimizer
        test_set_params_on_custom_criterion_with_default_criterion_params_msg
        test_set_params_on_custom_module_with_default_module_params_msg
        test_setting_callback_default_possible test_setting_callback_possible
        test_setting_callback_to_none_and_more_params_later_raises""",
    "Parameters of callbacks are listed before the first fit": "test_get_params_works",
    "A module that is passed as an instance is copied": """
        test_criteria_reinit_when_both_initialized_but_custom_criterion_changed
        test_custom_criterion_is_init_when_default_criterion_already_is
        test_custom_module_is_init_when_default_module_already_is
        test_modules_reinit_when_both_initialized_but_custom_module_changed""",
    "The module returns logits, and `predict_proba` applies softmax": """
        test_forward test_infer_neural_net_classifier_default
        test_predict_nonlinearity_called_with_predict
        test_predict_nonlinearity_called_with_predict_proba
        test_predict_nonlinearity_is_identity_with_multiple_criteria
        test_predict_nonlinearity_none test_predict_nonlinearity_type_error
        test_scored_net_matches_criterion_value test_takes_log_with_nllloss
        test_takes_no_log_without_nllloss""",
    "`classes` is an argument of `fit`, not of the constructor": """
        test_pass_classes_explicitly_overrides test_pass_empty_classes_raises""",
    "`predict` needs the classes, which are known after `fit`": """
        test_load_cuda_params_to_cpu test_multioutput_predict test_predict_with_dataset
        test_save_load_state_dict_file test_save_load_state_dict_str""",
    "The network is `module_`, and the loss is `criterion_`, a torch module": """
        TestSkorchDoctorComplexArchitecture test_callback_set_params
        test_callback_with_name_init_with_params test_criterion_is_not_a_torch_module
        test_criterion_non_module test_custom_criterion_attribute_name_predict_works
        test_custom_modules_are_compiled
        test_custom_non_default_module_with_check_is_fitted""",
    "Labels are 1-d, of two classes or more, and only in the Dataset if X is one": """
        test_correct_train_pass_through_scores test_correct_valid_pass_through_scores
        test_fit_with_dataset test_fit_with_dataset_X_y_inaccessible_does_not_raise
        test_net_1d_custom_loader test_net_2d_custom_loader
        test_net_variable_label_lengths test_net_variable_prediction_lengths
        test_undeclared_param_rejected_by_routing""",
    "Several inputs are a dict, and a DataFrame is a table": "test_fit_predict_proba",
    "There are more default callbacks": """
        test_callback_keeps_order test_net_overrides_caching""",
    "`repr` is that of scikit-learn": """
        test_repr_fitted_works test_repr_initialized_works
        test_repr_uninitialized_works""",
    "`iterator_valid` must not shuffle": """
        test_net_init_with_iterator_valid_shuffle_true_warns""",
    "A device must exist": """
        test_moving_custom_modules_to_device
        test_set_params_on_custom_module_preserves_its_device""",
    "The network is converted to `dtype`": """
        test_optimizer_initialized_after_module_moved_to_device""",
    "Each fit has a new history": "test_initializing_net_with_custom_history",
    "A validation set is converted like the training set": "test_predefined_split",
    "The test replaces a method of skorch's class, which the adapter is not": """
        test_no_module_reinit_partial_fit
        test_no_module_reinit_when_already_correct""",
}


def missing(checkout):
    """Return why the tests cannot be run, or None."""
    if not (checkout / "skorch" / "tests").is_dir():
        return f"{checkout} is not a checkout of skorch"
    if find_spec("flaky") is None:
        return "skorch's tests need the package flaky, which is not installed"
    return None


def run(checkout):
    """Return the outcomes of skorch's tests with the adapter."""
    sys.path.insert(0, str(checkout))  # its tests import the skorch beside them
    os.chdir(checkout)
    torch.set_num_threads(1)
    import_module("skorch_adapter").substitute()
    return foreign_tests.run(checkout / "skorch" / "tests", FILES)


def main():
    """Run the tests of a checkout; return whether a difference was not expected."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path, help="a folder with skorch's source")
    checkout = parser.parse_args().checkout.resolve()
    reason = missing(checkout)
    if reason is not None:
        print(f"Skipped: {reason}.")
        return 0
    return int(not foreign_tests.report(run(checkout), DIFFERENCES))


if __name__ == "__main__":
    sys.exit(main())
