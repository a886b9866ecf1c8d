// SPDX-License-Identifier: Apache-2.0
// Random elementwise operations of all types and odd shapes: kernels against the evaluator. Each
// failure prints the seed and the program.
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

bool is_real_op(Opcode op) {
  return op == Opcode::atan2 || op == Opcode::remainder || op == Opcode::maximum ||
         op == Opcode::minimum;
}

TEST(RandomElementwise, Unary) {
  const std::vector<Opcode> floats = {
      Opcode::abs,    Opcode::acosh, Opcode::asin,        Opcode::asinh,
      Opcode::atanh,  Opcode::cbrt,  Opcode::ceil,        Opcode::cosine,
      Opcode::cosh,   Opcode::erf,   Opcode::exponential, Opcode::exponential_minus_one,
      Opcode::floor,  Opcode::log,   Opcode::is_finite,   Opcode::log_plus_one,
      Opcode::negate, Opcode::rsqrt, Opcode::logistic,    Opcode::round_nearest_afz,
      Opcode::sign,   Opcode::sine,  Opcode::sqrt,        Opcode::round_nearest_even,
      Opcode::tan,    Opcode::tanh,  Opcode::acos,        Opcode::sinh};
  const std::vector<Opcode> integers = {Opcode::abs,  Opcode::negate, Opcode::not_,
                                        Opcode::sign, Opcode::popcnt, Opcode::count_leading_zeros};
  const std::vector<Opcode> complexes = {
      Opcode::abs,  Opcode::exponential, Opcode::log,  Opcode::negate, Opcode::real,  Opcode::imag,
      Opcode::sine, Opcode::sqrt,        Opcode::tanh, Opcode::sign,   Opcode::cosine};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    const Opcode op = is_floating(t)     ? r.pick(floats)
                      : is_complex(t)    ? r.pick(complexes)
                      : t == DType::pred ? Opcode::not_
                                         : r.pick(integers);
    if (op == Opcode::abs && is_unsigned_integer(t)) continue;
    Program p;
    p.check(p.b.unary(op, p.argument(r.literal(t, r.dims(r.below(4)), !is_complex(t)))), seed, 4);
  }
}

TEST(RandomElementwise, Binary) {
  const std::vector<Opcode> floats = {Opcode::add,    Opcode::subtract, Opcode::multiply,
                                      Opcode::divide, Opcode::maximum,  Opcode::minimum,
                                      Opcode::power,  Opcode::atan2,    Opcode::remainder};
  const std::vector<Opcode> integers = {Opcode::add,
                                        Opcode::subtract,
                                        Opcode::multiply,
                                        Opcode::divide,
                                        Opcode::remainder,
                                        Opcode::maximum,
                                        Opcode::minimum,
                                        Opcode::power,
                                        Opcode::and_,
                                        Opcode::or_,
                                        Opcode::xor_,
                                        Opcode::shift_left,
                                        Opcode::shift_right_arithmetic,
                                        Opcode::shift_right_logical};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    const std::vector<Opcode> bits = {Opcode::and_, Opcode::or_, Opcode::xor_};
    Opcode op = is_integer(t) ? r.pick(integers) : t == DType::pred ? r.pick(bits) : r.pick(floats);
    if (is_complex(t) && (is_real_op(op) || op == Opcode::power)) op = Opcode::multiply;
    Program p;
    const Dims dims = r.dims(r.below(4));
    const bool special = !is_complex(t);
    Instruction* a = p.argument(r.literal(t, dims, special));
    Instruction* b = r.chance(0.2) ? p.b.splat(p.argument(r.literal(t, {}, special)), dims)
                                   : p.argument(r.literal(t, dims, special));
    if (r.chance(0.3)) std::swap(a, b);
    p.check(p.b.binary(op, a, b), seed, 4);
  }
}

TEST(RandomElementwise, CompareSelectClampConvert) {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    const DType t = r.pick(kTypes);
    Program p;
    const Dims dims = r.dims(r.below(4));
    Instruction* a = p.argument(r.literal(t, dims, true));
    switch (r.below(4)) {
      case 0: {
        auto d = ir::Direction(r.below(6));
        if (is_complex(t)) d = ir::Direction(r.below(2));
        const auto type = is_floating(t) && r.chance(0.5) ? ir::ComparisonType::total_order
                                                          : ir::ComparisonType::by_dtype;
        p.check(p.b.compare(d, a, p.argument(r.literal(t, dims, true)), type), seed);
        break;
      }
      case 1: {
        Instruction* c = p.argument(r.literal(DType::pred, r.chance(0.2) ? Dims{} : dims));
        p.check(p.b.select(c, a, p.argument(r.literal(t, dims, true))), seed);
        break;
      }
      case 2: {
        if (is_complex(t) || t == DType::pred) break;
        const Dims small = r.chance(0.5) ? Dims{} : dims;
        Instruction* low = p.argument(r.literal(t, small));
        p.check(p.b.emit(Opcode::clamp, {low, a, p.argument(r.literal(t, small))}), seed);
        break;
      }
      default: {
        const DType to = r.pick(kTypes);
        if (!is_complex(t) || is_complex(to)) p.check(p.b.convert(a, to), seed);
      }
    }
  }
}

TEST(RandomElementwise, ChainsOfElementwiseOpsInOneLoop) {
  const std::vector<Opcode> unary = {Opcode::negate, Opcode::abs, Opcode::sign, Opcode::floor};
  const std::vector<Opcode> binary = {Opcode::add, Opcode::subtract, Opcode::multiply,
                                      Opcode::maximum, Opcode::minimum};
  const std::vector<DType> types = {DType::f32, DType::f64, DType::bf16, DType::f16};
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    Random r(seed);
    Program p;
    const DType t = r.pick(types);
    const Dims dims = r.chance(0.1) ? Dims{3000} : r.dims(r.below(4));
    std::vector<Instruction*> values{p.argument(r.literal(t, dims))};
    for (int k = 0; k < 12; ++k) {
      Instruction* a = r.pick(values);
      switch (r.below(6)) {
        case 0:
          values.push_back(p.b.unary(r.pick(unary), a));
          break;
        case 1:
          values.push_back(p.b.splat(p.argument(r.literal(t, {})), dims));
          break;
        case 2:
          values.push_back(
              p.b.select(p.b.compare(ir::Direction::lt, a, r.pick(values)), a, r.pick(values)));
          break;
        case 3:
          if (!dims.empty()) {
            const auto d = std::size_t(r.below(std::int64_t(dims.size())));
            values.push_back(
                p.b.broadcast(p.argument(r.literal(t, {dims[d]})), dims, {std::int64_t(d)}));
            break;
          }
          [[fallthrough]];
        default:
          values.push_back(p.b.binary(r.pick(binary), a, r.pick(values)));
      }
    }
    // Each op is rounded to its type, so that fused loops give the same bits.
    p.check(p.b.tuple({values.back(), r.pick(values)}), seed, 0);
  }
}

}  // namespace
}  // namespace tessera::testing
