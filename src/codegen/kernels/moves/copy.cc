// SPDX-License-Identifier: Apache-2.0
// Kernels that move elements: strided copies, transposes, pad, dynamic slice and update.
#include "src/codegen/kernels/moves/copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "src/codegen/kernels/expressions/composed_view.h"
#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/moves/transpose.h"
#include "src/codegen/kernels/prices.h"
#include "src/codegen/kernels/read_index.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

using runtime::KernelCall;

/// Strides in bytes; `a` runs along the dim where the target is contiguous.
template <class T>
void copy_plane(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t columns,
                std::int64_t to_row, std::int64_t to_column, std::int64_t from_row,
                std::int64_t from_column) {
  // Blocks whose lines of both sides stay in the first cache.
  constexpr std::int64_t kBlock = 16;
  const auto line = [&](std::int64_t r, std::int64_t begin, std::int64_t end) {
    std::byte* t = to + r * to_row + begin * to_column;
    const std::byte* f = from + r * from_row + begin * from_column;
    for (std::int64_t c = begin; c < end; ++c, t += to_column, f += from_column) {
      T v;
      std::memcpy(&v, f, sizeof v);
      std::memcpy(t, &v, sizeof v);
    }
  };
  const bool transposed = std::llabs(from_row) < std::llabs(from_column);
  if (!transposed) {
    for (std::int64_t r = 0; r < rows; ++r) line(r, 0, columns);
    return;
  }
  for (std::int64_t r = 0; r < rows; r += kBlock) {
    const std::int64_t row_end = std::min(r + kBlock, rows);
    for (std::int64_t c = 0; c < columns; c += kBlock) {
      const std::int64_t end = std::min(c + kBlock, columns);
      for (std::int64_t k = r; k < row_end; ++k) line(k, c, end);
    }
  }
}

void plane(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t columns,
           std::int64_t to_row, std::int64_t to_column, std::int64_t from_row,
           std::int64_t from_column, std::size_t element) {
  const auto e = std::int64_t(element);
  if (to_column == e && from_column == e) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * to_row, from + r * from_row, std::size_t(columns) * element);
    }
    return;
  }
  if (to_column == e && from_column == -e && columns > 1 &&
      reverse_row({to, from, columns}, element)) {
    for (std::int64_t r = 1; r < rows; ++r) {
      reverse_row({to + r * to_row, from + r * from_row, columns}, element);
    }
    return;
  }
  if (to_column == e && from_row == e &&
      transpose({to, from, rows, columns, to_row, from_column}, element)) {
    return;
  }
  const bool is_one = for_size(kOfEachSize, element, [&](auto tag) {
    copy_plane<typename decltype(tag)::type>(to, from, rows, columns, to_row, to_column, from_row,
                                             from_column);
    return true;
  });
  if (is_one) return;
  // Several neighbours as one.
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(to + r * to_row + c * to_column, from + r * from_row + c * from_column, element);
    }
  }
}

struct Loop {
  std::int64_t size, to, from;
};

/// Rows [begin, end) of a box, along its first dim.
void copy_rows(std::byte* to, const std::byte* from, Dims dims, const Dims& to_strides,
               const Dims& from_strides, std::int64_t begin, std::int64_t end,
               std::size_t element_bytes) {
  if (!dims.empty()) {
    dims[0] = end - begin;
    to += begin * to_strides[0];
    from += begin * from_strides[0];
  }
  copy_box(to, from, dims, to_strides, from_strides, element_bytes);
}

struct CopyAttrs {
  std::vector<Box> boxes;
  std::size_t element_bytes;
};

void run_copy(const KernelCall& call) {
  const auto& attrs = *static_cast<const CopyAttrs*>(call.attributes);
  // Units count the first dims of the boxes, one box after the other.
  std::int64_t first = 0;
  for (const Box& box : attrs.boxes) {
    const std::int64_t rows = box.dims.empty() ? 1 : box.dims[0];
    const std::int64_t begin = std::max(call.begin, first) - first;
    const std::int64_t end = std::min(call.end, first + rows) - first;
    first += rows;
    if (begin >= end) continue;
    copy_rows(call.outputs[0] + box.to, call.inputs[box.input] + box.from, box.dims, box.to_strides,
              box.from_strides, begin, end, attrs.element_bytes);
  }
}

