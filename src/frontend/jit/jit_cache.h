// SPDX-License-Identifier: Apache-2.0
// The cache of a jitted function.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/detail/function_body.h>
#include <tessera/jit.h>
#include <tessera/precision.h>

#include "src/base/lru_cache.h"
#include "src/base/platforms.h"
#include "src/base/threads/thread_stripe.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"

namespace tessera::internal {

/// The properties of a leaf that a compiled program depends on.
struct LeafKey {
  Shape shape;
  bool weak = false;
  bool committed = false;
  Sharding sharding;
  MemoryKind memory = MemoryKind::device;

  static LeafKey of(const ArrayImpl& impl) {
    return {impl.shape, impl.weak, impl.committed, impl.sharding, memory_of(impl)};
  }
  bool matches(const ArrayImpl& impl) const;
  /// The same, of another key.
  bool equals(const LeafKey& other) const;
};

/// What the key of a call is compared with.
struct CallView {
  std::span<const Array> leaves;
  const std::string& signature;
  TypeKey types;
  const Mesh& context;

  CallView(const CallInfo& info, const Mesh& mesh)
      : leaves(info.leaves), signature(info.signature), types(info.types), context(mesh) {}
  CallView(const KnownCall& call, std::span<const Array> arrays, const Mesh& mesh)
      : leaves(arrays), signature(call.signature), types(call.types), context(mesh) {}
};

/// The key of a program: calls with equal keys can use it.
struct CallKey {
  std::string signature;
  TypeKey types;
  Mesh context;
  std::vector<LeafKey> leaves;
  std::string tree;                                    ///< part of the signature
  std::vector<std::pair<int, std::string>> statics{};  ///< the same: positions and values
  std::vector<std::string> names{};                    ///< of the leaves, for messages
  Precision precision = current_precision();           ///< in scope
  const Platform* platform = &default_platform();      ///< of what doesn't say where it runs

  static CallKey of(const CallInfo& info, const Mesh& context);
  bool matches(const CallView& call) const;
};

/// A traced and compiled program of a function.
struct JitEntry {
  CallKey key;
  frontend::BoundProgram bound;
  std::vector<Array> captures;
  Prototype prototype;
};

/// Names for explanations of cache misses.
struct MissNames {
  std::vector<std::string> leaves;
  std::function<std::string(int position)> argument;  ///< of a static one
};

/// A call in a program that is traced.
struct InsideCall {
  std::uint64_t program = 0;  ///< identifies its outermost trace
  CallKey key;
  std::vector<std::string> leaf_notes;  ///< what is known of traced values only
  std::string around;                   ///< axes of the code around
};

/// The latest of these, for explanations.
class InsideCalls {
 public:
  void add(InsideCall call);
  /// Why no call before in the program was like this one.
  std::string explain_miss(const InsideCall& call, const MissNames& names) const;

 private:
  std::deque<InsideCall> calls_;
};

/// The programs of one function, a bounded number of them: the least recently called is evicted.
/// Not thread-safe.
class JitCache {
 public:
  explicit JitCache(std::size_t capacity = 4096) : entries_(capacity) {}
  /// One from which clear_caches took all programs.
  static JitCache cleared() {
    JitCache out;
    out.cleared_ = true;
    return out;
  }

  std::shared_ptr<const JitEntry> find(const CallView& call);
  /// Makes one of its entries the one that was called last.
  void touch(const std::shared_ptr<const JitEntry>& entry);
  /// Returns the evicted entry, if any.
  std::shared_ptr<const JitEntry> insert(std::shared_ptr<const JitEntry> entry);
  std::size_t size() const { return entries_.size(); }
  bool is_full() const { return entries_.size() == entries_.capacity(); }
  /// Why no entry fits a call: how it differs from the most similar one of the latest.
  std::string explain_miss(const CallInfo& info, const Mesh& context, const MissNames& names) const;

 private:
  bool cleared_ = false;
  std::int64_t evicted_ = 0;
  LruCache<std::size_t, std::shared_ptr<const JitEntry>> entries_;
};

/// The programs that threads called last, so that threads that call one function neither wait for
/// each other nor take memory from each other's cores: each finds its own here.
class RecentPrograms {
 public:
  /// Null if there is none. The handle is of this thread and those that share its place.
  std::shared_ptr<const JitEntry> find(const CallView& call);
  /// A number that changes whenever all are dropped.
  std::uint64_t drops() const { return drops_.load(std::memory_order_acquire); }
  /// Does nothing if all were dropped since `drops`.
  void add(std::shared_ptr<const JitEntry> entry, std::uint64_t drops);
  void drop_all();
  /// Calls f with each.
  void for_each(const std::function<void(const std::shared_ptr<const JitEntry>&)>& f);

 private:
  static constexpr std::size_t kEach = 4;
  /// An entry, and a handle on it with a count of its own.
  struct Held {
    std::shared_ptr<const JitEntry> entry, handle;
  };
  struct alignas(kApart) Place {
    std::mutex mutex;
    std::array<Held, kEach> held;
    std::size_t next = 0;
  };
  std::array<Place, kThreadStripes> places_;
  std::atomic<std::uint64_t> drops_{0};
};

}  // namespace tessera::internal
