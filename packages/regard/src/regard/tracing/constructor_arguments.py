"""Making somebody's model small: which constructor argument means which size, guessed from its name or declared.

The sizes are distinct numbers, so that no two axes can be confused: 2 heads of width 11 in a width of 22, an inner
width of 29, 31 source words, 37 target words, 211 places.
"""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.errors import InputError

PLACES = 7  # the longest sentence that is traced
LONGEST = 211  # places that a model is made for: more than 200 can be asked for, and its full length
SIZES: dict[str, Any] = {
    "source_words": 31,
    "target_words": 37,
    "width": 22,
    "heads": 2,
    "head_width": 11,
    "inner": 29,
    "longest": LONGEST,
    "layers": 1,
    "pad": 0,
    "dropout": 0.1,
    "device": "cpu",
    "expansion": 2,
    "eps": 1e-6,
}
OTHER_HEAD_WIDTH = 13  # tried first where the width of a head is an argument of its own
EVEN = {"width": 24, "head_width": 12}  # for models that pair numbers, or want a width that 8 divides
NAMES = {
    "source_words": ""
    "inputsize srcvocabsize vocabsize sourcevocabsize inputvocabsize inputvocab ntokens numtokens nvocab "
    "srcvocab sourcevocab inputdim invocab sourcewords numembeddings ntoken srcsize vocab vocabularysize "
    "insize nsrcvocab encvocabsize numwords inputwords nwords encvocab",
    "target_words": ""
    "outputsize tgtvocabsize trgvocabsize targetvocabsize outputvocabsize outputvocab outputdim numclasses "
    "nclasses targetwords tgtvocab trgvocab targetvocab outsize tgtsize outvocab decvocabsize ntgtvocab "
    "outputwords",
    "width": "hiddendim dmodel hiddensize embeddim embedsize embdim embsize modeldim dim width nembd hiddim "
    "embeddingdim d ninp features size embeddingsize nembed modelsize hidden dimmodel modelwidth inputwidth "
    "embed dembed emb nstate normalizedshape numhiddens featuresize channels embdims dimensions dimension "
    "dimhidden hiddenunits units embedding dwordvec wordvecdim ndim",
    "heads": "numheads nheads nhead heads h numattentionheads head attentionheads numhead numofheads headcount "
    "headsnum nhhead mhaheads",
    "head_width": "querykeysize "
    "dimk dimq dimv dk dv dq headdim headsize headwidth dimhead kdim vdim dimperhead keysize valuesize "
    "querysize keydim valuedim dhead dkey dvalue sizeperhead dimkey hs",
    "inner": "dfc "
    "dimfeedforward dff ffdim ffndim hiddenff pfdim ffnhidden dinner feedforward inner nhid ffhidden mlpdim "
    "dimff intermediatesize feedforwarddim innerwidth ffsize ffnsize dinnerhid dhid feedforwardsize "
    "ffnnumhiddens middledim ffhiddendim dhidden hiddenwidth innerdim ffwidth dimfeedfwd ffnhiddendim middle "
    "ffhiddensize nff ffunits ffnembeddim ffnembed densedim",
    "longest": "maxlength maxlen seqlen maxseqlen blocksize maxposition sequencelength longest contextlength places "
    "maxsequencelength seqlength maxpositions maxseqlength ctxlen nctx contextsize maxpositionembeddings npos "
    "length numpositions nposition nctx ctx maxtokens npositions srcmaxlen maxseq contextwindow maxsourcepositions",
    "layers": "numlayers nlayers layers n nlayer numblocks depth numencoderlayers nblocks numenclayers nenclayers nx",
    "pad": "padidx paddingidx padid padtoken srcpadidx padtokenid pad trgpadidx padindex srcpad paddingindex",
    "dropout": ""
    "dropout dropoutrate dropoutprob p attndropout residdropout dropprob drop pdropout pdrop attentiondropout prob "
    "embdropout rate dropoutp ffdropout residualdropout residualdropoutprob",
    "device": "device dev",
    "expansion": "forwardexpansion expansion ffexpansion expansionfactor mlpratio ffmult mult mlpexpansion",
    "eps": "eps epsilon layernormeps variancepsilon varianceepsilon",
}
ROLES = {name: role for role, names in NAMES.items() for name in names.split()}
SIDES = {  # of a name that is made of words such as these: n_src, vocab_in, num_target_words
    "source_words": {"src", "source", "in", "input", "enc", "encoder"},
    "target_words": {"tgt", "trg", "target", "out", "output", "dec", "decoder"},
}
EITHER = {"inputdim", "inputsize", "insize"}  # how many words, or how wide the states are
LANGUAGES = {"src", "source", "tgt", "trg", "target"}
WORDS = {"vocab", "vocabulary", "word", "words", "token", "tokens", "ntoken", "ntokens", "nwords", "nvocab"}
MOST_LAYERS = 24  # N=5000 counts something else
COUNTS = {"n", "num", "number", "of", "size", "count", "len"}
DECLARE = 'REGARD = {"arguments": {"%s": "%s"}}'
CONFIGURATIONS = {
    "config", "cfg", "conf", "configuration", "args", "hparams", "opt", "opts", "settings", "hp", "params",
}  # fmt: skip


