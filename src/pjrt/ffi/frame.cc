// SPDX-License-Identifier: Apache-2.0
// Call frames of XLA's FFI.
#include "src/pjrt/ffi/frame.h"

#include <cstring>

#include "src/base/arrays/float_types.h"
#include "src/pjrt/dtypes.h"

namespace tessera::pjrt::ffi {

namespace {

template <class T>
void append(std::vector<std::byte>* out, T value) {
  const std::size_t at = out->size();
  out->resize(at + sizeof(T));
  std::memcpy(out->data() + at, &value, sizeof(T));
}

void append_integer(std::vector<std::byte>* out, DType dtype, std::int64_t value) {
  switch (byte_size(dtype)) {
    case 1:
      return append(out, std::int8_t(value));
    case 2:
      return append(out, std::int16_t(value));
    case 4:
      return append(out, std::int32_t(value));
    default:
      return append(out, value);
  }
}

/// False for types that attributes don't have.
bool append_float(std::vector<std::byte>* out, DType dtype, double value) {
  switch (dtype) {
    case DType::f16:
      append(out, f16_bits_from_double(value));
      return true;
    case DType::bf16:
      append(out, bf16_bits_from_double(value));
      return true;
    case DType::f32:
      append(out, float(value));
      return true;
    case DType::f64:
      append(out, value);
      return true;
    default:
      return false;
  }
}

[[noreturn]] void unknown_type(const std::string& who, const std::string& name, DType dtype) {
  throw NotImplementedError(who + ": its attribute " + name + " is of type " +
                            std::string(tessera::name(dtype)) +
                            ", which can't be passed to a handler; valid: integers, f16, bf16, "
                            "f32, f64, strings, lists and dictionaries of these");
}

}  // namespace

FrameAttributes::FrameAttributes(const CallAttributes& attributes, const std::string& who) {
  root_ = dictionary(attributes.entries(), who);
}

const char* FrameAttributes::keep(const std::string& text) {
  return texts_.emplace_back(text).data();
}

FrameAttributes::Dictionary* FrameAttributes::dictionary(const CallAttributes::Entries& entries,
                                                         const std::string& who) {
  Dictionary* const d = &dictionaries_.emplace_back();
  for (const auto& [name, attribute] : entries) add(d, name, attribute, who);
  for (XLA_FFI_ByteSpan& name : d->names) d->name_list.push_back(&name);
  d->attrs.struct_size = sizeof(XLA_FFI_Attrs);
  d->attrs.size = std::int64_t(d->values.size());
  d->attrs.types = d->types.data();
  d->attrs.names = d->name_list.data();
  d->attrs.attrs = d->values.data();
  return d;
}

void FrameAttributes::add(Dictionary* to, const std::string& name, const CallAttribute& attribute,
                          const std::string& who) {
  to->names.push_back({keep(name), name.size()});
  const DType dtype = attribute.dtype;
  const auto scalar = [&](std::vector<std::byte> bytes) {
    bytes_.push_back(std::move(bytes));
    to->types.push_back(XLA_FFI_AttrType_SCALAR);
    to->values.push_back(
        &scalars_.emplace_back(XLA_FFI_Scalar{primitive_type(dtype), bytes_.back().data()}));
  };
  const auto array = [&](std::vector<std::byte> bytes, std::size_t size) {
    bytes_.push_back(std::move(bytes));
    to->types.push_back(XLA_FFI_AttrType_ARRAY);
    to->values.push_back(
        &arrays_.emplace_back(XLA_FFI_Array{primitive_type(dtype), size, bytes_.back().data()}));
  };
  std::vector<std::byte> bytes;
  if (const bool* b = std::get_if<bool>(&attribute.value)) {
    append(&bytes, std::uint8_t(*b));
    scalar(std::move(bytes));
  } else if (const auto* i = std::get_if<std::int64_t>(&attribute.value)) {
    append_integer(&bytes, dtype, *i);
    scalar(std::move(bytes));
  } else if (const double* f = std::get_if<double>(&attribute.value)) {
    if (!append_float(&bytes, dtype, *f)) unknown_type(who, name, dtype);
    scalar(std::move(bytes));
  } else if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    to->types.push_back(XLA_FFI_AttrType_STRING);
    to->values.push_back(&spans_.emplace_back(XLA_FFI_ByteSpan{keep(*text), text->size()}));
  } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attribute.value)) {
    for (std::int64_t v : *integers) append_integer(&bytes, dtype, v);
    array(std::move(bytes), integers->size());
  } else if (const auto* floats = std::get_if<std::vector<double>>(&attribute.value)) {
    for (double v : *floats) {
      if (!append_float(&bytes, dtype, v)) unknown_type(who, name, dtype);
    }
    array(std::move(bytes), floats->size());
  } else {
    const auto& entries = std::get<std::map<std::string, CallAttribute>>(attribute.value);
    to->types.push_back(XLA_FFI_AttrType_DICTIONARY);
    Dictionary* const inner = dictionary(entries, who);
    to->values.push_back(&inner->attrs);
  }
}

void FrameBuffers::add(DType dtype, std::span<const std::int64_t> dims, void* data) {
  XLA_FFI_Buffer b{};
  b.struct_size = sizeof(XLA_FFI_Buffer);
  b.dtype = primitive_type(dtype);
  b.data = data;
  b.rank = std::int64_t(dims.size());
  b.dims = const_cast<std::int64_t*>(dims.data());
  buffers_.push_back(b);
}

XLA_FFI_Args FrameBuffers::args() {
  types_.assign(buffers_.size(), 1);
  pointers_.clear();
  for (XLA_FFI_Buffer& b : buffers_) pointers_.push_back(&b);
  XLA_FFI_Args a{};
  a.struct_size = sizeof(XLA_FFI_Args);
  a.size = std::int64_t(buffers_.size());
  a.types = types_.data();
  a.args = pointers_.data();
  return a;
}

}  // namespace tessera::pjrt::ffi
