// SPDX-License-Identifier: Apache-2.0
// Draws a sharding as a table of devices in text.
#include <tessera/sharding/visualize.h>

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "src/base/arrays/shape.h"
#include "src/sharding/api/shard_layout.h"

namespace tessera {
namespace {

/// Text and the columns it takes, which aren't its bytes beyond ASCII.
struct Label {
  std::string text;
  int width = 0;
};

struct Glyphs {
  const char *horizontal, *vertical, *dots, *more_rows;
  int dots_width;
  const char* corners[3][3];  // top, middle, bottom × left, inner, right
};

constexpr Glyphs kUnicode = {"─", "│", "…",
                             "⋮", 1,   {{"┌", "┬", "┐"}, {"├", "┼", "┤"}, {"└", "┴", "┘"}}};
constexpr Glyphs kAscii = {"-", "|", "...",
                           ":", 3,   {{"+", "+", "+"}, {"+", "+", "+"}, {"+", "+", "+"}}};

struct Grid {
  std::int64_t rows = 1, columns = 1;
  std::string platform;
  std::vector<std::vector<std::int64_t>> ids;  // of each cell, ascending
};

Grid make_grid(const ShardLayout& layout, const Dims& shape) {
  auto ways = [&](std::size_t dim) {
    const std::int64_t part = layout.shard_shape[dim];
    return part == 0 ? 1 : shape[dim] / part;
  };
  auto place = [&](const Dims& offset, std::size_t dim) {
    const std::int64_t part = layout.shard_shape[dim];
    return part == 0 ? 0 : offset[dim] / part;
  };
  Grid grid;
  const bool flat = shape.size() == 1;
  grid.rows = flat ? 1 : ways(0);
  grid.columns = flat ? ways(0) : ways(1);
  grid.ids.resize(std::size_t(grid.rows * grid.columns));
  for (std::size_t d = 0; d < layout.devices.size(); ++d) {
    const std::int64_t r = flat ? 0 : place(layout.offsets[d], 0);
    const std::int64_t c = flat ? place(layout.offsets[d], 0) : place(layout.offsets[d], 1);
    grid.ids[std::size_t(r * grid.columns + c)].push_back(layout.devices[d].id);
  }
  for (auto& ids : grid.ids) std::sort(ids.begin(), ids.end());
  if (!layout.devices.empty()) grid.platform = layout.devices[0].platform;
  for (char& c : grid.platform) c = char(std::toupper(static_cast<unsigned char>(c)));
  return grid;
}

/// How many devices of a list are written.
enum class Detail : std::uint8_t { all, ends, first };

Label device_label(const Grid& grid, const std::vector<std::int64_t>& ids, bool platform,
                   Detail detail, const Glyphs& glyphs) {
  Label out;
  if (platform) out.text = grid.platform + " ";
  out.width = int(out.text.size());
  auto append = [&](const std::string& s, int width) {
    out.text += s;
    out.width += width;
  };
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i && detail == Detail::first) {
      append("+", 1);
      break;
    }
    if (i) append(",", 1);
    if (detail == Detail::ends && ids.size() > 4 && i == 2) {
      append(glyphs.dots, glyphs.dots_width);
      append(",", 1);
      i = ids.size() - 1;
    }
    const std::string id = std::to_string(ids[i]);
    append(id, int(id.size()));
  }
  return out;
}

/// The indices to show, the first ones and the last, with -1 in place of those left out.
std::vector<std::int64_t> shown(std::int64_t count, std::int64_t limit) {
  std::vector<std::int64_t> out;
  if (count <= limit) {
    for (std::int64_t i = 0; i < count; ++i) out.push_back(i);
    return out;
  }
  for (std::int64_t i = 0; i + 1 < limit; ++i) out.push_back(i);
  out.push_back(-1);
  out.push_back(count - 1);
  return out;
}

struct Drawing {
  std::vector<Label> labels;  // of all cells
  int cell = 0;               // columns inside a cell
  std::vector<std::int64_t> columns;
};