template <std::size_t bytes>
void copy_rows_of(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t pitch) {
  for (std::int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * pitch, from + std::size_t(r) * bytes, bytes);
  }
}
/// Rows of `bytes` bytes that lie one behind the other, to places that lie `pitch` bytes apart.
void copy_rows_apart(std::byte* to, const std::byte* from, std::int64_t rows, std::int64_t bytes,
                     std::int64_t pitch) {
  using Rows = void (*)(std::byte*, const std::byte*, std::int64_t, std::int64_t);
  const Rows of_size = for_constant<1, 2, 4, 8, 12, 16, 24, 32, 48, 64>(
      std::size_t(bytes), [](auto size) -> Rows { return copy_rows_of<size()>; });
  if (of_size != nullptr) return of_size(to, from, rows, pitch);
  constexpr std::int64_t kStep = 32, kLong = 512;
  if (bytes < kStep || bytes > kLong) {
    for (std::int64_t r = 0; r < rows; ++r, to += pitch, from += bytes) {
      std::memcpy(to, from, std::size_t(bytes));
    }
    return;
  }
  // A call would take as long as the bytes.
  for (std::int64_t r = 0; r < rows; ++r, to += pitch, from += bytes) {
    for (std::int64_t b = 0; b + kStep < bytes; b += kStep) std::memcpy(to + b, from + b, kStep);
    std::memcpy(to + bytes - kStep, from + bytes - kStep, kStep);
  }
}

struct PartsAttrs {
  std::vector<std::int64_t> bytes;  ///< of a row of each input
  std::int64_t row = 0;             ///< of all of them
};

/// Units are rows: some of all inputs at a time, so that lines that parts share stay in the cache.
void run_side_by_side(const KernelCall& call) {
  const auto& attrs = *static_cast<const PartsAttrs*>(call.attributes);
  constexpr std::int64_t kBlock = 16384;  // bytes
  const std::int64_t some = std::max<std::int64_t>(1, kBlock / attrs.row);
  for (std::int64_t begin = call.begin; begin < call.end; begin += some) {
    const std::int64_t rows = std::min(some, call.end - begin);
    std::byte* to = call.outputs[0] + begin * attrs.row;
    for (std::size_t k = 0; k < attrs.bytes.size(); to += attrs.bytes[k++]) {
      copy_rows_apart(to, call.inputs[k] + begin * attrs.bytes[k], rows, attrs.bytes[k], attrs.row);
    }
  }
}

struct PadAttrs {
  Dims out_dims;
  Box box;                         ///< the part of the operand that is not cut away
  std::int64_t low = 0, step = 1;  ///< of dim 0: the box's row i lands on row low + i * step
  std::size_t element_bytes;
};

void run_pad(const KernelCall& call) {
  const auto& attrs = *static_cast<const PadAttrs*>(call.attributes);
  const Box& box = attrs.box;
  if (attrs.out_dims.empty()) {
    std::memcpy(call.outputs[0], call.inputs[0], attrs.element_bytes);
    return;
  }
  const std::int64_t row = element_count(std::span(attrs.out_dims).subspan(1));
  std::byte* out = call.outputs[0];
  copy_strided(call.inputs[1], 0, (call.end - call.begin) * row, int(attrs.element_bytes),
               out + call.begin * row * std::int64_t(attrs.element_bytes));
  // Rows of the box that land in [begin, end).
  const std::int64_t begin = std::max<std::int64_t>(
      0, ceil_div(std::max<std::int64_t>(0, call.begin - attrs.low), attrs.step));
  const std::int64_t end = call.end <= attrs.low
                               ? 0
                               : std::min(box.dims[0], (call.end - attrs.low - 1) / attrs.step + 1);
  if (begin >= end) return;
  copy_rows(out + box.to, call.inputs[0] + box.from, box.dims, box.to_strides, box.from_strides,
            begin, end, attrs.element_bytes);
}

struct DynamicAttrs {
  DynamicStarts starts;
  Dims strides;       ///< of the array, in bytes
  Dims part_strides;  ///< of the slice
  std::size_t element_bytes;

