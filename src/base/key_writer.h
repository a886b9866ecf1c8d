// SPDX-License-Identifier: Apache-2.0
// Keys of caches: the bytes of all that a value depends on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "src/base/small_vector.h"

namespace tessera {

/// Each field ends by itself (numbers in groups of seven bits, lists and texts after their length),
/// so that different fields never give equal bytes.
class KeyWriter {
 public:
  KeyWriter() = default;
  explicit KeyWriter(std::string_view family) { add(family); }

  template <class T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void add(T field) {
    const auto v = static_cast<std::int64_t>(field);
    // Small numbers of either sign are short.
    auto bits = (static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63);
    for (; bits >= 128; bits >>= 7) key_.push_back(static_cast<char>(bits | 128));
    key_.push_back(static_cast<char>(bits));
  }
  void add(double v) {
    std::int64_t bits;
    std::memcpy(&bits, &v, sizeof bits);
    add(bits);
  }
  void add(std::string_view text) {
    add(text.size());
    key_.append(text);
  }
  void add(const std::string& text) { add(std::string_view(text)); }
  void add(const std::vector<std::byte>& bytes) {
    add(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  /// A struct for which there is a function add_to_key(KeyWriter&, const T&).
  template <class T>
  requires(std::is_class_v<T>) auto add(const T& field)
      -> decltype(add_to_key(std::declval<KeyWriter&>(), field)) {
    add_to_key(*this, field);
  }
  template <class A, class B>
  void add(const std::pair<A, B>& pair) {
    add_all(pair.first, pair.second);
  }
  template <class T>
  void add(const std::vector<T>& list) {
    add_list(list);
  }
  template <class T, std::uint32_t n>
  void add(const SmallVector<T, n>& list) {
    add_list(list);
  }
  template <class... T>
  void add_all(const T&... fields) {
    (add(fields), ...);
  }

  std::string take() { return std::move(key_); }

 private:
  template <class List>
  void add_list(const List& list) {
    add(list.size());
    for (const auto& element : list) add(element);
  }

  std::string key_;
};

}  // namespace tessera
