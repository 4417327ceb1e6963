"""Estimators stay as they were if their fit fails."""

from functools import wraps


def restores(*, unless=None):
    """Decorate a method to put its object's attributes back if it raises.

    Attributes are put back as the objects that they were: what a method changes in
    place stays changed.

    Parameters
    ----------
    unless : str, default=None
        An attribute. If the method has set it to True, the object stays as the
        exception found it.
    """

    def decorate(method):
        @wraps(method)
        def restoring(self, *args, **kwargs):
            before = vars(self).copy()
            try:
                return method(self, *args, **kwargs)
            except BaseException:
                state = vars(self)
                if not state.get(unless, False):
                    state.clear()
                    state.update(before)
                raise

        return restoring

    return decorate
