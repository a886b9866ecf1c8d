#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports a small network of PyTorch for main.cc. Writes beside itself

model.mlir          the program, as StableHLO text
model.safetensors   its weights, by name
model.arguments     what each argument is, one a line: the name of a weight, or "input"
example.safetensors an input, and what PyTorch makes of it

Needs torch, torch_xla and safetensors.
"""
from pathlib import Path

import torch
import torch_xla  # noqa: F401
from safetensors.torch import save_file
from torch import nn
from torch_xla.stablehlo import VariableType, exported_program_to_stablehlo

HERE = Path(__file__).resolve().parent


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.wide = nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.rows = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = nn.functional.max_pool2d(x, 2)
        x = nn.functional.gelu(self.wide(x))
        return torch.softmax(self.head(self.rows(x.mean((2, 3)))), -1)


def main():
    torch.manual_seed(0)
    model = Network().eval()
    model.norm.running_mean.uniform_(-0.5, 0.5)
    model.norm.running_var.uniform_(0.5, 1.5)
    x = torch.randn(2, 3, 8, 8)
    program = exported_program_to_stablehlo(torch.export.export(model, (x,)))
    (HERE / "model.mlir").write_text(program.get_stablehlo_text())
    weights = {k: v.contiguous() for k, v in model.state_dict().items() if v.dtype == torch.float32}
    save_file(weights, HERE / "model.safetensors")
    locations = program._bundle.stablehlo_funcs[0].meta.input_locations
    names = [l.name if l.type_ == VariableType.PARAMETER else "input" for l in locations]
    (HERE / "model.arguments").write_text("".join(n + "\n" for n in names))
    with torch.no_grad():
        save_file({"input": x, "output": model(x)}, HERE / "example.safetensors")


if __name__ == "__main__":
    main()
