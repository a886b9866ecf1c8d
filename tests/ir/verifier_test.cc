// SPDX-License-Identifier: Apache-2.0
// Faults that the verifier finds in modules changed by hand, and canonical text.
#include <functional>

#include "src/base/arrays/literal_util.h"
#include "src/ir/rewrite/builder.h"
#include "src/ir/shapes/shape_inference.h"
#include "tests/ir/first_difference.h"
#include "tests/ir/text_cases.h"

namespace tessera::ir::testing {
namespace {

const char* kText = R"(HloModule m, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b)
}

ENTRY e {
  x = f32[8,4]{1,0} parameter(0), sharding={devices=[2,2]<=[4]}
  zero = f32[] constant(0)
  y = f32[8,4]{1,0} negate(x)
  s = f32[8]{0} reduce(y, zero), dimensions={1}, to_apply=add, metadata={source_file="model.py" source_line=7}
  ROOT t = (f32[8]{0}, f32[8,4]{1,0}) tuple(s, y), sharding={{replicated}, {devices=[2,2]<=[4]}}
}
)";

struct Broken {
  const char* name;
  std::function<void(Module&, Computation&)> change;
  const char* parts;
};

Instruction* at(Computation& c, std::size_t i) { return c.instructions()[i].get(); }

TEST(Verifier, FindsWhatIsWrong) {
  const std::vector<Broken> cases = {
      {"shape",
       [](Module&, Computation& e) {
         at(e, 2)->shape = Shape(DType::f32, {8, 5});
       },
       "instruction y of e: negate(f32[8,4]): the result is f32[8,4] and f32[8,5] was declared"},
      {"location", [](Module&, Computation& e) { at(e, 3)->shape = Shape(DType::f32, {9}); },
       "model.py:7: instruction s (model.py:7) of e: reduce("},
      {"order", [](Module&, Computation& e) { at(e, 2)->set_operand(0, at(e, 3)); },
       "instruction y of e: operand s stands after its user"},
      {"foreign operand",
       [](Module& m, Computation& e) {
         at(e, 2)->set_operand(0, m.computations()[0]->parameter(0));
       },
       "operand of another computation"},
      {"count", [](Module&, Computation& e) { at(e, 2)->add_operand(at(e, 0)); },
       "takes 1 operand, not 2"},
      {"attributes", [](Module&, Computation& e) { at(e, 3)->attrs = IotaAttrs{0}; },
       "reduce has the attributes of another opcode"},
      {"callee", [](Module&, Computation& e) { at(e, 3)->set_called({}); },
       "needs 1 called computation, not 0"},
      {"name", [](Module&, Computation& e) { at(e, 2)->name = "a b"; },
       "its name can't be written"},
      {"name twice", [](Module&, Computation& e) { at(e, 2)->name = "x"; },
       "its name stands twice"},
      {"root", [](Module&, Computation& e) { e.set_root(nullptr); }, "computation e: has no root"},
      {"constant",
       [](Module&, Computation& e) {
         at(e, 1)->edit<ConstantAttrs>().value = Literal::scalar(DType::s32, 1);
       },
       "a value s32[] as a constant f32[]"},
      {"sharding rank", [](Module&, Computation& e) { at(e, 0)->sharding[0].dims.pop_back(); },
       "instruction x of e: sharding|of rank 1 on a value f32[8,4]"},
      {"sharding count", [](Module&, Computation& e) { at(e, 4)->sharding.pop_back(); },
       "1 shardings for 2 values of (f32[8], f32[8,4])"},
      {"axis twice",
       [](Module&, Computation& e) {
         auto& dims = at(e, 0)->sharding[0].dims;
         dims[1].axes = dims[0].axes;
       },
       "stands twice in sharding"},
      {"axis number", [](Module&, Computation& e) { at(e, 0)->sharding[0].dims[0].axes = {9}; },
       "axis number 9 of a mesh with"},
      {"device",
       [](Module&, Computation& e) { at(e, 0)->sharding[0] = TensorSharding::maximal_on(4); },
       "sharding on device 4 of 4"},
      {"partitions", [](Module& m, Computation&) { m.num_partitions = 2; },
       "a mesh of 4 devices in a module of 2 partitions"},
      {"no partitions", [](Module& m, Computation&) { m.num_partitions = 0; }, "0 partitions"},
      {"alias",
       [](Module& m, Computation&) {
         m.input_output_alias = {{{0}, 0, {}, false}};
       },
       "joins f32[8,4] and f32[8], which differ in size"},
      {"donor",
       [](Module& m, Computation&) {
         m.buffer_donor = {{3, {}}};
       },
       "buffer_donor names parameter 3"},
      {"entry", [](Module& m, Computation&) { m.set_entry(nullptr); }, "module m has no entry"},
      {"control", [](Module&, Computation& e) { at(e, 2)->set_control_predecessors({at(e, 3)}); },
       "control predecessor s stands after its user"},
  };
  for (const Broken& c : cases) {
    SCOPED_TRACE(c.name);
    auto m = parse_hlo(kText);
    verify(*m);
    c.change(*m, *m->entry());
    try {
      verify(*m);
      ADD_FAILURE() << "not found";
    } catch (const Error& e) {
      std::string what = e.what();
      std::istringstream in(c.parts);
      for (std::string part; std::getline(in, part, '|');) {
        EXPECT_NE(what.find(part), std::string::npos) << what;
      }
    }
  }
}

