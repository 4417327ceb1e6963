"""Devices of networks, and the name "auto" for the fastest one."""

from typing import Any

import torch
from skorch import NeuralNetClassifier

from sklearn_calib._validation.arrays import shorten, shown

AUTO = "auto"


def find_device(device: Any) -> Any:
    """Return the device that "auto" means here; return any other device unchanged."""
    if not (isinstance(device, str) and device == AUTO):
        return device
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def check_device(device: Any) -> None:
    """Raise an error unless torch can compute on the device."""
    if not isinstance(device, str | torch.device | None):
        raise TypeError(
            f"`device` must be a str, a torch.device or None, got {shown(device)}. "
            "Write 'cpu', 'cuda', 'cuda:0' or 'auto'."
        )
    try:
        torch.zeros(1, device=find_device(device)).item()
    except (AssertionError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"`device` must name a device of this machine, got {shown(device)}: "
            f"{shorten(reason)}. Write 'cpu', 'cuda', 'cuda:0' or 'auto'."
        ) from error


class NetOnDevice(NeuralNetClassifier):
    """skorch's classifier whose parameter `device` may be "auto".

    The attribute is the device that is used, as skorch needs it. `get_params` returns
    the parameter as it was set.
    """

    @property
    def device(self) -> Any:
        """The device that the network is trained on."""
        device = self.__dict__["device"]
        is_auto = isinstance(device, str) and device == AUTO
        return find_device(device) if is_auto else device

    @device.setter
    def device(self, device: Any) -> None:
        self.__dict__["device"] = device

    @property
    def _placement(self) -> Any:
        """The device of the network, which accelerate chooses if `device` is None."""
        device = self.device
        return next(self.module_.parameters()).device if device is None else device

    def _check_device(self, requested_device: Any, map_device: Any) -> Any:
        # skorch sets the parameter to this value when it loads weights.
        if vars(self).get("device") == AUTO:
            return AUTO
        return super()._check_device(requested_device, map_device)
