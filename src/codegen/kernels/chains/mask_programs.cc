// SPDX-License-Identifier: Apache-2.0
// Looks into loops for what masks are made of.
#include "src/codegen/kernels/chains/mask_programs.h"

#include <cstring>
#include <map>
#include <set>

#include "src/codegen/kernels/kernel_key.h"

namespace tessera::codegen {
namespace {

/// Masks are a few operations.
constexpr std::size_t kLongestText = 4096;

}  // namespace

bool same_in_row(const LoopExpr::Register& r, std::int64_t row) {
  if (r.window || row == 0) return false;
  std::int64_t inner = 1;
  for (std::size_t d = r.dims.size(); d-- > 0 && inner < row;) {
    if (r.dims[d] != 1 && r.strides[d] != 0) return false;
    inner *= r.dims[d];
  }
  return inner % row == 0;
}

std::int64_t period_of(const LoopExpr::Register& r, std::int64_t row) {
  if (r.kind != LoopExpr::Kind::broadcast || r.window || !r.starts.empty() || r.offset != 0)
    return 0;
  std::int64_t inner = 1;
  std::size_t d = r.dims.size();
  while (d > 0 && (r.dims[d - 1] == 1 || r.strides[d - 1] == inner)) inner *= r.dims[--d];
  while (d > 0 && (r.dims[d - 1] == 1 || r.strides[d - 1] == 0)) --d;
  return d == 0 && inner % row == 0 ? inner / row : 0;
}

int without_true(const LoopExpr& loop, int predicate) {
  for (std::size_t k = loop.ops.size(); k-- > 0;) {
    const LoopExpr::Op& op = loop.ops[k];
    if (op.out != predicate || op.op.kind != BlockOp::Kind::binary ||
        op.op.opcode != ir::Opcode::and_) {
      continue;
    }
    for (std::size_t o = 0; o < 2; ++o) {
      const LoopExpr::Register& r = loop.registers[std::size_t(op.operands[o])];
      if (r.kind == LoopExpr::Kind::constant &&
          loop.constants[std::size_t(r.constant)] == std::byte{1}) {
        predicate = op.operands[1 - o];
        break;
      }
    }
  }
  return predicate;
}

std::shared_ptr<const LoopExpr> program_of_register(const LoopExpr& loop, int wanted, DType type) {
  auto out = std::make_shared<LoopExpr>();
  out->constants = loop.constants;
  std::set<int> needed = {wanted};
  for (std::size_t k = loop.ops.size(); k-- > 0;) {
    if (needed.count(loop.ops[k].out) == 0) continue;
    needed.insert(loop.ops[k].operands.begin(), loop.ops[k].operands.end());
  }
  std::map<int, int> now;
  for (const int r : needed) {
    now[r] = int(out->registers.size());
    out->registers.push_back(loop.registers[std::size_t(r)]);
    LoopExpr::Register& made = out->registers.back();
    if (made.kind == LoopExpr::Kind::output) made.kind = LoopExpr::Kind::temporary;
  }
  for (const LoopExpr::Op& op : loop.ops) {
    if (needed.count(op.out) == 0) continue;
    out->ops.push_back(op);
    out->ops.back().out = now.at(op.out);
    for (int& o : out->ops.back().operands) o = now.at(o);
  }
  LoopExpr::Register result;
  result.kind = LoopExpr::Kind::output;
  result.element_bytes = int(byte_size(type));
  result.dtype = type;
  LoopExpr::Op copy;
  copy.op.kind = BlockOp::Kind::copy;
  copy.op.element_bytes = result.element_bytes;
  copy.op.type = copy.op.to = type;
  copy.operands = {now.at(wanted)};
  copy.out = int(out->registers.size());
  out->registers.push_back(result);
  out->ops.push_back(copy);
  out->nanoseconds = 0.1 * double(out->ops.size());
  return out;
}

std::string text_of(const LoopExpr::Op& o, const std::vector<std::string>& keys) {
  KeyWriter key("op");
  key.add_all(o.op.kind, o.op.opcode, o.op.type, o.op.to, o.op.direction, o.op.comparison,
              o.op.element_bytes, o.op.last, o.op.precision.exponent_bits,
              o.op.precision.mantissa_bits);
  for (const int operand : o.operands) {
    const std::string& of_it = keys[std::size_t(operand)];
    if (of_it.empty()) return {};
    key.add(of_it);
  }
  // What stands for itself twice, over and over, would be long.
  std::string out = key.take();
  return out.size() > kLongestText ? std::string() : out;
}

std::optional<double> constant_of(const LoopExpr& loop, int reg) {
  const LoopExpr::Register& r = loop.registers[std::size_t(reg)];
  float out = 0;
  if (r.kind != LoopExpr::Kind::constant || r.element_bytes != int(sizeof out)) return std::nullopt;
  std::memcpy(&out, loop.constants.data() + r.constant, sizeof out);
  return out;
}

}  // namespace tessera::codegen
