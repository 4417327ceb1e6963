"""Links to the documentation in the HTML representation of estimators."""

from functools import cache

from sklearn.base import BaseEstimator

# The address of the site. Until it is published, example.org stands for its host, as in
# [project.urls] of pyproject.toml.
SITE = "https://example.org/sklearn-calib/"


class DocumentedEstimator(BaseEstimator):
    """Estimator whose HTML representation links to its page.

    scikit-learn fills in the public module and the name of the class. It does not link
    subclasses that are defined in other packages.
    """

    _doc_link_module = "sklearn_calib"
    _doc_link_template = (
        f"{SITE}generated/api/{{estimator_module}}.{{estimator_name}}.html"
    )

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # scikit-learn reads the signature for every clone and every check.
        return super()._get_param_names()
