// SPDX-License-Identifier: Apache-2.0
#include "src/frontend/jit_cache.h"

namespace tessera::internal {

bool LeafKey::matches(const ArrayImpl& impl) const {
  if (impl.shape.dtype != shape.dtype || impl.weak != weak || impl.committed != committed ||
      impl.shape.dims != shape.dims) {
    return false;
  }
  if (!committed || &impl.sharding.impl() == &sharding.impl()) return true;
  return impl.sharding == sharding;
}

bool JitEntry::matches(const std::string& other_signature, const Mesh& other_context,
                       const std::vector<Array>& arrays) const {
  if (leaves.size() != arrays.size() || signature != other_signature ||
      !(context == other_context)) {
    return false;
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (!leaves[i].matches(*arrays[i].impl())) return false;
  }
  return true;
}

namespace {

std::string described(const LeafKey& key) {
  std::string out = key.shape.to_string();
  if (key.weak) out += " (a plain number)";
  if (key.committed) {
    out += " on " + (NamedSharding::is(key.sharding)
                         ? NamedSharding(key.sharding).mesh().to_string() + " as " +
                               NamedSharding(key.sharding).spec().to_string()
                         : key.sharding.to_string());
  }
  return out;
}

std::vector<std::string> differences(const JitEntry& entry, const std::string& signature,
                                     const Mesh& context, const std::vector<Array>& leaves,
                                     const std::vector<std::string>& names) {
  std::vector<std::string> out;
  if (entry.signature != signature) {
    out.push_back("trees and static arguments are " + signature + ", were " + entry.signature);
  }
  if (!(entry.context == context)) {
    out.push_back("the mesh in scope is " + context.to_string() + ", was " +
                  entry.context.to_string());
  }
  for (std::size_t i = 0; i < leaves.size() && entry.leaves.size() == leaves.size(); ++i) {
    if (entry.leaves[i].matches(*leaves[i].impl())) continue;
    out.push_back(names[i] + " is " + described(LeafKey::of(*leaves[i].impl())) + ", was " +
                  described(entry.leaves[i]));
  }
  return out;
}

}  // namespace

std::string explain_miss(const std::vector<std::shared_ptr<const JitEntry>>& entries,
                         const std::string& signature, const Mesh& context,
                         const std::vector<Array>& leaves, const std::vector<std::string>& names) {
  if (entries.empty()) return "its first call";
  std::vector<std::string> fewest;
  for (const auto& entry : entries) {
    std::vector<std::string> mine = differences(*entry, signature, context, leaves, names);
    if (fewest.empty() || mine.size() < fewest.size()) fewest = std::move(mine);
  }
  std::string out;
  for (const std::string& d : fewest) out += (out.empty() ? "" : "; ") + d;
  return out;
}

}  // namespace tessera::internal
