// SPDX-License-Identifier: Apache-2.0
// The cache key of a jitted call, lookup, and explanations of cache misses.
#include "src/frontend/jit/jit_cache.h"

#include <functional>
#include <optional>

#include "src/sharding/api/sharding_impl.h"

namespace tessera::internal {

bool LeafKey::matches(const ArrayImpl& impl) const {
  if (impl.shape.dtype != shape.dtype || impl.weak != weak || impl.committed != committed ||
      impl.shape.dims != shape.dims) {
    return false;
  }
  if (!committed) return memory_of(impl) == memory;
  return &impl.sharding.impl() == &sharding.impl() || impl.sharding == sharding;
}

bool LeafKey::equals(const LeafKey& other) const {
  return shape == other.shape && weak == other.weak && committed == other.committed &&
         (committed ? sharding == other.sharding : memory == other.memory);
}

CallKey CallKey::of(const CallInfo& info, const Mesh& context) {
  CallKey key{info.signature, info.types, context, {}, info.tree};
  for (std::size_t i = 0; i < info.statics.size(); ++i) {
    const auto& [position, begin, end] = info.statics[i];
    key.statics.emplace_back(position, info.signature.substr(begin, end - begin));
  }
  for (const Array& leaf : info.leaves) key.leaves.push_back(LeafKey::of(*leaf.impl()));
  return key;
}

bool CallKey::matches(const CallView& call) const {
  if (leaves.size() != call.leaves.size() || !(types == call.types) ||
      signature != call.signature || !(context == call.context) ||
      precision != current_precision() || platform != &default_platform()) {
    return false;
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].matches(*call.leaves[i].impl())) return false;
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
  void add_call(const std::string& signature, TypeKey types, const Mesh& context,
                Precision precision) {
    add(std::hash<std::string>()(signature) + std::size_t(precision));
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

std::string devices_text(const std::vector<Device>& devices) {
  constexpr std::size_t kListed = 16;
  std::string out = " on devices";
  for (std::size_t i = 0; i < devices.size() && i < kListed; ++i) {
    out += " " + std::to_string(devices[i].id);
  }
  return out + (devices.size() > kListed ? " ..." : "");
}

std::string described(const LeafKey& key, bool with_devices, bool with_commitment) {
  std::string out = key.shape.to_string();
  if (key.weak) out += " (a plain number)";
  if (is_host(key.memory)) out += " in " + std::string(name(key.memory));
  if (key.committed) {
    out += " on " + (NamedSharding::is(key.sharding)
                         ? NamedSharding(key.sharding).mesh().to_string() + " as " +
                               NamedSharding(key.sharding).spec().to_string()
                         : key.sharding.to_string());
    if (with_devices && !key.sharding.is_abstract())
      out += devices_text(key.sharding.impl().devices());
  } else if (with_commitment) {
    out += ", not committed to devices";
  }
  return out;
}

/// "is A, was B", with what tells the two apart.
std::string is_was(const LeafKey& now, const LeafKey& then) {
  const bool commitment = now.committed != then.committed;
  const bool alike = described(now, false, commitment) == described(then, false, commitment);
  return " is " + described(now, alike, commitment) + ", was " + described(then, alike, commitment);
}

std::string described(const Mesh& mesh, bool with_devices) {
  if (mesh.empty()) return "none";
  return mesh.to_string() +
         (with_devices && !mesh.is_abstract() ? devices_text(mesh.devices()) : "");
}

/// Whether static_key gave a number in place of a text, to a value whose type has an operator==.
bool is_number_of_value(const std::string& key) {
  return key.size() > 1 && key[0] == '#' &&
         key.find_first_not_of("0123456789", 1) == std::string::npos;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kListed = 12;
  std::string out;
  for (std::size_t i = 0; i < names.size() && i < kListed; ++i) {
    out += (i == 0 ? "" : ", ") + names[i].substr(0, names[i].rfind(" of '"));
  }
  if (names.empty()) return "none";
  return out + (names.size() > kListed ? ", ... (" + std::to_string(names.size()) + ")" : "");
}

/// How a call differs from an earlier one.
struct Differences {
  std::vector<std::string> texts;
  std::size_t weight = 0;  ///< little for similar calls
};

Differences differences(const CallKey& then, const CallKey& now, const MissNames& names) {
  Differences out;
  const auto add = [&](std::size_t weight, std::string text) {
    out.texts.push_back(std::move(text));
    out.weight += weight;
  };
  if (!(then.types == now.types)) {
    const std::string is = now.types.name(), was = then.types.name();
    add(8, is == was ? "the C++ types are others of the names in " + is
                     : "the C++ types are " + is + ", were " + was);
  }
  if (then.tree != now.tree) {
    if (names.leaves != then.names) {
      add(4, "the arrays in the arguments are " + listed(names.leaves) + ", were " +
                 listed(then.names));
    } else {
      add(4, "the arguments' trees, with the values in them that aren't arrays, are " + now.tree +
                 ", were " + then.tree);
    }
  }
  for (std::size_t i = 0; i < now.statics.size() && now.statics.size() == then.statics.size();
       ++i) {
    const auto& [position, is] = now.statics[i];
    const std::string& was = then.statics[i].second;
    if (is == was) continue;
    add(1, names.argument(position) +
               (is_number_of_value(is) && is_number_of_value(was)
                    ? " isn't equal to that of the earlier call, by its type's operator=="
                    : " is " + is + ", was " + was));
  }
  if (!(then.context == now.context)) {
    const bool alike = described(now.context, false) == described(then.context, false);
    add(1, "the mesh in scope is " + described(now.context, alike) + ", was " +
               described(then.context, alike));
  }
  if (then.platform != now.platform) add(1, "another platform is the default one");
  if (then.precision != now.precision) add(1, "another precision of products is in scope");
  for (std::size_t i = 0; i < now.leaves.size() && then.leaves.size() == now.leaves.size(); ++i) {
    if (now.leaves[i].equals(then.leaves[i])) continue;
    add(1, names.leaves[i] + is_was(now.leaves[i], then.leaves[i]));
  }
  return out;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : "; ") + part;
  return out;
}

}  // namespace

