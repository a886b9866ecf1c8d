// SPDX-License-Identifier: Apache-2.0
// Handlers of XLA's FFI as targets of custom calls.
#pragma once

#include <string>
#include <string_view>

#include "src/ir/module.h"
#include "src/pjrt/ffi/xla_ffi.h"

namespace tessera::pjrt::ffi {

/// What a handler expects beyond the interface.
struct HandlerTraits {
  /// Elements of fewer than 8 bits take a byte each; else they are packed, as in XLA.
  bool bytes_for_bits = false;
  /// Of each operand it takes what a device has of it.
  bool takes_parts = false;
  /// It takes errors of functions that it calls for objects of this library's; null: of ours.
  const XLA_FFI_Api* errors_of = nullptr;
};

/// Makes a handler a target of custom calls, in place of one that was registered before. Names that
/// Tessera computes itself (LAPACK's) stay its own. ValueError: no function to execute, another
/// platform than the host, or made for another version of the interface.
void register_handler(std::string_view name, std::string_view platform,
                      const XLA_FFI_Handler_Bundle& bundle, HandlerTraits traits = {});

/// The leading dims of all operands and results of that target's calls are a batch.
void register_batch_partitionable(std::string_view name);

/// Whether a handler computes the call.
bool is_handler(const ir::Instruction& call);

/// Whether that handler calls a function of Python.
bool is_python_callback(const ir::Instruction& call);

/// Registers calls of Python's functions, as JAX on CPUs makes them. Cheap after the first time.
void register_python_callbacks();
/// Calls of Python outside of per-device code happen once for all devices that hold the same, as
/// its functions expect; handlers without results give a token. To be called on a program that was
/// read. Returns whether functions see which parts of arrays devices have.
bool prepare_callbacks(ir::Module* module);

}  // namespace tessera::pjrt::ffi
