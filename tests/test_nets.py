"""The paper's nets have the paper's sizes; the defaults take what they are given."""

import pytest
import torch

from pulab.nets import MLP, NETS, MnistCNN, PreActBlock, PreActResNet18, SmallCNN, default_net, logits
from pulab.training import can_stack


def n_parameters(net: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def test_parameter_counts() -> None:
    # conv 5·(25+1) + conv 10·(5·25+1) + 160·40+40 + 40+1
    assert n_parameters(MnistCNN()) == 130 + 1260 + 6440 + 41
    # stem; blocks of two 3×3 convolutions, BatchNorms before them, a 1×1 shortcut where the width changes; head
    blocks = [(64, 64), (64, 64), (64, 128), (128, 128), (128, 256), (256, 256), (256, 512), (512, 512)]
    in_blocks = sum(9 * a * b + 9 * b * b + 2 * a + 2 * b + (a * b if a != b else 0) for a, b in blocks)
    assert n_parameters(PreActResNet18()) == 27 * 64 + in_blocks + 513
    assert n_parameters(NETS["preact-resnet-18"]()) == 27 * 64 + in_blocks + 2 * 512 + 513
    assert n_parameters(NETS["mnist-cnn-wide"]()) == 32 * 26 + 64 * (32 * 25 + 1) + 1024 * 256 + 256 + 257
    assert n_parameters(MLP(9216)) == 9216 * 300 + 300 + 300 * 300 + 300 + 301


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (MnistCNN(), (1, 28, 28)),
        (PreActResNet18(), (3, 32, 32)),
        (PreActResNet18(final_norm=True), (3, 32, 32)),
        (MLP(9216), (9216,)),
        (MLP(3, hidden=()), (3,)),
        (SmallCNN(1, (8, 8)), (1, 8, 8)),
        (default_net((2, 1, 1)), (2, 1, 1)),
        (default_net((3, 5, 64)), (3, 5, 64)),
        (default_net((7,)), (7,)),
    ],
)
def test_one_logit_per_row(net: torch.nn.Module, shape: tuple[int, ...]) -> None:
    assert net(torch.randn(4, *shape)).shape == (4, 1)
    assert logits(net, torch.randn(3, *shape)).shape == (3,)


def test_the_protocols_resnet_pools_its_last_block_as_it_is() -> None:
    nn = torch.nn
    assert [type(layer) for layer in PreActResNet18()][-3:] == [nn.AdaptiveAvgPool2d, nn.Flatten, nn.Linear]
    assert isinstance(PreActResNet18()[-4], PreActBlock)


@pytest.mark.parametrize("name", [name for name in NETS if name.startswith("mnist")])
def test_many_nets_for_mnist_are_trained_as_one(name: str) -> None:
    net = NETS[name]()
    assert can_stack(net)
    assert any(isinstance(layer, torch.nn.Dropout) for layer in net.modules()) == (
        name in ("mnist-cnn", "mnist-cnn-wide")
    )


def test_wrong_number_of_outputs_is_refused() -> None:
    with pytest.raises(ValueError, match=r"one logit per row.*got \(4, 2\)"):
        logits(torch.nn.Linear(3, 2), torch.randn(4, 3))


def test_pooling_before_relu_changes_nothing() -> None:
    """MnistCNN pools before ReLU, the paper after it: the same outputs and gradients."""
    nn = torch.nn
    ours = MnistCNN().double().eval()
    order = [0, 2, 1, 3, 5, 4, 6, 7, 8, 9, 10]
    papers = nn.Sequential(*(ours[i] for i in order))
    assert [type(layer) for layer in papers][:3] == [nn.Conv2d, nn.ReLU, nn.MaxPool2d]
    x = torch.randn(5, 1, 28, 28, dtype=torch.float64)
    gradients = [torch.autograd.grad(net(x).sum(), list(ours.parameters())) for net in (ours, papers)]
    assert torch.equal(ours(x), papers(x))
    assert all(torch.allclose(a, b, rtol=1e-12, atol=0) for a, b in zip(*gradients, strict=True))
