"""A small net of dilated convolutions over the positions of sequences (PyTorch)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

N_CHANNELS = 32
DILATIONS = (1, 2, 4, 8)  # with kernels of 5 positions, a label depends on 30 rows on each side
N_EPOCHS = 60
PATIENCE = 8
BATCH_POSITIONS = 500

Sequences = list[np.ndarray]


def train(
    X: Sequences,
    y: Sequences,
    n_labels: int,
    n_epochs: int = N_EPOCHS,
    validation: tuple[Sequences, Sequences] | None = None,
) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """Train on sequences of standardized numbers without missing values.

    Returns
    -------
    predict : callable
        Returns the probabilities of the labels at each position of a sequence.
    n_epochs : int
        Number of epochs, with the smallest loss on the validation data if there are any; training
        stops when the loss has not decreased for ``PATIENCE`` epochs.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = _net(X[0].shape[1], n_labels)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, weight_decay=1e-4)
    smallest, best_epoch, best_state = np.inf, n_epochs, net.state_dict()
    for epoch in range(1, n_epochs + 1):
        net.train()
        for batch in _batches(X, seed=epoch):
            optimizer.zero_grad()
            loss = _loss(net, [X[i] for i in batch], [y[i] for i in batch])
            loss.backward()
            optimizer.step()
        if validation is None:
            continue
        net.eval()
        with torch.no_grad():
            loss_now = float(_loss(net, *validation))
        if loss_now < smallest:
            smallest, best_epoch, best_state = loss_now, epoch, copy.deepcopy(net.state_dict())
        if epoch - best_epoch >= PATIENCE:
            break
    net.load_state_dict(best_state)
    net.eval()
    return lambda table: _probabilities(net, table), best_epoch


def _net(n_columns: int, n_labels: int) -> nn.Module:
    layers: list[nn.Module] = []
    n_inputs = n_columns
    for dilation in DILATIONS:
        padding = 2 * dilation
        layers += [nn.Conv1d(n_inputs, N_CHANNELS, 5, padding=padding, dilation=dilation),
                   nn.ReLU(), nn.Dropout(0.2)]  # fmt: skip
        n_inputs = N_CHANNELS
    return nn.Sequential(*layers, nn.Conv1d(N_CHANNELS, n_labels, 1))


def _batches(X: Sequences, seed: int) -> list[list[int]]:
    """Group the sequences, in random order, to about ``BATCH_POSITIONS`` positions each."""
    order = np.random.RandomState(seed).permutation(len(X))
    ends = np.cumsum([len(X[i]) for i in order])
    groups = ends // BATCH_POSITIONS
    return [order[groups == group].tolist() for group in np.unique(groups)]


def _loss(net: nn.Module, X: Sequences, y: Sequences) -> torch.Tensor:
    """Return the mean cross-entropy of the positions; shorter sequences are padded with zeros."""
    tables = [torch.as_tensor(table, dtype=torch.float32) for table in X]
    padded = nn.utils.rnn.pad_sequence(tables, batch_first=True).transpose(1, 2)
    codes = [torch.as_tensor(labels, dtype=torch.long) for labels in y]
    targets = nn.utils.rnn.pad_sequence(codes, batch_first=True, padding_value=-100)
    return nn.functional.cross_entropy(net(padded), targets)


def _probabilities(net: nn.Module, table: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        inputs = torch.as_tensor(table, dtype=torch.float32).T[np.newaxis]
        return net(inputs)[0].softmax(dim=0).T.numpy()
