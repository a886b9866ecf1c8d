# SPDX-License-Identifier: Apache-2.0
"""Bar charts as SVG, on a logarithmic scale, in the colours of the page."""
import html
import json
import math
import re


def bars(title, rows, one=1.0):
    """rows: (label, value); a line at `one`, below which bars are green."""
    row, labels, width, top = 20, 330, 440, 44
    low = math.floor(math.log10(min([v for _, v in rows] + [one])))
    high = math.ceil(math.log10(max([v for _, v in rows] + [one])) + 1e-9)

    def place(v):
        return labels + width * (math.log10(v) - low) / max(1, high - low)

    height = top + row * len(rows) + 12
    out = ['<svg class="chart" role="img" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" '
           'font-size="12">' % (labels + width + 60, height),
           "<title>%s</title>" % html.escape(title),
           '<text x="4" y="16" font-size="14" fill="currentColor">%s</text>' % html.escape(title)]
    for decade in range(low, high + 1):
        x = place(10.0 ** decade)
        out.append('<line class="grid" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>' % (x, top - 4, x, height - 8))
        out.append('<text class="minor" x="%.1f" y="%d" text-anchor="middle">%g</text>' % (x, top - 8, 10.0 ** decade))
    for i, (label, value) in enumerate(rows):
        y = top + row * i
        end = place(value)
        start = place(one)
        out.append('<text x="%d" y="%d" text-anchor="end" fill="currentColor">%s</text>' % (labels - 8, y + 14, html.escape(label)))
        out.append('<rect class="%s" x="%.1f" y="%d" width="%.1f" height="%d"/>' % (
            "good" if value <= one else "bad", min(start, end), y + 3, max(1.0, abs(end - start)), row - 6))
        out.append('<text x="%.1f" y="%d" fill="currentColor" text-anchor="%s">%.2g</text>' % (
            end - 5 if value <= one else end + 5, y + 14, "end" if value <= one else "start", value))
    out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="currentColor"/>' % (place(one), top - 4, place(one), height - 8))
    out.append("</svg>")
    return "\n".join(out)


def of_table(text):
    """Charts of the first table of docs/performance.md: one device and eight, each as ratios to JAX, and to PyTorch."""
    rows = []
    for line in text.splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 5 and re.match(r"[0-9.]+$", cells[1]):
            rows.append(cells)
        elif rows and not line.startswith("|"):
            break
    charts = []
    for title, column in (("Time on one device, as a ratio to JAX", 1), ("Time on eight devices, as a ratio to JAX", 2),
                          ("Memory on eight devices, as a ratio to JAX", 3), ("Time on one device, as a ratio to PyTorch", 4)):
        data = []
        for cells in rows:
            ways = re.findall(r"([0-9.]+)(?: \(([^)]*)\))?", cells[column])
            names = [w for _, w in re.findall(r"([0-9.]+)(?: \(([^)]*)\))?", cells[2])]
            for k, (value, way) in enumerate(ways):
                if column == 3 and k < len(names):
                    way = names[k]
                data.append((cells[0] + (", " + way if way else ""), float(value)))
        if data:
            charts.append(bars(title, data))
    return charts


def of_sweeps(folder):
    """What the planner's plans receive, and what XLA's do, in the recorded sweeps."""
    rows = []
    for file, name in (("reshard_64x64.jsonl", "reshards of a matrix"), ("dot_64.jsonl", "products of matrices")):
        lines = [json.loads(line) for line in (folder / file).read_text().splitlines() if line.strip()]
        xla, planned = sum(r["xla"] for r in lines), sum(r["planner"] for r in lines)
        rows.append(("%d %s" % (len(lines), name), planned / xla))
    return bars("Elements received on 2 x 4 devices by ideal plans, as a ratio to XLA's", rows)
