// SPDX-License-Identifier: Apache-2.0
// Names that HLO text can carry.
#include "src/ir/names.h"

#include <tessera/dtype.h>

#include <algorithm>
#include <iterator>

namespace tessera::ir {

bool is_reserved_name(std::string_view s) {
  // Most names have a number behind a dot, and no reserved word has a dot.
  if (s.find('.') != std::string_view::npos) return false;
  static constexpr std::string_view kWords[] = {"ENTRY",
                                                "HloModule",
                                                "ROOT",
                                                "error",
                                                "false",
                                                "inf",
                                                "last_tile_dim_replicate",
                                                "last_tile_dims",
                                                "manual",
                                                "maximal",
                                                "nan",
                                                "opaque",
                                                "replicated",
                                                "shard_as",
                                                "shard_like",
                                                "true",
                                                "unknown",
                                                "unreduced",
                                                "mesh",
                                                "maximal_mesh"};
  if (std::find(std::begin(kWords), std::end(kWords), s) != std::end(kWords)) return true;
  return dtype_from_name(s).has_value();
}

std::string sanitize_name(std::string out) {
  for (char& c : out) {
    if (!is_name_char(c)) c = '_';
  }
  if (out.empty() || !is_name_start(out[0])) out.insert(out.begin(), '_');
  if (is_reserved_name(out)) out += '_';
  return out;
}

std::string_view name_stem(std::string_view s) {
  std::size_t end = s.size();
  while (end > 0 && is_digit(s[end - 1])) --end;
  if (end == s.size() || end < 2 || s[end - 1] != '.') return s;
  return s.substr(0, end - 1);
}

}  // namespace tessera::ir
