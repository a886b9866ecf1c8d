// SPDX-License-Identifier: Apache-2.0
// Literals: allocation, copy on write, comparison.
#include "src/base/arrays/literal.h"

#include <cstdint>
#include <new>

#include "src/base/machine_memory.h"

namespace tessera {
namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line, and the widest vector register

std::shared_ptr<std::byte[]> allocate(std::size_t bytes) {
  if (bytes > machine_memory()) refuse_array_of(bytes);
  // At least one byte, so that data() of an empty literal is not null.
  auto* p = static_cast<std::byte*>(::operator new(bytes ? bytes : 1, kAlignment, std::nothrow));
  if (p == nullptr) refuse_array_of(bytes);
  return {p, [](std::byte* q) { ::operator delete(q, kAlignment); }};
}

}  // namespace

Literal::Literal(Shape shape) : shape_(std::move(shape)) {
  if (shape_.is_tuple) {
    elements_.reserve(shape_.elements.size());
    for (const Shape& s : shape_.elements) elements_.emplace_back(s);
    return;
  }
  count_ = shape_.element_count();
  byte_count_ = std::size_t(shape_.byte_count());
  data_ = allocate(byte_count_);
  std::memset(data_.get(), 0, byte_count_ ? byte_count_ : 1);
}

Literal::Literal(Shape shape, std::span<const std::byte> bytes) : shape_(std::move(shape)) {
  if (shape_.is_tuple) throw ValueError("a tuple " + shape_.to_string() + " has no bytes to set");
  count_ = shape_.element_count();
  byte_count_ = std::size_t(shape_.byte_count());
  if (bytes.size() != byte_count_) {
    throw ValueError(std::to_string(bytes.size()) + " bytes given for " + shape_.to_string() +
                     ", which takes " + std::to_string(byte_count_));
  }
  data_ = allocate(byte_count_);
  if (byte_count_) std::memcpy(data_.get(), bytes.data(), byte_count_);
}

Literal Literal::tuple(std::vector<Literal> elements) {
  std::vector<Shape> shapes;
  shapes.reserve(elements.size());
  for (const Literal& e : elements) shapes.push_back(e.shape());
  Literal out;
  out.shape_ = Shape::tuple(std::move(shapes));
  out.data_.reset();
  out.elements_ = std::move(elements);
  return out;
}

std::byte* Literal::mutable_bytes() {
  if (data_ && data_.use_count() > 1) {
    auto own = allocate(byte_count_);
    if (byte_count_) std::memcpy(own.get(), data_.get(), byte_count_);
    data_ = std::move(own);
  }
  return data_.get();
}

Literal Literal::reshaped(Dims dims) const {
  TESSERA_CHECK(!is_tuple(), "a tuple was reshaped");
  if (tessera::element_count(dims) != count_) {
    throw ShapeError("can't reshape " + shape_.to_string() + " to " + tessera::to_string(dims) +
                     ": the numbers of elements differ");
  }
  Literal out = *this;
  out.shape_ = Shape(shape_.dtype, std::move(dims));
  return out;
}

bool operator==(const Literal& a, const Literal& b) {
  if (a.shape_ != b.shape_) return false;
  if (a.is_tuple()) return a.elements_ == b.elements_;
  return a.data_ == b.data_ || a.byte_count_ == 0 ||
         std::memcmp(a.data_.get(), b.data_.get(), a.byte_count_) == 0;
}

bool is_splat(const Literal& array) {
  const std::size_t size = byte_size(array.dtype());
  // Equal to itself one element further on.
  return array.byte_count() >= size &&
         std::memcmp(array.bytes(), array.bytes() + size, array.byte_count() - size) == 0;
}

}  // namespace tessera