  std::int64_t offset(const KernelCall& call) const {
    std::int64_t out = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      const std::int64_t index = read_index(call.inputs[starts.first + int(d)], starts.dtype);
      out += std::clamp<std::int64_t>(index, 0, starts.dims[d] - starts.sizes[d]) * strides[d];
    }
    return out;
  }
  void copy(const KernelCall& call, std::byte* to, const Dims& to_strides, const std::byte* from,
            const Dims& from_strides) const {
    copy_rows(to, from, starts.sizes, to_strides, from_strides, call.begin, call.end,
              element_bytes);
  }
};

void run_dynamic_slice(const KernelCall& call) {
  const auto& attrs = *static_cast<const DynamicAttrs*>(call.attributes);
  attrs.copy(call, call.outputs[0], attrs.part_strides, call.inputs[0] + attrs.offset(call),
             attrs.strides);
}

void run_dynamic_update_slice(const KernelCall& call) {
  const auto& attrs = *static_cast<const DynamicAttrs*>(call.attributes);
  attrs.copy(call, call.outputs[0] + attrs.offset(call), attrs.strides, call.inputs[1],
             attrs.part_strides);
}

double copy_cost(std::int64_t elements, std::size_t element_bytes) {
  return prices::call::kCopy + double(elements) * double(element_bytes) * prices::byte::kCopied;
}

struct MoveOperation {
  bool computed = false;  ///< the place of the box, by the program
  bool into = false;      ///< it is a part of the result, in which something else stands around it
  bool parts = false;     ///< several arrays, whose rows stand side by side
};
constexpr KernelLine<MoveOperation, runtime::KernelFunction> kMoves[] = {
    {{"move/update", "a box that changes a part of an array, at a place that is computed"},
     [](const MoveOperation& m) { return m.computed && m.into; },
     run_dynamic_update_slice},
    {{"move/slice", "a box of an array, at a place that is computed"},
     [](const MoveOperation& m) { return m.computed; },
     run_dynamic_slice},
    {{"move/pad", "a box with one value around it"},
     [](const MoveOperation& m) { return m.into; },
     run_pad},
    {{"move/parts", "rows of several arrays, side by side"},
     [](const MoveOperation& m) { return m.parts; },
     run_side_by_side},
    {{"move/boxes", "elements at strides of what they are read from: transposes, slices, parts"},
     always<MoveOperation>,
     run_copy},
};

/// With the attributes that the line's function takes.
template <class Attributes>
void choose_move(const MoveOperation& move, Attributes attributes, KernelDescriptor* kernel) {
  const auto& line = choose(kMoves, move);
  kernel->label = &line.label;
  kernel->make = kernel_maker(line.how, std::move(attributes));
}

/// A type of so many bytes.
DType bits_of(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return DType::u8;
    case 2:
      return DType::u16;
    case 4:
      return DType::u32;
    case 8:
      return DType::u64;
    default:
      return DType::c128;
  }
}

std::vector<LoopExpr::Start> moved_by(const DynamicStarts& starts) {
  std::vector<LoopExpr::Start> out;
  const Dims strides = row_major_strides(starts.dims);
  for (std::size_t d = 0; d < starts.dims.size(); ++d) {
    if (starts.dims[d] == starts.sizes[d]) continue;
    out.push_back(
        {starts.first + int(d), starts.dtype, starts.dims[d] - starts.sizes[d], strides[d]});
  }
  return out;
}

/// Whether the elements of a part lie one behind the other.
bool is_one_run(const Dims& dims, const Dims& part) {
  std::size_t d = 0;
  while (d < dims.size() && part[d] == 1) ++d;
  for (++d; d < dims.size(); ++d) {
    if (part[d] != dims[d]) return false;
  }
  return true;
}

std::shared_ptr<const LoopExpr> loop_of_slice(const DynamicStarts& starts, std::size_t bytes) {
  LoopBuilder builder;
  builder.output(builder.broadcast(bits_of(bytes), starts.sizes, row_major_strides(starts.dims), 0,
                                   moved_by(starts)));
  return builder.finish();
}

std::shared_ptr<const LoopExpr> loop_of_update(const DynamicStarts& starts, std::size_t bytes) {
  if (!is_one_run(starts.dims, starts.sizes)) return nullptr;
  LoopBuilder builder;
  builder.input();
  builder.output(builder.contiguous(bits_of(bytes)), moved_by(starts));
  return builder.finish();
}

