"""Views of images for training: pure functions of rows and a random source, on the device of the rows.

Rows have the shape ``(models, rows, channels, height, width)``. Every row gets its own draw. The policies do not care
how pixels are scaled: if all pixels of a row are multiplied by a positive number and shifted, the view changes alike.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from pulab.errors import InputError
from pulab.training import Augment, RandomSource


def weak(x: Tensor, random: RandomSource) -> Tensor:
    """A horizontal flip with probability one half, and a crop of the reflected border: up to an eighth of the size."""
    height, width = x.shape[-2:]
    flips = random.bernoulli(0.5, x.shape[1])[..., None]
    columns = torch.arange(width, device=x.device).expand(*flips.shape[:2], width)
    columns = torch.where(flips, width - 1 - columns, columns)
    rows = torch.arange(height, device=x.device) + _shift(height, x.shape[1], random)
    columns = columns + _shift(width, x.shape[1], random)
    return _pixels(x, _reflected(rows, height), _reflected(columns, width))


def strong(x: Tensor, random: RandomSource) -> Tensor:
    """The weak view; in 7 of 10 rows an affine map; other brightness, contrast and saturation, grey, a hole."""
    return _changed(x, random, 1.0)


def stronger(x: Tensor, random: RandomSource) -> Tensor:
    """The strong view with 1.5 times its affine map and colours: for self-supervision."""
    return _changed(x, random, 1.5)


def _changed(x: Tensor, random: RandomSource, by: float) -> Tensor:
    x = weak(x, random)
    changed = _resampled(x, _affine(x, random, angle=0.5 * by, scale=0.2 * by, shear=0.2 * by, shift=0.15 * by))
    x = _where(random.bernoulli(0.7, x.shape[1]), changed, x)
    return _cut_out(_recoloured(x, random, by), random)


def digits(x: Tensor, random: RandomSource) -> Tensor:
    """An affine map and an elastic one, and no flip: for digits and letters, which a flip turns into others."""
    grid = _affine(x, random, angle=0.25, scale=0.15, shear=0.2, shift=0.1) + _elastic(x, random, size=0.1)
    return _resampled(x, grid)


def mask(x: Tensor, random: RandomSource) -> Tensor:
    """Of each row a random third of the features is set to zero, the mean of standardised features: for tables."""
    return torch.where(random.bernoulli(1 / 3, *x.shape[1:]), 0.0, x)


def noise(x: Tensor, random: RandomSource) -> Tensor:
    """Normal noise of 0.3, in standard deviations of standardised features: for tables."""
    return x + 0.3 * random.normal(*x.shape[1:]).to(x.dtype)


FOR_TABLES: dict[str, Augment] = {"mask": mask, "noise": noise}
POLICIES: dict[str, Augment] = {
    "weak": weak,
    "strong": strong,
    "stronger": stronger,
    "digits": digits,
    **FOR_TABLES,
}


def policy(name: str, row_shape: Sequence[int]) -> Augment:
    """The policy of this name, for rows of this shape."""
    if name not in FOR_TABLES and len(row_shape) != 3:
        raise InputError(
            f"{name!r} is a view of images, X of shape (n, channels, height, width), got rows of shape "
            f"{tuple(row_shape)}. Pass a function as augment, or leave it out."
        )
    return POLICIES[name]


# Where a pixel comes from ---------------------------------------------------------------------------------------------


def _shift(size: int, n: int, random: RandomSource) -> Tensor:
    reach = max(1, size // 8) if size > 1 else 0
    return random.integers(2 * reach + 1, n)[..., None] - reach


def _reflected(index: Tensor, size: int) -> Tensor:
    """Indices beyond an edge, reflected into the image; the edge itself is not doubled."""
    if size == 1:
        return torch.zeros_like(index)
    index = index.abs() % (2 * size - 2)
    return torch.minimum(index, 2 * size - 2 - index)


def _pixels(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels at these rows (models, n, height) and columns (models, n, width)."""
    rows = rows[:, :, None, :, None].expand(x.shape)
    columns = columns[:, :, None, None, :].expand(x.shape)
    return x.gather(3, rows).gather(4, columns)


def _affine(x: Tensor, random: RandomSource, *, angle: float, scale: float, shear: float, shift: float) -> Tensor:
    """Sampling grids (models, n, height, width, 2) of random rotations (in radians), scales, shears and shifts."""

    def draw(reach: float) -> Tensor:
        return random.uniform(x.shape[1], low=-reach, high=reach)

    turn, slant = draw(angle), draw(shear)
    across, down = 1 + draw(scale), 1 + draw(scale)
    cos, sin = turn.cos(), turn.sin()
    matrix = torch.stack(
        [
            torch.stack([across * cos, -down * sin + slant * cos, 2 * draw(shift)], dim=-1),
            torch.stack([across * sin, down * cos + slant * sin, 2 * draw(shift)], dim=-1),
        ],
        dim=-2,
    )
    size = [math.prod(x.shape[:2]), *x.shape[2:]]
    grid = F.affine_grid(matrix.flatten(0, 1), size, align_corners=False)
    return grid.view(*x.shape[:2], *x.shape[-2:], 2)


def _elastic(x: Tensor, random: RandomSource, *, size: float, knots: int = 5) -> Tensor:
    """Smooth random displacements: normal numbers at a few knots, interpolated between them."""
    coarse = size * random.normal(x.shape[1], 2, knots, knots)
    fine = F.interpolate(coarse.flatten(0, 1), x.shape[-2:], mode="bicubic", align_corners=True)
    return fine.view(*x.shape[:2], 2, *x.shape[-2:]).movedim(2, -1)


def _resampled(x: Tensor, grid: Tensor) -> Tensor:
    out = F.grid_sample(x.flatten(0, 1), grid.flatten(0, 1), padding_mode="border", align_corners=False)
    return out.view(x.shape)


# What a pixel shows ---------------------------------------------------------------------------------------------------


def _recoloured(x: Tensor, random: RandomSource, by: float) -> Tensor:
    """Contrast and brightness by up to a half, of colour images also saturation and, in a tenth of the rows, grey."""

    def factor(reach: float) -> Tensor:
        return 1 + by * random.uniform(x.shape[1], low=-reach, high=reach)[..., None, None, None]

    mean = x.mean(dim=(-3, -2, -1), keepdim=True)
    spread = (x - mean).square().mean(dim=(-3, -2, -1), keepdim=True).sqrt()
    x = mean + factor(0.5) * (x - mean) + (factor(0.5) - 1) * spread
    if x.shape[2] == 1:
        return x
    grey = x.mean(dim=2, keepdim=True)
    colourful = grey + factor(0.6) * (x - grey)
    return _where(random.bernoulli(0.1, x.shape[1]), grey.expand(x.shape), colourful)


def _cut_out(x: Tensor, random: RandomSource) -> Tensor:
    """In 8 of 10 rows a hole of half the height and width, filled with the mean colour."""
    inside = []
    for size in x.shape[-2:]:
        centre = random.uniform(x.shape[1], high=float(size))[..., None]
        inside.append((torch.arange(size, device=x.device) + 0.5 - centre).abs() < size / 4)
    hole = inside[0][..., :, None] & inside[1][..., None, :] & random.bernoulli(0.8, x.shape[1])[..., None, None]
    return torch.where(hole[:, :, None], x.mean(dim=(-2, -1), keepdim=True), x)


def _where(chosen: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Row by row."""
    return torch.where(chosen[..., None, None, None], a, b)
