// SPDX-License-Identifier: Apache-2.0
// The report: facts, chains, annotations, full gathers.
#include "src/compiler/explain/explain.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "src/base/log.h"
#include "tests/compiler/explain_case.h"

namespace tessera::testing {
namespace {

using compiler::explain_module;

std::string joined(const std::vector<ExplainChain>& chains) {
  std::string out;
  for (const ExplainChain& c : chains) out += c.to_string() + "\n";
  return out;
}

TEST(Explain, AProgramWithoutCommunicationHasNoEntries) {
  const auto module = parse(layer(R"({"data"}, {})", R"({}, {"model"})", R"({"data"}, {"model"})"));
  const Explanation e = explain_module(*module);
  EXPECT_TRUE(e.entries().empty()) << e.to_text();
  EXPECT_EQ(e.total_bytes(), 0);
  EXPECT_TRUE(has(e.to_text(), "nothing is communicated"));
  EXPECT_EQ(e.mesh(), "data=2, model=4");
  EXPECT_EQ(e.num_devices(), 8);
}

// Of two layers: what was chosen for the array between them, and what the next best would cost.
TEST(Explain, SaysWhatEachChoiceCostsAndTheNextBest) {
  const auto module = parse(R"(
module @net {
  sdy.mesh @mesh = <["data"=2, "model"=4]>
  func.func public @main(
      %x: tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>} loc("x"),
      %w: tensor<128x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>} loc("w"),
      %v: tensor<256x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}, {}]>} loc("v"))
      -> (tensor<64x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x128xf32>, tensor<128x256xf32>) -> tensor<64x256xf32> loc("dot"("net.cc":12:3))
    %1 = stablehlo.tanh %0 : tensor<64x256xf32> loc("tanh"("net.cc":13:3))
    %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<64x256xf32>, tensor<256x128xf32>) -> tensor<64x128xf32> loc("dot"("net.cc":14:3))
    return %2 : tensor<64x128xf32>
  }
})");
  const Explanation e = explain_module(*module);
  std::size_t chosen = 0;
  for (const ExplainValue& v : e.values()) {
    if (!v.choice) continue;
    ++chosen;
    const ExplainChoice& c = *v.choice;
    EXPECT_EQ(c.spec, v.spec) << v.name;
    EXPECT_FALSE(c.next_spec.empty());
    EXPECT_NE(c.next_spec, c.spec);
    // Nothing but memory would make the solver take what is dearer.
    EXPECT_GE(c.next_seconds, c.seconds) << v.name;
    double reshards = 0, next = 0;
    for (const ExplainEdge& edge : c.edges) {
      ASSERT_LT(std::size_t(edge.op), e.values().size());
      reshards += edge.seconds;
      next += edge.next_seconds;
    }
    EXPECT_LE(reshards, c.seconds);
    EXPECT_LE(next, c.next_seconds);
    for (const std::int64_t other : c.with) {
      const std::string& spec = e.values()[std::size_t(other)].spec;
      // The result's tuple has it too.
      EXPECT_TRUE(spec == c.spec || spec == "(" + c.spec + ")") << spec;
    }
  }
  EXPECT_GT(chosen, 0u) << e.to_text();
  EXPECT_TRUE(has(e.to_text(), "chosen by cost, with estimated times")) << e.to_text();
  EXPECT_TRUE(has(e.to_text(), "next best P(")) << e.to_text();
  const Json json = Json::parse(e.to_json());
  std::size_t in_json = 0;
  for (const Json& v : json["values"]) in_json += !v["choice"].is_null();
  EXPECT_EQ(in_json, chosen);
  // Nothing was chosen where the annotations decide.
  compiler::Options propagated;
  propagated.layouts = Layouts::propagated;
  const Explanation decided = explain_module(*module, propagated);
  for (const ExplainValue& v : decided.values()) EXPECT_FALSE(v.choice);
}

