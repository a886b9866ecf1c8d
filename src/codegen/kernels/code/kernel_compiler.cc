// SPDX-License-Identifier: Apache-2.0
// Finds the compiler of kernels, and keeps what it made: in the process and on disk.
#include "src/codegen/kernels/code/kernel_compiler.h"

#include <dlfcn.h>

#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "src/base/env.h"
#include "src/base/files/module_files.h"
#include "src/base/log.h"
#include "src/base/threads/background.h"
#include "src/codegen/kernels/code/code_cache.h"
#include "src/codegen/kernels/code/code_identity.h"
#include "src/codegen/kernels/code/embedded_code.h"
#include "src/codegen/kernels/instruction_sets.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen {
namespace {

/// Where the module is, and what its code is told apart by.
struct Found {
  std::string file;  ///< empty: nowhere
  std::string identity;
  std::string build;  ///< of it, without the machine's
};

#if defined(TESSERA_JIT)

constexpr const char* kModule = "libtessera-llvm.so";

Found find_module() {
  std::string tried;
  for (const std::string& file : module_files(kModule, TESSERA_JIT_FOLDER)) {
    if (const auto build = build_id(file)) {
      // What calls the code, and says how its elements are walked, must be of that build as well.
      const std::string caller = build_id(own_file()).value_or("");
      const std::string builds = *build + ' ' + caller + (has_vector_math() ? " libmvec " : " ");
      const std::string level = level_of_environment();
      return {file, builds + (level.empty() ? machine_identity() : "for " + level), builds};
    }
    tried += "\n  " + file;
  }
  log(LogLevel::warning,
      "kernels are not compiled, and run slower: no compiler was found at:" + tried);
  return {};
}

KernelCompiler* load(const std::string& file, const std::string& cpu) {
  if (file.empty()) return nullptr;
  std::string error;
  if (void* module = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
    error = "it has no " + std::string(kKernelCompilerFactory);
    auto* factory = reinterpret_cast<KernelCompilerFactory*>(dlsym(module, kKernelCompilerFactory));
    KernelCompiler* made =
        factory == nullptr ? nullptr : factory(has_vector_math(), cpu.c_str(), &error);
    if (made != nullptr) return made;
  } else {
    error = dlerror();
  }
  log(LogLevel::warning, "kernels are not compiled, and run slower: " + file + ": " + error);
  return nullptr;
}

#else

Found find_module() { return {}; }
KernelCompiler* load(const std::string&, const std::string&) { return nullptr; }

#endif

const Found& found() {
  static const Found* const once = new Found(find_module());
  return *once;
}

bool is_off() { return env_choice("TESSERA_JIT") == "off"; }

/// Code that this process has loaded. Threads that want what another is making wait for it.
struct Loaded {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::string> in_work;
  std::map<std::string, std::weak_ptr<const KernelCode>> by_key;
};

Loaded& loaded() {
  static Loaded* all = new Loaded;  // kernels may outlive static objects
  return *all;
}

}  // namespace

bool can_compile_kernels() { return !is_off() && !found().file.empty(); }

bool has_kernel_compiler() {
  if (const CodeSource* source = code_source()) return source->compiles;
  return can_compile_kernels();
}

namespace {

KernelCompiler* loaded_compiler() {
  static KernelCompiler* const once = load(found().file, level_of_environment());
  return once;
}

}  // namespace

KernelCompiler* kernel_compiler() { return is_off() ? nullptr : loaded_compiler(); }

bool worth_compiling(double nanoseconds, const LoopExpr* elements) {
  constexpr double kWorth = 3000;  // compiling takes milliseconds, once
  return nanoseconds >= kWorth || (elements != nullptr && elements->has_functions()) ||
         (code_source() == nullptr && env_choice("TESSERA_JIT") == "always");
}

double time_of_code(bool compiled) {
  return compiled && has_kernel_compiler() ? prices::element::kCompiled : 1;
}

