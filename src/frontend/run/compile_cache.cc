// SPDX-License-Identifier: Apache-2.0
// The cache of executables, and compilations in flight.
#include "src/frontend/run/compile_cache.h"

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "src/base/log.h"
#include "src/base/lru_cache.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/in_flight.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"

namespace tessera::frontend {
namespace {

constexpr std::size_t kMaxCachedPrograms = 4096;
using Programs = LruCache<std::string, std::shared_ptr<const compiler::Executable>>;

struct CompileCache {
  std::mutex mutex;
  Programs entries{kMaxCachedPrograms};
  /// Programs that threads are compiling, so that other threads can wait for them.
  std::unordered_map<std::string, std::shared_ptr<Pending<compiler::Executable>>> compiling;
};
CompileCache& compile_cache() {
  static CompileCache& cache = *new CompileCache;  // usable until the very end of the process
  return cache;
}
std::atomic<std::int64_t> compilations{0};

/// All that the executable depends on. Lines of the source aren't in it: equal programs of two
/// lines are compiled once, and messages of their runs name the first one's.
std::string cache_key(const ir::Module& module, const compiler::Options& compile,
                      const std::string& platform) {
  ir::PrintOptions options;
  options.canonical = true;
  std::string key = ir::to_string(module, options);
  for (const auto& computation : module.computations()) {
    for (const auto& instruction : computation->instructions()) {
      for (const TensorSharding& s : instruction->sharding) key += s.to_string();
      if (const auto* call = instruction->attrs.get_if<ir::CustomPartitioningAttrs>();
          call && call->partitioner) {
        // The hook lives as long as the cached executable, so its address identifies it.
        key += "@" + std::to_string(reinterpret_cast<std::uintptr_t>(call->partitioner.get()));
      }
    }
  }
  key += compile.runs ? "" : "abstract";
  key += ";" + std::to_string(compile.memory_budget.value_or(0));
  key += ";" + (compile.network ? compile.network->to_string() : "");
  key += ";" + to_string(compile.layouts) + ";" + std::to_string(int(compile.full_gathers)) + ";" +
         std::to_string(int(compile.refuse_evaluator_ops)) + ";" +
         std::to_string(compile.collective_matmul_from_bytes) + ";" + platform;
  for (const std::int32_t p : compile.process_of) key += "," + std::to_string(p);
  if (compile.assignment) {
    key += ";on";
    for (const std::int64_t id : compile.assignment->ids) key += "," + std::to_string(id);
  }
  return key;
}

std::shared_ptr<const compiler::Executable> compile_now(const compiler::Engine& engine,
                                                        std::unique_ptr<ir::Module> module,
                                                        const compiler::Options& options,
                                                        const std::string& key) {
  ++compilations;
  if (explains_cache_misses()) {
    log_cache_miss("compiling '" + module->name +
                   "': no program with the same text, layouts, memory "
                   "budget, network and platform is kept");
  }
  std::shared_ptr<const compiler::Executable> executable =
      engine.compile(std::move(module), options);
  CompileCache& cache = compile_cache();
  // Evicted entries are destroyed after the lock is released, as this may run a user's code.
  std::optional<std::shared_ptr<const compiler::Executable>> oldest;
  const std::lock_guard lock(cache.mutex);
  if (cache.entries.find(key) == nullptr) oldest = cache.entries.insert(key, executable);
  return executable;
}

}  // namespace

std::shared_ptr<const compiler::Executable> compile_cached(const compiler::Engine& engine,
                                                           std::unique_ptr<ir::Module> module,
                                                           bool runs,
                                                           const compiler::Requests& requests,
                                                           std::vector<std::int32_t> process_of,
                                                           std::vector<std::int64_t> device_ids) {
  compiler::Options options(requests);
  options.runs = runs;
  options.process_of = std::move(process_of);
  if (!device_ids.empty()) {
    compiler::DeviceAssignment assignment;
    assignment.num_partitions = std::int64_t(device_ids.size());
    assignment.ids = std::move(device_ids);
    options.assignment = std::move(assignment);
  }
  const std::string key = cache_key(*module, options, engine.platform());
  CompileCache& cache = compile_cache();
  using Work = Pending<compiler::Executable>;
  return make_once<compiler::Executable>(
      cache.mutex,
      [&] {
        const auto* found = cache.entries.find(key);
        return found ? *found : nullptr;
      },
      [&] {
        std::shared_ptr<Work>& entry = cache.compiling[key];
        const bool mine = !entry;
        if (mine) entry = std::make_shared<Work>();
        return std::pair(entry, mine);
      },
      [&] { cache.compiling.erase(key); },
      [&] { return compile_now(engine, std::move(module), options, key); });
}

void clear_compile_cache() {
  Programs dropped(kMaxCachedPrograms);
  CompileCache& cache = compile_cache();
  const std::lock_guard lock(cache.mutex);
  std::swap(dropped, cache.entries);
}

std::int64_t compilation_count() { return compilations.load(); }

bool calls_out(const ir::Module& module) {
  for (const auto& computation : module.computations()) {
    for (const auto& i : computation->instructions()) {
      if (i->opcode == ir::Opcode::custom_call) return true;
    }
  }
  return false;
}

}  // namespace tessera::frontend
