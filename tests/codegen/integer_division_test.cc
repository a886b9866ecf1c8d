// SPDX-License-Identifier: Apache-2.0
// Quotients and remainders of integers by one number, which compiled kernels find without dividing:
// next to all whole quotients, for divisors of any size.
#include <limits>
#include <type_traits>

#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

/// Multiples of `y` that the type has, and what stands beside them.
template <class T>
std::vector<T> numbers_around(Random& r, T y) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> out = {0, 1, Limits::min(), Limits::max(), T(Limits::max() - 1)};
  while (out.size() < 300) {
    const double wide = r.chance(0.5) ? 1 : 1.0 / double(1 + r.below(100000));
    const double most = double(Limits::max()) * wide / std::max(1.0, std::abs(double(y)));
    auto q = std::int64_t(double(r.below(1 << 30)) / double(1 << 30) * most);
    if (std::is_signed_v<T> && r.chance(0.5)) q = -q;
    out.push_back(T(std::uint64_t(q) * std::uint64_t(y) + std::uint64_t(r.below(3) - 1)));
  }
  return out;
}

template <class T>
std::vector<T> divisors(Random& r, std::size_t count) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> out = {0, 1, 2, 3, T(-1), 7, 10, Limits::min(), Limits::max()};
  while (out.size() < count) {
    out.push_back(
        T(r.below(std::int64_t(1) << (1 + r.below(8 * std::int64_t(sizeof(T)) - 2))) + 1));
    if (std::is_signed_v<T> && r.chance(0.4)) out.back() = T(-out.back());
  }
  return out;
}

template <class T>
void check(DType type, bool known) {
  const WithVariable jit("TESSERA_JIT", "always");
  Random r(std::uint64_t(type) + 77);
  for (const T y : divisors<T>(r, known ? 14 : 80)) {
    const std::vector<T> x = numbers_around<T>(r, y);
    const Dims dims = {std::int64_t(x.size())};
    Literal numbers(Shape(type, dims)), divisor(Shape(type, {}));
    std::copy(x.begin(), x.end(), numbers.mutable_data<T>().begin());
    divisor.mutable_data<T>()[0] = y;
    Program p;
    Instruction* of = p.argument(numbers);
    Instruction* by =
        p.b.broadcast(known ? p.b.constant(divisor) : p.argument(divisor), dims, Dims());
    Instruction* q = p.b.binary(Opcode::divide, of, by);
    p.check(p.b.tuple({q, p.b.binary(Opcode::remainder, of, by)}), 0);
    if (::testing::Test::HasFailure()) FAIL() << "by " << std::to_string(y);
  }
}

template <class T>
class IntegerDivision : public ::testing::Test {};
using Types = ::testing::Types<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                               std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(IntegerDivision, Types);

TYPED_TEST(IntegerDivision, ByANumberThatIsGiven) {
  check<TypeParam>(dtype_of<TypeParam>(), false);
}
TYPED_TEST(IntegerDivision, ByANumberThatIsKnown) { check<TypeParam>(dtype_of<TypeParam>(), true); }

}  // namespace
}  // namespace tessera::testing
