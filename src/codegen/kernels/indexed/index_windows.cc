// SPDX-License-Identifier: Apache-2.0
// The windows of gathers and scatters.
#include "src/codegen/kernels/indexed/index_windows.h"

#include <cstring>

#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/read_index.h"
#include "src/ir/analysis/indexed_dims.h"

namespace tessera::codegen {
namespace {

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

IndexWindows index_windows(const ir::Instruction& i) {
  const ir::IndexedDims dims = ir::indexed_dims(i);
  const Shape &array = i.operand(0)->shape, &indices = i.operand(1)->shape;
  const Shape& other = i.is(ir::Opcode::gather) ? i.shape : i.operand(2)->shape;
  IndexWindows w;
  w.index_type = indices.dtype;
  w.mapped = dims.mapped;
  w.dims = array.dims;
  w.sizes = dims.sizes;
  w.strides = byte_strides(array.dims, byte_size(array.dtype));
  w.element = byte_size(array.dtype);
  const Dims index_strides = row_major_strides(indices.dims);
  const Dims other_strides = byte_strides(other.dims, byte_size(other.dtype));
  w.batch_dims = dims.batch_sizes;
  for (std::int64_t d = 0; d < indices.rank(); ++d) {
    std::int64_t stride = index_strides[std::size_t(d)];
    (d == dims.vector_dim ? w.vector_step : w.index_strides.emplace_back()) = stride;
  }
  for (std::size_t b = 0; b < dims.batch.size(); ++b) {
    w.batch_strides.push_back(other_strides[std::size_t(dims.batch[b])]);
    for (std::size_t k = 0; k < dims.batching.size(); ++k) {
      if (std::size_t(dims.batching[k]) == b) w.batching.emplace_back(dims.array_batching[k], b);
    }
  }
  w.part_strides.assign(array.dims.size(), 0);
  for (std::size_t k = 0; k < dims.window.size(); ++k) {
    w.part_strides[std::size_t(dims.window[k])] =
        other_strides[std::size_t(dims.window_of_other[k])];
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