KernelDescriptor dynamic_kernel(std::string_view family, const DynamicStarts& starts,
                                std::size_t element_bytes, bool into,
                                std::shared_ptr<const LoopExpr> loop) {
  DynamicAttrs attrs;
  attrs.starts = starts;
  attrs.strides = byte_strides(starts.dims, element_bytes);
  attrs.part_strides = byte_strides(starts.sizes, element_bytes);
  attrs.element_bytes = element_bytes;
  KernelDescriptor kernel;
  kernel.key =
      kernel_key(family, starts.first, starts.dims, starts.sizes, starts.dtype, element_bytes);
  kernel.units = starts.sizes.empty() ? 1 : starts.sizes[0];
  if (loop) {
    kernel.body = KernelBody::Loop{
        std::move(loop), element_count(starts.sizes) / std::max<std::int64_t>(1, kernel.units)};
  }
  kernel.nanoseconds = copy_cost(element_count(starts.sizes), element_bytes);
  choose_move({.computed = true, .into = into}, std::move(attrs), &kernel);
  return kernel;
}

}  // namespace

void copy_box(std::byte* to, const std::byte* from, const Dims& dims, const Dims& to_strides,
              const Dims& from_strides, std::size_t element_bytes) {
  std::vector<Loop> loops;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 0) return;
    if (dims[d] > 1) loops.push_back({dims[d], to_strides[d], from_strides[d]});
  }
  // Innermost first: the target is written in order.
  std::stable_sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) {
    return std::llabs(a.to) < std::llabs(b.to);
  });
  std::vector<Loop> merged;
  for (const Loop& l : loops) {
    if (!merged.empty() && merged.back().to * merged.back().size == l.to &&
        merged.back().from * merged.back().size == l.from) {
      merged.back().size *= l.size;
    } else {
      merged.push_back(l);
    }
  }
  const auto e = std::int64_t(element_bytes);
  while (merged.size() < 2) merged.push_back({1, e, e});
  const Loop column = merged[0];
  // The other loop of the plane: where the source is densest.
  std::size_t best = 1;
  for (std::size_t i = 2; i < merged.size(); ++i) {
    if (std::llabs(merged[i].from) < std::llabs(merged[best].from)) best = i;
  }
  const Loop row = merged[best];
  merged.erase(merged.begin() + std::int64_t(best));
  merged.erase(merged.begin());
  Dims at(merged.size());
  for (;;) {
    plane(to, from, row.size, column.size, row.to, column.to, row.from, column.from, element_bytes);
    std::size_t d = 0;
    for (; d < merged.size(); ++d) {
      to += merged[d].to;
      from += merged[d].from;
      if (++at[d] < merged[d].size) break;
      to -= merged[d].to * merged[d].size;
      from -= merged[d].from * merged[d].size;
      at[d] = 0;
    }
    if (d == merged.size()) return;
  }
}

KernelFamily move_family() { return family_of("move", kMoves); }

namespace {

/// Of one that fills its array.
std::shared_ptr<const LoopExpr> loop_of_box(const Box& box, std::size_t element_bytes) {
  const auto bytes = std::int64_t(element_bytes);
  if (box.to != 0 || box.from % bytes != 0 ||
      box.to_strides != byte_strides(box.dims, element_bytes)) {
    return nullptr;
  }
  Dims strides;
  for (const std::int64_t s : box.from_strides) {
    if (s % bytes != 0) return nullptr;
    strides.push_back(s / bytes);
  }
  LoopBuilder builder;
  for (int k = 0; k < box.input; ++k) builder.input();
  builder.output(builder.broadcast(bits_of(element_bytes), box.dims, strides, box.from / bytes));
  return builder.finish();
}

}  // namespace

