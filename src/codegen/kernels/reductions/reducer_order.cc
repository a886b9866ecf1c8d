// SPDX-License-Identifier: Apache-2.0
// Finds by cases whether a reducer is associative and commutative.
#include "src/codegen/kernels/reductions/reducer_order.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/loops/fused_loop.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;

/// An op whose result depends on how its operands compare, and is made of them.
bool only_compares(const BlockOp& op) {
  switch (op.kind) {
    case BlockOp::Kind::compare:
      return op.comparison != ir::ComparisonType::total_order;
    case BlockOp::Kind::select:
    case BlockOp::Kind::copy:
    case BlockOp::Kind::lift:
    case BlockOp::Kind::round:
      return true;
    case BlockOp::Kind::binary:
      return op.opcode == Opcode::maximum || op.opcode == Opcode::minimum ||
             (op.type == DType::pred &&
              (op.opcode == Opcode::and_ || op.opcode == Opcode::or_ || op.opcode == Opcode::xor_));
    case BlockOp::Kind::unary:
      return op.type == DType::pred && op.opcode == Opcode::not_;
    default:
      return false;
  }
}

/// Tuples of elements, array by array.
class Tuples {
 public:
  explicit Tuples(const std::vector<std::size_t>& sizes) : sizes_(sizes), data_(sizes.size()) {}
  void add(std::size_t k, const std::byte* element) {
    data_[k].insert(data_[k].end(), element, element + sizes_[k]);
  }
  /// Tuple `n` of another list.
  void add(const Tuples& from, std::size_t n) {
    for (std::size_t k = 0; k < sizes_.size(); ++k) {
      add(k, from.data_[k].data() + n * sizes_[k]);
    }
  }
  std::size_t count() const { return data_[0].size() / sizes_[0]; }
  /// The reducer on each of these and of `other`.
  Tuples combined(const FusedLoop& reducer, const Tuples& other) const {
    Tuples out(sizes_);
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const Tuples* side : {this, &other}) {
      for (const auto& d : side->data_) inputs.push_back(d.data());
    }
    for (std::size_t k = 0; k < sizes_.size(); ++k) {
      out.data_[k].resize(data_[k].size());
      outputs.push_back(out.data_[k].data());
    }
    reducer.run(inputs.data(), outputs.data(), 0, std::int64_t(count()));
    return out;
  }
  friend bool operator==(const Tuples& a, const Tuples& b) { return a.data_ == b.data_; }

 private:
  std::vector<std::size_t> sizes_;
  std::vector<std::vector<std::byte>> data_;
};

}  // namespace

bool combines_in_any_order(const LoopExpr& reducer, const std::vector<DType>& types) {
  if (types.empty() || types.size() > 2) return false;
  for (const LoopExpr::Register& r : reducer.registers) {
    // What is compared with a number of its own knows more than an order.
    if (r.scalar() || r.generated()) return false;
  }
  for (const LoopExpr::Op& op : reducer.ops) {
    if (!only_compares(op.op)) return false;
  }
  // Three tuples have at most so many different elements that can be compared with each other.
  const int different = types.size() == 2 && types[0] == types[1] ? 6 : 3;
  std::vector<std::size_t> sizes;
  std::vector<std::vector<Literal>> cases;
  for (const DType t : types) {
    const bool wide = is_floating(t) ? byte_size(t) >= 2 : !is_complex(t);
    if (!wide) return false;
    sizes.push_back(byte_size(t));
    std::vector<Literal> elements;
    const int count = t == DType::pred ? 2 : different;
    for (int n = 0; n < count; ++n) elements.push_back(Literal::scalar(t, n));
    cases.push_back(std::move(elements));
  }
  Tuples all(sizes);
  for (const Literal& first : cases[0]) {
    for (std::size_t n = 0; n < (types.size() == 2 ? cases[1].size() : 1); ++n) {
      all.add(0, first.bytes());
      if (types.size() == 2) all.add(1, cases[1][n].bytes());
    }
  }
  const FusedLoop loop(reducer);
  Tuples a(sizes), b(sizes), c(sizes);
  for (std::size_t x = 0; x < all.count(); ++x) {
    for (std::size_t y = 0; y < all.count(); ++y) {
      a.add(all, x);
      b.add(all, y);
    }
  }
  if (!(a.combined(loop, b) == b.combined(loop, a))) return false;
  Tuples aa(sizes), bb(sizes);
  for (std::size_t xy = 0; xy < a.count(); ++xy) {
    for (std::size_t z = 0; z < all.count(); ++z) {
      aa.add(a, xy);
      bb.add(b, xy);
      c.add(all, z);
    }
  }
  return aa.combined(loop, bb).combined(loop, c) == aa.combined(loop, bb.combined(loop, c));
}

}  // namespace tessera::codegen
