"""Tokens and their ids: words, or byte-pair pieces; built from the training text, saved with the run as JSON.

A **word** is a run of letters, digits, underscores and combining marks, with hyphens kept inside ("T-Shirt");
an apostrophe inside a word starts a token of its own ("man's" is "man", "'s"); a number keeps its inner points,
commas and colons ("1,000.5", "8:30"); dots in a row are one token; any other character that is not white space
is a token by itself. Umlauts and ß are letters like any other.

Sentences as a run reads them: its two vocabularies, and ids with markers. No torch.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from regard.errors import InputError
from regard.extras import require
from regard.strict_json import parse_json
from regard.translator.runs.files import VOCABULARY, read_json

PAD, UNK, SOS, EOS = 0, 1, 2, 3
MARKERS = ("<pad>", "<unk>", "<sos>", "<eos>")
FIRST_WORD = len(MARKERS)  # ids from here on are words

_LETTER = r"[\w\u0300-\u036f]"  # NFC leaves a few marks uncombined; they belong to their letter
_WORD = re.compile(
    rf"\d+(?:[.,:]\d+)+"  # 1,000.5 and 8:30
    rf"|(?<={_LETTER})['’]{_LETTER}+"  # 's, 't, 'll
    rf"|{_LETTER}+(?:[-‐]{_LETTER}+)*"  # hund, t-shirt
    r"|\.{2,}"
    r"|\S"
)
_CLITIC = re.compile(rf"['’]{_LETTER}+")
_CLOSING = frozenset(".,;:!?%)]}»”…") | frozenset({"..", "...", "...."})
_OPENING = frozenset("([{«„“¿¡#$€£")
_SPACE = "▁"  # what the piece vocabulary writes for the blank before a word


class Vocabulary:
    """Tokens under their numbers; ids 0-3 are padding, unknown, start and end."""

    kind = ""

    def __init__(self, words: Sequence[str], *, lowercase: bool) -> None:
        self.words, self.lowercase = _checked_words(words), lowercase
        self._ids = {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def tokens(self, sentence: str) -> list[str]:
        """The tokens of a sentence as this vocabulary writes them."""
        raise NotImplementedError

    def encode(self, sentence: str) -> list[int]:
        """Ids of the tokens, without start and end; what is unknown becomes 1."""
        raise NotImplementedError

    def decode(self, ids: Sequence[int]) -> str:
        """The text that ``ids`` spell; padding, start and end are dropped, an unknown token shows as <unk>."""
        return self.join([self.words[i] for i in ids if i not in (PAD, SOS, EOS)])

    def join(self, tokens: Sequence[str]) -> str:
        """Tokens back to a text."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to build it again, as JSON values."""
        return {"kind": self.kind, "lowercase": self.lowercase, "words": list(self.words)}


def split_words(sentence: str) -> list[str]:
    """The words and punctuation marks of a sentence, by the rule at the top of this module.

    >>> split_words("Der Hund's T-Shirt kostet 1,50 € (heute)...")
    ['Der', 'Hund', "'s", 'T-Shirt', 'kostet', '1,50', '€', '(', 'heute', ')', '...']
    """
    return _WORD.findall(sentence)


def join_words(words: Sequence[str]) -> str:
    """Words back to a sentence: no blank before closing marks and clitics, none after opening marks.

    Straight quotes open and close in turn. Nothing can tell "a - b" from "a-b"; a lone hyphen keeps its blanks.

    >>> join_words(["the", "man", "'s", '"', "dog", '"', "barks", ",", "loudly", "(", "twice", ")", "."])
    'the man\\'s "dog" barks, loudly (twice).'
    """
    text, glue, inside = "", True, False
    for word in words:
        closes = word in _CLOSING or (word == '"' and inside) or _CLITIC.fullmatch(word) is not None
        text += word if glue or closes else " " + word
        inside ^= word == '"'
        glue = word in _OPENING or (word == '"' and inside)
    return text


