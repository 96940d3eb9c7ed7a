"""The lab's noise page as a marimo app, for bench_lab: the same two sliders, the same computation, the same curve.

The picture is a bare SVG, the quickest that marimo can show: a plotting library would only add to its time.
"""

import marimo

app = marimo.App()


@app.cell
def _():
    import marimo as mo

    from regard.lab.page import State
    from regard.lab.pages import noise

    return State, mo, noise


@app.cell
def _(mo):
    spread = mo.ui.slider(0.0, 2.0, 0.05, value=0.5, label="spread of key 0 along its mean")
    scale = mo.ui.slider(2, 40, 1, value=20, label="scale T of the queries")
    mo.vstack([spread, scale])
    return scale, spread


@app.cell
def _(State, mo, noise, scale, spread):
    words = {"spread": f"{spread.value:g}", "scale": f"{scale.value:g}"}
    shown = noise.answer(State(words, start=noise.PAGE.start))
    curves = []
    for name, colour in (("one", "#d98a00"), ("two", "#0072b2")):
        points = " ".join(f"{20 * i + 10},{200 - 400 * bin:.2f}" for i, bin in enumerate(shown.picture[name]))
        curves.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
    error = shown.numbers[0].value
    mo.Html(
        f'<svg id="law" data-value="{error!r}" width="600" height="220" viewBox="0 0 400 220">{"".join(curves)}</svg>'
    )
    return


if __name__ == "__main__":
    app.run()
