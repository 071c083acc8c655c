"""Every chart has the fonts and colours of the pages in itself, and keeps what it settled itself."""

import plotly.graph_objects as go
import pytest
from plotly.subplots import make_subplots

from enginebench_ui.shared.charts import DARK, LIGHT, Theme, dress


def test_no_template_is_left_since_plotly_would_draw_the_figure_again_for_it() -> None:
    figure = go.Figure(go.Bar(x=[1], y=[2]), layout={"template": "plotly_dark"})
    dress(figure, LIGHT)
    assert "template" not in figure.to_dict()["layout"]


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_ground_letters_and_grid_have_the_colours_of_the_palette(palette: Theme) -> None:
    figure = go.Figure(go.Bar(x=[1], y=[2]))
    dress(figure, palette)
    layout = figure.layout
    assert (layout.paper_bgcolor, layout.plot_bgcolor) == (palette.ground, palette.ground)
    assert (layout.font.color, layout.yaxis.gridcolor) == (palette.letters, palette.lines)


def test_every_axis_of_several_panels_is_dressed() -> None:
    figure = make_subplots(1, 2)
    dress(figure, DARK)
    assert [axis.gridcolor for axis in figure.select_yaxes()] == [DARK.lines] * 2
    assert [axis.showgrid for axis in figure.select_xaxes()] == [False] * 2


def test_what_the_figure_settled_itself_stays() -> None:
    figure = go.Figure()
    figure.update_layout(margin={"l": 10}, xaxis={"title": {"text": "batch"}, "tickfont": {"size": 14}, "type": "log"})
    figure.update_xaxes(showgrid=True)
    dress(figure, LIGHT)
    axis = figure.layout.xaxis
    assert (axis.title.text, axis.title.standoff, axis.tickfont.size, axis.type) == ("batch", 20, 14, "log")
    assert axis.showgrid
    assert (figure.layout.margin.l, figure.layout.margin.r) == (10, 0)


def test_right_to_left_names_are_isolated_wherever_a_chart_has_them() -> None:
    name, apart = "عربي · 5", "\u2068عربي\u2069 · 5"
    bars = go.Bar(x=[name, "b"], y=[1, 2], name=name, text=[name, "b"], customdata=[[name, 1], ["b", 2]])
    figure = go.Figure([bars, go.Scatter(x=[1, 2], y=[3, 4])])
    figure.update_xaxes(categoryarray=[name, "b"], ticktext=[name])
    figure.add_annotation(text=f"<b>{name}</b>")
    dress(figure, LIGHT)
    drawn, axis = figure.data[0], figure.layout.xaxis
    assert (drawn.name, drawn.x[0], drawn.text[0], drawn.customdata[0][0]) == (apart,) * 4
    assert (axis.categoryarray[0], axis.ticktext[0]) == (apart, apart)
    assert figure.layout.annotations[0].text == f"<b>{apart}</b>"
    assert list(figure.data[1].x) == [1, 2]