namespace {

std::shared_ptr<const MachineCode> loaded_from(const std::string& object, const char* where) {
  std::string error;
  auto code = load_object(object, kKernelEntry, &error);
  if (!code) log(LogLevel::warning, std::string("a kernel ") + where + " is not run: " + error);
  return code;
}

std::shared_ptr<const MachineCode> find_on_disk(const CodeCache& cache, const std::string& key) {
  const auto object = cache.find(key);
  return object ? loaded_from(*object, "from the cache") : nullptr;
}

/// Doesn't read the environment, which may be changed while this runs in the background.
template <class Source>
std::shared_ptr<const MachineCode> compile(const Source& source, const CodeCache& cache,
                                           const std::string& key, CodeTier tier) {
  KernelCompiler* compiler = loaded_compiler();
  if (compiler == nullptr) return nullptr;
  const std::string object = compiler->compile(source, tier);
  if (object.empty()) return nullptr;
  cache.add(key, object);
  return loaded_from(object, "that was compiled");
}

/// The code of a call that takes longer is waited for. It could not be replaced meanwhile.
constexpr double kLongCall = 2e6;

template <class Source>
std::shared_ptr<const KernelCode> make_code(const Source& source, const std::string& key,
                                            double nanoseconds) {
  const auto in_use = [](std::shared_ptr<const MachineCode> code) {
    return code ? std::make_shared<KernelCode>(std::move(code)) : nullptr;
  };
  const CodeCache cache(found().identity);
  if (auto code = in_use(find_on_disk(cache, key))) return code;
  const std::string tiers = env_choice("TESSERA_TIERED_COMPILATION").value_or("on");
  if (tiers == "off" || (tiers == "on" && nanoseconds > kLongCall)) {
    return in_use(compile(source, cache, key, CodeTier::optimized));
  }
  const std::string quick_key = "quick " + key;
  auto code = in_use(find_on_disk(cache, quick_key));
  if (!code) code = in_use(compile(source, cache, quick_key, CodeTier::quick));
  if (code && tiers == "on") {
    run_in_background([source, cache, key, kept = std::weak_ptr<KernelCode>(code)] {
      if (kept.expired()) return;
      auto better = compile(source, cache, key, CodeTier::optimized);
      const auto code = kept.lock();
      if (code && better) code->replace(std::move(better));
    });
  }
  return code;
}

/// Of code for another machine than this one.
KernelCompiler* compiler_for(const std::string& cpu) {
  if (cpu.empty()) return loaded_compiler();
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, KernelCompiler*>;
  const std::lock_guard lock(mutex);
  const auto [at, added] = all.try_emplace(cpu, nullptr);
  if (added) at->second = load(found().file, cpu);
  return at->second;
}

/// Adds the optimized code to what is kept.
template <class Source>
std::string add_code(const Source& source, const std::string& key, const CodeSource& to) {
  const std::string name = EmbeddedCode::name(key);
  if (auto known = to.code->find(name)) return *known;
  const CodeCache cache(to.cpu.empty() ? found().identity : found().build + "for " + to.cpu);
  std::string object = cache.find(key).value_or("");
  if (object.empty()) {
    KernelCompiler* const compiler = compiler_for(to.cpu);
    if (compiler != nullptr) object = compiler->compile(source, CodeTier::optimized);
    if (!object.empty()) cache.add(key, object);
  }
  to.code->add(name, object);
  return object;
}

template <class Source>
std::shared_ptr<const KernelCode> find_or_make(const Source& source, const std::string& key,
                                               double nanoseconds = 0) {
  if (const CodeSource* kept = code_source(); kept != nullptr && kept->compiles) {
    const bool adds = kept->use == CodeSource::Use::add;
    const auto object = adds ? std::optional(add_code(source, key, *kept))
                             : kept->code->find(EmbeddedCode::name(key));
    if (object) {
      if (object->empty()) return nullptr;
      auto code = loaded_from(*object, "of a stored program");
      return code ? std::make_shared<KernelCode>(std::move(code)) : nullptr;
    }
  }
  if (!can_compile_kernels()) return nullptr;
  Loaded& all = loaded();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] { return all.in_work.count(key) == 0; });
  if (auto code = all.by_key[key].lock()) return code;
  all.in_work.insert(key);
  lock.unlock();
  std::shared_ptr<const KernelCode> code;
  std::exception_ptr error;
  try {
    code = make_code(source, key, nanoseconds);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  all.by_key[key] = code;
  all.in_work.erase(key);
  all.changed.notify_all();
  if (error) std::rethrow_exception(error);
  return code;
}

}  // namespace

std::shared_ptr<const KernelCode> code_of(const LoopSource& source, const std::string& key) {
  return find_or_make(source, key);
}
std::shared_ptr<const KernelCode> code_of(const ReduceSource& source, const std::string& key) {
  return find_or_make(source, key);
}
std::shared_ptr<const KernelCode> code_of(const StepSource& source, const std::string& key,
                                          double nanoseconds) {
  return find_or_make(source, key, nanoseconds);
}

}  // namespace tessera::codegen
