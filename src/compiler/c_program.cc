// SPDX-License-Identifier: Apache-2.0
// What may be a function of C, and how it is called.
#include "src/compiler/c_program.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>

#include "src/base/threads/task_pool.h"
#include "src/codegen/kernels/products/blas_setup.h"
#include "src/compiler/planned_executable.h"
#include "src/runtime/fixed_executor.h"

namespace tessera::compiler {
namespace {

void check_operations(const Executable& executable) {
  for (const auto& computation : executable.partitioned().computations()) {
    for (const auto& i : computation->instructions()) {
      if (!i->is(ir::Opcode::custom_call)) continue;
      throw NotImplementedError(i->name + " is a custom call of '" +
                                    i->get<ir::CustomCallAttrs>().target +
                                    "', which may take memory and locks while it runs; valid as a "
                                    "function of C: a program without custom calls and callbacks",
                                i->location());
    }
  }
  const std::vector<std::string> slow = executable.evaluator_ops();
  if (!slow.empty()) {
    throw NotImplementedError(slow.front() +
                              " is run by the reference evaluator, which takes memory while it "
                              "runs; valid as a function of C: a program without this operation");
  }
}

/// A program that a C program has opened.
struct LoadedProgram {
  // Threads may run as many at a time, beside the pool's.
  LoadedProgram() { codegen::reserve_blas_buffers(++count + worker_count()); }
  ~LoadedProgram() { --count; }
  LoadedProgram(const LoadedProgram&) = delete;
  LoadedProgram& operator=(const LoadedProgram&) = delete;

  static inline std::atomic<int> count{0};
  std::shared_ptr<const Executable> executable;
  std::unique_ptr<runtime::FixedExecutor> executor;
  std::array<char, 512> message{};

  int fails(int status, const char* text) {
    std::snprintf(message.data(), message.size(), "%s", text);
    return status;
  }
  int fails(const char* what, std::size_t number, const char* why) {
    std::snprintf(message.data(), message.size(), "%s %zu %s", what, number, why);
    return TESSERA_C_BAD_ARGUMENT;
  }
};

/// Calls f, and makes a status of what it throws.
template <class F>
int status_of(const F& f, char* message, std::size_t bytes) noexcept {
  const auto says = [&](int status, const char* text) {
    std::snprintf(message, bytes, "%s", text);
    return status;
  };
  try {
    f();
    return TESSERA_C_OK;
  } catch (const std::bad_alloc&) {
    return says(TESSERA_C_NO_MEMORY, "there is no memory for the program");
  } catch (const IncompatibleExecutable& e) {
    return says(TESSERA_C_NOT_HERE, e.what());
  } catch (const InternalError& e) {
    return says(TESSERA_C_FAILED, e.what());
  } catch (const std::exception& e) {
    return says(TESSERA_C_FAILED, e.what());
  }
}

}  // namespace

std::string store_c_program(const Executable& executable, const StoreOptions& options) {
  if (executable.num_devices() != 1) {
    throw NotImplementedError(
        fmt::format("'{}' is for {} devices; valid as a function of C: a program for one device "
                    "(--devices 1, or a module without shardings)",
                    executable.partitioned().name, executable.num_devices()));
  }
  check_operations(executable);
  runtime::check_fixed(plan_of(executable));
  return store_executable(executable, options);
}

std::string library_of_c_programs() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&tessera_c_open), &info) == 0) return {};
  const std::filesystem::path file(info.dli_fname);
  if (file.filename().string().find(".so") == std::string::npos) return {};
  return std::filesystem::absolute(file).string();
}

}  // namespace tessera::compiler

using tessera::compiler::LoadedProgram;
using tessera::compiler::status_of;

int tessera_c_open(const void* stored, std::size_t bytes, void** program, char* message,
                   std::size_t message_bytes) {
  *program = nullptr;
  return status_of(
      [&] {
        auto opened = std::make_unique<LoadedProgram>();
        opened->executable =
            tessera::compiler::load_executable({static_cast<const char*>(stored), bytes});
        opened->executor = std::make_unique<tessera::runtime::FixedExecutor>(
            tessera::compiler::plan_of(*opened->executable));
        *program = opened.release();
      },
      message, message_bytes);
}

int tessera_c_run(void* program, const void* const* arguments, void* const* results) {
  auto& opened = *static_cast<LoadedProgram*>(program);
  const std::size_t inputs = opened.executable->parameter_shapes().size();
  const std::size_t outputs = opened.executable->result_shapes().size();
  for (std::size_t i = 0; i < inputs; ++i) {
    if (arguments[i] == nullptr) return opened.fails("argument", i, "is a null pointer");
  }
  for (std::size_t i = 0; i < outputs; ++i) {
    if (results[i] == nullptr) return opened.fails("the memory of result", i, "is a null pointer");
  }
  if (opened.executor->passes_overwritten(arguments, results)) {
    return opened.fails(TESSERA_C_BAD_ARGUMENT,
                        "a result that is an argument as it was given would be written over before "
                        "it is copied; valid: memory of its own for each result");
  }
  return status_of([&] { opened.executor->run(arguments, results); }, opened.message.data(),
                   opened.message.size());
}

int tessera_c_prepare_thread(void* program) {
  auto& opened = *static_cast<LoadedProgram*>(program);
  return status_of([&] { opened.executor->rehearse(); }, opened.message.data(),
                   opened.message.size());
}

const char* tessera_c_message(const void* program) {
  return static_cast<const LoadedProgram*>(program)->message.data();
}

std::int64_t tessera_c_bytes(const void* program) {
  return static_cast<const LoadedProgram*>(program)->executor->bytes();
}

std::int64_t tessera_c_late_allocations(const void* program) {
  return static_cast<const LoadedProgram*>(program)->executor->misses();
}

void tessera_c_close(void* program) { delete static_cast<LoadedProgram*>(program); }
