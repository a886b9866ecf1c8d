// SPDX-License-Identifier: Apache-2.0
// The report as JSON.
#pragma once

#include <string>

#include <tessera/explain.h>
#include <nlohmann/json.hpp>

namespace tessera::compiler::explain {

using Json = nlohmann::ordered_json;

/// The object that to_json writes.
Json report_json(const Explanation& e);
/// On one line, and such that it may stand within a page's script element.
std::string to_text(const Json& json);

}  // namespace tessera::compiler::explain
