# SPDX-License-Identifier: Apache-2.0
"""Sphinx: Markdown pages by MyST, the theme furo, which has a dark and a light form. build.py puts the pages together."""
project = "Tessera"
copyright = "2026 The Tessera Authors"  # noqa: A001
extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "Tessera"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_extra"]
exclude_patterns = ["_extra", "_doctrees"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]
highlight_language = "text"
pygments_style = "default"
pygments_dark_style = "monokai"
# Texts of HLO and examples with ... aren't always what a lexer of C++ takes.
suppress_warnings = ["misc.highlighting_failure"]
nitpicky = False
