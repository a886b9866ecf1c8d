// SPDX-License-Identifier: Apache-2.0
// Finds the compiler of kernels, and keeps what it made: in the process and on disk.
#include "src/codegen/kernels/kernel_compiler.h"

#include <dlfcn.h>
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "src/base/env.h"
#include "src/base/log.h"
#include "src/codegen/kernels/code_cache.h"

namespace tessera::codegen {
namespace {

/// A compiler, and what its code is told apart by.
struct Found {
  KernelCompiler* compiler = nullptr;
  std::string identity;
};

#if defined(TESSERA_JIT)

constexpr const char* kModule = "libtessera-llvm.so";

/// Where the module may be: beside the library or program that has this code, or installed.
std::vector<std::string> candidates() {
  std::vector<std::string> out;
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&kernel_compiler), &info) != 0 &&
      info.dli_fname != nullptr) {
    const auto folder = std::filesystem::path(info.dli_fname).parent_path();
    out.push_back((folder.empty() ? "." : folder) / kModule);
  }
  out.push_back(std::filesystem::path(TESSERA_JIT_FOLDER) / kModule);
  return out;
}

/// Code that another build of the compiler made is not this one's.
std::string identity(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  return std::to_string(XXH3_64bits(all.data(), all.size()));
}

Found load() {
  std::string reasons;
  for (const std::string& file : candidates()) {
    void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (module == nullptr) {
      reasons += std::string("\n  ") + dlerror();
      continue;
    }
    std::string error = "it has no " + std::string(kKernelCompilerFactory);
    auto* factory = reinterpret_cast<KernelCompilerFactory*>(dlsym(module, kKernelCompilerFactory));
    if (factory != nullptr) {
      if (KernelCompiler* made = factory(&error)) {
        return {made, made->target() + ' ' + identity(file)};
      }
    }
    reasons += "\n  " + file + ": " + error;
  }
  log(LogLevel::warning,
      "kernels are not compiled, and run slower: no compiler was found:" + reasons);
  return {};
}

#else

Found load() { return {}; }

#endif

struct Loaded {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const MachineCode>> by_key;
};

Loaded& loaded() {
  static Loaded* all = new Loaded;  // kernels may outlive static objects
  return *all;
}

}  // namespace

namespace {

const Found& found() {
  static const Found* const once = new Found(load());
  return *once;
}

}  // namespace

KernelCompiler* kernel_compiler() {
  return env_choice("TESSERA_JIT") == "off" ? nullptr : found().compiler;
}

bool worth_compiling(double nanoseconds) {
  constexpr double kWorth = 20000;  // compiling takes milliseconds
  return nanoseconds >= kWorth || env_choice("TESSERA_JIT") == "always";
}

namespace {

template <class Source>
std::shared_ptr<const MachineCode> find_or_compile(const Source& source, const std::string& key) {
  KernelCompiler* compiler = kernel_compiler();
  if (compiler == nullptr) return nullptr;
  Loaded& all = loaded();
  {
    const std::lock_guard lock(all.mutex);
    if (auto code = all.by_key[key].lock()) return code;
  }
  const CodeCache cache(found().identity);
  std::shared_ptr<const MachineCode> code;
  if (const auto object = cache.find(key)) code = compiler->load(*object);
  if (!code) {
    const std::string object = compiler->compile(source);
    if (object.empty()) return nullptr;
    cache.add(key, object);
    code = compiler->load(object);
  }
  const std::lock_guard lock(all.mutex);
  all.by_key[key] = code;
  return code;
}

}  // namespace

std::shared_ptr<const MachineCode> code_of(const LoopSource& source, const std::string& key) {
  return find_or_compile(source, key);
}
std::shared_ptr<const MachineCode> code_of(const ReduceSource& source, const std::string& key) {
  return find_or_compile(source, key);
}
std::shared_ptr<const MachineCode> code_of(const ProgramReduceSource& source,
                                           const std::string& key) {
  return find_or_compile(source, key);
}

}  // namespace tessera::codegen
