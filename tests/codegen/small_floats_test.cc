// SPDX-License-Identifier: Apache-2.0
// Floats of a byte in kernels: all codes, all places where rounding turns, and computing with them.
#include <cmath>
#include <cstring>

#include "src/base/arrays/small_floats.h"
#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

const std::vector<DType> kSmall = {DType::f4e2m1fn,   DType::f6e2m3fn,   DType::f6e3m2fn,
                                   DType::f8e3m4,     DType::f8e4m3,     DType::f8e4m3b11fnuz,
                                   DType::f8e4m3fn,   DType::f8e4m3fnuz, DType::f8e5m2,
                                   DType::f8e5m2fnuz, DType::f8e8m0fnu};

/// Compiled, and by block functions.
class SmallFloats : public ::testing::TestWithParam<const char*> {
 protected:
  const WithVariable jit_{"TESSERA_JIT", GetParam()};
};

Literal all_codes(DType t) {
  Literal out(Shape(t, {std::int64_t(1) << small_float_width(t)}));
  for (std::size_t n = 0; n < out.byte_count(); ++n) out.mutable_bytes()[n] = std::byte(n);
  return out;
}

/// Numbers of the type, what is halfway between two, and what is next to these.
std::vector<float> turning_points(DType t) {
  std::vector<float> numbers = {0, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1e-45f, -1e-45f, 3e38f};
  const int codes = 1 << small_float_width(t);
  for (int n = 0; n < codes; ++n) {
    const double v = small_float_value(t, std::uint8_t(n));
    const double next = small_float_value(t, std::uint8_t(n + 1 < codes ? n + 1 : n));
    for (const double of : {v, (v + next) / 2, v * 1.5, 2 * v}) {
      const auto f = float(of);
      for (const float x : {f, std::nextafter(f, INFINITY), std::nextafter(f, -INFINITY)}) {
        numbers.push_back(x);
      }
    }
  }
  return numbers;
}

TEST_P(SmallFloats, AreTheNumbersThatTheirCodesMean) {
  for (const DType t : kSmall) {
    SCOPED_TRACE(name(t));
    Program p;
    const Literal codes = all_codes(t);
    p.entry->set_root(p.b.convert(p.argument(codes), DType::f32));
    const Literal got = run_module(p.module, p.arguments)[0];
    for (std::size_t n = 0; n < codes.byte_count(); ++n) {
      const auto want = float(small_float_value(t, std::uint8_t(n)));
      const float is = got.data<float>()[n];
      EXPECT_TRUE(std::isnan(want) ? std::isnan(is)
                                   : is == want && std::signbit(is) == std::signbit(want))
          << n << ": " << is << ", not " << want;
    }
  }
}

TEST_P(SmallFloats, AreRoundedToTheNearest) {
  for (const DType t : kSmall) {
    SCOPED_TRACE(name(t));
    Random r(std::uint64_t(t) + 1);
    std::vector<float> numbers = turning_points(t);
    for (int n = 0; n < 4000; ++n) {
      const auto bits = std::uint32_t(r.below(std::int64_t(1) << 32));
      numbers.push_back(0);
      std::memcpy(&numbers.back(), &bits, sizeof bits);
    }
    Literal x(Shape(DType::f32, {std::int64_t(numbers.size())}));
    std::copy(numbers.begin(), numbers.end(), x.mutable_data<float>().begin());
    Program p;
    p.entry->set_root(p.b.convert(p.argument(x), t));
    const Literal got = run_module(p.module, p.arguments)[0];
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const std::uint8_t want = small_float_bits(t, double(numbers[n]));
      ASSERT_EQ(int(got.bytes()[n]), int(want)) << numbers[n];
    }
  }
}

TEST_P(SmallFloats, AreComputedWith) {
  const std::vector<Opcode> unary = {Opcode::negate, Opcode::abs, Opcode::sqrt, Opcode::floor,
                                     Opcode::sign},
                            binary = {Opcode::add,    Opcode::subtract, Opcode::multiply,
                                      Opcode::divide, Opcode::maximum,  Opcode::minimum};
  for (std::uint64_t seed = 0; seed < 66; ++seed) {
    Random r(seed);
    const DType t = kSmall[std::size_t(seed) % kSmall.size()];
    const Dims dims = {1 + r.below(300)};
    Program p;
    std::vector<Instruction*> made;
    for (int n = 0; n < 2; ++n) {
      Literal x(Shape(t, dims));
      for (std::size_t k = 0; k < x.byte_count(); ++k) {
        x.mutable_bytes()[k] = std::byte(r.below(1 << small_float_width(t)));
      }
      made.push_back(p.argument(std::move(x)));
    }
    made.push_back(p.b.iota(Shape(t, dims), 0));
    for (int n = 0; n < 6; ++n) {
      Instruction *x = r.pick(made), *y = r.pick(made);
      const auto what = r.below(10);
      made.push_back(what < 3   ? p.b.unary(r.pick(unary), x)
                     : what < 8 ? p.b.binary(r.pick(binary), x, y)
                     : what < 9 ? p.b.select(p.b.compare(ir::Direction::lt, x, y), x, y)
                                : p.b.convert(p.b.convert(x, DType::bf16), t));
    }
    std::vector<Instruction*> out;
    for (const std::size_t k : {3, 5, 8}) out.push_back(p.b.convert(made[k], DType::f32));
    out.push_back(p.b.convert(made[6], DType::s32));
    p.check(p.b.tuple(std::move(out)), seed);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SmallFloats, ::testing::Values("always", "off"));

}  // namespace
}  // namespace tessera::testing
