// SPDX-License-Identifier: Apache-2.0
// Numbers and texts in a row, as binary files of our own have them; little endian.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tessera/error.h>

namespace tessera {

class ByteWriter {
 public:
  template <class T>
  requires std::is_integral_v<T>
  void number(T n) {
    const auto wide = std::uint64_t(n);
    bytes_.append(reinterpret_cast<const char*>(&wide), sizeof wide);
  }
  void real(double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    number(bits);
  }
  void text(std::string_view text) {
    number(text.size());
    bytes_ += text;
  }
  template <class List, class F>
  void list(const List& list, F&& write) {
    number(list.size());
    for (const auto& one : list) write(one);
  }
  template <class List>
  void numbers(const List& list) {
    this->list(list, [this](auto n) { number(n); });
  }

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Reads what a ByteWriter wrote. IoError that begins with `who` for anything else: it never reads
/// beyond the end, nor takes memory for what isn't there.
class ByteReader {
 public:
  ByteReader(std::string_view bytes, std::string who) : rest_(bytes), who_(std::move(who)) {}

  std::int64_t number() {
    std::int64_t out = 0;
    std::memcpy(&out, take(sizeof out).data(), sizeof out);
    return out;
  }
  /// One of [least, most].
  std::int64_t number(std::int64_t least, std::int64_t most, const char* what) {
    const std::int64_t out = number();
    if (out < least || out > most) {
      fail(std::string("has ") + what + " " + std::to_string(out) +
           "; valid: " + std::to_string(least) + " to " + std::to_string(most));
    }
    return out;
  }
  bool flag() { return number(0, 1, "a flag") != 0; }
  double real() {
    const std::int64_t bits = number();
    double out = 0;
    std::memcpy(&out, &bits, sizeof out);
    return out;
  }
  /// In the bytes that are read.
  std::string_view view() {
    const std::int64_t size = number();
    if (size < 0) fail("has a text of " + std::to_string(size) + " bytes");
    return take(std::uint64_t(size));
  }
  std::string text() { return std::string(view()); }
  /// `read` reads at least 8 bytes each time.
  template <class F>
  void list(F&& read) {
    const std::int64_t count = number();
    if (count < 0 || std::uint64_t(count) > rest_.size() / sizeof(std::int64_t)) {
      fail("has a list of " + std::to_string(count) + ", for which it is too short");
    }
    for (std::int64_t n = 0; n < count; ++n) read();
  }
  template <class List>
  List numbers(std::int64_t least, std::int64_t most, const char* what) {
    List out;
    list([&] { out.push_back(static_cast<typename List::value_type>(number(least, most, what))); });
    return out;
  }

  bool at_end() const { return rest_.empty(); }
  [[noreturn]] void fail(const std::string& why) const { throw IoError(who_ + " " + why); }

 private:
  std::string_view take(std::uint64_t n) {
    if (n > rest_.size()) fail("ends too early");
    const std::string_view out = rest_.substr(0, std::size_t(n));
    rest_.remove_prefix(std::size_t(n));
    return out;
  }

  std::string_view rest_;
  std::string who_;
};

}  // namespace tessera