TEST(Explain, NamesOpLineSpecsBytesChainAndAnnotation) {
  const auto module = parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({"data"}, {})"));
  const Explanation e = explain_module(*module);
  ASSERT_EQ(e.entries().size(), 1u) << e.to_text();
  const ExplainEntry& d = e.entries()[0];
  // The sum over the contracted dim waits for the operation that needs it.
  EXPECT_EQ(d.op, "tanh");
  EXPECT_EQ(d.location, "net.cc:13");
  EXPECT_EQ(d.op_name, "jit(layer)/tanh");
  EXPECT_EQ(d.reason, "operand 0 of tanh");
  EXPECT_EQ(d.from, "P(\"data\", None, unreduced={\"model\"})");
  EXPECT_EQ(d.to, "P(\"data\", None)");
  EXPECT_EQ(d.type, "f32[64,256]");
  ASSERT_EQ(d.collectives.size(), 1u);
  EXPECT_EQ(d.bytes, text_bytes(*module));
  EXPECT_EQ(d.bytes, e.total_bytes());
  EXPECT_FALSE(d.full_gather);
  EXPECT_EQ(d.bytes, 2 * 32 * 256 * 4 * 3 / 4.0);
  // Back to what the user wrote, on both sides.
  EXPECT_EQ(
      joined(d.from_because),
      "\"data\" on dim 0 <- tanh at net.cc:13 <- result 0 P(\"data\", None) at net.mlir:4\n"
      "partial sums over \"model\" <- dot at net.cc:12 <- argument 1 (w) P(\"model\", None)\n");
  EXPECT_EQ(joined(d.to_because),
            "\"data\" on dim 0 <- tanh at net.cc:13 <- result 0 P(\"data\", None) at net.mlir:4\n");
  EXPECT_EQ(d.from_because[1].steps[0].how, "sums over dim 0 of operand 1");
  // The suggested annotation was tried: with it the program communicates as many bytes as stated.
  ASSERT_TRUE(d.suggestion) << e.to_text();
  EXPECT_LT(d.suggestion->total_bytes, e.total_bytes());
  EXPECT_EQ(d.suggestion->total_bytes + d.suggestion->saved_bytes, e.total_bytes());
  EXPECT_EQ(d.suggestion->more_held_bytes, 0) << d.suggestion->to_string();
  EXPECT_EQ(d.suggestion->target, "result 0");
  EXPECT_EQ(d.suggestion->spec, "P((\"data\", \"model\"), None)");
  const auto better =
      parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({"data", "model"}, {})"));
  EXPECT_EQ(text_bytes(*better), d.suggestion->total_bytes);
}

TEST(Explain, SuggestionsHold) {
  // w is split along the contracted dim; the result wants it along columns.
  const auto module = parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({"data"}, {"model"})"));
  const Explanation e = explain_module(*module);
  ASSERT_FALSE(e.entries().empty());
  const auto& s = e.entries()[0].suggestion;
  ASSERT_TRUE(s) << e.to_text();
  EXPECT_TRUE(has(s->target, "argument 1")) << s->to_string();
  EXPECT_EQ(s->spec, "P(None, \"model\")");
  EXPECT_EQ(s->was, "P(\"model\", None)");
  EXPECT_EQ(s->total_bytes, 0);
  const auto better = parse(layer(R"({"data"}, {})", R"({}, {"model"})", R"({"data"}, {"model"})"));
  EXPECT_EQ(text_bytes(*better), s->total_bytes);
}

TEST(Explain, NamesConflictingAxes) {
  // Both operands want "model", on different dims of the result.
  const auto module = parse(layer(R"({"model"}, {})", R"({}, {"model"})", R"({"model"}, {})"));
  const Explanation e = explain_module(*module);
  ASSERT_FALSE(e.entries().empty());
  std::string all;
  for (const ExplainEntry& entry : e.entries()) {
    for (const std::string& c : entry.conflicts) all += c + "\n";
    all += joined(entry.to_because);
  }
  EXPECT_TRUE(has(all, "\"model\"")) << e.to_text();
  EXPECT_TRUE(has(all, "another dimension of the dot") || has(all, "result 0")) << e.to_text();
}

constexpr const char* kLoop = R"(HloModule loop, num_partitions=8

