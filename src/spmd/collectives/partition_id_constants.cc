// SPDX-License-Identifier: Apache-2.0
// Evaluates integer expressions of partition-id for each device.
#include "src/spmd/collectives/partition_id_constants.h"

#include <algorithm>
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
  if (k.values.empty()) return nullptr;
  std::vector<std::int64_t>& out = scalars_[i];
  for (std::int64_t d = 0; d < devices_; ++d) {
    out.push_back(k.values[k.values.size() == 1 ? 0 : std::size_t(d)][0]);
  }
  return &out;
}

const PartitionIdConstants::Known& PartitionIdConstants::known(const Instruction* i, int depth) {
  static const Known unknown;
  if (auto it = memo_.find(i); it != memo_.end()) return it->second;
  if (depth > kDeepest) return unknown;
  Known k = counts(i->shape) ? compute(*i, depth) : Known();
  for (const auto& values : k.values) {
    for (const std::int64_t v : values) {
      if (v < -kLargestConstant || v > kLargestConstant ||
          (v < 0 && !is_signed_integer(i->shape.dtype))) {
        return memo_[i] = Known();
      }
    }
  }
  return memo_[i] = std::move(k);
}

PartitionIdConstants::Known PartitionIdConstants::compute(const Instruction& i, int depth) {
  auto each = [&](std::initializer_list<const Known*> of, auto&& f) {
    Known out;
    std::size_t n = 1;
    for (const Known* k : of) {
      if (k->values.empty()) return Known();
      n = std::max(n, k->values.size());
    }
    for (std::size_t d = 0; d < n; ++d) {
      std::optional<std::vector<std::int64_t>> v = f(d);
      if (!v) return Known();
      out.values.push_back(std::move(*v));
    }
    return out;
  };
  auto at = [](const Known& k, std::size_t d) -> const std::vector<std::int64_t>& {
    return k.values[k.values.size() == 1 ? 0 : d];
  };
  switch (i.opcode) {
    case Opcode::constant: {
      if (i.get<ir::ConstantAttrs>().elided) return {};
      auto values = elements(i.get<ir::ConstantAttrs>().value);
      return values ? Known{{std::move(*values)}} : Known();
    }
    case Opcode::partition_id: {
      Known out;
      for (std::int64_t d = 0; d < devices_; ++d) out.values.push_back({d});
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
      return each({&x}, [&](std::size_t d) {
        std::vector<std::int64_t> out;
        const auto step = a.strides.empty() ? 1 : a.strides[0];
        for (std::int64_t k = a.starts[0]; k < a.limits[0]; k += step) {
          out.push_back(at(x, d)[std::size_t(k)]);
        }
        return std::optional(out);
      });
    }
    case Opcode::dynamic_slice: {
      if (i.shape.rank() != 1) return {};
      const std::int64_t size = i.shape.dim(0), all = i.operand(0)->shape.dim(0);
      const Known x = known(i.operand(0), depth + 1);
      const Known start = known(i.operand(1), depth + 1);
      return each({&x, &start}, [&](std::size_t d) {
        const std::int64_t s = std::clamp<std::int64_t>(at(start, d)[0], 0, all - size);
        const auto& from = at(x, d);
        return std::optional(std::vector<std::int64_t>(from.begin() + s, from.begin() + s + size));
      });
    }
    case Opcode::add:
    case Opcode::subtract:
    case Opcode::multiply:
    case Opcode::divide:
    case Opcode::remainder:
    case Opcode::maximum:
    case Opcode::minimum: {
      const Known a = known(i.operand(0), depth + 1);
      const Known b = known(i.operand(1), depth + 1);
      return each({&a, &b}, [&](std::size_t d) -> std::optional<std::vector<std::int64_t>> {
        std::vector<std::int64_t> out;
        for (std::size_t k = 0; k < at(a, d).size(); ++k) {
          const auto v = apply(i.opcode, at(a, d)[k], at(b, d)[k]);
          if (!v) return std::nullopt;
          out.push_back(*v);
        }
        return out;
      });
    }
    default:
      return {};
  }
}

}  // namespace tessera::spmd
