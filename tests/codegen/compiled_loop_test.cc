// SPDX-License-Identifier: Apache-2.0
// Compiled loops against interpreted ones: every op on every type, and every kind of read.
#include "src/codegen/kernels/loops/fused_loop.h"

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/kernels/code/kernel_compiler.h"
#include "tests/codegen/program_of_op.h"
#include "tests/support/with_variable.h"

namespace tessera::codegen {
namespace {

using ir::Opcode;
using testing::WithVariable;

constexpr std::int64_t kElements = 2000 + 13;

/// Numbers of all sizes, and the special ones.
template <class T>
std::vector<T> samples(std::mt19937_64& random, bool small) {
  std::vector<T> out(static_cast<std::size_t>(kElements));
  if constexpr (std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    const T special[] = {
        T(0),           -T(0),          T(1),     T(-1),           L::infinity(),
        -L::infinity(), L::quiet_NaN(), L::min(), L::denorm_min(), -L::denorm_min(),
        L::max(),       L::lowest(),    T(0.5),   T(2.5),          T(-2.5),
        T(1.5),         T(255),         T(256),   T(-129),         T(3e9),
        T(-3e9),        T(1e19)};
    std::normal_distribution<double> normal(0, 2);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t k = random() % 4;
      if (k == 0) {
        out[i] = special[random() % std::size(special)];
      } else if (k == 1 && !small) {
        out[i] = T(normal(random) * std::pow(10.0, double(random() % 60) - 30));
      } else {
        out[i] = T(normal(random));
      }
    }
  } else {
    for (T& v : out) v = T(random() % 3 == 0 ? random() % 5 - 2 : random());
  }
  return out;
}

std::vector<std::byte> random_bytes(DType t, std::mt19937_64& random, bool small, bool special) {
  std::vector<std::byte> out;
  const auto put = [&](const auto& values) {
    const auto* from = reinterpret_cast<const std::byte*>(values.data());
    out.insert(out.end(), from, from + values.size() * sizeof values[0]);
  };
  switch (t) {
    case DType::pred: {
      std::vector<std::uint8_t> values(std::size_t(kElements), 0);
      for (auto& v : values) v = random() & 1;
      put(values);
      break;
    }
    case DType::f32:
      put(samples<float>(random, small));
      break;
    case DType::f64:
      put(samples<double>(random, small));
      break;
    case DType::c64:
    case DType::c128: {
      std::normal_distribution<double> normal(0, 2);
      const double infinity = std::numeric_limits<double>::infinity();
      const double large = t == DType::c64 ? 1e38 : 1e308;
      for (std::int64_t i = 0; i < 2 * kElements; ++i) {
        double part = normal(random);
        if (special && random() % 16 == 0) {
          const double numbers[] = {0.0,   -0.0, infinity, -infinity, std::nan(""),
                                    large, 1e-3, 1e3,      30,        -30};
          part = numbers[random() % std::size(numbers)];
        }
        if (t == DType::c64) {
          put(std::vector<float>{float(part)});
        } else {
          put(std::vector<double>{part});
        }
      }
      break;
    }
    case DType::f16:
    case DType::bf16: {
      std::vector<std::uint16_t> values;
      for (const float v : samples<float>(random, small)) {
        values.push_back(t == DType::f16 ? Half(v).bits : BFloat16(v).bits);
      }
      put(values);
      break;
    }
    default: {
      const auto n = std::size_t(kElements) * byte_size(t);
      for (std::size_t i = 0; i < n; ++i) {
        // Divisors near zero, and small ones.
        out.push_back(std::byte(random() % 3 == 0 ? 0 : random() % 3 == 0 ? 255 : random()));
      }
    }
  }
  return out;
}

std::vector<std::byte> run(const FusedLoop& loop, const std::vector<std::vector<std::byte>>& inputs,
                           std::int64_t begin, std::int64_t end, std::size_t out_bytes) {
  std::vector<const std::byte*> in;
  for (const auto& i : inputs) in.push_back(i.data());
  std::vector<std::byte> out(std::size_t(kElements) * out_bytes);
  std::byte* to[] = {out.data()};
  loop.run(in.data(), to, begin, end);
  return out;
}

/// How far apart, in units in the last place; 0 of two NaNs.
template <class T>
double ulps(T a, T b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == b) return std::signbit(a) == std::signbit(b) ? 0 : 1e30;
  if (std::isnan(a) || std::isnan(b) || std::isinf(a) != std::isinf(b)) return 1e30;
  const T scale = std::max(std::abs(a), std::abs(b));
  const double unit = double(std::nextafter(scale, std::numeric_limits<T>::infinity()) - scale);
  return std::abs(double(a) - double(b)) / unit;
}

