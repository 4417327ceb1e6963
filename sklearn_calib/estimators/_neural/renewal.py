"""Effects of new parameters on an initialized net.

New parameters take effect in the next fit, and do not change predictions before it. A
fit that continues the training rebuilds the components whose parameters have changed.
New options of an optimizer take effect immediately, as in skorch.
"""

from sklearn_calib._sklearn.nested_params import prefix_of, remove_prefix
from sklearn_calib._validation.arrays import shown
from sklearn_calib._validation.declarations import did_you_mean
from sklearn_calib.estimators._neural.name_hints import check_takes


def find_live(net, params):
    """Return the optimizer options that can be set without building a new optimizer."""
    live = {}
    for part in net._optimizers if net.initialized_ else ():
        if part in {*params, *net._stale}:
            continue
        given = remove_prefix(f"{part}__", params)
        check_takes(type(getattr(net, f"{part}_")), given, f"{part}__")
        has_own_lr = f"{part}__lr" in {*params, *vars(net)}
        if part == "optimizer" and "lr" in params and not has_own_lr:
            given["lr"] = params["lr"]
        for name in given.keys() - {"param_groups"}:
            groups, option = _find_groups(getattr(net, f"{part}_"), name)
            if not _needs_new_state(groups, option, given[name]):
                live[name if name in params else f"{part}__{name}"] = groups, option
    return live


def take_effect(net, params, live):
    """Set the options of the current optimizer, and note which parts to rebuild."""
    for name, (groups, option) in live.items():
        for group in groups:
            group[option] = params[name]
            if option == "lr":
                group["initial_lr"] = params[name]  # the base value of schedules
    kinds = {
        "compile": {"compile"},
        "loss": {"loss", *net._criteria},
        "module": {*net._modules},
        "optimizer": {*net._optimizers},
    }
    changed = {prefix_of(name) for name in params if name not in live}
    stale = {kind for kind, names in kinds.items() if names & changed}
    if stale:
        net._stale |= stale
    if not net.history_:
        renew(net)


def renew(net):
    """Rebuild the parts with changed parameters, and the parts that depend on them."""
    stale = net._stale
    vars(net).pop("_stale", None)
    if "module" in stale:
        net._initialize_module()
    if stale & {"loss", "module"}:
        net._initialize_criterion()
    if "compile" in stale:
        _compile_again(net)
    learns = next(net.criterion_.parameters(), None) is not None
    if stale & {"module", "optimizer"} or (learns and "loss" in stale):
        net._initialize_optimizer()
    for group in net.optimizer_.param_groups:
        if "lr" in group:  # required by a schedule that starts now
            group.setdefault("initial_lr", group["lr"])


def _compile_again(net):
    """Compile the current parts with the new options, or undo the compilation."""
    for name in (*net._modules, *net._criteria):
        part = getattr(net, f"{name}_")
        part = net.torch_compile(getattr(part, "_orig_mod", part), name)
        setattr(net, f"{name}_", part)


def set_group_options(net):
    """Set the options of single parameter groups in a new optimizer."""
    for name, value in net.get_params_for("optimizer").items():
        if name.startswith("param_groups__"):
            groups, option = _find_groups(net.optimizer_, name)
            groups[0][option] = value


def _find_groups(optimizer, name):
    """Return the parameter groups that a parameter sets, and the name of the option."""
    groups = optimizer.param_groups
    if not name.startswith("param_groups__"):
        return groups, name
    _, index, option = [*name.split("__", 2), ""][:3]
    if not (index.isdecimal() and int(index) < len(groups)):
        raise ValueError(
            f"optimizer__{name} must name one of the {len(groups)} parameter groups, "
            f"counted from 0, got {shown(index)}. Write optimizer__param_groups__0__lr."
        )
    if option not in groups[int(index)]:
        raise ValueError(
            f"optimizer__{name} must name an option of the optimizer, got "
            f"{shown(option)}.{did_you_mean(option, groups[0])}"
        )
    return [groups[int(index)]], option


def _needs_new_state(groups, option, value):
    """Return whether a value switches on an option that needs optimizer state."""
    is_off = not all(group.get(option) for group in groups)
    return is_off and (value is True or (option == "momentum" and value))