add {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT r = f32[] add(p, q)
}
body {
  c = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  x = f32[64,64] get-tuple-element(c), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}, metadata={op_name="step/dot" source_file="loop.cc" source_line=5}
  ROOT t = (s32[], f32[64,64]) tuple(next, y)
}
condition {
  c = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(c), index=0
  n = s32[] constant(12)
  ROOT less = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
  zero = s32[] constant(0)
  init = (s32[], f32[64,64]) tuple(zero, x)
  w = (s32[], f32[64,64]) while(init), condition=condition, body=body
  ROOT out = f32[64,64] get-tuple-element(w), index=1, sharding={devices=[8,1]<=[8]}
}
)";

TEST(Explain, LoopsCountTheirTrips) {
  const auto module = ir::parse_hlo(kLoop);
  const Explanation e = explain_module(*module);
  ASSERT_FALSE(e.entries().empty());
  const ExplainEntry& d = e.entries()[0];
  EXPECT_EQ(d.location, "loop.cc:5");
  ASSERT_FALSE(d.collectives.empty());
  EXPECT_EQ(d.collectives[0].times, 12);
  EXPECT_TRUE(d.collectives[0].trips_known);
  EXPECT_EQ(e.total_bytes(), text_bytes(*module));
  // The chain leads out of the loop, to the argument.
  EXPECT_TRUE(has(joined(d.from_because), "argument 0")) << e.to_text();
}

constexpr const char* kBranches = R"(HloModule branches, num_partitions=8

dear {
  x = f32[64,64] parameter(0)
  ROOT y = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
cheap {
  x = f32[64,64] parameter(0)
  ROOT y = f32[64,64] reverse(x), dimensions={0}
}
ENTRY main {
  x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
  p = pred[] parameter(1), sharding={replicated}
  ROOT c = f32[64,64] conditional(p, x, x), true_computation=dear, false_computation=cheap, sharding={devices=[8,1]<=[8]}
}
)";

TEST(Explain, OnlyTheMostExpensiveBranchCounts) {
  const auto module = ir::parse_hlo(kBranches);
  const Explanation e = explain_module(*module);
  double counted = 0, left_out = 0;
  for (const ExplainEntry& entry : e.entries()) {
    for (const ExplainCollective& c : entry.collectives) {
      (c.counted ? counted : left_out) += c.bytes * c.times;
    }
  }
  EXPECT_GT(left_out, 0) << e.to_text();
  EXPECT_EQ(counted, e.total_bytes());
  EXPECT_EQ(counted, text_bytes(*module));
  EXPECT_TRUE(has(e.to_text(), "isn't the most expensive one"));
}

TEST(Explain, ConstraintsAndResultsEndChains) {
  const auto module = ir::parse_hlo(R"(HloModule ends, num_partitions=8

ENTRY main {
  x = f32[64,64] parameter(0), sharding={devices=[8,1]<=[8]}
  y = f32[64,64] tanh(x), metadata={source_file="a.cc" source_line=3}
  k = f32[64,64] custom-call(y), custom_call_target="Sharding", sharding={devices=[1,8]<=[8]}, metadata={source_file="a.cc" source_line=4}
  ROOT r = f32[64,64] negate(k), sharding={devices=[8,1]<=[8]}, metadata={source_file="a.cc" source_line=5}
}
)");
  const Explanation e = explain_module(*module);
  ASSERT_EQ(e.entries().size(), 2u) << e.to_text();
  EXPECT_TRUE(has(e.to_text(), "with_sharding_constraint")) << e.to_text();
  EXPECT_TRUE(has(e.to_text(), "a.cc:4")) << e.to_text();
  EXPECT_EQ(e.total_bytes(), text_bytes(*module));
  // Both movements go, if the constraint says what the arguments and results say.
  ASSERT_TRUE(e.entries()[0].suggestion) << e.to_text();
  EXPECT_EQ(e.entries()[0].suggestion->total_bytes, 0) << e.to_text();
}