class WordVocabulary(Vocabulary):
    """Whole words, most frequent first (equal counts by alphabet); rarer words are unknown.

    The coursework's: lower-cased, minimum frequency 2, built from the training sentences alone.

    >>> v = WordVocabulary.build(["Der Hund schläft.", "Der Hund bellt."])
    >>> v.words
    ['<pad>', '<unk>', '<sos>', '<eos>', '.', 'der', 'hund']
    >>> v.encode("Der Hund lacht.")
    [5, 6, 1, 4]
    >>> v.decode([2, 5, 6, 1, 4, 3, 0])
    'der hund <unk>.'
    """

    kind = "words"

    def __init__(self, words: Sequence[str], *, lowercase: bool = True) -> None:
        super().__init__(words, lowercase=lowercase)

    @classmethod
    def build(
        cls,
        sentences: Iterable[str],
        *,
        lowercase: bool = True,
        minimum_frequency: int = 2,
        size: int | None = None,
    ) -> Self:
        """Count the words of ``sentences``; keep those seen often enough, at most ``size`` of them with markers."""
        if minimum_frequency < 1:
            raise InputError(f"minimum_frequency must be 1 or more, not {minimum_frequency}; 2 is the coursework's.")
        if size is not None and size < 5:
            raise InputError(f"size must leave room for the 4 markers and a word, so 5 or more, not {size}.")
        counts: Counter[str] = Counter()
        for sentence in sentences:
            counts.update(split_words(_normalise(sentence, lowercase)))
        kept = sorted((w for w, n in counts.items() if n >= minimum_frequency), key=lambda w: (-counts[w], w))
        if not kept:
            raise InputError(
                f"No word occurs {minimum_frequency} times or more in the {len(counts)} words of the training text; "
                "give more text or a lower minimum frequency."
            )
        return cls([*MARKERS, *(kept if size is None else kept[: size - FIRST_WORD])], lowercase=lowercase)

    def tokens(self, sentence: str) -> list[str]:
        """The words of a sentence, known or not."""
        return split_words(_normalise(sentence, self.lowercase))

    def encode(self, sentence: str) -> list[int]:
        ids = self._ids
        return [ids.get(word, UNK) for word in self.tokens(sentence)]

    def join(self, tokens: Sequence[str]) -> str:
        return join_words(tokens)


