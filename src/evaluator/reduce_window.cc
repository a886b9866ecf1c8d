// SPDX-License-Identifier: Apache-2.0
// Evaluates reduce-window and select-and-scatter.
#include "src/evaluator/elementwise.h"
#include "src/evaluator/ops.h"
#include "src/evaluator/scalar_function.h"
#include "src/evaluator/strided.h"

namespace tessera::evaluator {
namespace {

/// Where a window's element is in the operand; empty in the padding and between dilated elements.
class Windows {
 public:
  Windows(const std::vector<ir::WindowDim>& window, const Dims& operand, const Dims& result)
      : window_(window), operand_(operand), strides_(row_major_strides(operand)) {
    for (std::size_t d = 0; d < window.size(); ++d) {
      // Of a window's offsets, which may be any number, those that meet the operand somewhere.
      const ir::WindowDim& w = window[d];
      const std::int64_t low = w.pad_low - std::max<std::int64_t>(result[d] - 1, 0) * w.stride;
      const std::int64_t high = (operand[d] - 1) * w.lhs_dilation + w.pad_low;
      lows_.push_back(low > 0 ? (low - 1) / w.rhs_dilation + 1 : 0);
      const std::int64_t end = operand[d] == 0 || high < 0 ? 0 : high / w.rhs_dilation + 1;
      sizes_.push_back(std::max<std::int64_t>(0, std::min(w.size, end) - lows_.back()));
    }
  }

  /// How many offsets are to be looked at.
  const Dims& sizes() const { return sizes_; }

  /// Linear index in the operand, -1 if there is no element.
  std::int64_t at(const Dims& position, const Dims& offset) const {
    std::int64_t index = 0;
    for (std::size_t d = 0; d < window_.size(); ++d) {
      const ir::WindowDim& w = window_[d];
      const std::int64_t p =
          position[d] * w.stride + (lows_[d] + offset[d]) * w.rhs_dilation - w.pad_low;
      if (p < 0 || p % w.lhs_dilation != 0 || p / w.lhs_dilation >= operand_[d]) return -1;
      index += p / w.lhs_dilation * strides_[d];
    }
    return index;
  }

 private:
  const std::vector<ir::WindowDim>& window_;
  const Dims& operand_;
  Dims strides_, lows_, sizes_;
};

/// One operation: wide all the way, rounded once. Padding takes no part.
template <class W>
Literal fold_windows(ir::Opcode op, const ir::Instruction& in, const Literal& x,
                     const Literal& init) {
  const Windows windows(in.get<ir::WindowAttrs>().dims, x.dims(), in.shape.dims);
  const int width = bit_width(x.dtype());
  const bool is_signed = is_signed_integer(x.dtype());
  const std::vector<W> values = load_all<W>(x);
  W first{};
  load(init.dtype(), init.bytes(), 1, &first);
  std::vector<W> out;
  for_each_index(in.shape.dims, [&](const Dims& position) {
    W acc = first;
    for_each_index(windows.sizes(), [&](const Dims& offset) {
      const std::int64_t i = windows.at(position, offset);
      if (i < 0) return;
      if constexpr (std::is_same_v<W, std::uint64_t>) {
        acc = combine(op, acc, values[std::size_t(i)], width, is_signed);
      } else {
        acc = combine(op, acc, values[std::size_t(i)]);
      }
    });
    out.push_back(acc);
  });
  return store_all(Shape(x.dtype(), in.shape.dims), out);
}

/// Lanes that take part in one step, and their elements side by side.
struct Packed {
  std::vector<std::int64_t> lane, source;

