"""Word mover's distance with a learned metric.

Four short texts are sets of weighted words, and words are vectors. The plain word mover's distance treats all directions of
the vectors alike; the robust one takes the worst metric over groups of them. The plan shows which word goes where.

The vectors here are made up, so that the script needs no download. For real vectors, use
``robust_ot.read_vec("glove.6B.300d.txt", words)``.
"""

import sys
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import robust_ot

TEXTS = {
    "sea rescue": "the captain steers the ship through the storm and saves the sailor from the wave",
    "shipwreck": "a sailor falls from the boat into the ocean and the captain turns the ship to the storm",
    "space rescue": "the pilot steers the rocket past the moon and saves the astronaut from the void",
    "kitchen": "the cook stirs the soup and the baker cuts the bread for the guest",
}
TOPICS = {
    "sea": "captain ship storm sailor wave boat ocean",
    "space": "pilot rocket moon astronaut void",
    "food": "cook soup baker bread guest",
    "verbs": "steers saves falls turns stirs cuts",
}


def word_vectors(dim: int = 60) -> dict[str, np.ndarray]:
    """Return vectors in which words of a topic, and people and vehicles of all topics, are close to each other."""
    rng = np.random.default_rng(3)
    kinds = {"people": "captain sailor pilot astronaut cook baker guest", "vehicles": "ship boat rocket"}
    centers = {name: rng.normal(size=dim) for name in (*TOPICS, *kinds)}
    vectors = {}
    for topic, words in TOPICS.items():
        for word in words.split():
            vector = centers[topic] + 0.6 * rng.normal(size=dim)
            vector += sum(centers[kind] for kind, members in kinds.items() if word in members.split())
            vectors[word] = vector / np.linalg.norm(vector)
    return vectors


def main(picture: str) -> None:
    """Compare all texts, then look at one pair."""
    vectors = word_vectors()
    bags = {name: Counter(word for word in text.split() if word in vectors) for name, text in TEXTS.items()}
    measures = [(np.array([vectors[w] for w in bag]), np.array(list(bag.values()), dtype=float)) for bag in bags.values()]
    names = list(bags)

    fig, axes = plt.subplots(1, 3, figsize=(14, 4.2), layout="constrained", width_ratios=[1, 1, 1.3])
    plain = robust_ot.pairwise(measures, metric="w2").matrix
    robust = robust_ot.pairwise(measures, metric="p", groups=10).matrix
    for ax, title, matrix in ((axes[0], "plain (w2)", plain), (axes[1], "robust (p, 10 groups)", robust)):
        matrix /= matrix.max()
        print(f"{title}: sea rescue is {matrix[0, 1]:.2f} from shipwreck, {matrix[0, 2]:.2f} from space rescue, "
              f"{matrix[0, 3]:.2f} from kitchen")  # fmt: skip
        assert matrix[0, 1] < matrix[0, 2] < matrix[0, 3]
        ax.imshow(matrix, cmap="viridis")
        ax.set_xticks(range(4), names, rotation=45, ha="right")
        ax.set_yticks(range(4), names)
        ax.set_title(title)

    one, other = measures[0], measures[2]
    solution = robust_ot.distance(*one[:1], *other[:1], one[1], other[1], groups=10)
    words = [list(bags[name]) for name in ("sea rescue", "space rescue")]
    axes[2].imshow(solution.plan(), cmap="Greys")
    axes[2].set_xticks(range(len(words[1])), words[1], rotation=45, ha="right")
    axes[2].set_yticks(range(len(words[0])), words[0])
    axes[2].set_title("from sea rescue to space rescue")
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "word_movers.png")
