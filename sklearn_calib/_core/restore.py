"""Estimators stay as they were if their fit fails."""

from functools import wraps


def restores(errors=BaseException):
    """Decorate a method to put its object's attributes back if it raises.

    Attributes are put back as the objects that they were: what a method changes in
    place stays changed.

    Parameters
    ----------
    errors : type of exception, default=BaseException
        After which exceptions. `Exception` leaves an object that the user interrupts
        as the interruption found it.
    """

    def decorate(method):
        @wraps(method)
        def restoring(self, *args, **kwargs):
            before = vars(self).copy()
            try:
                return method(self, *args, **kwargs)
            except errors:
                state = vars(self)
                state.update(before)
                for name in state.keys() - before.keys():
                    del state[name]
                raise

        return restoring

    return decorate
