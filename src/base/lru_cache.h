// SPDX-License-Identifier: Apache-2.0
// A bounded map that evicts the least recently used value.
#pragma once

#include <cstddef>
#include <functional>
#include <iterator>
#include <list>
#include <optional>
#include <unordered_map>
#include <utility>

namespace tessera {

/// A key may have several values; a predicate passed to `find` selects one.
template <class Key, class Value, class Hash = std::hash<Key>>
class LruCache {
 public:
  explicit LruCache(std::size_t capacity) : capacity_(capacity) {}

  /// The value of the key that passes the test, or null if there is none. It becomes the most
  /// recently used one.
  template <class Test>
  Value* find(const Key& key, Test&& test) {
    const auto [begin, end] = index_.equal_range(key);
    for (auto i = begin; i != end; ++i) {
      if (test(std::as_const(i->second->value))) return touch(i->second);
    }
    return nullptr;
  }
  Value* find(const Key& key) {
    return find(key, [](const Value&) { return true; });
  }
  /// The same among the `count` most recently used values, of any key.
  template <class Test>
  Value* find_recent(std::size_t count, Test&& test) {
    for (auto i = order_.begin(); i != order_.end() && count > 0; ++i, --count) {
      if (test(std::as_const(i->value))) return touch(i);
    }
    return nullptr;
  }

  /// Adds a value as the most recently used one. Returns the evicted value, if any, so that the
  /// caller can release a lock before it is destroyed.
  std::optional<Value> insert(const Key& key, Value value) {
    order_.push_front({std::move(value), {}});
    order_.front().in_index = index_.emplace(key, order_.begin());
    if (order_.size() <= capacity_) return std::nullopt;
    Item& oldest = order_.back();
    std::optional<Value> out(std::move(oldest.value));
    index_.erase(oldest.in_index);
    order_.pop_back();
    return out;
  }

  std::size_t size() const { return order_.size(); }
  std::size_t capacity() const { return capacity_; }
  /// Calls f with the values, most recently used first.
  template <class F>
  void for_each(F&& f) const {
    for (const Item& item : order_) f(item.value);
  }

 private:
  struct Item;
  using Order = std::list<Item>;
  using Index = std::unordered_multimap<Key, typename Order::iterator, Hash>;
  struct Item {
    Value value;
    typename Index::iterator in_index;
  };

  Value* touch(typename Order::iterator item) {
    if (item != order_.begin()) order_.splice(order_.begin(), order_, item);
    return &item->value;
  }

  std::size_t capacity_;
  Order order_;  ///< most recently used first
  Index index_;
};

}  // namespace tessera
