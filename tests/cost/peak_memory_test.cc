// SPDX-License-Identifier: Apache-2.0
// What is live while a program runs, by the bytes of its arrays or by others.
#include "src/cost/peak_memory.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "src/ir/hlo/hlo_text.h"

namespace tessera::testing {
namespace {

using Names = std::set<std::string>;

/// While b is made 96 bytes are live, of which a loop's body has 32 more at its own peak.
const std::string kText = R"(HloModule m
body { x = f32[4] parameter(0)
  s = f32[4] sine(x)
  c = f32[4] cosine(x)
  ROOT y = f32[4] add(s, c) }
condition { z = f32[4] parameter(0)
  ROOT no = pred[] constant(false) }
ENTRY e { p = f32[4] parameter(0)
  a = f32[8] concatenate(p, p), dimensions={0}
  b = f32[12] concatenate(a, p), dimensions={0}
  d = f32[4] slice(b), slice={[0:4]}
  ROOT w = f32[4] while(d), condition=condition, body=body })";

double bytes_of(const ir::Instruction& i) { return double(i.shape.byte_count()); }

Names live_above(const ir::Module& module, double bytes) {
  Names names;
  for (const ir::Instruction* i : cost::live_above(module, bytes, bytes_of)) names.insert(i->name);
  return names;
}

TEST(PeakMemory, IsThatOfTheBytesThatAreSaid) {
  const auto module = ir::parse_hlo(kText);
  EXPECT_EQ(cost::estimated_peak_bytes(*module), 96);
  EXPECT_EQ(cost::peak_bytes_where(*module, bytes_of), 96);
  const auto split = [](const ir::Instruction& i) { return bytes_of(i) / (i.name == "b" ? 4 : 1); };
  EXPECT_EQ(cost::peak_bytes_where(*module, split), 60);
}

TEST(PeakMemory, ListsWhatIsLiveAboveALimit) {
  const auto module = ir::parse_hlo(kText);
  EXPECT_EQ(live_above(*module, 96), Names());
  EXPECT_EQ(live_above(*module, 64), (Names{"p", "a", "b"}));
  EXPECT_EQ(live_above(*module, 40), (Names{"p", "a", "b", "d", "w", "x", "s", "c", "y"}));
}

}  // namespace
}  // namespace tessera::testing
