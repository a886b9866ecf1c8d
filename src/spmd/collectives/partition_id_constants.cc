// SPDX-License-Identifier: Apache-2.0
// Evaluates integer expressions of partition-id for each device.
#include "src/spmd/collectives/partition_id_constants.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tessera::spmd {
namespace {

using ir::Instruction;
using ir::Opcode;

constexpr int kDeepest = 64;
constexpr std::int64_t kMaxElements = 8192;
/// Beyond it, 32 bits would wrap.
constexpr std::int64_t kLargestConstant = (std::int64_t(1) << 31) - 1;

bool counts(const Shape& s) {
  return s.is_array() && (s.dtype == DType::s32 || s.dtype == DType::u32 || s.dtype == DType::s64 ||
                          s.dtype == DType::u64);
}

std::optional<std::vector<std::int64_t>> elements(const Literal& x) {
  const std::int64_t n = x.element_count();
  if (n > kMaxElements) return std::nullopt;
  std::vector<std::int64_t> out;
  auto read = [&](auto zero) {
    for (const auto v : x.data<decltype(zero)>()) out.push_back(std::int64_t(v));
  };
  switch (x.dtype()) {
    case DType::s32:
      read(std::int32_t{});
      break;
    case DType::u32:
      read(std::uint32_t{});
      break;
    case DType::s64:
      read(std::int64_t{});
      break;
    case DType::u64:
      read(std::uint64_t{});
      break;
    default:
      return std::nullopt;
  }
  return out;
}

std::optional<std::int64_t> apply(Opcode op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case Opcode::add:
      return a + b;
    case Opcode::subtract:
      return a - b;
    case Opcode::multiply:
      return a * b;
    case Opcode::divide:
      return b == 0 ? std::optional<std::int64_t>() : a / b;
    case Opcode::remainder:
      return b == 0 ? std::optional<std::int64_t>() : a % b;
    case Opcode::maximum:
      return std::max(a, b);
    case Opcode::minimum:
      return std::min(a, b);
    default:
      return std::nullopt;
  }
}

}  // namespace

const std::vector<std::int64_t>* PartitionIdConstants::scalar(const Instruction* i) {
  if (!counts(i->shape) || i->shape.element_count() != 1) return nullptr;
  if (auto it = scalars_.find(i); it != scalars_.end()) return &it->second;
  const Known& k = known(i, 0);
  if (k.rows == 0) return nullptr;
  std::vector<std::int64_t>& out = scalars_[i];
  out = k.values;
  if (k.rows == 1) out.assign(std::size_t(devices_), k.values[0]);
  return &out;
}

const PartitionIdConstants::Known& PartitionIdConstants::known(const Instruction* i, int depth) {
  static const Known unknown;
  if (auto it = memo_.find(i); it != memo_.end()) return it->second;
  if (depth > kDeepest) return unknown;
  Known k = counts(i->shape) ? compute(*i, depth) : Known();
  for (const std::int64_t v : k.values) {
    if (v < -kLargestConstant || v > kLargestConstant ||
        (v < 0 && !is_signed_integer(i->shape.dtype))) {
      return memo_[i] = Known();
    }
  }
  return memo_[i] = std::move(k);
}

PartitionIdConstants::Known PartitionIdConstants::compute(const Instruction& i, int depth) {
  // `f` appends a row to `values`.
  auto each = [&](std::initializer_list<const Known*> of, auto&& f) {
    Known out;
    std::size_t n = 1;
    for (const Known* k : of) {
      if (k->rows == 0) return Known();
      n = std::max(n, k->rows);
    }
    out.rows = n;
    out.width = std::size_t(i.shape.element_count());
    out.values.reserve(n * out.width);
    for (std::size_t d = 0; d < n; ++d) {
      if (!f(d, &out.values)) return Known();
    }
    return out;
  };
  switch (i.opcode) {
    case Opcode::constant: {
      if (i.get<ir::ConstantAttrs>().elided) return {};
      auto values = elements(i.get<ir::ConstantAttrs>().value);
      if (!values) return {};
      const std::size_t width = values->size();
      return {1, width, std::move(*values)};
    }
    case Opcode::partition_id: {
      Known out;
      out.rows = std::size_t(devices_);
      out.width = 1;
      out.values.resize(out.rows);
      std::iota(out.values.begin(), out.values.end(), std::int64_t(0));
      return out;
    }
    case Opcode::convert:
    case Opcode::copy:
    case Opcode::reshape:
      return known(i.operand(0), depth + 1);
    case Opcode::slice: {
      const auto& a = i.get<ir::SliceAttrs>();
      if (i.shape.rank() != 1) return {};
      const Known& x = known(i.operand(0), depth + 1);
      return each({&x}, [&](std::size_t d, std::vector<std::int64_t>* out) {
        const auto step = a.strides.empty() ? 1 : a.strides[0];
        for (std::int64_t k = a.starts[0]; k < a.limits[0]; k += step) {
          out->push_back(x.row(d)[std::size_t(k)]);
        }
        return true;
      });
    }
    case Opcode::dynamic_slice: {
      if (i.shape.rank() != 1) return {};
      const std::int64_t size = i.shape.dim(0), all = i.operand(0)->shape.dim(0);
      // What is known stays where it is.
      const Known& x = known(i.operand(0), depth + 1);
      const Known& start = known(i.operand(1), depth + 1);
      return each({&x, &start}, [&](std::size_t d, std::vector<std::int64_t>* out) {
        const std::int64_t s = std::clamp<std::int64_t>(start.row(d)[0], 0, all - size);
        const auto from = x.row(d).subspan(std::size_t(s), std::size_t(size));
        out->insert(out->end(), from.begin(), from.end());
        return true;
      });
    }
    case Opcode::add:
    case Opcode::subtract:
    case Opcode::multiply:
    case Opcode::divide:
    case Opcode::remainder:
    case Opcode::maximum:
    case Opcode::minimum: {
      const Known& a = known(i.operand(0), depth + 1);
      const Known& b = known(i.operand(1), depth + 1);
      return each({&a, &b}, [&](std::size_t d, std::vector<std::int64_t>* out) {
        for (std::size_t k = 0; k < a.width; ++k) {
          const auto v = apply(i.opcode, a.row(d)[k], b.row(d)[k]);
          if (!v) return false;
          out->push_back(*v);
        }
        return true;
      });
    }
    default:
      return {};
  }
}

}  // namespace tessera::spmd
