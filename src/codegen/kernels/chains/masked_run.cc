// SPDX-License-Identifier: Apache-2.0
// Looks at masks, and runs links of a chain without what they hide.
#include "src/codegen/kernels/chains/masked_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "src/codegen/kernels/expressions/loop_expr.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {
namespace {

/// Lines [first, last) of one of a product's second operands.
bool lines_are_moderate(const KernelBody::Product& p, const std::byte* second, std::int64_t batch,
                        std::int64_t first, std::int64_t last) {
  const auto bytes = std::int64_t(byte_size(p.type));
  const BatchMatrices& m = p.second;
  const std::byte* matrix = second + m.first(batch) * bytes;
  if (m.line == m.width) {
    return moderate(p.type, matrix + first * m.line * bytes, (last - first) * m.width);
  }
  for (std::int64_t l = first; l < last; ++l) {
    if (!moderate(p.type, matrix + l * m.line * bytes, m.width)) return false;
  }
  return true;
}

bool rows_are_moderate(DType t, const std::byte* array, std::int64_t width, std::int64_t begin,
                       std::int64_t end) {
  return moderate(t, array + begin * width * std::int64_t(byte_size(t)), (end - begin) * width);
}

}  // namespace

MaskedRun::MaskedRun(const MaskedColumns& masked, const runtime::Kernel& mask,
                     const std::vector<RowLink>& links, const LinkMemory& memory)
    : masked_(masked),
      mask_(mask),
      links_(links),
      memory_(memory),
      inputs_(masked.inputs.size()),
      narrow_(links.size()) {}

void MaskedRun::begin_block(std::int64_t begin, std::int64_t end) {
  begin_ = begin;
  end_ = end;
  hides_any_ = false;
  std::fill(narrow_.begin(), narrow_.end(), false);
  zero_rows_.clear();
  if (!masked_.adds) look_at_mask(begin, end);
}

void MaskedRun::place_mask() {
  for (std::size_t k = 0; k < inputs_.size(); ++k) inputs_[k] = memory_.at(masked_.inputs[k]);
}

/// Makes rows of the mask, where row 0 would be.
void MaskedRun::make_mask(std::byte* first_row, std::int64_t begin, std::int64_t end) const {
  mask_.function({mask_.attributes.get(), inputs_.data(), &first_row, begin * masked_.columns,
                  end * masked_.columns, false});
}

/// Which columns the mask shows of these rows.
void MaskedRun::look_at_mask(std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = masked_.columns;
  const ScratchMemory bytes{std::size_t((end - begin) * columns)};
  place_mask();
  make_mask(bytes.data() - begin * columns, begin, end);
  shown_ = shown_columns(bytes.data(), end - begin, columns, masked_.hides);
  hides_any_ = shown_.last - shown_.first < columns;
}

/// The same of what is added to a product, just before that is made.
void MaskedRun::look_at_addend(const KernelCall& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t columns = masked_.columns;
  const bool stands = masked_.period > 0;
  const auto row = columns * std::int64_t(sizeof(float));
  const ScratchMemory numbers{stands ? 0 : std::size_t((end - begin) * row)};
  place_mask();
  const auto numbers_of = [&](std::int64_t r) {
    return reinterpret_cast<const float*>(stands ? inputs_[0] + r % masked_.period * row
                                                 : numbers.data() + (r - begin) * row);
  };
  const auto make = [&](std::int64_t first, std::int64_t last) {
    if (!stands) make_mask(numbers.data() - begin * row, first, last);
  };
  // The first row shows whether it is worth looking.
  constexpr float kInfinite = std::numeric_limits<float>::infinity();
  float largest = kInfinite;
  shown_ = {};
  make(begin, begin + 1);
  show_near(numbers_of(begin), columns, 0, &shown_, &largest);
  hides_any_ = shown_.last - shown_.first < columns;
  if (!hides_any_) return;
  // Rounded up, so that it is the same for most matrices.
  int exponent = std::numeric_limits<int>::max();
  double size = std::fabs(masked_.scale) * size_of_products(call, begin, end);
  if (std::isfinite(size)) {
    std::frexp(size, &exponent);
    size = std::ldexp(1.0, exponent);
  }
  const auto show = [&] {
    make(begin + 1, end);
    ColumnRange shown;
    largest = kInfinite;
    for (std::int64_t r = begin; r < end && shown.last - shown.first < columns; ++r) {
      show_near(numbers_of(r), columns, size, &shown, &largest);
    }
    return whole_vectors(shown, columns);
  };
  if (stands) {
    const auto [it, added] =
        shown_before_.try_emplace({begin % masked_.period, end - begin, exponent});
    if (added) it->second = show();
    shown_ = it->second;
  } else {
    shown_ = show();
  }
  hides_any_ = shown_.last - shown_.first < columns;
}

/// What the size of these rows of the product to which the mask is added is below.
double MaskedRun::size_of_products(const KernelCall& call, std::int64_t begin, std::int64_t end) {
  const Product& p = product(masked_.product);
  const auto bytes = std::int64_t(byte_size(p.type));
  double second = 0;
  for (std::int64_t batch = begin / p.rows; batch <= (end - 1) / p.rows; ++batch) {
    const auto [it, added] = largest_.try_emplace(batch, 0);
    const BatchMatrices& m = p.second;
    for (std::int64_t l = 0; added && l < m.lines; ++l) {
      const std::byte* line = call.inputs[1] + (m.first(batch) + l * m.line) * bytes;
      it->second = std::max(it->second, largest_size(p.type, line, m.width));
    }
    second = std::max(second, it->second);
  }
  const double first =
      largest_size(p.type, call.inputs[0] + begin * p.depth * bytes, (end - begin) * p.depth);
  return first * second * double(p.depth);
}

