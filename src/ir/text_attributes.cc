// SPDX-License-Identifier: Apache-2.0
// Looks up attributes that instructions carry as text.
#include "src/ir/text_attributes.h"

#include <charconv>

#include <tessera/error.h>

#include "src/base/contains.h"

namespace tessera::ir {
namespace {

[[noreturn]] void bad(std::string_view key, std::string_view value, const char* expected) {
  throw ValueError(std::string(key) + "=" + std::string(value) + " must be " + expected);
}

std::int64_t number(std::string_view key, std::string_view value, std::string_view text,
                    const char* expected) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  std::int64_t v = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc() || end != text.data() + text.size()) bad(key, value, expected);
  return v;
}

}  // namespace

std::optional<std::string_view> text_attribute(const Attributes& attrs, std::string_view key) {
  const auto* text = attrs.get_if<TextAttrs>();
  if (text == nullptr) return std::nullopt;
  for (const auto& [name, value] : text->items) {
    if (name == key) return value;
  }
  return std::nullopt;
}

Dims text_dims(const Attributes& attrs, std::string_view key) {
  constexpr const char* kWanted = "numbers in braces";
  const std::optional<std::string_view> value = text_attribute(attrs, key);
  Dims out;
  if (!value) return out;
  if (value->size() < 2 || value->front() != '{' || value->back() != '}') bad(key, *value, kWanted);
  std::string_view rest = value->substr(1, value->size() - 2);
  if (rest.find_first_not_of(' ') == std::string_view::npos) return out;
  while (true) {
    const std::size_t comma = rest.find(',');
    out.push_back(number(key, *value, rest.substr(0, comma), kWanted));
    if (comma == std::string_view::npos) return out;
    rest.remove_prefix(comma + 1);
  }
}

std::int64_t text_integer(const Attributes& attrs, std::string_view key, std::int64_t otherwise) {
  const std::optional<std::string_view> value = text_attribute(attrs, key);
  return value ? number(key, *value, *value, "an integer") : otherwise;
}

Dims ragged_prefix_dims(const Attributes& attrs, std::int64_t lhs_rank) {
  const std::int64_t ragged = text_dims(attrs, "lhs_ragged_dims").at(0);
  const Dims batch = text_dims(attrs, "lhs_batch_dims"),
             contracted = text_dims(attrs, "lhs_contracting_dims");
  Dims out;
  // Those before the ragged dim; whether it is one of them.
  const auto add_until_ragged = [&](const Dims& dims) {
    for (const std::int64_t d : dims) {
      if (d == ragged) return true;
      out.push_back(d);
    }
    return false;
  };
  if (add_until_ragged(batch) || add_until_ragged(contracted)) return out;
  out = batch;
  for (std::int64_t d = 0; d < lhs_rank && d != ragged; ++d) {
    if (!contains(batch, d) && !contains(contracted, d)) out.push_back(d);
  }
  return out;
}

}  // namespace tessera::ir
