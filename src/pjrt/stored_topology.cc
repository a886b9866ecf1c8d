// SPDX-License-Identifier: Apache-2.0
// The format of stored topologies.
#include "src/pjrt/stored_topology.h"

#include <xxhash.h>

#include <charconv>
#include <cstdio>

namespace tessera::pjrt {
namespace {

constexpr std::string_view kHeader = "tessera topology 2\n";
constexpr std::size_t kSum = 16;  ///< digits of the checksum

std::string checksum(std::string_view text) {
  char out[kSum + 1];
  std::snprintf(out, sizeof out, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  return out;
}

[[noreturn]] void fail(const std::string& why) {
  throw Failure(PJRT_Error_Code_DATA_LOSS, "a stored topology is damaged: " + why);
}

/// A number and the end of its line, both taken off the text.
std::int32_t take_line(std::string_view* text) {
  std::int32_t out = 0;
  const auto [at, error] = std::from_chars(text->data(), text->data() + text->size(), out);
  const auto length = std::size_t(at - text->data());
  // As it is written, so that there is one text for each topology.
  if (error != std::errc() || length >= text->size() || (*text)[length] != '\n' || out < 0 ||
      std::to_string(out) != text->substr(0, length)) {
    fail("a line is no number");
  }
  text->remove_prefix(length + 1);
  return out;
}

}  // namespace

std::string with_topology_checksum(std::string_view body) {
  const std::string text = std::string(kHeader) + std::string(body);
  return text + checksum(text);
}

std::string write_stored_topology(const StoredTopology& topology) {
  std::string body = std::to_string(topology.processes.size()) + "\n";
  for (const std::int32_t process : topology.processes) body += std::to_string(process) + "\n";
  return with_topology_checksum(body);
}

StoredTopology read_stored_topology(std::string_view text) {
  if (!text.starts_with(kHeader)) {
    throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                  "this is no topology that this version of Tessera stored");
  }
  if (text.size() < kHeader.size() + kSum) fail("it ends too early");
  const std::string_view before = text.substr(0, text.size() - kSum);
  if (checksum(before) != text.substr(before.size())) fail("its checksum is another one");
  std::string_view lines = before.substr(kHeader.size());
  StoredTopology out;
  const std::int32_t count = take_line(&lines);
  while (!lines.empty()) out.processes.push_back(take_line(&lines));
  if (count < 1 || std::size_t(count) != out.processes.size()) {
    fail("it has " + std::to_string(out.processes.size()) + " devices, and says " +
         std::to_string(count));
  }
  return out;
}

}  // namespace tessera::pjrt
