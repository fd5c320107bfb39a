"""Search short texts by meaning, and tell how certain the answer is.

120 short texts of six topics, as sets of word vectors, and 24 queries that share hardly any word with the texts of their topic.
The nearest texts under robust transport decide the topic. Bounds exclude most texts without solving them, and show which
neighbors are certain.

The texts and vectors here are made up, so that the script needs no download. For real vectors, use
``robust_ot.read_vec("glove.6B.300d.txt", words)``.
"""

import sys
from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
import robust_ot

TOPICS = {
    "sea": "captain ship storm sailor wave boat ocean harbor anchor reef tide mast",
    "space": "pilot rocket moon astronaut orbit comet planet crater probe star void launch",
    "kitchen": "cook soup baker bread oven spoon butter garlic recipe kettle salt dough",
    "garden": "rose tree spade seed hedge lawn tulip soil rake bee pond fern",
    "music": "violin choir drum song piano flute chord concert singer rhythm opera cello",
    "law": "judge court lawyer verdict trial jury appeal clerk witness statute oath plea",
}
NEIGHBORS = 5


def word_vectors(rng: np.random.Generator, dim: int = 40) -> dict[str, np.ndarray]:
    """Return vectors in which words of a topic are close to each other."""
    centers = {topic: rng.normal(size=dim) for topic in TOPICS}
    return {word: centers[topic] + 2.0 * rng.normal(size=dim) for topic, words in TOPICS.items() for word in words.split()}


def texts(rng: np.random.Generator, count: int, half: slice) -> list[tuple[str, Counter[str]]]:
    """Return texts of nine words from one half of their topic's words, and three of any topic."""
    everything = " ".join(TOPICS.values()).split()
    found = []
    for at in range(count):
        topic, words = list(TOPICS.items())[at % len(TOPICS)]
        found.append((topic, Counter([*rng.choice(words.split()[half], 9), *rng.choice(everything, 3)])))
    return found


def main(picture: str) -> None:
    """Find the nearest texts of every query, vote, draw."""
    rng = np.random.default_rng(0)
    vectors = word_vectors(rng)
    documents, queries = texts(rng, 120, slice(0, 7)), texts(rng, 24, slice(6, 12))

    def measure(bag: Counter[str]) -> tuple[np.ndarray, np.ndarray]:
        return np.array([vectors[word] for word in bag]), np.array(list(bag.values()), dtype=float)

    library, asked = [measure(bag) for _, bag in documents], [measure(bag) for _, bag in queries]
    found = robust_ot.nearest(asked, library, NEIGHBORS, groups=10)

    def right(neighbors: np.ndarray) -> float:
        votes = [Counter(documents[at][0] for at in row).most_common(1)[0][0] for row in neighbors]
        return float(np.mean([vote == topic for vote, (topic, _) in zip(votes, queries, strict=True)]))

    shared = np.array([[sum((mine & other).values()) for _, other in documents] for _, mine in queries])
    by_words, by_meaning = right(np.argsort(-shared, axis=1, kind="stable")[:, :NEIGHBORS]), right(found.indices)
    print(f"right topic: {by_words:.0%} by shared words, {by_meaning:.0%} by robust transport")
    print(f"{found.solved} of {found.pairs} distances were solved; {found.certain.mean():.0%} of the neighbors are certain")
    assert by_meaning > by_words
    assert found.solved < found.pairs

    fig, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=[1.4, 1])
    names = list(TOPICS)
    votes = np.zeros((len(queries), len(names)))
    for row, neighbors in enumerate(found.indices):
        np.add.at(votes[row], [names.index(documents[at][0]) for at in neighbors], 1)
    order = np.argsort([names.index(topic) for topic, _ in queries], kind="stable")
    axes[0].imshow(votes[order].T, cmap="viridis", aspect="auto")
    axes[0].set_yticks(range(len(names)), names)
    axes[0].set_xticks(range(len(queries)), [queries[at][0] for at in order], rotation=90)
    axes[0].set(xlabel="query", title=f"topics of the {NEIGHBORS} nearest texts: {by_meaning:.0%} right")
    whole = robust_ot.pairwise(asked[:1], library, groups=10).matrix[0]
    inside = np.isin(np.arange(len(library)), found.indices[0])
    axes[1].hist([whole[~inside], whole[inside]], bins=30, stacked=True, label=["other texts", f"its {NEIGHBORS} nearest"])
    axes[1].set(xlabel="distance", ylabel="texts", title=f"all distances from one query about the {queries[0][0]}")
    axes[1].legend()
    fig.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "search_documents.png")