namespace {

std::size_t hash_of(const CallKey& key) {
  Hash hash;
  hash.add_call(key.signature, key.types, key.context, key.precision);
  for (const LeafKey& leaf : key.leaves) {
    hash.add_leaf(leaf.shape, leaf.weak, leaf.committed, leaf.sharding);
  }
  return hash.value();
}

}  // namespace

std::shared_ptr<const JitEntry> JitCache::find(const CallView& call) {
  const auto serves = [&](const std::shared_ptr<const JitEntry>& entry) {
    return entry->key.matches(call);
  };
  auto* found = entries_.find_recent(kRecent, serves);
  if (!found && entries_.size() > kRecent) {
    Hash hash;
    hash.add_call(call.signature, call.types, call.context, current_precision());
    for (const Array& leaf : call.leaves) {
      const ArrayImpl& impl = *leaf.impl();
      hash.add_leaf(impl.shape, impl.weak, impl.committed, impl.sharding);
    }
    found = entries_.find(hash.value(), serves);
  }
  return found ? *found : nullptr;
}

void JitCache::touch(const std::shared_ptr<const JitEntry>& entry) {
  (void)entries_.find(hash_of(entry->key), [&](const auto& other) { return other == entry; });
}

std::shared_ptr<const JitEntry> JitCache::insert(std::shared_ptr<const JitEntry> entry) {
  const std::size_t hash = hash_of(entry->key);
  std::optional<std::shared_ptr<const JitEntry>> evicted = entries_.insert(hash, std::move(entry));
  if (evicted) ++evicted_;
  return evicted.value_or(nullptr);
}

