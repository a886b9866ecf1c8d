// SPDX-License-Identifier: Apache-2.0
// JSON of files that aren't trusted: read with limits, and without what JSON leaves open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace tessera {

using Json = nlohmann::json;

/// IoError that begins with `who` if the text isn't JSON, a name occurs twice in an object, or
/// objects and lists lie more than `depth` deep in each other.
Json parse_json(std::string_view text, std::size_t depth, const std::string& who);
/// ValueError that begins with `who` if a text isn't UTF-8.
std::string json_text(const Json& json, const std::string& who);

/// Parts of it, as the type that they must have; IoError that names them after `who`.
const Json& json_member(const Json& object, const char* name, const std::string& who);
const Json& json_list(const Json& object, const char* name, const std::string& who);
const std::string& json_string(const Json& value, const char* name, const std::string& who);
/// From 0 to the most that an int64 holds.
std::int64_t json_count(const Json& value, const char* name, const std::string& who);
bool json_bool(const Json& value, const char* name, const std::string& who);

}  // namespace tessera
