// SPDX-License-Identifier: Apache-2.0
// Products of a batch by one matrix, which kernels read where it stands.
#include <string>
#include <utility>

#include "tests/codegen/random_case.h"

namespace tessera::testing {
namespace {

std::string list(const Dims& dims) {
  std::string out;
  for (const std::int64_t d : dims) out += (out.empty() ? "" : ",") + std::to_string(d);
  return out;
}

struct SharedProduct {
  std::string type;
  Dims batch;
  std::int64_t m, n, k;
  bool shares_first;
  bool first_turned, second_turned;  ///< contracted dims in front

  Dims first() const { return first_turned ? Dims{k, m} : Dims{m, k}; }
  Dims second() const { return second_turned ? Dims{k, n} : Dims{n, k}; }
  static Dims with(Dims batch, const Dims& matrix) {
    batch.insert(batch.end(), matrix.begin(), matrix.end());
    return batch;
  }
  Dims arguments(std::size_t i) const {
    const Dims matrix = i == 0 ? first() : second();
    return (i == 0) == shares_first ? matrix : with(batch, matrix);
  }
  std::string text() const {
    const auto rank = std::int64_t(batch.size());
    const auto shape = [&](const Dims& dims) { return type + "[" + list(dims) + "]"; };
    std::string out = "HloModule m\nENTRY e {\n";
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string name = i == 0 ? "x" : "y";
      out += "  " + name + " = " + shape(arguments(i)) + " parameter(" + std::to_string(i) + ")\n";
    }
    const Dims matrix = shares_first ? first() : second();
    out += "  all = " + shape(with(batch, matrix)) + " broadcast(" + (shares_first ? "x" : "y") +
           "), dimensions={" + list({rank, rank + 1}) + "}\n";
    Dims places;
    for (std::int64_t d = 0; d < rank; ++d) places.push_back(d);
    out += "  ROOT p = " + shape(with(batch, {m, n})) + " dot(" +
           (shares_first ? "all, y" : "x, all") + "), lhs_batch_dims={" + list(places) +
           "}, rhs_batch_dims={" + list(places) + "}, lhs_contracting_dims={" +
           std::to_string(first_turned ? rank : rank + 1) + "}, rhs_contracting_dims={" +
           std::to_string(second_turned ? rank : rank + 1) + "}\n}\n";
    return out;
  }
};

TEST(SharedMatrices, AreReadForEachOfTheBatch) {
  const std::uint64_t seed = 20261130;
  Random r(seed);
  const std::pair<const char*, DType> types[] = {{"f32", DType::f32},   {"f64", DType::f64},
                                                 {"bf16", DType::bf16}, {"f16", DType::f16},
                                                 {"c64", DType::c64},   {"c128", DType::c128}};
  for (int n = 0; n < 120; ++n) {
    const auto& [name, type] = types[n % 3 == 0 ? std::size_t(n / 3) % std::size(types) : 0];
    const auto size = [&] { return 1 + r.below(r.chance(0.2) ? 120 : r.chance(0.5) ? 40 : 8); };
    const Dims batch = r.chance(0.3) ? Dims{2, 1 + r.below(3)} : Dims{2 + r.below(5)};
    const SharedProduct p{name,   batch,         size(),        size(),
                          size(), r.chance(0.5), r.chance(0.5), r.chance(0.5)};
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + p.text());
    const std::unique_ptr<ir::Module> module = ir::parse_hlo(p.text());
    const std::vector<Literal> arguments = {r.literal(type, p.arguments(0)),
                                            r.literal(type, p.arguments(1))};
    expect_results(*module, arguments, evaluator::evaluate(*module, arguments), double(p.k));
    // What is broadcast is never made: the product is the only step.
    EXPECT_EQ(plan_of(*module).plan.entry.steps.size(), 1u);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tessera::testing
