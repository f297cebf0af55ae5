"""Layer densities and start counts against those of four official codes."""

from math import prod

import numpy as np
import pytest

from methods.budget import BudgetError
from methods.density import (
    active_count,
    connection_capacity,
    constant_fan_in,
    erk_densities,
    layer_sparsities,
    uniform_sparsities,
)
from tests.golden.conftest import count_case, golden_files
from tests.support.golden_weights import load


def test_erk() -> None:
    for file in golden_files("erk"):
        data = load(file)
        for i in range(int(data["n_lists"])):
            shapes = [[int(n) for n in shape if n] for shape in data[f"s{i}_shapes"]]
            for j, density in enumerate(data["densities"].tolist()):
                one = f"s{i}_d{j}_"
                _check(
                    {k.removeprefix(one): v for k, v in data.items() if k.startswith(one)},
                    shapes,
                    density,
                )
                count_case("erk")


def _check(expected: dict[str, np.ndarray], shapes: list[list[int]], density: float) -> None:
    sizes = [prod(shape) for shape in shapes]
    rows = [shape[0] for shape in shapes]
    integer, real = erk_densities(shapes, density), erk_densities(shapes, density, integer=False)
    np.testing.assert_allclose(integer, expected["density_google_int"], rtol=1e-12)
    np.testing.assert_allclose(integer, expected["density_condensed_int"], rtol=1e-12)
    np.testing.assert_allclose(real, expected["density_itop_float"], rtol=1e-12)
    for name, sparsities in (
        ("erk", layer_sparsities(shapes, density, "erk")),
        ("uniform", uniform_sparsities(sizes, density)),
    ):
        active = [active_count(n, s) for n, s in zip(sizes, sparsities, strict=True)]
        assert active == expected[f"active_condensed_{name}"].tolist()
        each = list(zip(rows, sizes, sparsities, strict=True))
        if f"fan_in_srigl_{name}" not in expected:
            with pytest.raises(BudgetError):
                [constant_fan_in(*layer) for layer in each]
            continue
        fan_in = [constant_fan_in(*layer) for layer in each]
        assert fan_in == expected[f"fan_in_srigl_{name}"].tolist()
        start = [q * r for q, r in zip(fan_in, rows, strict=True)]
        assert start == expected[f"active_srigl_{name}"].tolist()
        assert all(
            q * r <= connection_capacity(n, s) for q, (r, n, s) in zip(fan_in, each, strict=True)
        )
    np.testing.assert_allclose(
        layer_sparsities(shapes, density, "erk"), expected["sparsity_condensed_int"], atol=1e-12
    )


@pytest.mark.parametrize("kind", ["rigl_[0-9]", "rigl_nollied", "srigl"])
def test_recorded_layer_sparsities(kind: str) -> None:
    for file in golden_files(kind):
        data = load(file)
        shapes = [data[f"l{n}_shape"].tolist() for n in range(int(data["n_layers"]))]
        density, distribution = float(data["density"]), str(data["distribution"])
        if distribution == "uniform_first_dense":
            # nollied: the first layer is dense on top of the budget of the others.
            sparsities = [0.0, *layer_sparsities(shapes[1:], density, "uniform")]
        else:
            sparsities = layer_sparsities(shapes, density, distribution)
        np.testing.assert_allclose(sparsities, data["layer_sparsity"], rtol=1e-12, atol=1e-15)
        for n, (shape, sparsity) in enumerate(zip(shapes, sparsities, strict=True)):
            active, size = int(data[f"l{n}_init_mask"].sum()), prod(shape)
            if kind == "srigl":
                assert active == shape[0] * constant_fan_in(shape[0], size, sparsity)
            else:
                assert active == active_count(size, sparsity)
        count_case("layer_sparsity")
