"""The advisor: plain rules over a profile, each with the numbers it goes by and the layers it is about."""

from collections.abc import Callable, Iterator, Sequence

from enginebench_controller.model.layer_rooflines import rooflines
from enginebench_controller.prospects import precision_rules, time_rules, trust_rules
from enginebench_controller.prospects.advice import Advice, Subject
from enginebench_controller.prospects.thresholds import DEFAULT, Thresholds
from enginebench_controller.records import ModelVersion, Peak, Profile

Rule = Callable[[Subject], Iterator[Advice]]

RULES: tuple[Rule, ...] = (
    trust_rules.other_settings,
    trust_rules.distorted,
    trust_rules.sum_is_off,
    trust_rules.low_coverage,
    precision_rules.int8_unused,
    precision_rules.float_in_int8,
    precision_rules.slower_in_int8,
    precision_rules.much_rearranging,
    time_rules.far_below_roofline,
    time_rules.pruning_pays,
    time_rules.dominant_layer,
)
"""In the order of what to know first: what the numbers are worth, what there is to gain, where time goes."""


def advise(
    profile: Profile,
    against: Profile | None = None,
    peaks: Sequence[Peak] = (),
    imposed: Sequence[Profile] = (),
    thresholds: Thresholds = DEFAULT,
    int8_versions: Sequence[ModelVersion] = (),
) -> tuple[Advice, ...]:
    """All that the rules have to say of a profile; nothing of one without layers.

    `against` is another profile of the model, such as the floating one of an INT8 version; `peaks` are those of the
    target; `imposed` are passes over the same model with sparsity imposed, the dense one and pruned copies included;
    `int8_versions` are those made of it already, newest first.
    """
    if not profile.layers:
        return ()
    places = rooflines(profile, peaks) if peaks else ()
    subject = Subject(profile, thresholds, against, tuple(peaks), places, tuple(imposed), tuple(int8_versions))
    return tuple(advice for rule in RULES for advice in rule(subject))