/// In units in the last place of the larger part; infinities and NaNs have to be the same.
template <class T>
double complex_ulps(std::complex<T> a, std::complex<T> b) {
  const auto finite = [](std::complex<T> z) {
    return std::isfinite(z.real()) && std::isfinite(z.imag());
  };
  if (!finite(a) || !finite(b)) {
    const auto same = [](T x, T y) {
      return std::isfinite(x) ? !std::isfinite(y) : ulps(x, y) > 0;
    };
    return same(a.real(), b.real()) || same(a.imag(), b.imag()) ? 1e30 : 0;
  }
  const T scale = std::max({std::abs(a.real()), std::abs(a.imag()), std::abs(b.real()),
                            std::abs(b.imag()), std::numeric_limits<T>::min()});
  const double unit = double(scale - std::nextafter(scale, T(0)));
  const double re = std::abs(double(a.real()) - double(b.real()));
  const double im = std::abs(double(a.imag()) - double(b.imag()));
  return std::max(re, im) / unit;
}

double largest_difference(DType t, const std::vector<std::byte>& a,
                          const std::vector<std::byte>& b) {
  double worst = 0;
  const auto each = [&](auto tag, const auto& difference) {
    using T = decltype(tag);
    for (std::size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
      T x, y;
      std::memcpy(&x, a.data() + i, sizeof x);
      std::memcpy(&y, b.data() + i, sizeof y);
      worst = std::max(worst, difference(x, y));
    }
  };
  const auto real = [](auto x, auto y) { return ulps(x, y); };
  const auto complex = [](auto x, auto y) { return complex_ulps(x, y); };
  if (t == DType::f32) {
    each(float(), real);
  } else if (t == DType::f64) {
    each(double(), real);
  } else if (t == DType::c64) {
    each(std::complex<float>(), complex);
  } else if (t == DType::c128) {
    each(std::complex<double>(), complex);
  } else if (t == DType::f16 || t == DType::bf16) {
    for (std::size_t i = 0; i + 2 <= a.size(); i += 2) {
      std::uint16_t x, y;
      std::memcpy(&x, a.data() + i, 2);
      std::memcpy(&y, b.data() + i, 2);
      const float p = t == DType::f16 ? float(Half::from_bits(x)) : float(BFloat16::from_bits(x));
      const float q = t == DType::f16 ? float(Half::from_bits(y)) : float(BFloat16::from_bits(y));
      if (x != y && !(std::isnan(p) && std::isnan(q))) worst = 1e30;
    }
  } else if (a != b) {
    worst = 1e30;
  }
  return worst;
}

/// Ops whose results may differ from the C library's by some units in the last place.
double tolerance(const BlockOp& op) {
  if (op.kind != BlockOp::Kind::unary && op.kind != BlockOp::Kind::binary) return 0;
  if (is_complex(op.type)) {
    switch (op.opcode) {
      case Opcode::add:
      case Opcode::complex:
      case Opcode::copy:
      case Opcode::imag:
      case Opcode::multiply:
      case Opcode::negate:
      case Opcode::real:
      case Opcode::subtract:
        return 0;
      case Opcode::logistic:  // near its poles
      case Opcode::power:
        return 100;
      default:
        return 8;
    }
  }
  switch (op.opcode) {
    case Opcode::exponential:
    case Opcode::log:
    case Opcode::log_plus_one:
    case Opcode::tanh:
      return op.type == DType::f32 ? 3 : 5;
    case Opcode::acos:
    case Opcode::acosh:
    case Opcode::asin:
    case Opcode::asinh:
    case Opcode::atan2:
    case Opcode::atanh:
    case Opcode::cbrt:
    case Opcode::cosine:
    case Opcode::cosh:
    case Opcode::erf:
    case Opcode::exponential_minus_one:
    case Opcode::logistic:
    case Opcode::power:
    case Opcode::sine:
    case Opcode::sinh:
    case Opcode::tan:
      return 5;
    default:
      return 0;
  }
}

