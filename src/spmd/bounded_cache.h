// SPDX-License-Identifier: Apache-2.0
// What has been worked out, by key, in bounded memory.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>

namespace tessera::spmd {

/// Keeps at most `capacity` values. There are two generations: when the younger one is full, the
/// older one is dropped, so that what is looked up again and again stays.
template <class Value>
class BoundedCache {
 public:
  explicit BoundedCache(std::size_t capacity) : half_(capacity / 2) {}

  /// Null if there is none; good until the next `add` or `find`.
  const Value* find(const std::string& key) {
    if (auto it = young_.find(key); it != young_.end()) return &it->second;
    auto node = old_.extract(key);
    if (node.empty()) return nullptr;
    make_room();
    return &young_.insert(std::move(node)).position->second;
  }
  /// One that there is not. Good until the next `add` or `find`.
  const Value& add(std::string key, Value value) {
    make_room();
    return young_.emplace(std::move(key), std::move(value)).first->second;
  }
  std::size_t size() const { return young_.size() + old_.size(); }

 private:
  void make_room() {
    if (young_.size() < half_) return;
    old_ = std::move(young_);
    young_.clear();
  }

  std::size_t half_;
  std::unordered_map<std::string, Value> young_, old_;
};

}  // namespace tessera::spmd
