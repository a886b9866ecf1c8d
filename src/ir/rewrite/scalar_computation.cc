// SPDX-License-Identifier: Apache-2.0
// Computations on two scalars: making them, recognising them, their neutral elements.
#include <limits>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/small_floats.h"
#include "src/ir/rewrite/builder.h"

namespace tessera::ir {
namespace {

// c is (a, b) -> op(a, b), in that order, and nothing else.
bool is_plain(const Computation& c, Opcode op, DType dtype) {
  if (c.instructions().size() != 3 || c.parameters().size() != 2 || c.root() == nullptr) {
    return false;
  }
  const Instruction& root = *c.root();
  const Shape scalar(dtype, {});
  return root.opcode == op && root.operands().size() == 2 && root.operands()[0] == c.parameter(0) &&
         root.operands()[1] == c.parameter(1) && c.parameter(0)->shape == scalar &&
         c.parameter(1)->shape == scalar && !root.has_sharding();
}

template <class T>
Literal extreme(DType dtype, bool greatest) {
  T v{};
  if constexpr (std::is_same_v<T, Pred>) {
    v = Pred(greatest);
  } else if constexpr (is_small_float_v<T> || std::is_floating_point_v<T>) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    v = T(greatest ? kInfinity : -kInfinity);
  } else if constexpr (std::is_integral_v<T>) {
    int bits = int(sizeof(T)) * 8;
    if (dtype == DType::s1 || dtype == DType::u1) bits = 1;
    if (dtype == DType::s2 || dtype == DType::u2) bits = 2;
    if (dtype == DType::s4 || dtype == DType::u4) bits = 4;
    int drop = int(sizeof(T)) * 8 - bits;
    v = T((greatest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min()) >> drop);
  }
  return Literal::scalar(dtype, v);
}

/// Some have neither infinities nor a zero.
std::optional<Literal> small_identity(Opcode op, DType dtype) {
  if (op == Opcode::multiply) return small_float_scalar(dtype, 1);
  if (op == Opcode::add && dtype != DType::f8e8m0fnu) return small_float_scalar(dtype, 0);
  if (op != Opcode::maximum && op != Opcode::minimum) return std::nullopt;
  double least = 1, greatest = 1;
  for (int code = 0; code < 1 << small_float_width(dtype); ++code) {
    const double value = small_float_value(dtype, std::uint8_t(code));
    if (value < least) least = value;
    if (value > greatest) greatest = value;
  }
  return small_float_scalar(dtype, op == Opcode::minimum ? greatest : least);
}

}  // namespace

Computation* scalar_computation(Module* module, Opcode op, DType dtype) {
  for (const auto& c : module->computations()) {
    if (c.get() != module->entry() && is_plain(*c, op, dtype)) return c.get();
  }
  std::string name(ir::name(op));
  Computation* c = module->add_computation(name + "_" + std::string(tessera::name(dtype)));
  Builder b(c);
  Instruction* lhs = b.parameter(0, Shape(dtype, {}), "a");
  Instruction* rhs = b.parameter(1, Shape(dtype, {}), "b");
  c->set_root(b.binary(op, lhs, rhs));
  return c;
}

std::optional<Opcode> as_binary_reducer(const Computation& c) {
  if (c.parameters().size() != 2 || c.root() == nullptr) return std::nullopt;
  const Instruction& root = *c.root();
  if (!is_commutative(root.opcode) || root.operands().size() != 2) return std::nullopt;
  const Instruction *a = c.parameter(0), *b = c.parameter(1);
  const Instruction *x = root.operands()[0], *y = root.operands()[1];
  bool both = (x == a && y == b) || (x == b && y == a);
  if (!both || a == nullptr || b == nullptr || !a->shape.is_scalar() || !b->shape.is_scalar()) {
    return std::nullopt;
  }
  return root.opcode;
}

std::optional<Literal> identity_of(Opcode op, DType dtype) {
  if (dtype == DType::token) return std::nullopt;
  if (is_small_float(dtype)) return small_identity(op, dtype);
  switch (op) {
    case Opcode::add:
      return Literal::scalar(dtype, 0);
    case Opcode::multiply:
      return Literal::scalar(dtype, 1);
    case Opcode::maximum:
    case Opcode::minimum:
      if (is_complex(dtype)) return std::nullopt;
      return dispatch_dtype(dtype, [&](auto tag) {
        return extreme<typename decltype(tag)::type>(dtype, op == Opcode::minimum);
      });
    case Opcode::and_:
      if (dtype == DType::pred) return Literal::scalar(dtype, true);
      if (!is_integer(dtype)) return std::nullopt;
      // All bits set: -1 wraps to the greatest value of unsigned types.
      return Literal::scalar(dtype, std::int64_t(-1));
    case Opcode::or_:
    case Opcode::xor_:
      if (dtype != DType::pred && !is_integer(dtype)) return std::nullopt;
      return Literal::scalar(dtype, 0);
    default:
      return std::nullopt;
  }
}

Literal neutral_of(Opcode op, DType dtype) {
  const bool has_sign = is_complex(dtype) || (is_floating(dtype) && byte_size(dtype) > 1);
  if (op != Opcode::add || !has_sign) return *identity_of(op, dtype);
  return is_complex(dtype) ? Literal::scalar(dtype, std::complex<double>(-0.0, -0.0))
                           : Literal::scalar(dtype, -0.0);
}

}  // namespace tessera::ir
