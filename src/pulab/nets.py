"""Networks: plain modules that give one logit per row and know nothing of PU learning.

The first three are the paper's. The others are the default nets of the estimators.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pulab.errors import InputError


class MnistCNN(nn.Sequential):
    """The paper's net for MNIST: two 5×5 convolutions and two dense layers, 7,871 parameters."""

    def __init__(self, channels: tuple[int, int] = (5, 10), hidden: int = 40, dropout: float = 0.5) -> None:
        first, second = channels
        # Pooling before ReLU gives the same function and gradient as after it, on a quarter of the numbers.
        super().__init__(
            nn.Conv2d(1, first, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Conv2d(first, second, 5),
            nn.MaxPool2d(2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * second, hidden),
            nn.ReLU(),
            *([nn.Dropout(dropout)] if dropout else []),
            nn.Linear(hidden, 1),
        )


class PreActBlock(nn.Module):
    """BatchNorm and ReLU before each of two 3×3 convolutions. Shape-changing shortcuts start after the ReLU."""

    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(n_in)
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        changes_shape = stride != 1 or n_in != n_out
        self.shortcut = nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False) if changes_shape else None

    def forward(self, x: Tensor) -> Tensor:
        ready = F.relu(self.norm1(x))
        carried = x if self.shortcut is None else self.shortcut(ready)
        out: Tensor = self.conv2(F.relu(self.norm2(self.conv1(ready)))) + carried
        return out


class PreActResNet18(nn.Sequential):
    """PreAct ResNet-18 for CIFAR-10: 3×3 stem, widths 64 to 512, 11.2 M parameters.

    The code of the paper's protocol pools the last block as it is. With ``final_norm``, BatchNorm and ReLU come first,
    as in He et al. 2016, which the paper cites.
    """

    def __init__(self, n_channels: int = 3, final_norm: bool = False) -> None:
        blocks: list[nn.Module] = []
        n_in = 64
        for width, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [PreActBlock(n_in, width, stride), PreActBlock(width, width, 1)]
            n_in = width
        super().__init__(
            nn.Conv2d(n_channels, 64, 3, padding=1, bias=False),
            *blocks,
            *([nn.BatchNorm2d(512), nn.ReLU()] if final_norm else []),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(512, 1),
        )


class MLP(nn.Sequential):
    """Dense layers with ReLU. ``MLP(9216)`` is the paper's net for text (300-300), and the default for tables."""

    def __init__(self, n_features: int, hidden: Sequence[int] = (300, 300)) -> None:
        layers: list[nn.Module] = []
        n_in = n_features
        for width in hidden:
            layers += [nn.Linear(n_in, width), nn.ReLU()]
            n_in = width
        super().__init__(*layers, nn.Linear(n_in, 1))


class InDouble(nn.Module):
    """A net of dense layers that computes in float64. It converts large weights part by part.

    A whole copy in float64 would take twice the memory of the net. Loading a model scores two rows, so the copy would
    count as memory of loading.
    """

    def __init__(self, net: MLP) -> None:
        super().__init__()
        self.net = net
        self.train(net.training)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                n = max(1, 2**19 // layer.in_features)  # units in a part: 4 MiB of weights
                # One buffer for all parts: glibc does not give aligned memory that was freed to the next part.
                double = torch.empty(
                    min(n, layer.out_features), layer.in_features, dtype=torch.float64, device=x.device
                )
                parts = zip(torch.split(layer.weight, n), torch.split(layer.bias.double(), n), strict=True)
                x = torch.cat([F.linear(x, double[: len(b)].copy_(weight), b) for weight, b in parts], dim=1)
            else:
                x = layer(x)
        return x


class SmallCNN(nn.Sequential):
    """The default for images of any size: three 3×3 convolutions, each halving the size while it is 4 or more."""

    def __init__(
        self,
        n_channels: int,
        size: tuple[int, int],
        widths: Sequence[int] = (16, 32, 64),  # twice as wide is three times slower on a CPU
    ) -> None:
        layers: list[nn.Module] = []
        n_in, side = n_channels, min(size)
        for width in widths:
            layers += [nn.Conv2d(n_in, width, 3, padding=1), nn.BatchNorm2d(width)]
            if side >= 4:
                layers.append(nn.MaxPool2d(2))
                side //= 2
            layers.append(nn.ReLU())
            n_in = width
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, 1))


class MnistMLP(nn.Sequential):
    """The text net on the pixels of MNIST, for methods that were published with dense layers."""

    def __init__(self) -> None:
        super().__init__(nn.Flatten(), MLP(784))


def default_net(shape: Sequence[int]) -> nn.Module:
    """The net for rows of this shape: ``(n_features,)`` or ``(channels, height, width)``."""
    match tuple(shape):
        case (n_features,):
            return MLP(n_features)
        case (channels, height, width):
            return SmallCNN(channels, (height, width))
    raise InputError(
        f"there is no default net for X with rows of shape {tuple(shape)}. Pass module=…, or X of shape (n, features) "
        "or (n, channels, height, width)."
    )


# Nets that a run spec can name.
NETS: dict[str, Callable[..., nn.Module]] = {
    "mnist-cnn": MnistCNN,
    "mnist-cnn-no-dropout": partial(MnistCNN, dropout=0.0),
    "mnist-cnn-wide": partial(MnistCNN, channels=(32, 64), hidden=256),
    "mnist-cnn-wide-no-dropout": partial(MnistCNN, channels=(32, 64), hidden=256, dropout=0.0),
    "mnist-mlp": MnistMLP,
    "preact-resnet-18": partial(PreActResNet18, final_norm=True),
    "preact-resnet-18-bare": PreActResNet18,
    "mlp": MLP,
    "small-cnn-wide": partial(SmallCNN, 1, (28, 28), widths=(64, 128, 256)),
}


def outputs(module: Callable[[Tensor], Tensor], x: Tensor, width: int | None) -> Tensor:
    """What the module gives for each row: a logit, or with a ``width`` a vector of so many numbers."""
    if width is None:
        return logits(module, x)
    out: object = module(x)
    if not isinstance(out, Tensor) or out.shape != (len(x), width):
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(f"the module must give {width} numbers per row, shape ({len(x)}, {width}), got {got}.")
    return out


def logits(module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """One logit per row, shape ``(n,)``, whether the module gives ``(n,)`` or ``(n, 1)``."""
    out: object = module(x)
    if not isinstance(out, Tensor):
        raise InputError(f"the module must give a tensor of one logit per row, got {type(out).__name__}.")
    squeezed = len(x) == 1 and out.ndim == 0  # a module may drop all axes of size one
    if not squeezed and out.shape not in (torch.Size([len(x)]), torch.Size([len(x), 1])):
        raise InputError(
            f"the module must give one logit per row, shape ({len(x)},) or ({len(x)}, 1), got {tuple(out.shape)}. "
            "End it with a layer of one output."
        )
    return out.reshape(len(x))
