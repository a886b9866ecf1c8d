// SPDX-License-Identifier: Apache-2.0
// Programs for one device as functions of C, in fixed memory: what `tessera compile --c` stores in
// a shared object, and the functions that this calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "src/compiler/stored_executable.h"

namespace tessera::compiler {

/// As store_executable. NotImplementedError that names the operation and its line for programs of
/// several devices, and for operations that take memory while they run: custom calls, those with
/// effects, and those that the reference evaluator runs.
std::string store_c_program(const Executable& executable, const StoreOptions& options);

/// The shared library that has the functions below; empty: they are in a program.
std::string library_of_c_programs();

}  // namespace tessera::compiler

// What shared objects call. These functions are for objects of the same build, and have no place
// in a header of the library: their declarations are part of each object's source.
extern "C" {

enum tessera_c_status {
  TESSERA_C_OK = 0,
  TESSERA_C_NO_MEMORY = 1,
  TESSERA_C_NOT_HERE = 2,  ///< stored for another build or processor
  TESSERA_C_BAD_ARGUMENT = 3,
  TESSERA_C_FAILED = 4,
};

/// Loads a program. `*program` is null if it can't be, and `message` says why.
int tessera_c_open(const void* stored, std::size_t bytes, void** program, char* message,
                   std::size_t message_bytes);
int tessera_c_run(void* program, const void* const* arguments, void* const* results);
/// Takes what the calling thread needs before its first run.
int tessera_c_prepare_thread(void* program);
/// Of the last call that failed.
const char* tessera_c_message(const void* program);
std::int64_t tessera_c_bytes(const void* program);
std::int64_t tessera_c_late_allocations(const void* program);
void tessera_c_close(void* program);
}