std::shared_ptr<const JitEntry> RecentPrograms::find(const CallView& call) {
  Place& mine = places_[thread_stripe()];
  const std::lock_guard lock(mine.mutex);
  for (const Held& held : mine.held) {
    if (held.entry && held.entry->key.matches(call)) return held.handle;
  }
  return nullptr;
}

void RecentPrograms::add(std::shared_ptr<const JitEntry> entry, std::uint64_t drops) {
  Held made{entry,
            nullptr};  // then what it replaces, which is destroyed after the lock is released
  const JitEntry* const data = entry.get();
  made.handle = {std::make_shared<std::shared_ptr<const JitEntry>>(std::move(entry)), data};
  Place& mine = places_[thread_stripe()];
  const std::lock_guard lock(mine.mutex);
  if (drops_.load(std::memory_order_acquire) != drops) return;
  std::swap(mine.held[mine.next++ % kEach], made);
}

void RecentPrograms::drop_all() {
  drops_.fetch_add(1, std::memory_order_acq_rel);
  for (Place& place : places_) {
    std::array<Held, kEach> dropped;  // destroyed after the lock is released
    const std::lock_guard lock(place.mutex);
    std::swap(dropped, place.held);
  }
}

void RecentPrograms::for_each(
    const std::function<void(const std::shared_ptr<const JitEntry>&)>& f) {
  for (Place& place : places_) {
    const std::lock_guard lock(place.mutex);
    for (const Held& held : place.held) {
      if (held.entry) f(held.entry);
    }
  }
}

std::string JitCache::explain_miss(const CallInfo& info, const Mesh& context,
                                   const MissNames& names) const {
  if (entries_.size() == 0) {
    return cleared_ ? "its first call after clear_caches()" : "its first call";
  }
  const CallKey now = CallKey::of(info, context);
  Differences fewest;
  std::size_t looked_at = 0;
  entries_.for_each([&](const std::shared_ptr<const JitEntry>& entry) {
    if (looked_at++ >= kExplained) return;
    Differences mine = differences(entry->key, now, names);
    if (looked_at == 1 || mine.weight < fewest.weight) fewest = std::move(mine);
  });
  std::string out = joined(fewest.texts);
  if (evicted_ > 0) {
    out += "; or its program was dropped: the " + std::to_string(entries_.capacity()) +
           " called last are kept, and " + std::to_string(evicted_) + " are gone";
  }
  return out;
}

void InsideCalls::add(InsideCall call) {
  calls_.push_front(std::move(call));
  if (calls_.size() > kExplained) calls_.pop_back();
}

std::string InsideCalls::explain_miss(const InsideCall& call, const MissNames& names) const {
  const InsideCall* nearest = nullptr;
  Differences fewest;
  for (const InsideCall& earlier : calls_) {
    if (earlier.program != call.program) continue;
    Differences mine = differences(earlier.key, call.key, names);
    for (std::size_t i = 0;
         i < call.leaf_notes.size() && earlier.leaf_notes.size() == call.leaf_notes.size(); ++i) {
      if (earlier.leaf_notes[i] == call.leaf_notes[i]) continue;
      const auto text = [](const std::string& note) { return note.empty() ? "untyped" : note; };
      mine.texts.push_back(names.leaves[i] + " is " + text(call.leaf_notes[i]) + ", was " +
                           text(earlier.leaf_notes[i]));
      ++mine.weight;
    }
    if (earlier.around != call.around) {
      mine.texts.push_back("it is called under other axes, of a shard_map, a vmap or auto_axes");
      ++mine.weight;
    }
    if (nearest == nullptr || mine.weight < fewest.weight) fewest = std::move(mine);
    nearest = &earlier;
  }
  if (nearest == nullptr) return "its first call in this program";
  if (fewest.texts.empty()) return "it captures traced arrays, so that each call is traced";
  return joined(fewest.texts);
}

}  // namespace tessera::internal
