// SPDX-License-Identifier: Apache-2.0
// vmap of the programs of tests/fixtures, against loops over entries.
#include <algorithm>

#include "tests/support/fixtures.h"
#include "tests/transforms/batch_case.h"

namespace tessera::testing {
namespace {

/// The same elements in another order.
Literal turned(const Literal& x) {
  if (x.element_count() < 2) return x;
  Literal out = x;
  const std::size_t element = byte_size(x.dtype());
  std::byte* to = out.mutable_bytes();
  std::rotate(to, to + element, to + x.byte_count());
  return out;
}

/// Two arrays along a new axis.
Literal joined(const Literal& a, const Literal& b, std::int64_t axis) {
  Dims dims = a.dims();
  std::int64_t outer = 1;
  for (std::int64_t d = 0; d < axis; ++d) outer *= dims[std::size_t(d)];
  dims.insert(dims.begin() + std::ptrdiff_t(axis), 2);
  Literal out(Shape(a.dtype(), dims));
  const std::size_t bytes = outer == 0 ? 0 : a.byte_count() / std::size_t(outer);
  std::byte* to = out.mutable_bytes();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Literal* x : {&a, &b}) {
      std::memcpy(to, x->bytes() + std::size_t(o) * bytes, bytes);
      to += bytes;
    }
  }
  return out;
}

void expect_fixture_batched(const FixtureCase& c, Dice& dice) {
  const auto module = ir::parse_hlo(c.hlo, c.file);
  const std::vector<Literal> own = c.arrays();
  // Small floats are rounded at other places where an op is computed in another form.
  const double tolerance = c.tolerance.kind == Tolerance::Kind::close ? 2e-2 : 1e-5;
  for (int trial = 0; trial < 3; ++trial) {
    Dims axes;
    std::vector<Literal> args;
    std::vector<std::vector<Literal>> entries(2);
    for (const Literal& x : own) {
      const bool batched = trial == 0 || dice.chance(0.6);
      axes.push_back(batched ? dice.below(std::int64_t(x.dims().size()) + 1) : -1);
      const Literal other = batched ? turned(x) : x;
      args.push_back(batched ? joined(x, other, axes.back()) : x);
      entries[0].push_back(x);
      entries[1].push_back(other);
    }
    SCOPED_TRACE("axes " + join(axes));
    const auto batched = transforms::vmap(*module, axes, 2);
    ir::verify(*batched);
    const auto got = leaves_of(evaluator::evaluate(*batched, args));
    for (std::int64_t e = 0; e < 2; ++e) {
      const auto want = leaves_of(evaluator::evaluate(*module, entries[std::size_t(e)]));
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t k = 0; k < want.size(); ++k) {
        EXPECT_LE(difference(entry_of(got[k], 0, e), want[k]), tolerance)
            << "result " << k << " of entry " << e << "\n"
            << c.hlo << ir::to_string(*batched);
      }
    }
  }
}

class VmapOfFixtures : public ::testing::TestWithParam<const char*> {};

TEST_P(VmapOfFixtures, GivesWhatALoopOverEntriesGives) {
  Dice dice(8);
  for (const FixtureCase& c : read_fixtures(GetParam())) {
    if (c.hlo.empty()) continue;
    SCOPED_TRACE(c.name + " at " + c.file + ":" + std::to_string(c.line));
    try {
      expect_fixture_batched(c, dice);
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, VmapOfFixtures,
                         ::testing::Values("evaluator/complexes.txt", "evaluator/indexing.txt",
                                           "evaluator/integers.txt", "evaluator/reals.txt",
                                           "evaluator/small_floats.txt", "evaluator/windows.txt",
                                           "ops/binary.txt", "ops/compare_select.txt",
                                           "ops/contract.txt", "ops/control.txt", "ops/index.txt",
                                           "ops/order.txt", "ops/reduce.txt", "ops/structure.txt",
                                           "ops/types.txt", "ops/unary.txt"));

}  // namespace
}  // namespace tessera::testing
