// SPDX-License-Identifier: Apache-2.0
// Who sends to whom in a permute of devices: a list that all copies share.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace tessera {

/// An immutable list of pairs (source, target). A program has many permutes of few different lists,
/// and a list may name 65,536 devices: copies are the same list, which is compared by looking at
/// where it is, and what is to be known of a list is found out once.
class DevicePairs {
 public:
  using Pair = std::pair<std::int64_t, std::int64_t>;
  using value_type = Pair;
  using const_iterator = const Pair*;
  using iterator = const_iterator;

  /// Of all sources, or of all targets.
  struct Side {
    std::optional<std::int64_t> twice;  ///< the least device that stands there twice
    std::int64_t least = 0, greatest = -1;
  };
  struct Facts {
    bool moves = false;  ///< some device sends to another
    bool sorted = true;
    Side sources, targets;
    std::int64_t greatest() const {
      return sources.greatest > targets.greatest ? sources.greatest : targets.greatest;
    }
  };

  DevicePairs() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): the same list, made to be shared
  DevicePairs(std::vector<Pair> pairs);
  DevicePairs(std::initializer_list<Pair> pairs) : DevicePairs(std::vector<Pair>(pairs)) {}

  bool empty() const { return list_ == nullptr; }
  std::size_t size() const { return list_ ? list_->pairs.size() : 0; }
  const Pair& operator[](std::size_t i) const { return list_->pairs[i]; }
  const_iterator begin() const { return list_ ? list_->pairs.data() : nullptr; }
  const_iterator end() const { return begin() + size(); }
  const std::vector<Pair>& pairs() const;

  const Facts& facts() const;
  /// In ascending order: the same list where it is.
  DevicePairs sorted() const;
  /// Each of `devices` keeps what it has.
  bool all_stay(std::int64_t devices) const {
    return std::int64_t(size()) == devices && !facts().moves;
  }
  /// Where the list is: the same for all copies, for as long as one of them lives.
  const void* place() const { return list_.get(); }

  friend bool operator==(const DevicePairs& a, const DevicePairs& b) {
    return a.list_ == b.list_ || (a.size() == b.size() && a.pairs() == b.pairs());
  }
  friend std::strong_ordering operator<=>(const DevicePairs& a, const DevicePairs& b) {
    if (a.list_ == b.list_) return std::strong_ordering::equal;
    return a.pairs() <=> b.pairs();
  }

 private:
  struct List {
    explicit List(std::vector<Pair> list) : pairs(std::move(list)) {}

    const std::vector<Pair> pairs;
    mutable std::once_flag once, sorted_once;
    mutable Facts facts;
    mutable std::shared_ptr<const List> sorted;  ///< null: it is
  };

  std::shared_ptr<const List> list_;  ///< null: no pairs
};

}  // namespace tessera
