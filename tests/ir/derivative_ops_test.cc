// SPDX-License-Identifier: Apache-2.0
// remat and custom-derivative: their text, what is wrong with them, and rules that are traced.
#include <gtest/gtest.h>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/hooks.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/rewrite/derivative_rules.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera::ir::derivative_ops {
namespace {

using Kind = CustomDerivativeAttrs::Kind;

/// Of operands n s32[], x f32[3]: a primal, a jvp, and a forward and backward with one residual.
std::string program(const std::string& call, const std::string& shape = "f32[3]{0}") {
  return R"(HloModule m
primal { n = s32[] parameter(0)
  x = f32[3] parameter(1)
  ROOT y = f32[3] sine(x) }
tangent { n = s32[] parameter(0)
  x = f32[3] parameter(1)
  dx = f32[3] parameter(2)
  y = f32[3] sine(x)
  c = f32[3] cosine(x)
  dy = f32[3] multiply(c, dx)
  ROOT t = (f32[3], f32[3]) tuple(y, dy) }
forward { n = s32[] parameter(0)
  x = f32[3] parameter(1)
  y = f32[3] sine(x)
  ROOT t = (f32[3], f32[3]) tuple(y, x) }
backward { x = f32[3] parameter(0)
  ct = f32[3] parameter(1)
  c = f32[3] cosine(x)
  d = f32[3] multiply(c, ct)
  ROOT t = (f32[3]) tuple(d) }
backward_nondiff { n = s32[] parameter(0)
  x = f32[3] parameter(1)
  ct = f32[3] parameter(2)
  c = f32[3] cosine(x)
  d = f32[3] multiply(c, ct)
  ROOT t = (f32[3]) tuple(d) }
ENTRY e { n = s32[] parameter(0)
  x = f32[3] parameter(1)
  ROOT r = )" +
         shape + " custom-call(n, x), " + call + " }";
}

std::unique_ptr<Module> read(const std::string& call) {
  auto module = parse_hlo(program(call), "m.hlo");
  verify(*module);
  return module;
}

/// The text of the call comes back, and again from what was printed.
void expect_printed(const Module& module, const std::string& call) {
  const std::string text = to_string(module);
  EXPECT_NE(text.find("custom-call(n, x), " + call + "\n"), std::string::npos) << text;
  EXPECT_EQ(to_string(*parse_hlo(text, "again.hlo")), text);
}

std::string error_of(const std::string& call) {
  try {
    read(call);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

void expect_error(const std::string& call, const std::string& part) {
  const std::string error = error_of(call);
  EXPECT_NE(error.find(part), std::string::npos) << call << "\n" << error;
  EXPECT_NE(error.find("m.hlo:"), std::string::npos) << error;
}

std::string remat(const std::string& policies) {
  return "custom_call_target=\"tessera.Remat\", policies=[" + policies +
         "], prevent_cse=true, differentiated=false, called_computations={primal}";
}

std::string derivative(const std::string& rule, const std::string& called) {
  return "custom_call_target=\"tessera.CustomDerivative\", " + rule + ", called_computations={" +
         called + "}";
}

TEST(DerivativeOps, PoliciesOfARemat) {
  for (const char* policies :
       {"nothing_saveable", "everything_saveable", "dots_saveable",
        "dots_with_no_batch_dims_saveable", "save_only_these_names(\"q\", \"k\")",
        "save_only_these_names()", "save_any_names_but_these(\"a \\\"b\\\"\")",
        "save_anything_except_these_names(\"q\")",
        "offload_dot_with_no_batch_dims(\"device\", \"pinned_host\")",
        "save_and_offload_only_these_names([\"q\"], [\"k\", \"v\"], \"device\", \"pinned_host\")",
        "dots_saveable, save_only_these_names(\"q\")"}) {
    const auto module = read(remat(policies));
    EXPECT_TRUE(module->entry()->root()->is(Opcode::remat));
    expect_printed(*module, remat(policies));
  }
  const auto module = read(
      remat("save_and_offload_only_these_names([\"q\"], [\"k\", \"v\"], \"device\", \"host\")"));
  const auto& attrs = module->entry()->root()->get<RematAttrs>();
  ASSERT_EQ(attrs.policies.size(), 1u);
  EXPECT_EQ(attrs.policies[0].kind, RematPolicy::Kind::save_and_offload_only_these_names);
  EXPECT_EQ(attrs.policies[0].names, std::vector<std::string>{"q"});
  EXPECT_EQ(attrs.policies[0].offloaded_names, (std::vector<std::string>{"k", "v"}));
  EXPECT_EQ(attrs.policies[0].from_memory, "device");
  EXPECT_EQ(attrs.policies[0].to_memory, "host");
}

TEST(DerivativeOps, FlagsOfARemat) {
  const std::string call =
      "custom_call_target=\"tessera.Remat\", policies=[nothing_saveable], prevent_cse=false, "
      "differentiated=true, label=\"layer\", called_computations={primal}";
  const auto module = read(call);
  const auto& attrs = module->entry()->root()->get<RematAttrs>();
  EXPECT_TRUE(attrs.policies.empty());
  EXPECT_FALSE(attrs.prevent_cse);
  EXPECT_TRUE(attrs.differentiated);
  EXPECT_EQ(attrs.label, "layer");
  expect_printed(*module, call);
  // What is left out is as in JAX.
  const auto least = read("custom_call_target=\"tessera.Remat\", called_computations={primal}");
  EXPECT_EQ(least->entry()->root()->get<RematAttrs>(), RematAttrs());
}

TEST(DerivativeOps, RulesOfACustomDerivative) {
  const std::string jvp =
      derivative("rule=jvp, num_nondiff=1, symbolic_zeros=false, label=\"f\"", "primal, tangent");
  const auto forward = read(jvp);
  const auto& attrs = forward->entry()->root()->get<CustomDerivativeAttrs>();
  EXPECT_EQ(attrs.kind, Kind::jvp);
  EXPECT_EQ(attrs.nondiff, 1);
  EXPECT_EQ(attrs.label, "f");
  EXPECT_EQ(attrs.rules, nullptr);
  expect_printed(*forward, jvp);
  // An integer has no tangent, whether or not it is said to have no derivative.
  const auto of_all = "rule=jvp, num_nondiff=0, symbolic_zeros=false";
  EXPECT_NO_THROW(read(derivative(of_all, "primal, tangent")));

  const std::string vjp =
      derivative("rule=vjp, num_nondiff=0, num_residuals=1, symbolic_zeros=false",
                 "primal, forward, backward");
  const auto reverse = read(vjp);
  EXPECT_EQ(reverse->entry()->root()->get<CustomDerivativeAttrs>().kind, Kind::vjp);
  EXPECT_EQ(reverse->entry()->root()->get<CustomDerivativeAttrs>().residuals, 1);
  expect_printed(*reverse, vjp);
  EXPECT_NO_THROW(read(
      derivative("rule=vjp, num_nondiff=1, num_residuals=1", "primal, forward, backward_nondiff")));

  const std::string zeros =
      derivative("rule=vjp, num_nondiff=0, num_residuals=0, symbolic_zeros=true", "primal");
  EXPECT_TRUE(read(zeros)->entry()->root()->get<CustomDerivativeAttrs>().symbolic_zeros);
  expect_printed(*read(zeros), zeros);
}

TEST(DerivativeOps, FaultsNameWhatIsWrong) {
  expect_error(remat("dots"),
               "unknown policy 'dots'; valid: nothing_saveable, everything_saveable");
  expect_error(remat("save_only_these_names"), "expected '(' before the names");
  expect_error(remat("save_only_these_names(q)"), "the name of a value");
  expect_error(remat("offload_dot_with_no_batch_dims(\"device\")"), "expected ','");
  expect_error("custom_call_target=\"tessera.Remat\", prevent_cse=1, called_computations={primal}",
               "expected true or false");
  expect_error("custom_call_target=\"tessera.Remat\"", "needs 1 called computation");
  expect_error("custom_call_target=\"tessera.Remat\", called_computations={backward}",
               "parameter 0 of body backward is f32[3] and must be s32[]");
  expect_error(derivative("rule=both", "primal"), "expected jvp, vjp, zero or batch");
  expect_error(derivative("rule=jvp, num_nondiff=3", "primal"), "num_nondiff=3 of 2 operands");
  expect_error(derivative("rule=jvp, num_nondiff=-1", "primal"), "num_nondiff=-1");
  expect_error(derivative("rule=vjp", "primal, tangent"),
               "must call its primal, and may call forward and backward; it calls 2 computations");
  expect_error(derivative("rule=jvp", "primal, primal"), "jvp primal has 2 parameters and needs 3");
  expect_error(derivative("rule=jvp, symbolic_zeros=true", "primal, tangent"),
               "depends on which tangents are zero");
  expect_error(derivative("rule=vjp, num_residuals=2", "primal, forward, backward"),
               "must give 1 result and 2 residuals");
  expect_error(derivative("rule=vjp, num_residuals=-1", "primal, forward, backward"),
               "must give 1 result and -1 residuals");
  expect_error(derivative("rule=vjp, num_nondiff=2, num_residuals=1", "primal, forward, backward"),
               "backward backward has 2 parameters and needs 4");
  expect_error(derivative("rule=vjp, num_nondiff=1, num_residuals=1", "primal, forward, backward"),
               "backward backward has 2 parameters and needs 3");
}

TEST(DerivativeOps, TheVerifierKnowsTheirAttributes) {
  const auto module = read(remat("dots_saveable"));
  Instruction* op = module->entry()->root();
  op->edit<RematAttrs>().policies[0].names = {"q"};
  EXPECT_THROW(verify(*module), ShapeError);
  op->edit<RematAttrs>().policies[0] = {
      RematPolicy::Kind::offload_dot_with_no_batch_dims, {}, {}, {}, {}};
  EXPECT_THROW(verify(*module), ShapeError);
  op->attrs = WhileAttrs{};
  EXPECT_THROW(verify(*module), ValueError);
}

/// Rules that look up computations of program().
class Named : public DerivativeRules {
 public:
  Named(std::string forward, std::string backward)
      : forward_(std::move(forward)), backward_(std::move(backward)) {}
  std::string name() const override { return "named"; }
  Computation* jvp(const Instruction& op, const std::vector<bool>& perturbed) override {
    asked = perturbed;
    return find(op, forward_);
  }
  Vjp vjp(const Instruction& op, const std::vector<bool>& perturbed) override {
    asked = perturbed;
    return {find(op, forward_), find(op, backward_), 1};
  }
  std::vector<bool> asked;

 private:
  static Computation* find(const Instruction& op, const std::string& name) {
    for (const auto& c : op.parent->module()->computations()) {
      if (c->name() == name) return c.get();
    }
    return nullptr;
  }
  const std::string forward_, backward_;
};

TEST(DerivativeOps, RulesAreTracedOnDemand) {
  const auto jvp = read(derivative("rule=jvp, num_nondiff=1", "primal"));
  Instruction* op = jvp->entry()->root();
  const auto rules = std::make_shared<Named>("tangent", "");
  op->edit<CustomDerivativeAttrs>().rules = rules;
  trace_rules(op);
  ASSERT_EQ(op->called().size(), 2u);
  EXPECT_EQ(op->called(1)->name(), "tangent");
  EXPECT_EQ(rules->asked, std::vector<bool>{true});
  verify(*jvp);
  trace_rules(op);  // once
  EXPECT_EQ(op->called().size(), 2u);

  const auto vjp = read(derivative("rule=vjp", "primal"));
  op = vjp->entry()->root();
  op->edit<CustomDerivativeAttrs>().rules = std::make_shared<Named>("forward", "backward");
  trace_rules(op);
  ASSERT_EQ(op->called().size(), 3u);
  EXPECT_EQ(op->get<CustomDerivativeAttrs>().residuals, 1);
  verify(*vjp);
  // Copies share the hook.
  const auto copy = vjp->clone();
  EXPECT_EQ(copy->entry()->root()->get<CustomDerivativeAttrs>().rules,
            op->get<CustomDerivativeAttrs>().rules);
}

TEST(DerivativeOps, WrongRulesAreRefused) {
  const auto module = read(derivative("rule=vjp, label=\"f\"", "primal"));
  Instruction* op = module->entry()->root();
  try {
    trace_rules(op);
    FAIL() << "nothing was thrown";
  } catch (const ValueError& e) {
    EXPECT_NE(e.message().find("of f has no rule"), std::string::npos) << e.message();
  }
  op->edit<CustomDerivativeAttrs>().rules = std::make_shared<Named>("forward", "primal");
  EXPECT_THROW(trace_rules(op), ShapeError);
  EXPECT_EQ(op->called().size(), 1u);
}

}  // namespace
}  // namespace tessera::ir::derivative_ops
