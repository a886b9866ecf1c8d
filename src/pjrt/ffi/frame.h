// SPDX-License-Identifier: Apache-2.0
// What a handler is given: buffers and attributes in the structs of XLA's FFI.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <tessera/custom/buffer_view.h>
#include <tessera/custom/call_attributes.h>

#include "src/base/arrays/shape.h"
#include "src/pjrt/ffi/xla_ffi.h"

namespace tessera::pjrt::ffi {

/// Attributes of one call; what is given out points into it.
class FrameAttributes {
 public:
  /// NotImplementedError for a type of attribute that no struct of the interface holds.
  explicit FrameAttributes(const CallAttributes& attributes, const std::string& who);
  FrameAttributes(const FrameAttributes&) = delete;
  FrameAttributes& operator=(const FrameAttributes&) = delete;
  const XLA_FFI_Attrs& attrs() const { return root_->attrs; }

 private:
  struct Dictionary {
    XLA_FFI_Attrs attrs{};
    std::vector<std::uint32_t> types;
    std::vector<XLA_FFI_ByteSpan> names;
    std::vector<XLA_FFI_ByteSpan*> name_list;
    std::vector<void*> values;
  };
  Dictionary* dictionary(const CallAttributes::Entries& entries, const std::string& who);
  void add(Dictionary* to, const std::string& name, const CallAttribute& attribute,
           const std::string& who);
  const char* keep(const std::string& text);

  std::deque<Dictionary> dictionaries_;
  std::deque<std::string> texts_;
  std::deque<std::vector<std::byte>> bytes_;
  std::deque<XLA_FFI_Scalar> scalars_;
  std::deque<XLA_FFI_Array> arrays_;
  std::deque<XLA_FFI_ByteSpan> spans_;
  Dictionary* root_ = nullptr;
};

/// Operands or results of one call.
class FrameBuffers {
 public:
  void add(DType dtype, std::span<const std::int64_t> dims, void* data);
  /// To be called once all are there.
  XLA_FFI_Args args();

 private:
  std::vector<XLA_FFI_Buffer> buffers_;
  std::vector<std::uint32_t> types_;
  std::vector<void*> pointers_;
};

}  // namespace tessera::pjrt::ffi