class FilledConfig(dict[str, Any]):
    """A configuration object: each field that is asked for by name, as an attribute or a key, has its small size."""

    def __init__(self, sizes: Mapping[str, Any], used: dict[str, Any], own: Any) -> None:
        super().__init__()
        self.__dict__.update(_sizes=sizes, _used=used, _own=own)

    def __getattr__(self, name: str) -> Any:
        role = None if name.startswith("__") else role_of(name)
        if role in self._sizes:
            self._used[role] = self._sizes[role]
            return self._sizes[role]
        if not name.startswith("__") and hasattr(self._own, name):
            return getattr(self._own, name)
        raise AttributeError(f"the configuration has no {name!r} whose meaning is known")

    def __missing__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        return getattr(self, name, default)


def _own_configuration(factory: Any, annotation: Any) -> Any:
    """The class that the file calls a configuration: the argument's own, or one whose name says so."""
    if isinstance(annotation, type) and annotation not in (dict, inspect.Parameter.empty):
        return annotation
    here = vars(sys.modules.get(getattr(factory, "__module__", ""), type)).items()
    return next((one for name, one in here if "config" in name.lower() and isinstance(one, type)), None)


@dataclass(frozen=True, kw_only=True)
class BuiltModel:
    """A model, and the sizes that its constructor was given."""

    model: Any
    sizes: dict[str, Any]
    arguments: dict[str, Any]
    unregistered: Mapping[str, Any] = field(default_factory=dict)  # tensors before the first forward, which leaves some


