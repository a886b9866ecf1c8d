// SPDX-License-Identifier: Apache-2.0
// The table of machines, from what their makers publish: docs/accelerators.md names the sources.
#include "src/cost/machines.h"

#include <algorithm>
#include <cctype>

namespace tessera::cost {
namespace {

struct Row {
  const char* name;
  double flops;   ///< bf16, dense
  double memory;  ///< bytes per second
  double link;    ///< bytes that a device receives in a second along an axis
};

// Longer names first where one contains another.
constexpr Row kRows[] = {
    {"A100", 312e12, 2.039e12, 300e9},      {"H100 PCIe", 756e12, 2e12, 64e9},
    {"H100", 989.4e12, 3.35e12, 450e9},     {"H200", 989.4e12, 4.8e12, 450e9},
    {"TPU v4", 275e12, 1.2e12, 90e9},       {"TPU v5e", 197e12, 0.81e12, 90e9},
    {"TPU v5 lite", 197e12, 0.81e12, 90e9},
};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool is_word_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Whether `name` stands in `text` as whole words.
bool names(const std::string& text, const std::string& name) {
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !is_word_part(text[at - 1])) &&
        (end == text.size() || !is_word_part(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Network> find_machine(std::string_view name) {
  const std::string wanted = lower(name);
  const auto row = std::find_if(std::begin(kRows), std::end(kRows),
                                [&](const Row& r) { return names(wanted, lower(r.name)); });
  if (row == std::end(kRows)) return std::nullopt;
  Network out;
  out.flops_per_second = row->flops;
  out.memory_bytes_per_second = row->memory;
  out.other.bytes_per_second = row->link;
  return out;
}

std::string list_of_machines() {
  std::string out;
  for (const Row& r : kRows) out += (out.empty() ? "" : ", ") + std::string(r.name);
  return out;
}

}  // namespace tessera::cost
