// SPDX-License-Identifier: Apache-2.0
// Strict reading of JSON by nlohmann/json.
#include "src/base/files/json_text.h"

#include <limits>
#include <set>
#include <vector>

#include <tessera/error.h>

namespace tessera {

namespace {

[[noreturn]] void wrong(const std::string& who, const char* name, const char* expected) {
  throw IoError(who + ": '" + name + "' is no " + expected);
}

}  // namespace

Json parse_json(std::string_view text, std::size_t depth, const std::string& who) {
  std::vector<std::set<std::string>> names;
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        names.emplace_back();
        if (names.size() > depth) {
          throw IoError(who + ": objects lie more than " + std::to_string(depth) +
                        " deep in each other");
        }
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        names.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!names.back().insert(parsed.get<std::string>()).second) {
          throw IoError(who + ": the name '" + parsed.get<std::string>() + "' occurs twice");
        }
        break;
      case Json::parse_event_t::value:
        break;
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::exception& e) {
    throw IoError(who + ": not JSON: " + e.what());
  }
}

std::string json_text(const Json& json, const std::string& who) {
  try {
    return json.dump();
  } catch (const Json::exception& e) {
    throw ValueError(who + ": a name or text isn't UTF-8: " + e.what());
  }
}

const Json& json_member(const Json& object, const char* name, const std::string& who) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  if (found == object.end()) throw IoError(who + ": '" + name + "' is missing");
  return *found;
}

const Json& json_list(const Json& object, const char* name, const std::string& who) {
  const Json& out = json_member(object, name, who);
  if (!out.is_array()) wrong(who, name, "list");
  return out;
}

const std::string& json_string(const Json& value, const char* name, const std::string& who) {
  if (!value.is_string()) wrong(who, name, "string");
  return value.get_ref<const std::string&>();
}

std::int64_t json_count(const Json& value, const char* name, const std::string& who) {
  if (!value.is_number_unsigned() ||
      value.get<std::uint64_t>() > std::uint64_t(std::numeric_limits<std::int64_t>::max())) {
    wrong(who, name, "number from 0 to 2^63 - 1");
  }
  return value.get<std::int64_t>();
}

bool json_bool(const Json& value, const char* name, const std::string& who) {
  if (!value.is_boolean()) wrong(who, name, "boolean");
  return value.get<bool>();
}

}  // namespace tessera
