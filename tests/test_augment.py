"""Views of images."""

import numpy as np
import pytest
import torch
from torch import Tensor

from pulab.augment import FOR_TABLES, POLICIES, weak
from pulab.training import Augment, RandomSource


def source(*seeds: int) -> RandomSource:
    return RandomSource(seeds or [0], torch.device("cpu"), torch.float64)


def images(models: int = 1, n: int = 40, channels: int = 3, size: tuple[int, int] = (16, 12)) -> Tensor:
    return torch.rand(models, n, channels, *size, dtype=torch.float64)


policies = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@policies
@pytest.mark.parametrize("shape", [(3, (16, 12)), (1, (28, 28)), (4, (1, 1)), (2, (1, 9)), (3, (2, 2)), (1, (3, 5))])
def test_any_image_gets_a_finite_view_of_its_shape(policy: Augment, shape: tuple[int, tuple[int, int]]) -> None:
    x = images(2, 5, *shape)
    before = x.clone()
    view = policy(x, source(1, 2))
    assert view.shape == x.shape
    assert view.isfinite().all()
    assert torch.equal(x, before)


@policies
def test_every_row_has_its_own_draw_whichever_models_are_beside_it(policy: Augment) -> None:
    x = images(1, 1).expand(2, 40, -1, -1, -1)  # the same image everywhere
    view = policy(x, source(7, 8))
    distinct = {row.numpy().tobytes() for row in view.flatten(0, 1)}
    assert len(distinct) > 25  # of 30 that the weak view can be
    assert torch.allclose(policy(x[:1], source(8)), view[1:], atol=1e-12)


@pytest.mark.parametrize("policy", [POLICIES[name] for name in POLICIES if name not in FOR_TABLES])
def test_the_scale_of_pixels_does_not_matter(policy: Augment) -> None:
    x = images()
    assert torch.allclose(policy(255 * x - 3, source()), 255 * policy(x, source()) - 3, atol=1e-9)


def test_the_mask_sets_a_third_of_the_features_to_zero() -> None:
    x = torch.rand(2, 500, 6, dtype=torch.float64) + 1
    view = POLICIES["mask"](x, source(1, 2))
    gone = view == 0
    assert torch.equal(view[~gone], x[~gone])
    assert gone.double().mean(1) == pytest.approx(np.full((2, 6), 1 / 3), abs=0.08)


def test_noise_is_normal_and_of_a_fixed_size() -> None:
    added = POLICIES["noise"](x := torch.rand(2, 400, 6, dtype=torch.float64), source(1, 2)) - x
    assert added.std() == pytest.approx(0.3, abs=0.02)
    assert added.mean() == pytest.approx(0.0, abs=0.02)


def test_the_weak_view_is_a_flip_and_a_shift_of_the_reflected_image() -> None:
    """Against numpy's own padding, for every shift that may have been drawn."""
    x = images(n=200, size=(16, 24))
    seen = set()
    for row, view in zip(x[0].numpy(), weak(x, source())[0].numpy(), strict=True):
        padded = {flip: np.pad(row[:, :, ::flip], ((0, 0), (2, 2), (3, 3)), mode="reflect") for flip in (1, -1)}
        matches = [
            (flip, down, right)
            for flip in (1, -1)
            for down in range(5)
            for right in range(7)
            if np.array_equal(padded[flip][:, down : down + 16, right : right + 24], view)
        ]
        assert len(matches) == 1
        seen |= set(matches)
    assert {flip for flip, _, _ in seen} == {1, -1}
    assert {down for _, down, _ in seen} == set(range(5))
    assert {right for _, _, right in seen} == set(range(7))


def test_the_strong_view_has_holes_and_greys_and_other_colours() -> None:
    x = images(n=400)
    view = POLICIES["strong"](x, source())
    grey = (view - view.mean(dim=2, keepdim=True)).abs().amax(dim=(2, 3, 4)) < 1e-12
    assert 0.06 < grey.double().mean() < 0.14
    values = view[0, :, 0].flatten(1)
    most = torch.stack([(row == row.mode().values).double().mean() for row in values])
    assert 0.7 < (most > 0.05).double().mean() < 0.9  # the share of one value: the hole
    assert (most < 0.27).all()  # a quarter of the image at most
    brightness = view.mean(dim=(2, 3, 4)) - x.mean(dim=(2, 3, 4))
    assert brightness.std() > 0.05


def test_digits_are_never_mirrored() -> None:
    """A stroke on the left stays left of the middle, in nearly all views."""
    x = torch.zeros(1, 200, 1, 28, 28, dtype=torch.float64)
    x[..., 6:22, 7:9] = 1
    view = POLICIES["digits"](x, source())[0, :, 0]
    centre = (view.sum(1) * torch.arange(28)).sum(1) / view.sum(dim=(1, 2))
    assert (centre < 13.5).double().mean() > 0.97
    assert centre.std() > 1
    assert 0.6 < view.sum(dim=(1, 2)).mean() / 32 < 1.4