TEST(Verifier, ManualComputationsFitTheirBodies) {
  const auto error = [](const std::string& operands, const std::string& root) {
    try {
      parse_hlo("HloModule m, num_partitions=2\nbody {\n  x = f32[4] parameter(0)\n" + root +
                "}\nENTRY e {\n  a = f32[8] parameter(0)\n  ROOT c = f32[8] custom-call(" +
                operands +
                "), custom_call_target=\"tessera.ManualComputation\", "
                "in_shardings=[<mesh<[\"x\"=2]>, [{\"x\"}]>], out_shardings=[<mesh<[\"x\"=2]>, "
                "[{\"x\"}]>], manual_axes=[\"x\"], called_computations={body}\n}\n");
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const std::string one = "  ROOT r = f32[4] negate(x)\n";
  EXPECT_EQ(error("a", one), "no error");
  EXPECT_NE(
      error("a", "  ROOT r = (f32[4], f32[4]) tuple(x, x)\n").find("1 results and a body of 2"),
      std::string::npos);
  EXPECT_NE(error("a, a", one).find("has 2 operands"), std::string::npos);
}

TEST(Verifier, FusionsAreOfAKindThatThereIs) {
  const auto fusion = [](const std::string& kind) {
    return "f { p = f32[4] parameter(0)\n  ROOT n = f32[4] negate(p) }\n"
           "ENTRY e { a = f32[4] parameter(0)\n  ROOT r = f32[4] fusion(a), " +
           kind + "calls=f }\n";
  };
  for (const char* kind : {"kLoop", "kInput", "kOutput", "kCustom"}) {
    verify(*parse_hlo(fusion("kind=" + std::string(kind) + ", ")));
  }
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {fusion(""), "r of e: has no kind"},
      {fusion("kind=kFused, "), "r of e: is of kind kFused, and there are kLoop"}};
  for (const auto& [text, message] : wrong) {
    try {
      verify(*parse_hlo(text));
      ADD_FAILURE() << "not found";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(message), std::string::npos) << e.what();
    }
  }
  const auto two = parse_hlo(fusion("kind=kLoop, "));
  Instruction* call = two->entry()->root();
  call->add_called(call->called(0));
  EXPECT_THROW(verify(*two), ValueError);
  call->set_called({call->called(0)});
  call->called(0)->parameter(0)->shape = Shape(DType::f32, {5});
  EXPECT_THROW(verify(*two), Error);
}

std::string canonical(const Module& m) {
  PrintOptions options;
  options.canonical = true;
  return to_string(m, options);
}

TEST(CanonicalText, DependsOnTheProgramOnly) {
  auto base = parse_hlo(kText);
  const std::string text_of_base = canonical(*base);
  std::string renamed = kText;
  for (auto [from, to] : {std::pair<std::string, std::string>{"x = ", "input = "},
                          {"negate(x)", "negate(input)"},
                          {"model.py", "other.py"}}) {
    renamed.replace(renamed.find(from), from.size(), to);
  }
  EXPECT_EQ(canonical(*parse_hlo(renamed)), text_of_base);
  EXPECT_EQ(canonical(*base->clone()), text_of_base);

  std::vector<std::pair<std::string, std::string>> changes = {
      {"negate(x)", "abs(x)"},
      {"constant(0)", "constant(-0)"},
      {"dimensions={1}", "dimensions={1}, backend_config={}"},
      {"sharding={devices=[2,2]<=[4]}", "sharding={devices=[4,1]<=[4]}"},
      {"num_partitions=4", "num_partitions=4, replica_count=2"},
      {"f32[] add(a, b)", "f32[] add(b, a)"},
      {"parameter(0), sharding={devices=[2,2]<=[4]}", "parameter(0)"},
      {"num_partitions=4", "num_partitions=4, buffer_donor={ (0, {}) }"},
  };
  for (const auto& [from, to] : changes) {
    std::string text = kText;
    text.replace(text.find(from), from.size(), to);
    auto m = parse_hlo(text);
    EXPECT_NE(canonical(*m), text_of_base) << to;
    EXPECT_NE(first_difference(*base, *m), "") << to;
  }
}

TEST(FirstDifference, SeesOpenDimsAndTripCounts) {
  auto a = parse_hlo(kText), b = parse_hlo(kText);
  b->entry()->parameter(0)->sharding[0].dims[0].open = true;
  EXPECT_NE(first_difference(*a, *b), "");
  EXPECT_EQ(to_string(*a), to_string(*b));  // tilings don't have them
  EXPECT_EQ(first_difference(*a, *b, false), "");
  const char* loop =
      "c { s = f32[] parameter(0) ROOT z = pred[] constant(false) }\nb { ROOT s = f32[] "
      "parameter(0) }\nENTRY e { p = f32[] parameter(0) ROOT w = f32[] while(p), condition=c, "
      "body=b }";
  auto c = parse_hlo(loop), d = parse_hlo(loop);
  d->entry()->root()->edit<WhileAttrs>().known_trip_count = 3;
  EXPECT_NE(first_difference(*c, *d), "");
}

}  // namespace
}  // namespace tessera::ir::testing
