// SPDX-License-Identifier: Apache-2.0
// Explicit mode's rules against JAX's: the type of the result of one op, for random shapes and
// shardings of its operands (tests/peers/explicit_types.py makes the cases).
#include <tessera/tessera.h>

#include <fstream>
#include <sstream>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::explicit_types {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::string part;
  std::istringstream in(text);
  while (std::getline(in, part, at)) out.push_back(part);
  if (!text.empty() && text.back() == at) out.emplace_back();
  return out;
}

std::vector<std::int64_t> numbers(const std::string& text) {
  std::vector<std::int64_t> out;
  for (const std::string& n : split(text, ' ')) out.push_back(std::stoll(n));
  return out;
}

/// `8@x+y,4` on the mesh.
Array operand(const std::string& text, const Mesh& mesh) {
  std::vector<std::int64_t> shape;
  std::vector<SpecEntry> entries;
  for (const std::string& dim : split(text, ',')) {
    const std::size_t at = dim.find('@');
    shape.push_back(std::stoll(dim.substr(0, at)));
    entries.emplace_back(at == std::string::npos ? std::vector<std::string>()
                                                 : split(dim.substr(at + 1), '+'));
  }
  return shape_dtype_struct(shape, DType::f32,
                            NamedSharding(mesh, PartitionSpec::from_entries(entries)));
}

std::string text_of(const Array& x) {
  const ArrayType type = type_of(x);
  const PartitionSpec spec = NamedSharding(type.sharding).spec();
  std::string out;
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    out += (d ? "," : "") + std::to_string(type.shape[d]);
    const std::vector<std::string> axes = spec[d].axes();
    for (std::size_t a = 0; a < axes.size(); ++a) out += (a ? "+" : "@") + axes[a];
  }
  return out;
}

Array computed(const std::string& op, const Array& a, const Array& b,
               const std::vector<std::int64_t>& n) {
  if (op == "add") return a + b;
  if (op == "select") return where(a > b, a, b);
  if (op == "dot") return matmul(a, b);
  if (op == "transpose") return transpose(a, n);
  if (op == "sum") return n.empty() ? a : sum(a, Axes(n));
  if (op == "argmax") return argmax(a, n[0]);
  if (op == "reshape") return reshape(a, n);
  if (op == "concatenate") return concatenate({a, b}, n[0]);
  if (op == "slice") return slice(a, {n[0], n[1]}, {n[2], n[3]});
  if (op == "dynamic_slice") return dynamic_slice(a, {Array(0), Array(0)}, n);
  if (op == "update") return dynamic_update_slice(a, b, {Array(0), Array(0)});
  if (op == "pad")
    return pad(a, std::vector<std::pair<std::int64_t, std::int64_t>>{{n[0], n[1]}, {n[2], n[3]}});
  if (op == "broadcast") return broadcast_to(a, {n[0], a.shape()[0], a.shape()[1]});
  if (op == "squeeze") return squeeze(a, n[0]);
  if (op == "sort") return sort(a, n[0]);
  if (op == "cumsum") return cumsum(a, n[0]);
  if (op == "reverse") return flip(a, 0);
  throw ValueError("no such case: " + op);
}

TEST(ExplicitRules, OpsGiveWhatJaxGives) {
  const Mesh mesh =
      make_mesh({2, 2, 2}, {"x", "y", "z"}, std::vector<AxisType>(3, AxisType::Explicit));
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/fixtures/explicit_types.txt");
  ASSERT_TRUE(file.good());
  std::string line;
  std::size_t cases = 0;
  while (std::getline(file, line)) {
    const std::vector<std::string> parts = split(line, ';');
    ASSERT_EQ(parts.size(), 4u) << line;
    std::vector<Array> operands;
    for (const std::string& text : split(parts[1], '|')) operands.push_back(operand(text, mesh));
    std::string have;
    try {
      (void)jit([&](std::vector<Array> in) {
        const Array y = computed(parts[0], in[0], in.back(), numbers(parts[2]));
        have = text_of(y);
        return y;
      }).lower(operands);
    } catch (const ShardingTypeError& e) {
      have = "error";
    }
    EXPECT_EQ(have, parts[3]) << line;
    ++cases;
  }
  EXPECT_GT(cases, 1000u);
}

}  // namespace
}  // namespace tessera::testing::explicit_types
