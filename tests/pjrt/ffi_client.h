// SPDX-License-Identifier: Apache-2.0
// Handlers of custom calls that are functions of a test.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "src/pjrt/abi/extensions.h"
#include "src/pjrt/ffi/xla_ffi.h"
#include "tests/pjrt/api_client.h"

namespace tessera::pjrt_tests {

inline const PJRT_Extension_Base* find_extension(PJRT_Extension_Type type) {
  const PJRT_Extension_Base* found = api().extension_start;
  while (found != nullptr && found->type != type) found = found->next;
  return found;
}

/// Gets the first operand and result, of floats, and their count; returns the text of an error.
using Function = std::function<std::string(const float* in, float* out, std::int64_t count)>;

/// What the one handler of all tests, "test_function", does now.
inline Function& test_function() {
  static Function f;
  return f;
}

inline XLA_FFI_Error* test_handler(XLA_FFI_CallFrame* frame) {
  if (const auto* e = frame->extension_start;
      e != nullptr && e->type == XLA_FFI_Extension_Metadata) {
    auto* const m = reinterpret_cast<XLA_FFI_Metadata_Extension*>(frame->extension_start)->metadata;
    m->api_version.major_version = 0;
    m->api_version.minor_version = 3;
    return nullptr;
  }
  const auto& in = *static_cast<const XLA_FFI_Buffer*>(frame->args.args[0]);
  const auto& out = *static_cast<const XLA_FFI_Buffer*>(frame->rets.args[0]);
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < in.rank; ++d) count *= in.dims[d];
  const std::string failed =
      test_function()(static_cast<const float*>(in.data), static_cast<float*>(out.data), count);
  if (failed.empty()) return nullptr;
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = sizeof args;
  args.message = failed.c_str();
  args.errc = 13;
  return frame->api->error_create(&args);
}

inline void register_test_handler() {
  const PJRT_Extension_Base* const found = find_extension(PJRT_Extension_Type_FFI);
  ASSERT_NE(found, nullptr);
  using Register = PJRT_Error* (*)(PJRT_FFI_Register_Handler_Args*);
  std::string name = "test_function", platform = "Host";
  auto args = make<PJRT_FFI_Register_Handler_Args>();
  args.target_name = name.data();
  args.target_name_size = name.size();
  args.platform_name = platform.data();
  args.platform_name_size = platform.size();
  args.handler = reinterpret_cast<void*>(test_handler);
  const auto* ffi = reinterpret_cast<const PJRT_FFI_Extension*>(found);
  const Answer a = answer(reinterpret_cast<Register>(ffi->register_handler)(&args));
  ASSERT_TRUE(a.ok()) << a.message;
}

/// A program that calls it for four floats.
inline const char* const kCallsFunction = R"(module @calls {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.custom_call @test_function(%x) {api_version = 4 : i32}
        : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
})";

}  // namespace tessera::pjrt_tests
