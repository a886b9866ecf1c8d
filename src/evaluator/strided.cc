// SPDX-License-Identifier: Apache-2.0
// Strided copies between host arrays: transposes, slices, box updates.
#include "src/evaluator/strided.h"

#include "src/evaluator/wide.h"

namespace tessera::evaluator {
namespace {

template <class T>
void copy_typed(const Dims& dims, std::byte* to_bytes, const Side& to_side,
                const std::byte* from_bytes, const Side& from_side) {
  T* to = reinterpret_cast<T*>(to_bytes) + to_side.offset;
  const T* from = reinterpret_cast<const T*>(from_bytes) + from_side.offset;
  if (dims.empty()) {
    *to = *from;
    return;
  }
  const std::size_t last = dims.size() - 1;
  const std::int64_t n = dims[last], ts = to_side.strides[last], fs = from_side.strides[last];
  Dims index(dims.size(), 0);
  while (true) {
    if (ts == 1 && fs == 1) {
      std::memcpy(to, from, std::size_t(n) * sizeof(T));
    } else {
      for (std::int64_t i = 0; i < n; ++i) to[i * ts] = from[i * fs];
    }
    std::size_t d = last;
    while (true) {
      if (d == 0) return;
      --d;
      to += to_side.strides[d];
      from += from_side.strides[d];
      if (++index[d] < dims[d]) break;
      to -= dims[d] * to_side.strides[d];
      from -= dims[d] * from_side.strides[d];
      index[d] = 0;
    }
  }
}

}  // namespace

void strided_copy(std::size_t element_size, const Dims& dims, std::byte* to, const Side& to_side,
                  const std::byte* from, const Side& from_side) {
  for (std::int64_t d : dims) {
    if (d <= 0) return;
  }
  switch (element_size) {
    case 0:
      return;
    case 1:
      return copy_typed<std::uint8_t>(dims, to, to_side, from, from_side);
    case 2:
      return copy_typed<std::uint16_t>(dims, to, to_side, from, from_side);
    case 4:
      return copy_typed<std::uint32_t>(dims, to, to_side, from, from_side);
    case 8:
      return copy_typed<std::uint64_t>(dims, to, to_side, from, from_side);
    default:
      TESSERA_CHECK(element_size == 16, "no element has this size");
      return copy_typed<Bytes16>(dims, to, to_side, from, from_side);
  }
}

void fill(std::size_t element_size, std::byte* to, std::int64_t n, const std::byte* value) {
  strided_copy(element_size, {n}, to, {0, {1}}, value, {0, {0}});
}

Literal permuted(const Literal& x, const Dims& perm) {
  const Dims strides = row_major_strides(x.dims());
  Dims dims, from;
  for (std::int64_t p : perm) {
    dims.push_back(x.dims()[std::size_t(p)]);
    from.push_back(strides[std::size_t(p)]);
  }
  Literal out(Shape(x.dtype(), dims));
  strided_copy(byte_size(x.dtype()), dims, out.mutable_bytes(), {0, row_major_strides(dims)},
               x.bytes(), {0, from});
  return out;
}

Literal sliced(const Literal& x, const Dims& starts, const Dims& sizes, const Dims& strides) {
  Dims steps = row_major_strides(x.dims());
  const std::int64_t offset = dot_product(starts, steps);
  for (std::size_t d = 0; d < strides.size(); ++d) steps[d] *= strides[d];
  Literal out(Shape(x.dtype(), sizes));
  strided_copy(byte_size(x.dtype()), sizes, out.mutable_bytes(), {0, row_major_strides(sizes)},
               x.bytes(), {offset, steps});
  return out;
}

void write_box(Literal& to, const Literal& part, const Dims& starts) {
  const Dims steps = row_major_strides(to.dims());
  strided_copy(byte_size(to.dtype()), part.dims(), to.mutable_bytes(),
               {dot_product(starts, steps), steps}, part.bytes(),
               {0, row_major_strides(part.dims())});
}

}  // namespace tessera::evaluator