struct Case {
  BlockOp op;
  std::vector<DType> operands;
  DType result;
};

std::string to_string(const Case& c) {
  return std::string(ir::name(c.op.opcode)) + " (kind " + std::to_string(int(c.op.kind)) + ") " +
         std::string(name(c.op.type)) + " -> " + std::string(name(c.result));
}

const std::vector<DType>& types() {
  static const std::vector<DType> all = {
      DType::pred, DType::s8,  DType::s16, DType::s32, DType::s64, DType::u8,  DType::u16,
      DType::u32,  DType::u64, DType::f32, DType::f64, DType::c64, DType::c128};
  return all;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  const auto add = [&](BlockOp op, std::vector<DType> operands, DType result) {
    if (block_function(op) != nullptr) out.push_back({op, std::move(operands), result});
  };
  for (const DType t : types()) {
    for (int n = 0; n < 256; ++n) {
      const auto op = Opcode(n);
      if (ir::name(op).empty()) break;
      if (!ir::is_elementwise(op)) continue;
      DType result = t;
      if (op == Opcode::is_finite) result = DType::pred;
      if (is_complex(t) && (op == Opcode::abs || op == Opcode::real || op == Opcode::imag)) {
        result = real_type(t);
      }
      add({.kind = BlockOp::Kind::unary, .opcode = op, .type = t}, {t}, result);
      if (op == Opcode::complex) {
        if (t == DType::f32) result = DType::c64;
        if (t == DType::f64) result = DType::c128;
      }
      add({.kind = BlockOp::Kind::binary, .opcode = op, .type = t}, {t, t}, result);
    }
    add({.kind = BlockOp::Kind::clamp, .type = t}, {t, t, t}, t);
    for (int d = 0; d < 6; ++d) {
      for (const auto order : {ir::ComparisonType::by_dtype, ir::ComparisonType::total_order}) {
        add({.kind = BlockOp::Kind::compare,
             .type = t,
             .direction = ir::Direction(d),
             .comparison = order},
            {t, t}, DType::pred);
      }
    }
    std::vector<DType> targets = types();
    targets.push_back(DType::f16);
    targets.push_back(DType::bf16);
    for (const DType to : targets) {
      if (to != t) add({.kind = BlockOp::Kind::convert, .type = t, .to = to}, {t}, to);
    }
    add({.kind = BlockOp::Kind::select, .element_bytes = std::int32_t(byte_size(t))},
        {DType::pred, t, t}, t);
    add({.kind = BlockOp::Kind::copy, .element_bytes = std::int32_t(byte_size(t))}, {t}, t);
    for (const auto& [exponent, mantissa] :
         {std::pair{5, 10}, std::pair{8, 7}, std::pair{4, 3}, std::pair{11, 52}}) {
      add({.kind = BlockOp::Kind::reduce_precision, .type = t, .precision = {exponent, mantissa}},
          {t}, t);
    }
  }
  for (const DType half : {DType::f16, DType::bf16}) {
    add({.kind = BlockOp::Kind::lift, .type = half}, {half}, DType::f32);
    add({.kind = BlockOp::Kind::round, .type = half}, {DType::f32}, DType::f32);
  }
  return out;
}

/// What has no code, so that loops which have it are interpreted: inverse functions of complex
/// numbers, and conversions to 16 bits that would round twice.
constexpr const char* kInterpreted =
    "acos c128\n"
    "acos c64\n"
    "acosh c128\n"
    "acosh c64\n"
    "asin c128\n"
    "asin c64\n"
    "asinh c128\n"
    "asinh c64\n"
    "atanh c128\n"
    "atanh c64\n"
    "copy c128 to bf16\n"
    "copy c128 to f16\n"
    "copy f64 to bf16\n"
    "copy f64 to f16\n"
    "copy s32 to bf16\n"
    "copy s32 to f16\n"
    "copy s64 to bf16\n"
    "copy s64 to f16\n"
    "copy u32 to bf16\n"
    "copy u32 to f16\n"
    "copy u64 to bf16\n"
    "copy u64 to f16\n";

