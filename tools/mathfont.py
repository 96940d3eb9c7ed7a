"""The mathematics font of the lab and the site: STIX Two Math, cut down to the signs that our formulas use.

    npm pack @fontsource/stix-two-math@5.3.0 && tar xzf fontsource-stix-two-math-5.3.0.tgz
    python -m tools.mathfont package/files/stix-two-math-latin-400-normal.woff2

Needs fonttools and brotli. Browsers set MathML by the font's own MATH table (how far an exponent is raised, how a root
or a pair of bars grows), which most systems' fonts lack; so the lab brings one. The licence (SIL Open Font License 1.1)
lies beside the font.
"""

from __future__ import annotations

import sys
from pathlib import Path

TARGET = Path(__file__).parent.parent / "packages/regard/src/regard/lab/static/math.woff2"
SIGNS = (
    "".join(map(chr, range(0x20, 0x7F)))
    + "".join(map(chr, range(0xA0, 0x100)))
    + "".join(map(chr, range(0x391, 0x3CA)))  # Greek
    + "".join(map(chr, range(0x1D434, 0x1D468)))  # italic letters, which MathML makes of single ones
    + "".join(map(chr, range(0x1D6A4, 0x1D6E2)))
    + "".join(map(chr, range(0x1D6E2, 0x1D71C)))
    + "ϕϵϑ′″‴…†‖–—⁄ℎℓℝℕ𝔼𝟏ℙ→←↦⇒⇔∀∂∃∅∈∉∏∑−∓∕∖∗∘∙√∝∞∠∣∥∧∨∩∪∫≈≃≅≠≡≤≥≪≫⊂⊆⊕⊗⊤⊥⋅⋮⋯⋱⌈⌉⌊⌋⟨⟩□⏞⏟ˆ˜¯⁡⁢⁣₀₁₂₃₄₅₆₇₈₉⁻"
)


def main() -> None:
    from fontTools.subset import Options, Subsetter
    from fontTools.ttLib import TTFont

    font = TTFont(sys.argv[1])
    options = Options()
    options.flavor, options.layout_features, options.hinting = "woff2", ["ssty", "dtls", "flac", "kern"], False
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]  # with the copyright and the licence
    subsetter = Subsetter(options)
    subsetter.populate(text=SIGNS)
    subsetter.subset(font)
    font.flavor = "woff2"
    font.save(TARGET)
    print(f"{TARGET.name}: {TARGET.stat().st_size:,} bytes, {len(font.getGlyphOrder()):,} shapes")


if __name__ == "__main__":
    main()