def build(
    factory: Callable[..., Any],
    declared: Mapping[str, Any] | None = None,
    *,
    tries: Iterable[Mapping[str, Any]] = ({"head_width": OTHER_HEAD_WIDTH}, {}, EVEN),
) -> BuiltModel:
    """Call a class or a function that makes a model, with small sizes for the arguments it takes: the first that do."""
    arguments = dict((declared or {}).get("arguments", {}))
    refusals = []
    for sizes in tries:
        chosen, used = chosen_arguments(factory, arguments, {**SIZES, **sizes})
        try:
            return BuiltModel(model=factory(**chosen), sizes=used, arguments=chosen)
        except Exception as error:
            refusals.append(InputError(_refusal(factory, chosen, error)))
    raise refusals[len(refusals) // 2]


def _refusal(factory: Callable[..., Any], chosen: Mapping[str, Any], error: Exception) -> str:
    """What was called and what came of it: the arguments are ours, and may have been guessed wrong."""
    name = getattr(factory, "__name__", "it")
    given = ", ".join(f"{key}={value!r}" for key, value in chosen.items() if not isinstance(value, FilledConfig))
    # by its code, not by its file: a jail has no file of that name
    maker = getattr(factory, "__init__", None) if isinstance(factory, type) else factory
    code = getattr(maker, "__code__", None)
    own = [f for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    where = f"line {own[-1].lineno}: " if own else ""
    return (
        f"{name}({given}) failed: {where}{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}; if an "
        f"argument means something else than we guessed, say so in the file, as in {DECLARE % ('my_size', 'width')}."
    )


def chosen_arguments(
    factory: Callable[..., Any], declared: Mapping[str, Any], sizes: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What each argument of the constructor gets, and which sizes were handed over."""
    try:
        known = inspect.signature(factory).parameters.values()
    except ValueError:
        raise InputError(f"{factory!r} does not say what arguments it takes; name a class of your own.") from None
    chosen: dict[str, Any] = {}
    used: dict[str, Any] = {}
    roles = argument_roles([parameter.name for parameter in known], declared)
    for parameter in known:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        role = roles[parameter.name]
        if role == "layers" and isinstance(parameter.default, int) and parameter.default > MOST_LAYERS:
            continue
        if isinstance(role, str) and role in sizes:
            chosen[parameter.name] = used[role] = sizes[role]
        elif parameter.name in declared:
            chosen[parameter.name] = declared[parameter.name]
        elif parameter.default is parameter.empty and plain_name(parameter.name) in CONFIGURATIONS:
            chosen[parameter.name] = FilledConfig(sizes, used, _own_configuration(factory, parameter.annotation))
        elif parameter.default is parameter.empty:
            raise InputError(
                f"The constructor's argument {parameter.name!r} has no default and no name that is known; say what it "
                f"means in the file, as in {DECLARE % (parameter.name, 'source_words')}, or target_words, width, "
                "heads, head_width, inner, longest, or a value of your own."
            )
    widths = [name for name in chosen if name not in declared and roles[name] == "width"]
    inner = [name for name in widths if "hid" in name.lower()]
    if "inner" not in used and 0 < len(inner) < len(widths):  # two widths: were both one number, nobody could tell them
        chosen |= dict.fromkeys(inner, sizes["inner"])
        used["inner"] = sizes["inner"]
    for name in declared:
        if name not in {parameter.name for parameter in known}:
            raise InputError(
                f"REGARD declares the argument {name!r}, which the constructor does not take; it takes "
                f"{', '.join(parameter.name for parameter in known) or 'none'}."
            )
    return chosen, used


def argument_roles(names: Iterable[str], declared: Mapping[str, Any]) -> dict[str, Any]:
    """The role of each argument; where no output is named, ``input_dim`` is a width and counts no words.

    >>> argument_roles(["input_dim", "hidden_dim", "num_heads"], {})["input_dim"]
    'width'
    >>> argument_roles(["input_size", "output_size"], {})["input_size"]
    'source_words'
    >>> argument_roles(["german", "english", "d_model", "n_heads", "max_len"], {})["english"]
    'target_words'
    """
    said = {name: role_of(value) or value if isinstance(value, str) else value for name, value in declared.items()}
    roles = {name: said.get(name, role_of(name)) for name in names}
    first = list(roles)[:2]
    if {"width", "heads", "longest"} <= {*map(str, roles.values())} and [roles[name] for name in first] == [None, None]:
        roles |= zip(first, ("source_words", "target_words"), strict=True)  # what stands before all sizes of a model
    if "target_words" in roles.values() or "heads" not in roles.values():
        return roles
    wide = {name: "width" for name in roles if plain_name(name) in EITHER and name not in declared}
    return {**roles, **wide}


def role_of(name: str) -> str | None:
    """The size that an argument of this name means, or None: a whole name that is known, or words that count words.

    >>> role_of("d_model"), role_of("n_src"), role_of("vocab_out"), role_of("in_features")
    ('width', 'source_words', 'target_words', None)
    """
    if role := ROLES.get(plain_name(name)):
        return role
    parts = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))
    sides = [role for role, known in SIDES.items() if parts & known]
    if len(sides) != 1 or not parts <= SIDES[sides[0]] | WORDS | COUNTS:
        return None
    counted = parts & WORDS or (parts & COUNTS and parts & LANGUAGES)  # n_in may be a width, n_src is not
    return sides[0] if counted else None


def plain_name(name: str) -> str:
    """Small letters without underscores.

    >>> plain_name("d_Model")
    'dmodel'
    """
    return name.replace("_", "").lower()
