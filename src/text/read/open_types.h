// SPDX-License-Identifier: Apache-2.0
// Types with dims of unknown size, `tensor<?x4xf32>`. A program that has them is read for the
// shapes of its arguments: types are open as they are written, those of instructions never.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/arrays/shape.h"

namespace tessera::text {

/// Stands for the size of a dim that the text leaves open.
inline constexpr std::int64_t kOpenSize = -1;

inline std::string size_text(std::int64_t size) {
  return size == kOpenSize ? "?" : std::to_string(size);
}
inline bool is_open(const Shape& type) {
  for (const std::int64_t d : type.dims) {
    if (d == kOpenSize) return true;
  }
  for (const Shape& e : type.elements) {
    if (is_open(e)) return true;
  }
  return false;
}
inline bool fits(std::int64_t written, std::int64_t actual) {
  return written == actual || written == kOpenSize;
}
/// Whether something of this shape may stand where this type is written.
inline bool fits(const Shape& written, const Shape& actual) {
  if (written.is_tuple != actual.is_tuple || written.dims.size() != actual.dims.size() ||
      written.elements.size() != actual.elements.size()) {
    return false;
  }
  for (std::size_t n = 0; n < written.dims.size(); ++n) {
    if (!fits(written.dims[n], actual.dims[n])) return false;
  }
  for (std::size_t n = 0; n < written.elements.size(); ++n) {
    if (!fits(written.elements[n], actual.elements[n])) return false;
  }
  return written.is_tuple || written.dtype == actual.dtype;
}

/// Whether the text may have open types; it has none if this is false.
bool has_open_types(std::string_view text);

/// A parameter or result of a program as its text declares it.
struct DeclaredValue {
  std::string name;
  Shape type;  ///< open dims are kOpenSize
};
/// What can be known of a program before its arguments are.
struct Signature {
  std::string name;  ///< of the module
  std::vector<DeclaredValue> parameters, results;
  Location location;  ///< of the entry function

  /// Whether its arguments must be known to read the rest.
  bool is_open() const {
    for (const auto* values : {&parameters, &results}) {
      for (const DeclaredValue& v : *values) {
        if (text::is_open(v.type)) return true;
      }
    }
    return false;
  }
};

/// What is known of an argument.
struct GivenArgument {
  Dims sizes;
  /// The integers or truth values that it is, if sizes may depend on them. What is read is for them
  /// alone then.
  std::optional<Dims> value{};
};

/// Gives the arguments of a program whose types leave sizes open; nothing if they aren't known yet,
/// so that the program isn't read.
using Arguments = std::function<std::optional<std::vector<GivenArgument>>(const Signature&)>;

}  // namespace tessera::text
