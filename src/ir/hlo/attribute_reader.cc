// SPDX-License-Identifier: Apache-2.0
// Reads the key=value attributes behind an HLO instruction.
#include "src/ir/hlo/attribute_reader.h"

#include <charconv>

#include <algorithm>

namespace tessera::ir {

AttributeReader::AttributeReader(HloLexer& in, std::string_view owner, bool none)
    : in_(in), owner_(owner), start_(in.position()) {
  if (none) return;
  while (in_.accept(',')) {
    in_.skip();
    const char* at = in_.position();
    std::string_view key = in_.word("the name of an attribute");
    in_.expect('=', "after the attribute's name");
    if (has(key)) {
      in_.fail_at(
          at, "attribute '" + std::string(key) + "' of " + std::string(owner_) + " stands twice");
    }
    items_.push_back({key, in_.value()});
  }
}

bool AttributeReader::has(std::string_view key) const {
  return std::any_of(items_.begin(), items_.end(), [&](const Item& i) { return i.key == key; });
}

bool AttributeReader::all_in(std::span<const std::string_view> keys) const {
  return std::all_of(items_.begin(), items_.end(), [&](const Item& i) {
    return std::find(keys.begin(), keys.end(), i.key) != keys.end();
  });
}

std::optional<std::string_view> AttributeReader::take(std::string_view key) {
  for (Item& item : items_) {
    if (item.key != key) continue;
    item.used = true;
    return item.value;
  }
  asked_.push_back(key);
  return std::nullopt;
}

std::string_view AttributeReader::need(std::string_view key) {
  std::optional<std::string_view> value = take(key);
  if (!value) {
    in_.fail_at(start_, std::string(owner_) + " needs the attribute '" + std::string(key) + "'");
  }
  return *value;
}

Dims AttributeReader::dims(std::string_view key) {
  Dims out;
  at(need(key), [&] { out = in_.braced_integers(key); });
  return out;
}

Dims AttributeReader::dims_or_empty(std::string_view key) {
  Dims out;
  if (auto value = take(key)) at(*value, [&] { out = in_.braced_integers(key); });
  return out;
}

std::int64_t AttributeReader::integer(std::string_view key) {
  std::int64_t out = 0;
  at(need(key), [&] { out = in_.integer("an integer for " + std::string(key)); });
  return out;
}

std::int64_t AttributeReader::integer_or(std::string_view key, std::int64_t fallback) {
  return has(key) ? integer(key) : (take(key), fallback);
}

float AttributeReader::real(std::string_view key) {
  std::string_view value = need(key);
  float out = 0;
  const char* last = value.data() + value.size();
  auto [end, error] = std::from_chars(value.data(), last, out);
  if (error != std::errc() || end != last) {
    fail(value,
         "expected a number for " + std::string(key) + ", found '" + std::string(value) + "'");
  }
  return out;
}

bool AttributeReader::flag(std::string_view key, bool fallback) {
  std::optional<std::string_view> value = take(key);
  if (!value) return fallback;
  if (*value == "true") return true;
  if (*value == "false") return false;
  fail(*value,
       "expected true or false for " + std::string(key) + ", found '" + std::string(*value) + "'");
}

std::string AttributeReader::text(std::string_view key) {
  std::string out;
  at(need(key), [&] { out = in_.quoted(key); });
  return out;
}

std::size_t AttributeReader::choice(std::string_view key, const std::string_view* words,
                                    std::size_t count) {
  std::string_view value = need(key);
  std::string valid;
  for (std::size_t i = 0; i < count; ++i) {
    if (words[i].empty()) continue;
    if (words[i] == value) return i;
    if (!valid.empty()) valid += ", ";
    valid += words[i];
  }
  fail(value, std::string(key) + "=" + std::string(value) + " is not valid; valid: " + valid);
}

void AttributeReader::finish(const std::vector<std::string_view>& also_valid) {
  for (const Item& item : items_) {
    if (item.used) continue;
    std::vector<std::string_view> valid = asked_;
    for (const Item& other : items_) {
      if (other.used) valid.push_back(other.key);
    }
    valid.insert(valid.end(), also_valid.begin(), also_valid.end());
    std::sort(valid.begin(), valid.end());
    valid.erase(std::unique(valid.begin(), valid.end()), valid.end());
    std::string list;
    for (std::string_view v : valid) list += (list.empty() ? "" : ", ") + std::string(v);
    in_.fail_at(item.key.data(), "unknown attribute '" + std::string(item.key) + "' of " +
                                     std::string(owner_) + "; valid: " + list);
  }
}

}  // namespace tessera::ir
