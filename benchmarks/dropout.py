"""ReLU with keyed dropout against torch's, forward and backward, on activations like Pubmed's."""

from __future__ import annotations

import torch
from _timing import line, paired_ratio

from ncgnn.nn import DropoutKey, relu_dropout


def main() -> None:
    x = torch.randn(19_717, 512, requires_grad=True)
    gradient = torch.randn_like(x)
    key = DropoutKey(seed=0, step=0).at(0)

    def ours() -> None:
        relu_dropout(x, 0.5, key).backward(gradient)

    def torchs() -> None:
        torch.nn.functional.dropout(torch.relu(x), 0.5).backward(gradient)

    def copies() -> None:
        x.detach().clone()
        gradient.clone()

    print(f"{torch.get_num_threads()} threads; medians of paired ratios")
    line("torch's ReLU and dropout / ours", paired_ratio(torchs, ours), "> 1")
    line("ours / copying activations and gradient", paired_ratio(ours, copies), "none")


if __name__ == "__main__":
    main()
