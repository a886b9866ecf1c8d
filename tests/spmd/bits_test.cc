// SPDX-License-Identifier: Apache-2.0
// Values as bits and back, of each type.
#include "src/spmd/bits.h"

#include <gtest/gtest.h>

#include "src/base/arrays/literal.h"
#include "src/base/arrays/small_floats.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/hooks.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera {
namespace {

TEST(Bits, BringBackEachElement) {
  for (int n = 0; n < int(DType::token); ++n) {
    const DType t = DType(n);
    // Complex numbers and integers of a byte are moved as they are.
    if (is_complex(t) || (is_integer(t) && byte_size(t) == 1)) continue;
    SCOPED_TRACE(name(t));
    const int values = is_small_float(t) ? 1 << small_float_width(t) : t == DType::pred ? 2 : 256;
    Literal x(Shape(t, {values}));
    for (std::size_t i = 0; i < x.byte_count(); ++i) {
      x.mutable_bytes()[i] = std::byte(byte_size(t) == 1 ? i : i * 7919 >> 3);
    }
    ir::Module module;
    module.set_entry(module.add_computation("main"));
    ir::Builder b(module.entry());
    ir::Instruction* bits = spmd::as_bits(b, b.constant(x));
    EXPECT_EQ(bits->shape.dtype, spmd::bits_type(t));
    EXPECT_TRUE(is_integer(bits->shape.dtype));
    EXPECT_EQ(bits->shape.dims, x.dims());
    module.entry()->set_root(spmd::from_bits(b, bits, t));
    ir::verify(module);
    EXPECT_EQ(evaluator::evaluate(module, {}), x);
  }
}

}  // namespace
}  // namespace tessera