/// Chooses the most detailed way of writing the cells that fits.
Drawing fit(const Grid& grid, int width, const Glyphs& glyphs) {
  constexpr int kRoomy = 10;  // minimum width of cells if the line is wide enough
  Drawing out;
  int widest = 0;
  auto label = [&](bool platform, Detail detail) {
    out.labels.clear();
    widest = 1;
    for (const auto& ids : grid.ids) {
      out.labels.push_back(device_label(grid, ids, platform, detail, glyphs));
      widest = std::max(widest, out.labels.back().width);
    }
  };
  const std::int64_t room = (width - 1 - grid.columns) / grid.columns;
  constexpr std::pair<bool, Detail> kForms[] = {{true, Detail::all},
                                                {false, Detail::all},
                                                {true, Detail::ends},
                                                {false, Detail::ends},
                                                {false, Detail::first}};
  for (const auto& form : kForms) {
    if (form.second == Detail::first) break;  // leaving columns out shows more
    label(form.first, form.second);
    if (widest <= room) {
      out.cell = int(std::min<std::int64_t>(std::max(kRoomy, widest + 2), room));
      out.columns = shown(grid.columns, grid.columns);
      return out;
    }
  }
  // Leave columns out: k cells, one of dots, and the borders.
  const int dots = glyphs.dots_width + 2;
  std::int64_t k = 0;
  for (const auto& form : kForms) {
    label(form.first, form.second);
    k = (width - dots - 2) / (widest + 3);
    if (k >= 4) break;
  }
  k = std::max<std::int64_t>(k, 2);
  out.cell = std::min(widest + 2, int((width - dots - 2) / k - 1));
  out.columns = shown(grid.columns, k);
  return out;
}

/// Colours on which black or white letters are readable; neighbours in the list differ clearly.
struct Color {
  int background, letters;
};
constexpr Color kColors[] = {{24, 15}, {215, 0}, {29, 15},  {181, 0}, {61, 15}, {150, 0},
                             {95, 15}, {117, 0}, {130, 15}, {188, 0}, {90, 15}, {186, 0}};

std::string centred(const Label& label, int width) {
  // Only reached by a long number in the narrowest picture.
  if (label.width > width) return label.text.substr(0, std::size_t(std::max(width, 0)));
  const int left = (width - label.width) / 2;
  return std::string(std::size_t(left), ' ') + label.text +
         std::string(std::size_t(width - label.width - left), ' ');
}

}  // namespace

std::string sharding_picture(const Sharding& sharding, const std::vector<std::int64_t>& shape,
                             const PictureOptions& options, Location location) {
  if (shape.size() != 1 && shape.size() != 2) {
    throw ValueError(
        "a picture of a sharding needs a shape of 1 or 2 dimensions, not " + to_string(shape),
        location);
  }
  constexpr std::int64_t kMaxRows = 32;
  const auto layout = shard_layout(sharding, shape, location);
  const Grid grid = make_grid(*layout, shape);
  const Glyphs& glyphs = options.unicode ? kUnicode : kAscii;
  const Drawing drawing = fit(grid, std::max(options.width, 20), glyphs);
  const int dots = glyphs.dots_width + 2;

  std::string out;
  auto border = [&](int which) {
    const auto& corner = glyphs.corners[which];
    out += corner[0];
    for (std::size_t i = 0; i < drawing.columns.size(); ++i) {
      if (i) out += corner[1];
      const int width = drawing.columns[i] < 0 ? dots : drawing.cell;
      for (int k = 0; k < width; ++k) out += glyphs.horizontal;
    }
    out += corner[2];
    out += "\n";
  };
  const std::vector<std::int64_t> rows = shown(grid.rows, kMaxRows);
  border(0);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i) border(1);
    out += glyphs.vertical;
    for (std::int64_t c : drawing.columns) {
      if (c < 0 || rows[i] < 0) {
        const int width = c < 0 ? dots : drawing.cell;
        out += c < 0 ? centred({glyphs.dots, glyphs.dots_width}, width)
                     : centred({glyphs.more_rows, 1}, width);
      } else {
        const std::size_t cell = std::size_t(rows[i] * grid.columns + c);
        const std::string text = centred(drawing.labels[cell], drawing.cell);
        if (options.color) {
          const Color color = kColors[cell % std::size(kColors)];
          out += "\x1b[48;5;" + std::to_string(color.background) + ";38;5;" +
                 std::to_string(color.letters) + "m" + text + "\x1b[0m";
        } else {
          out += text;
        }
      }
      out += glyphs.vertical;
    }
    out += "\n";
  }
  border(2);
  return out;
}

void visualize_sharding(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                        std::ostream& out, Location location) {
  PictureOptions options;
  const bool terminal = (out.rdbuf() == std::cout.rdbuf() && ::isatty(STDOUT_FILENO) != 0) ||
                        (out.rdbuf() == std::cerr.rdbuf() && ::isatty(STDERR_FILENO) != 0);
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  options.color = terminal && (no_color == nullptr || *no_color == '\0') &&
                  (term == nullptr || std::string(term) != "dumb");
  out << sharding_picture(sharding, shape, options, location);
}

void visualize_sharding(const std::vector<std::int64_t>& shape, const Sharding& sharding,
                        Location location) {
  visualize_sharding(shape, sharding, std::cout, location);
}

}  // namespace tessera
