"""The kinds `mlp` and `residual` as PyTorch modules, with the names that their parameters have in files of Cloison."""

import torch
from torch import nn

ACTIVATIONS = {"sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU}


def perceptron(features, hidden, width, activation, last_bias=True):
    widths = [features, *hidden, width]
    layers = []
    for at, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        last = at == len(hidden)
        layers.append(nn.Linear(inputs, outputs, bias=last_bias or not last))
        if not last:
            layers.append(ACTIVATIONS[activation]())
    return nn.Sequential(*layers)


class Shortcut(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.bn(self.conv(x))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        if stride != 1:
            self.shortcut = Shortcut(inputs, outputs, stride)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (self.shortcut(x) if hasattr(self, "shortcut") else x))


class Residual(nn.Module):
    """The kind `residual`: settings `channels`, `height`, `blocks`, `filters`; records are channel by channel, row by row."""

    def __init__(self, features, width, channels=1, height=28, blocks=3, filters=(16, 32, 64), last_bias=True):
        super().__init__()
        self.image = (channels, height, features // (channels * height))
        self.conv = nn.Conv2d(channels, filters[0], 3, 1, 1, bias=False)
        self.bn = nn.BatchNorm2d(filters[0])
        inputs = filters[0]
        self.stages = len(filters)
        for stage, outputs in enumerate(filters):
            chain = nn.Module()
            for block in range(blocks):
                chain.add_module(f"block{block + 1}", Block(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
                inputs = outputs
            self.add_module(f"stage{stage + 1}", chain)
        if width != inputs:
            self.linear = nn.Linear(inputs, width, bias=last_bias)

    def forward(self, x):
        x = torch.relu(self.bn(self.conv(x.reshape(-1, *self.image))))
        for stage in range(1, self.stages + 1):
            for block in getattr(self, f"stage{stage}").children():
                x = block(x)
        x = x.mean((2, 3))
        return self.linear(x) if hasattr(self, "linear") else x
