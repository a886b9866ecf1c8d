// SPDX-License-Identifier: Apache-2.0
// Writes JSON: objects and lists in the order that they are given.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tessera::compiler::explain {

/// "\u003c" in place of "<": the text may stand within a page's script element.
inline void append_json_string(std::string* out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  *out += '"';
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        *out += "\\\"";
        break;
      case '\\':
        *out += "\\\\";
        break;
      case '\n':
        *out += "\\n";
        break;
      default:
        if (u < 0x20 || u == 0x7f || c == '<' || c == '>' || c == '&') {
          *out += "\\u00";
          *out += kHex[u >> 4];
          *out += kHex[u & 15];
        } else {
          *out += c;
        }
    }
  }
  *out += '"';
}

class JsonWriter {
 public:
  JsonWriter& key(std::string_view name) {
    comma();
    append_json_string(&text_, name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  void string(std::string_view v) {
    comma();
    append_json_string(&text_, valid_utf8(v));
  }
  void number(double v) {
    comma();
    char buffer[40];
    if (!std::isfinite(v)) {
      text_ += "null";
      return;
    }
    // Bytes are whole numbers, nearly always.
    const bool whole = std::abs(v) < 9e15 && v == std::floor(v);
    std::snprintf(buffer, sizeof buffer, whole ? "%.0f" : "%.9g", v);
    text_ += buffer;
  }
  void boolean(bool v) {
    comma();
    text_ += v ? "true" : "false";
  }
  void null() {
    comma();
    text_ += "null";
  }
  void begin(char bracket) {
    comma();
    text_ += bracket;
    fresh_ = true;
  }
  void end(char bracket) {
    text_ += bracket;
    fresh_ = false;
  }
  std::string take() { return std::move(text_); }

  /// The text with bytes that are no UTF-8 replaced by '?'.
  static std::string valid_utf8(std::string_view v);

 private:
  void comma() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  std::string text_;
  bool fresh_ = true;
};

}  // namespace tessera::compiler::explain
