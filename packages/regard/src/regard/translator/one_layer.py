"""The coursework's translator in one plain file: a one-layer Transformer that turns German into English.

python one_layer.py [PAIRS.tsv]         # a minute on one core; lines of GERMAN<tab>ENGLISH, or the built-in corpus

X = E[s] + P                            token plus position, one row per place
H = softmax(Q K^T / sqrt(d)) V          Q = X W_Q + b_Q, K and V alike, in several heads; Y = norm(X + H W_O + b_O)
Z = norm(Y + ReLU(Y W_1 + b_1) W_2 + b_2),   p = softmax(Z W + b)   the target word at every place, all at once
"""

import csv
import gzip
import math
import re
import sys
from pathlib import Path

import torch
from torch import nn

PAD, UNKNOWN, START, END = range(4)
BATCH = 64
BUILT_IN = Path(__file__).parent / "data" / "builtin.tsv.gz"


# --- From text to numbers. A model reads whole numbers, so every word gets one; the first four are markers. ---


def tokens(sentence: str) -> list[str]:
    """Words and punctuation marks, lower-cased: "Der Hund schläft." is der, hund, schläft and the full stop."""
    return re.findall(r"\w+|[^\w\s]", sentence.lower())


def vocabulary(sentences: list[list[str]]) -> dict[str, int]:
    """A number for each word, in the order of the alphabet, so that every run has the same."""
    words = sorted({word for sentence in sentences for word in sentence})
    return {word: number for number, word in enumerate(words, start=4)}


def encode(sentence: list[str], numbers: dict[str, int], length: int) -> list[int]:
    """Marked at both ends and padded, because the rows of a batch must be equally long."""
    ids = [START, *(numbers.get(word, UNKNOWN) for word in sentence), END]
    return ids + [PAD] * (length - len(ids))


# --- The model, in the order of the formulas above. ---


class OneLayerTranslator(nn.Module):
    def __init__(self, source_words: int, target_words: int, *, length: int, width: int = 128, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.words, self.places = nn.Embedding(source_words, width), nn.Embedding(length, width)
        self.query, self.key, self.value, self.mix = (nn.Linear(width, width) for _ in range(4))
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.output = nn.Linear(width, target_words)
        # torch starts embeddings at length sqrt(width), which drowns what attention adds: rows of length 1 learn faster
        nn.init.normal_(self.words.weight, std=width**-0.5)
        nn.init.normal_(self.places.weight, std=width**-0.5)

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """Scores (batch, places, target words) from source ids (batch, places)."""
        x = self.words(source) + self.places.weight[: source.shape[1]]
        y = self.norm_1(x + self.attention(x, source != PAD))
        z = self.norm_2(y + self.outer(torch.relu(self.inner(y))))
        return self.output(z)

    def attention(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        """Every place asks; every real word may be read. Padding is never read: a batch must not change a sentence."""
        batch, places, width = x.shape

        def split(states: torch.Tensor) -> torch.Tensor:  # each head has its own slice of the width
            return states.view(batch, places, self.heads, width // self.heads).transpose(1, 2)

        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))
        # divided by the root of one head's width, so that a softmax over long vectors does not begin saturated
        scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
        weights = torch.softmax(scores.masked_fill(~real[:, None, None, :], -math.inf), dim=-1)
        return self.mix((weights @ v).transpose(1, 2).reshape(batch, places, width))


# --- Training, perplexity and translation. ---


def loss(model: OneLayerTranslator, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """-log p of each target token, on average; padding is no token, so it is left out."""
    return nn.functional.cross_entropy(model(source).transpose(1, 2), target, ignore_index=PAD)


def train(model: OneLayerTranslator, source: torch.Tensor, target: torch.Tensor, *, epochs: int) -> None:
    """Adam on shuffled batches; the rate falls to zero, so that the last steps settle instead of wandering."""
    steps = epochs * math.ceil(len(source) / BATCH)
    adam = torch.optim.Adam(model.parameters(), lr=2e-3)
    rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    for epoch in range(epochs):
        for rows in torch.randperm(len(source)).split(BATCH):
            adam.zero_grad()
            loss(model, source[rows], target[rows]).backward()
            adam.step()
            rate.step()
        print(f"epoch {epoch + 1} of {epochs} done", flush=True)


@torch.no_grad()
def perplexity(model: OneLayerTranslator, source: torch.Tensor, target: torch.Tensor) -> float:
    """exp of the mean -log p: among how many equally likely words the model, in effect, has to choose."""
    batches = zip(source.split(BATCH), target.split(BATCH), strict=True)
    total = sum(float(loss(model, s, t)) * int((t != PAD).sum()) for s, t in batches)
    return math.exp(total / int((target != PAD).sum()))


@torch.no_grad()
def translate(model: OneLayerTranslator, sentence: str, numbers: dict[str, int], words: list[str]) -> str:
    """The likeliest word at every place, up to the end marker. Places do not hear one another: that is its limit."""
    length = model.places.num_embeddings
    ids = model(torch.tensor([encode(tokens(sentence)[: length - 2], numbers, length)]))[0].argmax(dim=-1).tolist()
    said = ids[: ids.index(END)] if END in ids else ids
    return " ".join(words[i - 4] for i in said if i >= 4)


def read_pairs(path: Path) -> list[tuple[list[str], list[str]]]:
    """(German, English) from a table with tabs between; the built-in one has a header that names its columns."""
    with (gzip.open if path == BUILT_IN else open)(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    rows = [row[1:3] for row in rows if row[0] == "corpus"] if rows[0][0] == "part" else rows
    return [(tokens(row[0]), tokens(row[1])) for row in rows]


def main() -> None:
    torch.manual_seed(0)
    pairs = read_pairs(Path(sys.argv[1]) if len(sys.argv) > 1 else BUILT_IN)
    held = min(1000, len(pairs) // 10)  # never trained on: what was learned is measured on sentences never seen
    fitting, unseen = pairs[:-held], pairs[-held:]
    german, english = vocabulary([de for de, _ in fitting]), vocabulary([en for _, en in fitting])
    length = 2 + max(len(side) for pair in pairs for side in pair)
    (source, target), (new_source, new_target) = (
        [torch.tensor([encode(pair[i], (german, english)[i], length) for pair in some]) for i in (0, 1)]
        for some in (fitting, unseen)
    )
    model = OneLayerTranslator(len(german) + 4, len(english) + 4, length=length)
    before = perplexity(model, new_source, new_target)
    print(f"{len(fitting):,} pairs to learn from, {held:,} unseen; perplexity of the untrained model: {before:.1f}")
    train(model, source, target, epochs=3)
    print(f"perplexity on the unseen pairs: {perplexity(model, new_source, new_target):.2f}")
    for sentence in ("Der Hund sieht die Katze.", "Ist das Fahrrad teuer?"):
        print(f"{sentence}  ->  {translate(model, sentence, german, list(english))}")


if __name__ == "__main__":
    main()