bool MaskedRun::are_zero(const std::vector<MaskedColumns::Array>& arrays) const {
  return std::all_of(arrays.begin(), arrays.end(), [&](const MaskedColumns::Array& array) {
    const auto rows = zero_rows_.find(array);
    return rows != zero_rows_.end() && rows->second == end_ - begin_;
  });
}

/// Whether all of the second operands of the rows' matrices is moderate: looked at once. Or what
/// of them is multiplied by hidden columns, if these are all the rows of the matrices.
bool MaskedRun::is_moderate(std::size_t l, const std::byte* second, std::int64_t begin,
                            std::int64_t end) {
  const Product& p = product(l);
  const bool only_hidden = masked_.links[l].kind == MaskedColumns::Link::Kind::terms &&
                           p.lines_are_terms && begin % p.rows == 0 && end % p.rows == 0;
  for (std::int64_t batch = begin / p.rows; batch <= (end - 1) / p.rows; ++batch) {
    if (only_hidden) {
      if (!lines_are_moderate(p, second, batch, 0, shown_.first) ||
          !lines_are_moderate(p, second, batch, shown_.last, p.depth)) {
        return false;
      }
      continue;
    }
    const auto [it, added] = moderate_.try_emplace({l, batch}, false);
    if (added) it->second = lines_are_moderate(p, second, batch, 0, p.second.lines);
    if (!it->second) return false;
  }
  return true;
}

bool MaskedRun::run(std::size_t l, const KernelCall& whole, std::int64_t begin, std::int64_t end) {
  using Kind = MaskedColumns::Link::Kind;
  if (is_added_to(l)) look_at_addend(whole, begin, end);
  if (!hides_any_) return false;
  const MaskedColumns::Link& how = masked_.links[l];
  KernelCall call = whole;
  call.may_stream = false;
  switch (how.kind) {
    case Kind::results: {
      const Product& p = product(l);
      if (!how.zero.empty()) {
        if (!are_zero(how.zero) || !is_moderate(l, call.inputs[1], begin, end) ||
            !rows_are_moderate(p.type, call.inputs[0], p.depth, begin, end)) {
          return false;
        }
        clear_hidden(p, call.outputs[0], begin, end);
      }
      p.results(call, shown_.first, shown_.last);
      if (is_added_to(l)) lower_hidden(p, call.outputs[0], begin, end);
      narrow_[l] = true;
      return true;
    }
    case Kind::loop:
      for (const std::size_t other : how.relies) {
        if (!narrow_[other]) return false;
      }
      run_loop(l, call, begin, end);
      narrow_[l] = true;
      return true;
    case Kind::terms:
      if (!are_zero(how.zero) || !is_moderate(l, call.inputs[1], begin, end)) return false;
      product(l).terms(call, shown_.first, shown_.last);
      return true;
    case Kind::sums: {
      const std::size_t other = 1 - how.side;
      const RowSums& sums = *links_[l].sums;
      const DotSizes& sizes = sums.sizes;
      if (!are_zero(how.zero) || !rows_are_moderate(sums.operands, call.inputs[other],
                                                    other == 0 ? sizes.m : sizes.n, begin, end)) {
        return false;
      }
      sums.of_columns[how.side](call, shown_.first, shown_.last);
      return true;
    }
    case Kind::whole:
      break;
  }
  return false;
}

/// A product's hidden results, which something multiplies by zero.
void MaskedRun::clear_hidden(const Product& p, std::byte* made, std::int64_t begin,
                             std::int64_t end) const {
  const std::int64_t columns = masked_.columns, bytes = p.result_bytes;
  for (std::int64_t r = begin; r < end; ++r) {
    std::byte* row = made + r * columns * bytes;
    std::memset(row, 0, std::size_t(shown_.first * bytes));
    std::memset(row + shown_.last * bytes, 0, std::size_t((columns - shown_.last) * bytes));
  }
}

/// Those to which something is added that puts them far below others.
void MaskedRun::lower_hidden(const Product& p, std::byte* made, std::int64_t begin,
                             std::int64_t end) const {
  const std::int64_t columns = masked_.columns, bytes = p.result_bytes;
  const DType t = bytes == 4 ? DType::f32 : p.type;
  for (std::int64_t r = begin; r < end; ++r) {
    fill_hidden(made + r * columns * bytes, columns, t, masked_.scale > 0, shown_);
  }
}

/// A loop over the shown columns, and one hidden one, which is as all others.
void MaskedRun::run_loop(std::size_t l, const KernelCall& whole, std::int64_t begin,
                         std::int64_t end) {
  const RowLink& link = links_[l];
  const std::int64_t columns = masked_.columns;
  const std::int64_t hidden = shown_.last < columns ? shown_.last : shown_.first - 1;
  const ColumnRange run = hidden == shown_.last ? ColumnRange{shown_.first, hidden + 1}
                                                : ColumnRange{hidden, shown_.last};
  KernelCall call = whole;
  for (std::int64_t r = begin; r < end; ++r) {
    call.begin = r * columns + run.first;
    call.end = r * columns + run.last;
    link.kernel.function(call);
  }
  for (const LoopExpr::Register& out : link.body.loop()->registers) {
    if (out.kind != LoopExpr::Kind::output) continue;
    const auto o = std::size_t(out.index);
    const int bytes = out.element_bytes;
    std::int64_t& zero = zero_rows_[{l, o}];
    for (std::int64_t r = begin; r < end; ++r) {
      zero += fill_hidden(call.outputs[o] + r * columns * bytes, columns, bytes, shown_, hidden);
    }
  }
}

}  // namespace tessera::codegen
