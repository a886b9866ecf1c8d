// SPDX-License-Identifier: Apache-2.0
// The cache key of a jitted call, lookup, and explanations of cache misses.
#include "src/frontend/jit/jit_cache.h"

#include <functional>

namespace tessera::internal {

bool LeafKey::matches(const ArrayImpl& impl) const {
  if (impl.shape.dtype != shape.dtype || impl.weak != weak || impl.committed != committed ||
      impl.shape.dims != shape.dims) {
    return false;
  }
  if (!committed) return memory_of(impl) == memory;
  return &impl.sharding.impl() == &sharding.impl() || impl.sharding == sharding;
}

CallKey CallKey::of(const CallInfo& info, const Mesh& context) {
  CallKey key{info.signature, info.types, context, {}};
  for (const Array& leaf : info.leaves) key.leaves.push_back(LeafKey::of(*leaf.impl()));
  return key;
}

bool CallKey::matches(const CallInfo& info, const Mesh& other_context) const {
  if (leaves.size() != info.leaves.size() || !(types == info.types) ||
      signature != info.signature || !(context == other_context)) {
    return false;
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].matches(*info.leaves[i].impl())) return false;
  }
  return true;
}

namespace {

// Most calls are like one of the last few: comparing with these is cheaper than hashing.
constexpr std::size_t kRecent = 4;
// Number of latest entries that explanations compare with.
constexpr std::size_t kExplained = 64;

class Hash {
 public:
  void add(std::size_t v) { value_ ^= v + 0x9e3779b97f4a7c15ull + (value_ << 6) + (value_ >> 2); }
  void add_call(const std::string& signature, TypeKey types, const Mesh& context) {
    add(std::hash<std::string>()(signature));
    add(types.hash());
    if (!context.empty()) add(context.hash());
  }
  /// Equal for matching leaves.
  void add_leaf(const Shape& shape, bool weak, bool committed, const Sharding& sharding) {
    add(std::size_t(shape.dtype) * 4 + std::size_t(weak) * 2 + std::size_t(committed));
    for (const std::int64_t d : shape.dims) add(std::size_t(d));
    if (committed) add(sharding.hash());
  }
  std::size_t value() const { return value_; }

 private:
  std::size_t value_ = 0;
};

std::string described(const LeafKey& key) {
  std::string out = key.shape.to_string();
  if (key.weak) out += " (a plain number)";
  if (is_host(key.memory)) out += " in " + std::string(name(key.memory));
  if (key.committed) {
    out += " on " + (NamedSharding::is(key.sharding)
                         ? NamedSharding(key.sharding).mesh().to_string() + " as " +
                               NamedSharding(key.sharding).spec().to_string()
                         : key.sharding.to_string());
  }
  return out;
}

std::vector<std::string> differences(const CallKey& entry, const CallInfo& info,
                                     const Mesh& context, const std::vector<std::string>& names) {
  const std::vector<Array>& leaves = info.leaves;
  std::vector<std::string> out;
  if (!(entry.types == info.types)) {
    const std::string now = info.types.name(), then = entry.types.name();
    out.push_back(now == then ? "the C++ types are others of the names in " + now
                              : "the C++ types are " + now + ", were " + then);
  }
  if (entry.signature != info.signature) {
    out.push_back("trees and static arguments are " + info.signature + ", were " + entry.signature);
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

std::shared_ptr<const JitEntry> JitCache::find(const CallInfo& info, const Mesh& context) {
  const auto serves = [&](const std::shared_ptr<const JitEntry>& entry) {
    return entry->key.matches(info, context);
  };
  auto* found = entries_.find_recent(kRecent, serves);
  if (!found && entries_.size() > kRecent) {
    Hash hash;
    hash.add_call(info.signature, info.types, context);
    for (const Array& leaf : info.leaves) {
      const ArrayImpl& impl = *leaf.impl();
      hash.add_leaf(impl.shape, impl.weak, impl.committed, impl.sharding);
    }
    found = entries_.find(hash.value(), serves);
  }
  return found ? *found : nullptr;
}

std::shared_ptr<const JitEntry> JitCache::insert(std::shared_ptr<const JitEntry> entry) {
  Hash hash;
  const CallKey& key = entry->key;
  hash.add_call(key.signature, key.types, key.context);
  for (const LeafKey& leaf : key.leaves) {
    hash.add_leaf(leaf.shape, leaf.weak, leaf.committed, leaf.sharding);
  }
  return entries_.insert(hash.value(), std::move(entry)).value_or(nullptr);
}

std::string JitCache::explain_miss(const CallInfo& info, const Mesh& context,
                                   const std::vector<std::string>& names) const {
  if (entries_.size() == 0) return "its first call";
  std::vector<std::string> fewest;
  std::size_t looked_at = 0;
  entries_.for_each([&](const std::shared_ptr<const JitEntry>& entry) {
    if (looked_at++ >= kExplained) return;
    std::vector<std::string> mine = differences(entry->key, info, context, names);
    if (looked_at == 1 || mine.size() < fewest.size()) fewest = std::move(mine);
  });
  std::string out;
  for (const std::string& d : fewest) out += (out.empty() ? "" : "; ") + d;
  return out;
}

}  // namespace tessera::internal
