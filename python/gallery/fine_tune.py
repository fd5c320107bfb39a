"""Fine-tune a small torch network with the robust loss.

A network learns nine classes in three families with cross-entropy. One copy continues with cross-entropy, another is
fine-tuned with robust transport. Both are right equally often, but the second predicts the right family slightly more often.
``explain`` shows where the mass of one prediction would have to go. Needs torch.
"""

import copy
import sys

import matplotlib.pyplot as plt
import numpy as np

try:
    import torch
    from robust_ot.torch import RobustOTLoss
    from torch import nn
except ImportError as error:
    sys.exit(f"fine_tune.py needs torch: pip install 'robust-ot[torch]' ({error})")

NAMES = ["cat", "dog", "fox", "car", "bus", "van", "rose", "fern", "oak"]


def samples(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return points of nine overlapping classes; classes of one family are slightly closer to each other than to others."""
    fixed = torch.Generator().manual_seed(0)
    centers = torch.randn(9, 20, generator=fixed)
    centers += 0.5 * torch.randn(3, 20, generator=fixed).repeat_interleave(3, 0)
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(9, (count,), generator=random)
    return centers[y] + 2.2 * torch.randn(count, 20, generator=random), y


def main(picture: str) -> None:
    """Train, fine-tune, compare, draw."""
    torch.manual_seed(0)
    X, y = samples(600, 1)
    X_test, y_test = samples(3000, 2)
    vectors = np.repeat(np.eye(3), 3, axis=0) + 0.3 * np.random.default_rng(0).normal(size=(9, 3))

    network: nn.Module = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 9))

    def train(network: nn.Module, loss: nn.Module, epochs: int, lr: float) -> nn.Module:
        optimizer = torch.optim.Adam(network.parameters(), lr=lr, weight_decay=1e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(X)).split(50):  # type: ignore[no-untyped-call, unused-ignore]
                optimizer.zero_grad()
                loss(network(X[rows]), y[rows]).backward()
                optimizer.step()
        return network

    def confusion(name: str, network: nn.Module) -> tuple[np.ndarray, float]:
        with torch.no_grad():
            h = network(X_test).softmax(-1).numpy()
        truth, families = y_test.numpy(), np.arange(9) // 3
        best = h.argmax(1)
        right = float((families[best] == families[truth]).mean())
        print(f"{name}: right class {(best == truth).mean():.3f}, right family {right:.3f}")
        return np.stack([h[truth == c].mean(0) for c in range(9)]), right

    train(network, nn.CrossEntropyLoss(), 10, 3e-3)
    plain = train(copy.deepcopy(network), nn.CrossEntropyLoss(), 20, 1e-3)
    robust = RobustOTLoss(vectors, mix_ce=1.0, mix_ot=2.0)
    network = train(network, robust, 20, 1e-3)
    before, right_before = confusion("cross-entropy", plain)
    after, right_after = confusion("fine-tuned", network)
    assert right_after > right_before

    robust(network(X_test[:1]), y_test[:1])
    (row,) = robust.explain()
    moved = np.argsort(-row.plan[:, 0])[:3]
    print(f"a {NAMES[int(y_test[0])]}:", ", ".join(f"{row.plan[p, 0]:.2f} of its mass is on {NAMES[p]}" for p in moved))

    fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    for ax, mass, name in zip(axes, (before, after), ("cross-entropy", "fine-tuned"), strict=True):
        image = ax.imshow(mass, cmap="viridis", vmin=0, vmax=max(before.max(), after.max()))
        ax.set_xticks(range(9), NAMES, rotation=45, ha="right")
        ax.set_yticks(range(9), NAMES)
        ax.set(xlabel="predicted", ylabel="true", title=name)
    fig.colorbar(image, ax=axes, shrink=0.8, label="mean probability")
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "fine_tune.png")
