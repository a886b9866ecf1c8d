// SPDX-License-Identifier: Apache-2.0
// A bar chart as SVG text: a bar a row, on a logarithmic scale.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace tessera::bench {

struct Bar {
  std::string label;
  double value = 0;  ///< above zero
};

/// `one`: the value at which a line is drawn, and below which bars are green; 0: none.
inline std::string bar_chart(const std::string& title, const std::vector<Bar>& bars, double one) {
  constexpr double kRow = 18, kLabels = 260, kWidth = 480, kTop = 48;
  double low = one > 0 ? one : 1e300, high = one;
  for (const Bar& b : bars) {
    low = std::min(low, b.value);
    high = std::max(high, b.value);
  }
  // Whole decades, so that charts of several runs look alike.
  const double first = std::floor(std::log10(low)), last = std::ceil(std::log10(high) + 1e-9);
  const auto place = [&](double v) {
    return kLabels + kWidth * (std::log10(v) - first) / std::max(1.0, last - first);
  };
  const double height = kTop + kRow * double(bars.size()) + 12;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n<text x=\"8\" y=\"18\" font-size=\"14\">{2}</text>\n",
      kLabels + kWidth + 70, height, title);
  for (double decade = first; decade <= last; ++decade) {
    const double x = place(std::pow(10, decade));
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>\n<text "
        "x=\"{0:.1f}\" y=\"{3}\" text-anchor=\"middle\" fill=\"#666\">{4:g}</text>\n",
        x, kTop - 4, height - 8, kTop - 10, std::pow(10, decade));
  }
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double y = kTop + kRow * double(i);
    const bool good = one <= 0 || bars[i].value <= one;
    out += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n<rect x=\"{:.0f}\" "
        "y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"/>\n<text x=\"{:.1f}\" "
        "y=\"{:.0f}\">{:.3g}</text>\n",
        kLabels - 8, y + 13, bars[i].label, kLabels, y + 2,
        std::max(1.0, place(bars[i].value) - kLabels), kRow - 4, good ? "#3a7" : "#c64",
        place(bars[i].value) + 6, y + 13, bars[i].value);
  }
  if (one > 0) {
    out +=
        fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#333\"/>\n",
                    place(one), kTop - 4, height - 8);
  }
  return out + "</svg>\n";
}

}  // namespace tessera::bench
