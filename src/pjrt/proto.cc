// SPDX-License-Identifier: Apache-2.0
// The wire form of protocol buffers.
#include "src/pjrt/proto.h"

#include "src/pjrt/status.h"

namespace tessera::pjrt {
namespace {

enum Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

}  // namespace

void ProtoReader::fail(const std::string& what) const {
  throw Failure(PJRT_Error_Code_INVALID_ARGUMENT,
                std::string(name_) + ": byte " + std::to_string(at_) + ": " + what);
}

std::uint64_t ProtoReader::varint() {
  std::uint64_t out = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at_ >= bytes_.size()) fail("it ends within a number");
    const auto byte = std::uint8_t(bytes_[at_++]);
    out |= std::uint64_t(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return out;
  }
  fail("a number of more than 64 bits");
}

std::uint32_t ProtoReader::next() {
  if (at_ >= bytes_.size()) return 0;
  const std::uint64_t tag = varint();
  field_ = std::uint32_t(tag >> 3);
  wire_ = std::uint32_t(tag & 7);
  if (field_ == 0 || tag >> 32 != 0) fail("no field has the number " + std::to_string(tag >> 3));
  switch (wire_) {
    case kVarint:
      value_ = varint();
      break;
    case kFixed64:
    case kFixed32: {
      const std::size_t size = wire_ == kFixed64 ? 8 : 4;
      if (bytes_.size() - at_ < size) fail("it ends within a field");
      at_ += size;
      break;
    }
    case kBytes: {
      const std::uint64_t size = varint();
      if (size > bytes_.size() - at_) {
        fail("field " + std::to_string(field_) + " has " + std::to_string(size) +
             " bytes, and there are " + std::to_string(bytes_.size() - at_));
      }
      text_ = bytes_.substr(at_, size);
      at_ += size;
      break;
    }
    default:
      fail("there are no fields of kind " + std::to_string(wire_));
  }
  return field_;
}

std::int64_t ProtoReader::number() {
  if (wire_ != kVarint) fail("field " + std::to_string(field_) + " is no number");
  return std::int64_t(value_);
}

std::string_view ProtoReader::text() {
  if (wire_ != kBytes) fail("field " + std::to_string(field_) + " is no text or message");
  return text_;
}

void ProtoReader::numbers(std::vector<std::int64_t>* to) {
  if (wire_ == kVarint) {
    to->push_back(std::int64_t(value_));
    return;
  }
  ProtoReader packed(text(), name_);
  while (packed.at_ < packed.bytes_.size()) to->push_back(std::int64_t(packed.varint()));
}

}  // namespace tessera::pjrt
