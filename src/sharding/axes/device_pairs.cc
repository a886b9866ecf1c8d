// SPDX-License-Identifier: Apache-2.0
// Shared lists of pairs, and what is found out of one.
#include "src/sharding/axes/device_pairs.h"

#include <algorithm>

namespace tessera {
namespace {

/// As the devices of a permute should be, whose numbers are small as a rule.
bool all_different(const std::vector<std::int64_t>& devices) {
  std::vector<char> seen(2 * devices.size() + 64, 0);
  for (const std::int64_t d : devices) {
    if (d < 0 || d >= std::int64_t(seen.size()) || seen[std::size_t(d)]) return false;
    seen[std::size_t(d)] = 1;
  }
  return true;
}

DevicePairs::Side side_of(std::vector<std::int64_t> devices) {
  const auto [least, greatest] = std::minmax_element(devices.begin(), devices.end());
  DevicePairs::Side side{std::nullopt, *least, *greatest};
  if (all_different(devices)) return side;
  std::sort(devices.begin(), devices.end());
  const auto twice = std::adjacent_find(devices.begin(), devices.end());
  if (twice != devices.end()) side.twice = *twice;
  return side;
}

DevicePairs::Facts facts_of(const std::vector<DevicePairs::Pair>& pairs) {
  DevicePairs::Facts facts;
  std::vector<std::int64_t> sources, targets;
  sources.reserve(pairs.size());
  targets.reserve(pairs.size());
  for (const auto& [source, target] : pairs) {
    facts.moves |= source != target;
    sources.push_back(source);
    targets.push_back(target);
  }
  facts.sorted = std::is_sorted(pairs.begin(), pairs.end());
  facts.sources = side_of(std::move(sources));
  facts.targets = side_of(std::move(targets));
  return facts;
}

}  // namespace

DevicePairs::DevicePairs(std::vector<Pair> pairs) {
  if (!pairs.empty()) list_ = std::make_shared<const List>(std::move(pairs));
}

const std::vector<DevicePairs::Pair>& DevicePairs::pairs() const {
  static const std::vector<Pair> none;
  return list_ ? list_->pairs : none;
}

const DevicePairs::Facts& DevicePairs::facts() const {
  static const Facts none;
  if (!list_) return none;
  const List& list = *list_;
  std::call_once(list.once, [&] { list.facts = facts_of(list.pairs); });
  return list.facts;
}

DevicePairs DevicePairs::sorted() const {
  if (facts().sorted) return *this;
  const List& list = *list_;
  std::call_once(list.sorted_once, [&] {
    std::vector<Pair> pairs = list.pairs;
    const Side& sources = list.facts.sources;
    if (!sources.twice && sources.least >= 0 &&
        sources.greatest < std::int64_t(2 * pairs.size() + 64)) {
      // Each has its place.
      std::vector<std::int64_t> target(std::size_t(sources.greatest) + 1);
      std::vector<char> sends(target.size(), 0);
      for (const auto& [from, to] : pairs) {
        target[std::size_t(from)] = to;
        sends[std::size_t(from)] = 1;
      }
      pairs.clear();
      for (std::size_t from = 0; from < target.size(); ++from) {
        if (sends[from]) pairs.emplace_back(std::int64_t(from), target[from]);
      }
    } else {
      std::sort(pairs.begin(), pairs.end());
    }
    list.sorted = std::make_shared<const List>(std::move(pairs));
  });
  DevicePairs out;
  out.list_ = list.sorted;
  return out;
}

}  // namespace tessera
