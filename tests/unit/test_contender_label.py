"""Contenders' labels: one way of writing each, one clear line for what is none."""

import pytest

from bench.contender_label import parse_label
from bench.errors import UsageError


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("rigl", "rigl"),
        (" rigl : interval = 4 ", "rigl:interval=4"),
        ("rigl:stop=.50:interval=04", "rigl:interval=4:stop=0.5"),
        ("rigl:reset_grown_state=TRUE", "rigl:reset_grown_state=true"),
        ("barter:transfer_multiplier=2", "barter:transfer_multiplier=2"),
        ("barter:noise_scale=1e-3", "barter:noise_scale=0.001"),
        ("s2vite:overhead=official", "s2vite:overhead=official"),
    ],
)
def test_a_label_has_one_form(text: str, normal: str) -> None:
    assert str(parse_label(text)) == normal
    assert parse_label(normal) == parse_label(text)


def test_values_have_the_types_of_their_fields() -> None:
    label = parse_label("rigl:interval=4:alpha=1:reset_grown_state=false:rule=itop")
    values = (("alpha", 1.0), ("interval", 4), ("reset_grown_state", False), ("rule", "itop"))
    assert label.options == values
    assert [type(value) for _, value in label.options] == [float, int, bool, str]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bartr:beta=0.9", "unknown method 'bartr'; did you mean barter?"),
        (":beta=0.9", "unknown method ''"),
        ("barter:betta=0.9", "barter has no option 'betta'; did you mean 'beta'?"),
        ("dense:beta=0.9", "dense has no option 'beta'; there are: none"),
        ("barter:beta=much", "barter: option beta takes a float, not 'much'"),
        ("barter:beta=nan", "barter: option beta takes a float, not 'nan'"),
        ("rigl:interval=2.5", "rigl: option interval takes an int, not '2.5'"),
        ("rigl:reset_grown_state=1", "takes a bool (true or false), not '1'"),
        ("rigl:interval=4:interval=4", "option interval is given twice"),
        ("rigl:", "after the method come options such as :name=value, not ''"),
        ("rigl::interval=4", "not ''"),
        ("rigl:interval", "not 'interval'"),
        ("rigl:interval=", "not 'interval='"),
        ("rigl:=4", "not '=4'"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_label(text)
    assert message in str(refused.value)
