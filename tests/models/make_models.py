#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports small networks of PyTorch as StableHLO: a block or two of each kind that is in use.
usage: make_models.py             writes NAME.mlir beside itself (needs torch and torch_xla)
       make_models.py --time      times them in PyTorch (eager, one thread), for bench_models' column
"""
import argparse
import json
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).resolve().parent


def norm_act(inputs, outputs, size, act, **options):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, bias=False, **options), nn.BatchNorm2d(outputs), act())


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.a = norm_act(inputs, outputs, 3, nn.ReLU, stride=stride, padding=1)
        self.b = norm_act(outputs, outputs, 3, nn.Identity, padding=1)
        self.skip = norm_act(inputs, outputs, 1, nn.Identity, stride=stride)

    def forward(self, x):
        return F.relu(self.b(self.a(x)) + self.skip(x))


class Dense(nn.Module):
    def __init__(self, inputs, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(inputs + k * growth), nn.ReLU(),
                          nn.Conv2d(inputs + k * growth, growth, 3, padding=1, bias=False))
            for k in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return F.avg_pool2d(x, 2)


class Squeezed(nn.Module):
    """An inverted residual of EfficientNet."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        wide = 6 * inputs
        self.expand = norm_act(inputs, wide, 1, nn.SiLU)
        self.depthwise = norm_act(wide, wide, 3, nn.SiLU, stride=stride, padding=1, groups=wide)
        self.down, self.up = nn.Conv2d(wide, 8, 1), nn.Conv2d(8, wide, 1)
        self.project = norm_act(wide, outputs, 1, nn.Identity)

    def forward(self, x):
        x = self.depthwise(self.expand(x))
        scale = torch.sigmoid(self.up(F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))))
        return self.project(scale * x)


