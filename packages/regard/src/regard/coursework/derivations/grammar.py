"""From the tokens of one side of a relation to a term; which letters mean what is the problem's business."""

from __future__ import annotations

from fractions import Fraction

from regard.coursework.derivations.names import Vocabulary, entry, is_entry
from regard.coursework.derivations.terms import (
    EYE,
    FUNCTIONS,
    ONES,
    Span,
    Term,
    add,
    apply,
    mul,
    negative,
    num,
    sum_between,
    sym,
)
from regard.coursework.derivations.tokens import NotRead, Token

DEEPEST = 40
LARGEST = 600  # parts of a term
_ENDS = ("=", "<=", ">=", "<", ">", "!=", "=>", ",", ";", ")", "}", "~", ">>", "->", "\\\\", ":")
_CLOSES = {"{": "}", "(": ")"}
_PERMUTED = ("p", "perm", "P", "PX", "pi", "permuted")


class Parser:
    """Reads one expression after another from a list of tokens."""

    def __init__(self, tokens: list[Token], vocabulary: Vocabulary, end: int) -> None:
        self.tokens, self.words, self.end = tokens, vocabulary, end
        self.at, self.depth = 0, 0
        self.bars: list[str] = []  # norms that are open: the next bar closes one

    # looking

    @property
    def now(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else Token("end", "", self.end)

    def after(self, steps: int = 1) -> Token:
        place = self.at + steps
        return self.tokens[place] if place < len(self.tokens) else Token("end", "", self.end)

    def take(self, text: str | None = None) -> Token:
        token = self.now
        if text is not None and token.text != text:
            raise NotRead(token.place, f"{text!r} here")
        self.at += 1
        return token

    def skip(self, *texts: str) -> bool:
        if self.now.kind != "end" and self.now.text in texts:
            self.at += 1
            return True
        return False

    def ends_here(self) -> bool:
        token = self.now
        if token.kind in ("end", "word") or (token.kind == "op" and token.text in _ENDS):
            return True
        return bool(self.bars) and token.text == self.bars[-1]

    # reading

    def expression(self) -> Term:
        """Terms with + and - between them."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise NotRead(self.now.place, f"brackets at most {DEEPEST} deep")
        minus = self.skip("-")
        if not minus:
            self.skip("+")
        parts = [self.product()]
        if minus:
            parts = [negative(parts[0])]
        while self.now.kind == "op" and self.now.text in ("+", "-"):
            sign = self.take().text
            if sign == "+" and self.skip("..."):
                self.take("+")
                parts = self.series(parts, self.product())
                continue
            one = self.product()
            parts.append(negative(one) if sign == "-" else one)
        self.depth -= 1
        made = add(*parts)
        if made.size > LARGEST:
            raise NotRead(self.now.place, f"a formula of at most {LARGEST} parts; break it into lines")
        return made

    def series(self, parts: list[Term], last: Term) -> list[Term]:
        """x_1 + ... + x_n, or x_1 + x_2 + ... + x_n, as a sum after the other parts."""
        for count in (2, 1):
            made = sum_between(parts[-count:], last) if len(parts) >= count else None
            if made is not None:
                return [*parts[:-count], made]
        raise NotRead(self.now.place, "a sum whose first and last term differ in one index only")

    def product(self) -> Term:
        """Factors side by side, with dots and slashes; a slash divides what stands before it in the product."""
        groups: list[list[Term]] = [[]]
        while True:
            if self.skip("."):
                groups.append([])
            elif self.skip("/"):
                below = self.factor()
                above = mul(*groups[-1]) if groups[-1] else num(1)
                groups[-1] = [apply("div", above, below)]
            elif (self.now.kind == "op" and self.now.text in ("+", "-")) or self.ends_here():
                break
            else:
                groups[-1].append(self.factor())
        if not all(groups):
            raise NotRead(self.now.place, "a number, a vector or a matrix")
        made = mul(*groups[0])
        for other in groups[1:]:
            made = apply("dot", made, mul(*other))
        return made

    def factor(self) -> Term:
        made = self.base()
        while self.now.text in ("^", "_") and self.now.kind == "op":
            if self.take().text == "^":
                made = self.read_power(made)
            elif (below := self.sum_tokens()) and made != ONES:
                made = entry(made, below, self.words)
        return made

    def read_power(self, made: Term) -> Term:
        if (
            self.now.kind == "name"
            and self.now.text in ("T", "t")
            and not self.is_scalar_name(self.now.text)
            and made != sym("e")
        ):
            self.take()
            return apply("T", made)
        if self.now.text in _CLOSES:
            close = _CLOSES[self.take().text]
            self.skip("^")  # ^{\\top} has become ^{^T}
            if self.now.kind == "name" and self.now.text in ("T", "top") and self.after().text == close:
                self.take()
                self.take(close)
                return apply("T", made)
            power = self.inside(close)
            return apply("T", made) if power == sym("T") and not self.is_scalar_name("T") else self.power(made, power)
        if self.now.text == "^":
            self.take()
            return self.read_power(made)
        if self.skip("-"):
            return self.power(made, negative(self.base()))
        return self.power(made, self.base())

    def is_scalar_name(self, name: str) -> bool:
        return name in self.words.shapes and name != "T"

    @staticmethod
    def power(made: Term, power: Term) -> Term:
        return apply("exp", power) if made == sym("e") else apply("pow", made, power)

    def inside(self, close: str) -> Term:
        bars, self.bars = self.bars, []
        made = self.expression()
        self.bars = bars
        if not self.skip(close):
            raise NotRead(self.now.place, f"{close!r} here" if self.now.kind != "word" else "a formula, not words")
        return made

    def base(self) -> Term:
        token = self.now
        if token.kind == "num":
            self.take()
            return num(Fraction(token.text))
        if token.text in _CLOSES:
            self.take()
            return self.inside(_CLOSES[token.text])
        if token.text in ("||", "|"):
            return self.norm(token.text)
        if token.text == "<<":
            self.take()
            left = self.expression()
            self.take(",")
            right = self.expression()
            self.take(">>")
            return apply("dot", left, right)
        if token.kind == "cmd":
            return self.command()
        if token.kind == "name":
            return self.name()
        raise NotRead(token.place, "a number, a vector or a matrix")

    def norm(self, bar: str) -> Term:
        self.take()
        self.bars.append(bar)
        made = self.expression()
        self.bars.pop()
        self.take(bar)
        if bar == "|":
            return apply("abs", made)
        kind = ""
        if self.skip("_"):
            braces = self.skip("{")
            name = self.take().text
            kind = "F" if name in ("F", "Fro", "fro") else "2"
            while braces and not self.skip("}"):
                self.take()
        return apply("norm", made, value=kind)

    def command(self) -> Term:
        name = self.take().text
        if name == "frac":
            above = self.base()
            return apply("div", above, self.base())
        if name in ("tilde", "hat", "bar"):
            inner = self.skip("{")
            made = self.name(permuted=True)
            if inner:
                self.take("}")
            return made
        made = self.base()
        if name == "underbrace" and self.skip("_"):
            self.skip_group()
        return made

    def skip_group(self) -> None:
        """A remark under a brace: words or a formula, not part of the line."""
        depth = 0
        while self.now.kind != "end":
            depth += (self.now.text == "{") - (self.now.text == "}")
            self.take()
            if depth == 0:
                return

    def name(self, permuted: bool = False) -> Term:
        token = self.take()
        if token.kind != "name":
            raise NotRead(token.place, "a name")
        if token.text == "sum":
            return self.sum()
        if token.text in FUNCTIONS:
            return self.function(token.text)
        if token.text == "ones":
            return ONES
        below, place = "", None
        while self.now.text in ("_", "'") or self.skip_prime():
            if self.skip("'"):
                permuted = True
                continue
            if is_entry(token.text, self.tokens_below(), self.words):
                break
            self.take("_")
            below, place, more = self.subscript(token.text)
            permuted = permuted or more
        if self.now.text == "^" and self.after().text in _CLOSES and self.after(2).text in ("(", "p", "P"):
            closing = [n for n in range(self.at, min(self.at + 6, len(self.tokens))) if self.tokens[n].text in "})"]
            inside = "".join(t.text for t in self.tokens[self.at + 1 : closing[-1] + 1]) if closing else ""
            if inside.strip("{}()") in _PERMUTED:
                self.at, permuted = closing[-1] + 1, True
        return self.resolve(token, below, place, permuted)

    def skip_prime(self) -> bool:
        """^{\\prime} and ^' are a prime: go to it."""
        braces = self.after().text in _CLOSES
        if self.now.text != "^" or self.after(1 + braces).text != "'":
            return False
        if braces:
            del self.tokens[self.at + 3]  # the closing brace
        self.at += 1 + braces
        return True

    def resolve(self, token: Token, below: str, place: Term | None, permuted: bool) -> Term:
        """The term that a name is, with what stands below it, and whether it is of the permuted input."""
        base, words = token.text, self.words
        full = f"{base}_{below}" if below else base
        if words.variants & {full, base}:
            own = full if full in words.variants else base
            if below in _PERMUTED or permuted or self.calls_permuted(own):
                return sym(f"{own}_p") if own != words.input else words.permuted_input
            self.calls_plain()
            return sym(own)
        if words.variants and (permuted or below in _PERMUTED) and full not in words.shapes:
            full, permuted, place = f"{base}_p", False, None
        elif permuted and full not in words.own and f"{full}'" not in words.own:
            if f"{full}'" in words.shapes:
                return sym(f"{full}'")
            if words.is_matrix(full):
                words.say(f"{full}' is read as the transpose of {full}")
                return apply("T", sym(full))
            full = f"{full}'"
        return self.known_name(base, full, below, place) or self.new_name(token, full, place)

    def known_name(self, base: str, full: str, below: str, place: Term | None) -> Term | None:
        words = self.words
        if base == "delta" and len(indices := below.replace(",", "")) == 2 and base not in words.own:
            return apply("delta", *(num(int(one)) if one.isdigit() else sym(one) for one in indices))
        if full in words.shapes and (below or base not in words.families):
            return sym(full)
        for family in (base, f"{base}."):
            if family in words.families and place is not None:
                return Term("at", (place,), family)
        if full in words.own or full in words.indices or full in ("e", "pi"):
            return sym(full)
        if base == "I":
            return EYE
        if full == "Sigma" and "S" in words.shapes:
            words.say("Sigma is read as S, the diagonal matrix of the singular values")
            return sym("S")
        return sym(words.same[full]) if full in words.same else None

    def new_name(self, token: Token, full: str, place: Term | None) -> Term:
        """A name that nobody knows yet: a family, if an index stands below it."""
        if place is not None and place.op == "sym" and place.value in self.words.indices:
            self.words.unknown.setdefault(token.text, token.place)
            return Term("at", (place,), token.text)
        self.words.unknown.setdefault(full, token.place)
        return sym(full)

    def subscript(self, base: str) -> tuple[str, Term | None, bool]:
        """The text of an index, the term that it is, and whether it says "of the permuted input"."""
        tokens = self.sum_tokens()
        texts = [token.text for token in tokens]
        text = "".join(texts)
        if len(tokens) == 1:
            plain = None if tokens[0].kind == "word" else num(Fraction(text)) if text.isdigit() else sym(text)
            return text, plain, False
        if (
            f"{base}_{text}" in self.words.shapes
            or (text in _PERMUTED and self.words.variants)
            or not {base, f"{base}."} & set(self.words.families)
        ):
            return text, sym(text), False
        if "," in texts and texts[-1] in _PERMUTED:  # Q_{i,p}
            return "".join(texts[:-2]), None, True
        return text, read_whole(tokens, self.words, "one index"), False

    def calls_permuted(self, own: str) -> bool:
        """Z(P X): the same layer, of the permuted input."""
        inside = self.call_text()
        permuted = inside in (f"P{self.words.input}", f"{self.words.input}_p", f"{self.words.input}'")
        if permuted or inside == "PX":
            self.at = self.call_end() + 1
            return True
        return False

    def calls_plain(self) -> None:
        if self.call_text() == self.words.input:
            self.at = self.call_end() + 1

    def call_end(self) -> int:
        return next((n for n in range(self.at, len(self.tokens)) if self.tokens[n].text == ")"), self.at)

    def call_text(self) -> str:
        if self.now.text != "(":
            return ""
        return "".join(token.text for token in self.tokens[self.at + 1 : self.call_end()])

    def function(self, name: str) -> Term:
        power = None
        if self.now.text == "^":
            self.take()
            power = self.base()
        if self.skip("_"):
            self.skip_group() if self.now.text == "{" else self.take()
        inside = self.base() if self.now.text in _CLOSES else self.factor() if name != "sqrt" else self.base()
        made = apply("pow", inside, num(Fraction(1, 2))) if name == "sqrt" else apply(name, inside)
        return made if power is None else apply("pow", made, power)

    def sum(self) -> Term:
        """sum_{i=1}^{n}, sum_{i != 1}, sum_{i < k}, sum_i: then the product that is added up."""
        below: list[Token] = []
        top: Term | None = None
        place = self.now.place
        while self.now.text in ("_", "^"):
            if self.take().text == "_":
                below = self.sum_tokens()
            else:
                top = self.base()
        return self.sum_over(below, top, place)

    def sum_over(self, below: list[Token], top: Term | None, place: int) -> Term:
        inner = below[2:] if len(below) > 2 and below[1].text == "," and below[2].text != below[0].text else []
        outer = set(self.words.indices)
        index, lo, hi, without = self.sum_span([below[0], *inner[1:]] if inner else below, top, place)
        self.words.indices.add(index)
        body = self.sum_over(inner, top, place) if inner else self.product()  # sum_{i,j} is a sum of sums
        if index not in outer:
            self.words.indices.discard(index)
        ends = self.words.index_range(body, index) or self.words.common_range()
        if ends is None and (lo is None or hi is None):
            raise NotRead(place, f"the bounds of the sum: nothing with the index {index} stands in it")
        lo, hi = lo or ends[0], hi or ends[1]  # type: ignore[index]
        return Term("sum", (body,), Span(index, lo, hi, without))

    def tokens_below(self) -> list[Token]:
        """What stands below a name, without taking it."""
        start = self.at
        self.take("_")
        below = self.sum_tokens() if self.now.kind != "end" else []
        self.at = start
        return below

    def sum_tokens(self) -> list[Token]:
        """What stands below the sum: in braces, in brackets, or one letter."""
        close = _CLOSES.get(self.now.text)
        if close is None:
            return [self.take()]
        self.take()
        start = self.at
        while self.now.kind != "end" and self.now.text != close:
            self.take()
        self.take(close)
        return self.tokens[start : self.at - 1]

    def sum_span(
        self, below: list[Token], top: Term | None, place: int
    ) -> tuple[str, Term | None, Term | None, tuple[Term, ...]]:
        if not below:
            raise NotRead(place, "the index of the sum, as in sum_{i=1}^n")
        texts = [token.text for token in below]
        if len(below) == 1:
            return texts[0], None, top, ()
        cut = [n for n, text in enumerate(texts) if n and text == "," and texts[n + 1 : n + 3] == [texts[0], "!="]]
        if cut:  # i = 1, i != 2
            index, lo, hi, without = self.sum_span(below[: cut[0]], top, place)
            return index, lo, hi, (*without, *self.sum_span(below[cut[0] + 1 :], top, place)[3])
        if below[0].kind == "num" and texts[1] in ("<=", "<"):  # 1 <= i <= k
            lo = num(int(texts[0]) + (texts[1] == "<"))
            index, _, hi, without = self.sum_span(below[2:], top, place)
            return index, lo, hi, without
        index, sign, rest = texts[0], texts[1], below[2:]
        if sign == "in":
            return index, None, None, ()
        values = self.places_of(rest)
        if sign == "=" and "..." in [token.text for token in rest]:
            return index, values[0], values[-1], ()
        bounds: dict[str, tuple[Term | None, Term | None, tuple[Term, ...]]] = {
            "=": (values[0], top, ()),
            "!=": (None, top, tuple(values)),
            "<": (None, add(values[0], num(-1)), ()),
            "<=": (None, values[0], ()),
            ">": (add(values[0], num(1)), top, ()),
            ">=": (values[0], top, ()),
        }
        if sign not in bounds:
            raise NotRead(below[1].place, "=, != or < after the index of the sum")
        return index, *bounds[sign]

    def places_of(self, tokens: list[Token]) -> list[Term]:
        parts: list[list[Token]] = [[]]
        for token in tokens:
            if token.text in (",", "...", "(", ")"):
                parts.append([])
            elif token.kind != "word":
                parts[-1].append(token)
        made = []
        for part in parts:
            made += [read_place(part, self.words)] if part else []
        if not made:
            raise NotRead(self.now.place, "where the sum begins")
        return made


def read_whole(tokens: list[Token], words: Vocabulary, expected: str) -> Term:
    """The expression that the tokens are, to the last of them."""
    parser = Parser(tokens, words, tokens[-1].place + len(tokens[-1].text) if tokens else 0)
    made = parser.expression()
    if parser.now.kind != "end":
        raise NotRead(parser.now.place, expected)
    return made


def read_place(tokens: list[Token], words: Vocabulary) -> Term:
    """A place such as 1, k - 1, or a, where k_a is k_1."""
    if len(tokens) == 1 and tokens[0].text in words.places and tokens[0].text not in words.own:
        return words.places[tokens[0].text]
    return read_whole(tokens, words, "one place")
