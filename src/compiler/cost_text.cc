// SPDX-License-Identifier: Apache-2.0
// Prints a CostAnalysis as a table.
#include <fmt/format.h>

#include <algorithm>

#include <tessera/cost_analysis.h>

namespace tessera {
namespace {

/// Three digits and a prefix: 12.3 M
std::string scaled(double v, const char* unit) {
  static constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  std::size_t k = 0;
  while (v >= 999.5 && k + 1 < std::size(kPrefixes)) {
    v /= 1000;
    ++k;
  }
  std::string out = fmt::format("{:.3g} {}{}", v, kPrefixes[k], unit);
  if (out.back() == ' ') out.pop_back();
  return out;
}

std::string seconds_text(double s) {
  if (s >= 1) return fmt::format("{:.3g} s", s);
  if (s >= 1e-3) return fmt::format("{:.3g} ms", s * 1e3);
  return fmt::format("{:.3g} us", s * 1e6);
}

}  // namespace

std::string CostAnalysis::to_text(std::size_t most) const {
  std::string out;
  if (!collectives.empty()) {
    out += fmt::format("{:<20} {:>12} {:>8} {:>10}  {:<24} {}\n", "collective", "bytes", "times",
                       "time", "over", "for");
  }
  for (std::size_t k = 0; k < std::min(most, collectives.size()); ++k) {
    const CollectiveCost& c = collectives[k];
    std::string over;
    for (const auto& [axis, size] : c.axes) {
      over += fmt::format("{}{}={}", over.empty() ? "" : ", ", axis, size);
    }
    if (c.axes.empty()) over = fmt::format("{} devices", c.group_size);
    out += fmt::format("{:<20} {:>12} {:>8} {:>10}  {:<24} {}\n", c.kind, scaled(c.bytes, "B"),
                       c.times, seconds_text(c.seconds * c.times), over, c.location);
  }
  if (collectives.size() > most) {
    out += fmt::format("and {} more\n", collectives.size() - most);
  }
  for (const auto& [kind, k] : kinds) {
    out += fmt::format("{:<20} {:>12} in {}, {}\n", kind, scaled(k.bytes, "B"), k.count,
                       seconds_text(k.seconds));
  }
  return out + fmt::format(
                   "per device: {}, {} of them transcendental, {} of memory traffic, {} "
                   "received\nestimated: {} computing, {} communicating, {} as scheduled, {} if "
                   "nothing overlaps\n",
                   scaled(flops, "flop"), scaled(transcendentals, ""), scaled(bytes_accessed, "B"),
                   scaled(bytes_received, "B"), seconds_text(compute_seconds),
                   seconds_text(collective_seconds), seconds_text(overlapped_seconds),
                   seconds_text(step_seconds()));
}

}  // namespace tessera