TEST(Explain, EveryValueHasTheCausesOfItsSharding) {
  const auto module = parse(layer(R"({"data"}, {})", R"({}, {"model"})", R"({?}, {?})"));
  const Explanation e = explain_module(*module);
  std::size_t with_both = 0;
  for (const ExplainValue& v : e.values()) {
    for (const ExplainCause& c : v.causes) {
      ASSERT_LT(c.from, std::int64_t(e.values().size()));
      EXPECT_TRUE(c.from >= 0 || c.how == "stated") << v.name << " " << c.how;
    }
    for (const std::int64_t o : v.operands) ASSERT_LT(o, std::int64_t(e.values().size()));
    if (v.op == "tanh" || v.op == "dot") {
      ++with_both;
      EXPECT_EQ(v.spec, "P(\"data\", \"model\")");
      ASSERT_EQ(v.causes.size(), 2u);
    }
  }
  EXPECT_EQ(with_both, 2u);
}

TEST(Explain, IsTheSameEachTime) {
  const auto module = parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({"data"}, {})"));
  const Explanation a = explain_module(*module), b = explain_module(*module);
  EXPECT_EQ(a.to_text(), b.to_text());
  EXPECT_EQ(a.to_json(), b.to_json());
  EXPECT_EQ(a.to_html(), b.to_html());
}

TEST(Explain, SuggestionsAreLimited) {
  const auto module = parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({"data"}, {})"));
  ExplainOptions none;
  none.suggest = false;
  const Explanation untried = explain_module(*module, {}, none);
  ASSERT_FALSE(untried.entries().empty());
  for (const ExplainEntry& e : untried.entries()) {
    EXPECT_FALSE(e.suggestion);
    EXPECT_EQ(e.tried, 0);
  }
  ExplainOptions one;
  one.most_trials = 1;
  int tried = 0;
  const Explanation once = explain_module(*module, {}, one);
  for (const ExplainEntry& e : once.entries()) tried += e.tried;
  EXPECT_LE(tried, 1);
}

constexpr const char* kGather = R"(HloModule gathers, num_partitions=8

ENTRY main {
  a = f32[64] parameter(0), sharding={devices=[8]<=[8]}, metadata={op_name="keys"}
  ROOT c = f32[64] custom-call(a), custom_call_target="mystery", metadata={source_file="model.cc" source_line=7}, sharding={devices=[8]<=[8]}
}
)";

class Policy {
 public:
  explicit Policy(const char* value) { setenv("TESSERA_FULL_GATHER", value, 1); }
  ~Policy() { unsetenv("TESSERA_FULL_GATHER"); }
};

TEST(FullGather, IsInTheReport) {
  const Explanation e = explain_module(*ir::parse_hlo(kGather));
  ASSERT_EQ(e.full_gathers().size(), 1u);
  EXPECT_EQ(e.full_gathers()[0].bytes, 224);
  EXPECT_TRUE(has(e.to_text(), "FULL GATHER"));
  EXPECT_TRUE(has(e.to_text(), "1 full gather"));
}

TEST(FullGather, AsAnErrorNamesLineSpecsBytesAndArgument) {
  const Policy policy("error");
  try {
    compiler::compile(ir::parse_hlo(kGather));
    FAIL() << "nothing was thrown";
  } catch (const CompileError& e) {
    EXPECT_EQ(e.location().to_string(), "model.cc:7");
    for (const char* part : {"mystery", "model.cc:7", "224 bytes", "replicated",
                             "argument 0 (keys)", "TESSERA_FULL_GATHER=error", "to avoid it"}) {
      EXPECT_TRUE(has(e.message(), part)) << part << " is not in:\n" << e.message();
    }
  }
  // The report is given all the same.
  EXPECT_EQ(explain_module(*ir::parse_hlo(kGather)).full_gathers().size(), 1u);
}

TEST(FullGather, CanBeSilencedAndNecessaryGathersAreNoErrors) {
  for (const char* value : {"off", "allow", "warn"}) {
    const Policy policy(value);
    std::string said;
    set_log_sink([&](LogLevel, const std::string& line) { said += line; });
    // Nobody can compute the call: that is what is wrong then.
    EXPECT_THROW(compiler::compile(ir::parse_hlo(kGather)), NotImplementedError) << value;
    set_log_sink({});
    EXPECT_EQ(has(said, "gathers the entire array"), std::string(value) == "warn") << said;
  }
  // A gather that the user requested isn't reported.
  const Policy policy("error");
  EXPECT_NO_THROW(
      compiler::compile(parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({}, {})"))));
}

}  // namespace
}  // namespace tessera::testing
