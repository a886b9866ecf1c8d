// SPDX-License-Identifier: Apache-2.0
// Appending to text without streams.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/arrays/shape.h"

namespace tessera::ir {

inline void append_int(std::string& out, std::int64_t v) {
  char buffer[24];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  out.append(buffer, end);
}

/// "{1,0}"
inline void append_braced(std::string& out, const Dims& dims) {
  out += '{';
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) out += ',';
    append_int(out, dims[i]);
  }
  out += '}';
}

/// Between quotes, with quotes, backslashes and control characters escaped.
inline void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      auto u = static_cast<unsigned char>(c);
      out += '\\';
      out += char('0' + (u >> 6));
      out += char('0' + ((u >> 3) & 7));
      out += char('0' + (u & 7));
    } else {
      out += c;
    }
  }
  out += '"';
}

/// "f32[8,16]{1,0}", layout included.
void append_shape(std::string& out, const Shape& shape);

}  // namespace tessera::ir
