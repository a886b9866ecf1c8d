// SPDX-License-Identifier: Apache-2.0
// The windows of gathers and scatters.
#include "src/codegen/kernels/index_windows.h"

#include <algorithm>
#include <cstring>

#include "src/base/contains.h"
#include "src/codegen/kernels/copy.h"
#include "src/codegen/kernels/kernel_key.h"

namespace tessera::codegen {
namespace {

Dims dims_besides(std::int64_t rank, const Dims& a, const Dims& b = {}) {
  Dims out;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (!contains(a, d) && !contains(b, d)) out.push_back(d);
  }
  return out;
}

/// read_index without a call for the types that programs use.
inline std::int64_t read_component(const std::byte* at, DType type) {
  if (type == DType::s32) {
    std::int32_t v;
    std::memcpy(&v, at, sizeof v);
    return v;
  }
  if (type == DType::s64) {
    std::int64_t v;
    std::memcpy(&v, at, sizeof v);
    return v;
  }
  return read_index(at, type);
}

}  // namespace

std::string IndexWindows::key() const {
  return kernel_key("windows", index_type, batch_dims, index_strides, batch_strides, vector_step,
                    mapped, batching, dims, sizes, strides, part_strides, element);
}

bool IndexWindows::indices_in_a_row() const {
  for (std::size_t d = batch_dims.size(); d-- > 1;) {
    if (index_strides[d - 1] != index_strides[d] * batch_dims[d]) return false;
  }
  return true;
}

IndexWindows index_windows(const Shape& array, const Shape& indices, const Shape& other,
                           const IndexedDims& dims) {
  IndexWindows w;
  w.index_type = indices.dtype;
  w.mapped = dims.mapped;
  w.dims = array.dims;
  w.strides = byte_strides(array.dims, byte_size(array.dtype));
  w.element = byte_size(array.dtype);
  const Dims index_strides = row_major_strides(indices.dims);
  const Dims other_strides = byte_strides(other.dims, byte_size(other.dtype));
  const Dims batch_of_other = dims_besides(other.rank(), dims.window_dims_of_other);
  for (std::int64_t d = 0; d < indices.rank(); ++d) {
    if (d == dims.index_vector_dim) {
      w.vector_step = index_strides[std::size_t(d)];
      continue;
    }
    const auto found = std::find(dims.index_batching.begin(), dims.index_batching.end(), d);
    if (found != dims.index_batching.end()) {
      w.batching.emplace_back(dims.array_batching[std::size_t(found - dims.index_batching.begin())],
                              w.batch_dims.size());
    }
    w.batch_strides.push_back(other_strides[std::size_t(batch_of_other[w.batch_dims.size()])]);
    w.batch_dims.push_back(indices.dim(d));
    w.index_strides.push_back(index_strides[std::size_t(d)]);
  }
  w.sizes.assign(array.dims.size(), 1);
  w.part_strides.assign(array.dims.size(), 0);
  const Dims window = dims_besides(array.rank(), dims.dropped_dims, dims.array_batching);
  for (std::size_t i = 0; i < window.size(); ++i) {
    const auto d = std::size_t(window[i]), o = std::size_t(dims.window_dims_of_other[i]);
    w.sizes[d] = other.dims[o];
    w.part_strides[d] = other_strides[o];
  }
  return w;
}

WindowCursor::WindowCursor(const IndexWindows& windows, const std::byte* indices, std::int64_t n)
    : w_(windows), indices_(indices), batch_(w_.batch_dims.size()), start_(w_.dims.size()) {
  for (std::size_t d = w_.batch_dims.size(); d-- > 0;) {
    // Of no vectors, none is walked to.
    if (w_.batch_dims[d] == 0) return;
    batch_[d] = n % w_.batch_dims[d];
    n /= w_.batch_dims[d];
    at_ += batch_[d] * w_.index_strides[d];
    part_ += batch_[d] * w_.batch_strides[d];
  }
}

void WindowCursor::next() {
  for (std::size_t d = w_.batch_dims.size(); d-- > 0;) {
    at_ += w_.index_strides[d];
    part_ += w_.batch_strides[d];
    if (++batch_[d] < w_.batch_dims[d]) return;
    batch_[d] = 0;
    at_ -= w_.batch_dims[d] * w_.index_strides[d];
    part_ -= w_.batch_dims[d] * w_.batch_strides[d];
  }
}

const std::int64_t* WindowCursor::start() {
  const auto size = std::int64_t(byte_size(w_.index_type));
  const std::byte* at = indices_ + at_ * size;
  for (const std::int64_t d : w_.mapped) {
    start_[std::size_t(d)] = read_component(at, w_.index_type);
    at += w_.vector_step * size;
  }
  for (const auto& [dim, b] : w_.batching) start_[std::size_t(dim)] = batch_[b];
  return start_.data();
}

}  // namespace tessera::codegen
