// SPDX-License-Identifier: Apache-2.0
// Layouts of arrays, and formats.
#include <tessera/sharding/format.h>

#include <algorithm>
#include <numeric>

namespace tessera {

namespace {
std::string tuple_of(const std::vector<std::int64_t>& numbers) {
  std::string out = "(";
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    out += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  }
  return out + (numbers.size() == 1 ? ",)" : ")");
}
}  // namespace

Layout::Layout(std::vector<std::int64_t> major_to_minor, Location location)
    : automatic_(false), major_to_minor_(std::move(major_to_minor)) {
  std::vector<std::int64_t> sorted = major_to_minor_, all(major_to_minor_.size());
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) {
    throw ValueError("Layout: major_to_minor is " + tuple_of(major_to_minor_) +
                         "; valid: each of the numbers from 0 to " +
                         std::to_string(std::int64_t(all.size()) - 1) + " once",
                     location);
  }
}

Layout Layout::row_major(std::int64_t rank) {
  std::vector<std::int64_t> dims(std::size_t(std::max<std::int64_t>(rank, 0)));
  std::iota(dims.begin(), dims.end(), 0);
  return Layout(std::move(dims), Location{});
}

const std::vector<std::int64_t>& Layout::major_to_minor(Location location) const {
  if (automatic_) {
    throw ValueError(
        "Layout.AUTO has no order of dimensions; a compiled program knows what was "
        "chosen: input_formats() and output_formats()",
        location);
  }
  return major_to_minor_;
}

std::string Layout::to_string() const {
  return automatic_ ? "Layout.AUTO" : "Layout(major_to_minor=" + tuple_of(major_to_minor_) + ")";
}

Format::Format(Layout layout, Sharding sharding, Location location)
    : layout_(std::move(layout)), sharding_(std::move(sharding)) {
  if (!layout_.is_auto() && !sharding_.valid()) {
    throw ValueError("Format: " + layout_.to_string() +
                         " needs a sharding, which says on which devices arrays are; only "
                         "Layout.AUTO can do without",
                     location);
  }
}

std::string Format::to_string() const {
  return "Format(" + layout_.to_string() + ", " +
         (sharding_.valid() ? sharding_.to_string() : "UNSPECIFIED") + ")";
}

}  // namespace tessera