  void gather(std::size_t size, const std::byte* from, const std::vector<std::int64_t>& at,
              std::vector<std::byte>& to) const {
    to.resize(at.size() * size);
    for (std::size_t i = 0; i < at.size(); ++i) {
      std::memcpy(to.data() + i * size, from + std::size_t(at[i]) * size, size);
    }
  }
  void scatter(std::size_t size, const std::vector<std::byte>& from, std::byte* to) const {
    for (std::size_t i = 0; i < lane.size(); ++i) {
      std::memcpy(to + std::size_t(lane[i]) * size, from.data() + i * size, size);
    }
  }
};

}  // namespace

Literal eval_reduce_window(const ir::Instruction& in, Operands xs) {
  ScalarFunction f(*in.called()[0]);
  if (f.single_op()) {
    return dispatch_domain(xs[0]->dtype(), [&](auto tag) {
      return fold_windows<typename decltype(tag)::type>(*f.single_op(), in, *xs[0], *xs[1]);
    });
  }
  const std::size_t k = xs.size() / 2;
  const Dims& dims = in.shape.is_tuple ? in.shape.elements[0].dims : in.shape.dims;
  const Windows windows(in.get<ir::WindowAttrs>().dims, xs[0]->dims(), dims);
  std::vector<Literal> results;
  for (std::size_t i = 0; i < k; ++i) {
    results.emplace_back(Shape(xs[i]->dtype(), dims));
    fill(byte_size(xs[i]->dtype()), results[i].mutable_bytes(), results[i].element_count(),
         xs[k + i]->bytes());
  }
  std::vector<std::vector<std::byte>> buffers(2 * k);
  for_each_index(windows.sizes(), [&](const Dims& offset) {
    Packed packed;
    std::int64_t lane = 0;
    for_each_index(dims, [&](const Dims& position) {
      const std::int64_t i = windows.at(position, offset);
      if (i >= 0) {
        packed.lane.push_back(lane);
        packed.source.push_back(i);
      }
      ++lane;
    });
    if (packed.lane.empty()) return;
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (std::size_t i = 0; i < k; ++i) {
      const std::size_t size = byte_size(xs[i]->dtype());
      packed.gather(size, results[i].bytes(), packed.lane, buffers[i]);
      packed.gather(size, xs[i]->bytes(), packed.source, buffers[k + i]);
      outputs.push_back(buffers[i].data());
    }
    for (const auto& b : buffers) inputs.push_back(b.data());
    f.run(inputs.data(), outputs.data(), std::int64_t(packed.lane.size()));
    for (std::size_t i = 0; i < k; ++i) {
      packed.scatter(byte_size(xs[i]->dtype()), buffers[i], results[i].mutable_bytes());
    }
  });
  if (in.shape.is_tuple) return Literal::tuple(std::move(results));
  return results[0];
}

Literal eval_select_and_scatter(const ir::Instruction& in, Operands xs) {
  const Literal &x = *xs[0], &source = *xs[1], &init = *xs[2];
  ScalarFunction select(*in.called()[0]), combine_updates(*in.called()[1]);
  const Windows windows(in.get<ir::WindowAttrs>().dims, x.dims(), source.dims());
  const std::size_t size = byte_size(x.dtype());
  // The chosen element of each window: the first, replaced where select(chosen, next) is false.
  std::vector<std::int64_t> chosen(std::size_t(source.element_count()), -1);
  for_each_index(windows.sizes(), [&](const Dims& offset) {
    Packed packed;
    std::vector<std::int64_t> before;
    std::int64_t lane = 0;
    for_each_index(source.dims(), [&](const Dims& position) {
      const std::int64_t i = windows.at(position, offset);
      std::int64_t& c = chosen[std::size_t(lane)];
      if (i >= 0 && c < 0) {
        c = i;
      } else if (i >= 0) {
        packed.lane.push_back(lane);
        packed.source.push_back(i);
        before.push_back(c);
      }
      ++lane;
    });
    if (packed.lane.empty()) return;
    std::vector<std::byte> a, b, keep(packed.lane.size());
    packed.gather(size, x.bytes(), before, a);
    packed.gather(size, x.bytes(), packed.source, b);
    const std::byte* inputs[] = {a.data(), b.data()};
    std::byte* outputs[] = {keep.data()};
    select.run(inputs, outputs, std::int64_t(keep.size()));
    for (std::size_t i = 0; i < keep.size(); ++i) {
      if (keep[i] == std::byte(0)) chosen[std::size_t(packed.lane[i])] = packed.source[i];
    }
  });
  Literal out(Shape(x.dtype(), x.dims()));
  std::byte* bytes = out.mutable_bytes();
  fill(size, bytes, out.element_count(), init.bytes());
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] < 0) continue;
    std::byte* at = bytes + std::size_t(chosen[i]) * size;
    const std::byte* inputs[] = {source.bytes() + i * size, at};
    std::byte* outputs[] = {at};
    combine_updates.run(inputs, outputs, 1);
  }
  return out;
}

}  // namespace tessera::evaluator