KernelDescriptor copy_kernel(std::vector<Box> boxes, std::size_t element_bytes) {
  KernelDescriptor kernel;
  std::int64_t elements = 0;
  kernel.units = 0;
  auto loop = boxes.size() == 1 ? loop_of_box(boxes[0], element_bytes) : nullptr;
  for (Box& box : boxes) {
    // Units are the first dim: let it be a long one, and no transposed block shorter than a tile.
    std::size_t longest = 0;
    for (std::size_t d = 1; d < box.dims.size(); ++d) {
      if (box.dims[longest] < 16 && box.dims[d] > box.dims[longest]) longest = d;
    }
    if (longest != 0) {
      std::swap(box.dims[0], box.dims[longest]);
      std::swap(box.from_strides[0], box.from_strides[longest]);
      std::swap(box.to_strides[0], box.to_strides[longest]);
    }
    kernel.units += box.dims.empty() ? 1 : box.dims[0];
    elements += element_count(box.dims);
  }
  kernel.units = std::max<std::int64_t>(kernel.units, 1);
  if (loop) kernel.body = KernelBody::Loop{std::move(loop), elements / kernel.units};
  kernel.nanoseconds = copy_cost(elements, element_bytes);
  KeyWriter key("copy");
  key.add_all(element_bytes, boxes.size());
  for (const Box& b : boxes) {
    key.add_all(b.input, b.from, b.to, b.dims, b.from_strides, b.to_strides);
  }
  kernel.key = key.take();
  choose_move({}, CopyAttrs{std::move(boxes), element_bytes}, &kernel);
  return kernel;
}

KernelDescriptor parts_kernel(std::int64_t rows, std::vector<std::int64_t> bytes) {
  PartsAttrs attrs;
  attrs.bytes = std::move(bytes);
  for (const std::int64_t n : attrs.bytes) attrs.row += n;
  KernelDescriptor kernel;
  kernel.units = attrs.row == 0 ? 0 : rows;
  kernel.nanoseconds = copy_cost(rows * attrs.row, 1);
  kernel.key = kernel_key("parts", attrs.bytes);
  choose_move({.parts = true}, std::move(attrs), &kernel);
  return kernel;
}

KernelDescriptor pad_kernel(const Dims& dims, const std::vector<ir::PadDim>& pad,
                            std::size_t element_bytes) {
  PadAttrs attrs;
  attrs.element_bytes = element_bytes;
  Box& box = attrs.box;
  box.dims = dims;
  box.from_strides = byte_strides(dims, element_bytes);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t step = pad[d].interior + 1;
    const std::int64_t inner = dims[d] == 0 ? 0 : (dims[d] - 1) * step + 1;
    attrs.out_dims.push_back(pad[d].low + inner + pad[d].high);
  }
  const Dims strides = byte_strides(attrs.out_dims, element_bytes);
  for (std::size_t d = 0; d < dims.size(); ++d) {
    const std::int64_t step = pad[d].interior + 1;
    // Negative padding cuts rows away, on either side.
    const std::int64_t begin = std::min(dims[d], pad[d].low >= 0 ? 0 : ceil_div(-pad[d].low, step));
    std::int64_t end = dims[d];
    while (end > begin && pad[d].low + (end - 1) * step >= attrs.out_dims[d]) --end;
    box.dims[d] = end - begin;
    box.from += begin * box.from_strides[d];
    box.to += (pad[d].low + begin * step) * strides[d];
    box.to_strides.push_back(strides[d] * step);
    if (d == 0) {
      attrs.low = pad[d].low + begin * step;
      attrs.step = step;
    }
  }
  KernelDescriptor kernel;
  kernel.units = attrs.out_dims.empty() ? 1 : attrs.out_dims[0];
  kernel.nanoseconds = 2 * copy_cost(element_count(attrs.out_dims), element_bytes);
  kernel.key = kernel_key("pad", attrs.out_dims, box.from, box.to, box.dims, box.from_strides,
                          box.to_strides, attrs.low, attrs.step, element_bytes);
  choose_move({.computed = false, .into = true}, std::move(attrs), &kernel);
  return kernel;
}

KernelDescriptor dynamic_slice_kernel(const DynamicStarts& starts, std::size_t element_bytes) {
  return dynamic_kernel("dynamic-slice", starts, element_bytes, /*into=*/false,
                        loop_of_slice(starts, element_bytes));
}
KernelDescriptor dynamic_update_slice_kernel(const DynamicStarts& starts,
                                             std::size_t element_bytes) {
  return dynamic_kernel("dynamic-update-slice", starts, element_bytes, /*into=*/true,
                        loop_of_update(starts, element_bytes));
}

}  // namespace tessera::codegen