class CompiledLoop : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_compiler() != nullptr) return;
#if defined(TESSERA_JIT)
    const char* jit = std::getenv("TESSERA_JIT");
    ASSERT_TRUE(jit != nullptr && std::string(jit) == "off") << "the compiler was not found";
#endif
    GTEST_SKIP() << "without a compiler of kernels";
  }
};

/// The first element of which the bits differ, in hex; empty if all are the same. NaN is NaN: which
/// operand's sign and payload it has depends on the instructions of the machine.
std::string different_bits(DType t, const std::vector<std::byte>& a,
                           const std::vector<std::byte>& b) {
  const DType part = real_type(t);
  const std::size_t width = byte_size(part);
  for (std::size_t i = 0; i + width <= a.size(); i += width) {
    if (std::memcmp(a.data() + i, b.data() + i, width) == 0) continue;
    std::uint64_t x = 0, y = 0;
    std::memcpy(&x, a.data() + i, width);
    std::memcpy(&y, b.data() + i, width);
    const bool both_nan = part == DType::f32
                              ? std::isnan(std::bit_cast<float>(std::uint32_t(x))) &&
                                    std::isnan(std::bit_cast<float>(std::uint32_t(y)))
                              : part == DType::f64 && std::isnan(std::bit_cast<double>(x)) &&
                                    std::isnan(std::bit_cast<double>(y));
    if (!both_nan) return fmt::format("byte {}: {:x} and {:x}", i, x, y);
  }
  return "";
}

TEST_F(CompiledLoop, ComputesWhatTheInterpreterDoes) {
  std::mt19937_64 random(7);
  std::set<std::string> interpreted;
  std::map<std::string, double> worst;
  for (const Case& c : cases()) {
    std::vector<std::vector<std::byte>> inputs;
    const bool small = tolerance(c.op) > 0;
    // A power is what its logarithm and exponential make of infinities.
    const bool special = c.op.opcode != Opcode::power;
    for (const DType t : c.operands) inputs.push_back(random_bytes(t, random, small, special));
    for (const unsigned scalars : {0U, c.operands.size() > 1 ? 2U : 0U}) {
      const std::size_t bytes = byte_size(c.result);
      const auto program =
          std::make_shared<const LoopExpr>(program_of_op(c.op, c.operands, scalars, bytes));
      const auto quick = [&] {
        const WithVariable cache("TESSERA_CACHE_DIR", "off"),
            tiers("TESSERA_TIERED_COMPILATION", "quick");
        return run(FusedLoop(program, true), inputs, 3, kElements - 5, bytes);
      }();
      const WithVariable tiers("TESSERA_TIERED_COMPILATION", "off");
      const FusedLoop compiled(program, true), reference(*program);
      if (!compiled.is_compiled()) {
        interpreted.insert(
            std::string(ir::name(c.op.opcode)) + " " + std::string(name(c.op.type)) +
            (c.op.kind == BlockOp::Kind::convert ? " to " + std::string(name(c.result)) : ""));
        break;
      }
      const auto got = run(compiled, inputs, 3, kElements - 5, bytes);
      const auto want = run(reference, inputs, 3, kElements - 5, bytes);
      const double difference = largest_difference(c.result, got, want);
      EXPECT_LE(difference, tolerance(c.op)) << to_string(c) << " scalars " << scalars;
      double& w = worst[to_string(c)];
      w = std::max(w, difference);
      EXPECT_EQ(different_bits(c.result, got, quick), "") << "quick " << to_string(c);
      // Wherever an element stands, its bits are the same.
      const auto shifted = run(compiled, inputs, 4, kElements - 5, bytes);
      EXPECT_EQ(
          std::memcmp(got.data() + 4 * bytes, shifted.data() + 4 * bytes, got.size() - 9 * bytes),
          0)
          << to_string(c);
    }
  }
  for (const auto& [name, difference] : worst) {
    if (difference > 0) RecordProperty(name, std::to_string(difference));
  }
  std::string list;
  for (const std::string& i : interpreted) list += i + "\n";
  EXPECT_EQ(list, kInterpreted);
}

}  // namespace
}  // namespace tessera::codegen