class BPEVocabulary(Vocabulary):
    """Byte-pair pieces (Sennrich et al., 2016) learnt by the ``tokenizers`` library; one for both languages or each.

    Pieces never cross a blank or a punctuation mark; ``▁`` starts a word, so text comes back exactly (up to
    the kind of white space). Only characters never seen in training are unknown. For a joint vocabulary,
    build it from the sentences of both languages.

    >>> v = BPEVocabulary.build(["der hund bellt", "der hund schläft"] * 9, size=29)
    >>> v.tokens("Der Hund hebt"), len(v)
    (['▁', '<unk>', 'e', 'r', '▁', '<unk>', 'u', 'nd', '▁', 'h', 'e', 'b', 't'], 29)
    >>> v.decode(v.encode("der hund hebt"))
    'der hund hebt'
    """

    kind = "bpe"

    def __init__(self, words: Sequence[str], merges: Sequence[Sequence[str]], *, lowercase: bool = False) -> None:
        super().__init__(words, lowercase=lowercase)
        self.merges = _checked_merges(merges, self._ids)
        self._tokenizer = _piece_tokenizer(self.words, self.merges)

    @classmethod
    def build(
        cls,
        sentences: Iterable[str],
        *,
        size: int = 4000,
        lowercase: bool = False,
        minimum_frequency: int = 2,
    ) -> Self:
        """Merge the most frequent neighbouring pieces until there are ``size`` tokens, or none is frequent enough."""
        require("A vocabulary of pieces (bpe)", "tokenizers")
        from tokenizers import trainers

        texts = [_normalise(s, lowercase) for s in sentences]
        alphabet = {c for text in texts for c in text if not c.isspace()} | {_SPACE}
        smallest = len(alphabet) + FIRST_WORD
        if size < smallest:
            raise InputError(
                f"size must be at least {smallest}, the characters of this text and the 4 markers, not {size}."
            )
        blank = _piece_tokenizer([*MARKERS], [])
        trainer = trainers.BpeTrainer(
            vocab_size=size,
            min_frequency=minimum_frequency,
            special_tokens=[*MARKERS],
            show_progress=False,
            initial_alphabet=sorted(alphabet),  # otherwise a character that is rarer than the limit would be unknown
        )
        blank.train_from_iterator(texts, trainer)
        return cls(*_words_and_merges(blank), lowercase=lowercase)

    def tokens(self, sentence: str) -> list[str]:
        """The pieces of a sentence; a character never seen in training shows as <unk>."""
        return [self.words[i] for i in self.encode(sentence)]

    def encode(self, sentence: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(_normalise(sentence, self.lowercase)).ids
        return ids

    def without_unknown(self, sentence: str) -> tuple[str, str]:
        """A sentence without the characters never seen in training, and those characters, each once.

        A model of pieces never met <unk> while it learnt, so one of them spoils a whole sentence.

        >>> BPEVocabulary.build(["der hund bellt"] * 9, size=29).without_unknown("☃ der hund ☃ bellt!")
        ('der hund bellt', '☃!')
        """
        text = _normalise(sentence, self.lowercase)
        unknown = dict.fromkeys(c for c in text if not c.isspace() and c not in self._ids)
        return " ".join("".join(c for c in text if c not in unknown).split()), "".join(unknown)

    def join(self, tokens: Sequence[str]) -> str:
        return " ".join("".join(tokens).replace(_SPACE, " ").split())

    def to_dict(self) -> dict[str, Any]:
        return super().to_dict() | {"merges": [list(pair) for pair in self.merges]}


def vocabulary_from_dict(saved: dict[str, Any]) -> Vocabulary:
    """The vocabulary a run saved, whichever kind it is.

    >>> vocabulary_from_dict({"kind": "words", "lowercase": True, "words": [*MARKERS, "hund"]}).encode("Hund")
    [4]
    """
    kind = saved.get("kind") if isinstance(saved, dict) else None
    if kind == WordVocabulary.kind:
        _check_saved(saved, {"words": list, "lowercase": bool})
        return WordVocabulary(saved["words"], lowercase=saved["lowercase"])
    if kind == BPEVocabulary.kind:
        _check_saved(saved, {"words": list, "merges": list, "lowercase": bool})
        return BPEVocabulary(saved["words"], saved["merges"], lowercase=saved["lowercase"])
    raise InputError(f"A saved vocabulary must say its kind, 'words' or 'bpe'; this one says {kind!r}.")


def _normalise(sentence: str, lowercase: bool) -> str:
    text = unicodedata.normalize("NFC", sentence)
    return text.lower() if lowercase else text


def _checked_words(words: Sequence[str]) -> list[str]:
    if not all(isinstance(word, str) for word in words) or tuple(words[:FIRST_WORD]) != MARKERS:
        raise InputError(f"A vocabulary is a list of words that starts with {', '.join(MARKERS)}.")
    twice = [word for word, count in Counter(words).items() if count > 1]
    if twice:
        raise InputError(f"A vocabulary has every word once, but {twice[0]!r} is in it more often; remove the others.")
    return list(words)


def _checked_merges(merges: Sequence[Sequence[str]], known: Mapping[str, int]) -> list[tuple[str, str]]:
    for pair in merges:
        if len(pair) != 2 or not {*pair, "".join(pair)} <= known.keys():
            raise InputError(f"A merge joins two pieces of the vocabulary into a third, but {list(pair)} does not.")
    return [(left, right) for left, right in merges]


def _check_saved(saved: dict[str, Any], fields: dict[str, type]) -> None:
    wrong = [name for name, wanted in fields.items() if not isinstance(saved.get(name), wanted)]
    if wrong:
        raise InputError(
            f"A saved vocabulary of kind {saved['kind']!r} needs {', '.join(fields)}; "
            f"this one has kind {saved['kind']!r} and lacks {', '.join(wrong)}."
        )


def _piece_tokenizer(words: Sequence[str], merges: list[tuple[str, str]]) -> Any:
    """The library's tokenizer, told of no special tokens: "<eos>" in a text is five characters, never the marker."""
    require("A vocabulary of pieces (bpe)", "tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    model = models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=merges, unk_token=MARKERS[UNK])
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
    )
    return tokenizer


def _words_and_merges(tokenizer: Any) -> tuple[list[str], list[tuple[str, str]]]:
    model = parse_json(tokenizer.to_str())["model"]
    words = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return words, [tuple(pair) for pair in model["merges"]]


def read_vocabularies(folder: Path) -> tuple[Vocabulary, Vocabulary]:
    """The source's and the target's vocabulary of a run."""
    saved = read_json(folder / VOCABULARY)
    if not isinstance(saved, dict) or not {"source", "target"} <= saved.keys():
        raise InputError(f"{folder / VOCABULARY} needs a source and a target vocabulary; restore it from a copy.")
    try:
        return vocabulary_from_dict(saved["source"]), vocabulary_from_dict(saved["target"])
    except InputError as error:
        raise InputError(f"{folder / VOCABULARY} is damaged: {error} Restore it from a copy.") from None


def encode_sources(
    sentences: Sequence[str], vocabulary: Vocabulary, *, longest: int, cut: bool
) -> tuple[list[list[int]], list[int]]:
    """Ids with markers of every sentence, and which were cut."""
    encoded, shortened = [], []
    for number, sentence in enumerate(sentences):
        ids = vocabulary.encode(sentence)
        if not ids:
            raise InputError(f"Sentence {number + 1} is empty; give at least one word, or remove the line.")
        if len(ids) > longest and not cut:
            raise InputError(
                f"Sentence {number + 1} has {len(ids)} tokens and this run reads at most {longest}; "
                "shorten it, or pass --cut to translate its beginning."
            )
        if len(ids) > longest:
            shortened.append(number)
        encoded.append([SOS, *ids[:longest], EOS])
    return encoded, shortened


def without_unknown(sentences: Sequence[str], vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """Sentences without the characters that pieces cannot spell, and what was left out of which.

    A sentence of which nothing would be left stays as it is. Unknown words of a vocabulary of words stay: its models
    have learnt what <unk> is.
    """
    if not isinstance(vocabulary, BPEVocabulary):
        return list(sentences), []
    kept, said = [], []
    for number, sentence in enumerate(sentences, 1):
        text, unknown = vocabulary.without_unknown(sentence)
        if text and unknown:
            said.append(f"Not in the training text, and so left out of sentence {number}: {' '.join(unknown)}")
        kept.append(text if text and unknown else sentence)
    return kept, said