class Shuffled(nn.Module):
    def __init__(self, features):
        super().__init__()
        half = features // 2
        self.branch = nn.Sequential(
            norm_act(half, half, 1, nn.ReLU),
            norm_act(half, half, 3, nn.Identity, padding=1, groups=half),
            norm_act(half, half, 1, nn.ReLU))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        x = torch.cat([a, self.branch(b)], 1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Next(nn.Module):
    """A block of ConvNeXt."""

    def __init__(self, features):
        super().__init__()
        self.depthwise = nn.Conv2d(features, features, 7, padding=3, groups=features)
        self.norm = nn.LayerNorm(features, eps=1e-6)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
        self.scale = nn.Parameter(torch.full((features, 1, 1), 0.1))

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.scale * self.down(F.gelu(self.up(y))).permute(0, 3, 1, 2)


class Patches(nn.Module):
    """A vision transformer."""

    def __init__(self, features, layers):
        super().__init__()
        self.patch = nn.Conv2d(3, features, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, features))
        self.place = nn.Parameter(0.02 * torch.randn(1, 17, features))
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(features, 4, 4 * features, activation="gelu",
                                       batch_first=True, norm_first=True) for _ in range(layers))
        self.head = nn.Linear(features, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        mask = torch.zeros(17, 17)
        for layer in self.layers:
            x = layer(x, src_mask=mask)
        return self.head(x[:, 0])


class Decoder(nn.Module):
    """What a language model of today is made of: RMS norms, rotated queries, a gated MLP."""

    def __init__(self, features, heads):
        super().__init__()
        self.heads = heads
        for name in ("q", "k", "v", "o"):
            setattr(self, name, nn.Linear(features, features, bias=False))
        self.gate, self.up = (nn.Linear(features, 3 * features, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * features, features, bias=False)
        self.a, self.b = (nn.Parameter(torch.ones(features)) for _ in range(2))
        angle = torch.arange(32)[:, None] * 10000 ** (-torch.arange(8)[None] / 8)
        self.register_buffer("cos", torch.cat([angle.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angle.sin()] * 2, -1))

    def norm(self, x, w):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w

    def rotated(self, x):
        low, high = x.chunk(2, -1)
        return x * self.cos + torch.cat([-high, low], -1) * self.sin

    def forward(self, x):
        b, n, d = x.shape
        y = self.norm(x, self.a)
        split = lambda w: w(y).view(b, n, self.heads, -1).transpose(1, 2)
        scores = self.rotated(split(self.q)) @ self.rotated(split(self.k)).transpose(2, 3) / 4
        scores = scores + torch.full((n, n), -1e9).triu(1)
        x = x + self.o((scores.softmax(-1) @ split(self.v)).transpose(1, 2).reshape(b, n, d))
        y = self.norm(x, self.b)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Shaped(nn.Module):
    """Down and up again, as in segmentation."""

    def __init__(self):
        super().__init__()
        self.a, self.b = norm_act(3, 16, 3, nn.ReLU, padding=1), Residual(16, 32, 1)
        self.up = nn.ConvTranspose2d(32, 16, 4, 2, 1)
        self.c, self.norm = nn.Conv2d(32, 16, 3, padding=1), nn.GroupNorm(4, 16)

    def forward(self, x):
        a = self.a(x)
        x = torch.cat([self.up(self.b(F.max_pool2d(a, 2))), a], 1)
        return F.interpolate(F.silu(self.norm(self.c(x))), scale_factor=2)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(16, 32, batch_first=True), nn.Linear(32, 5)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def image(batch, features, size):
    return (torch.randn(batch, features, size, size),)


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                                  nn.Linear(128, 10)), lambda: (torch.randn(1, 64),)),
    "lstm": (Recurrent, lambda: (torch.randn(2, 8, 16),)),
    "resnet": (lambda: nn.Sequential(norm_act(3, 16, 7, nn.ReLU, stride=2, padding=3),
                                     nn.MaxPool2d(3, 2, 1), Residual(16, 32, 1),
                                     Residual(32, 64, 2)), lambda: image(2, 3, 64)),
    "densenet": (lambda: nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), Dense(16, 12, 3),
                                       Dense(52, 12, 2)), lambda: image(2, 3, 32)),
    "efficientnet": (lambda: nn.Sequential(norm_act(3, 16, 3, nn.SiLU, stride=2, padding=1),
                                           Squeezed(16, 24, 2), Squeezed(24, 24, 1)),
                     lambda: image(2, 3, 64)),
    "shufflenet": (lambda: nn.Sequential(norm_act(3, 32, 3, nn.ReLU, stride=2, padding=1),
                                         nn.MaxPool2d(3, 2, 1), Shuffled(32), Shuffled(32)),
                   lambda: image(2, 3, 64)),
    "grouped": (lambda: nn.Sequential(nn.Conv2d(3, 48, 3, 2, 1), nn.ReLU(),
                                      nn.Conv2d(48, 48, 3, 1, 1, groups=6), nn.ReLU(),
                                      nn.Conv2d(48, 48, 1)), lambda: image(2, 3, 32)),
    "convnext": (lambda: nn.Sequential(nn.Conv2d(3, 32, 4, 4), Next(32), nn.Conv2d(32, 64, 2, 2),
                                       Next(64)), lambda: image(2, 3, 64)),
    "vit": (lambda: Patches(64, 2), lambda: image(2, 3, 32)),
    "decoder": (lambda: Decoder(64, 4), lambda: (torch.randn(2, 32, 64),)),
    "unet": (Shaped, lambda: image(1, 3, 32)),
}


def export(name, model, inputs):
    import torch_xla  # noqa: F401
    from torch_xla.stablehlo import exported_program_to_stablehlo

    program = exported_program_to_stablehlo(torch.export.export(model, inputs))
    (HERE / f"{name}.mlir").write_text(program.get_stablehlo_text())


def timed(model, inputs):
    times = []
    with torch.no_grad():
        for _ in range(5):
            model(*inputs)
        end = time.perf_counter() + 1
        while time.perf_counter() < end:
            start = time.process_time()
            model(*inputs)
            times.append(1e6 * (time.process_time() - start))
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--time", action="store_true")
    parser.add_argument("names", nargs="*")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    for name in flags.names or MODELS:
        torch.manual_seed(0)
        make, inputs = MODELS[name]
        model = make().eval()
        if flags.time:
            print(json.dumps({"name": name, "torch": {"cpu_us": timed(model, inputs())}}), flush=True)
        else:
            export(name, model, inputs())


if __name__ == "__main__":
    main()
