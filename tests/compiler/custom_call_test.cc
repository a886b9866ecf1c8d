// SPDX-License-Identifier: Apache-2.0
// Custom calls on eight devices: batches stay split, matrices are gathered.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "src/base/arrays/literal_util.h"
#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/fixtures.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

/// The program for eight devices: parameters whose first dim is 2 are split along it.
std::string split_batches(std::string text) {
  const std::size_t header = text.find(',');
  text.insert(header, ", num_partitions=8");
  std::size_t at = text.find("\nENTRY");
  while ((at = text.find(" parameter(", at)) != std::string::npos) {
    const std::size_t line = text.rfind('\n', at);
    const std::size_t open = text.find('[', line), close = text.find(']', open);
    const std::string dims = text.substr(open + 1, close - open - 1);
    at = text.find(')', at) + 1;
    if (dims.substr(0, 2) != "2,") continue;
    std::string tiles = "2";
    for (char c : dims) tiles += c == ',' ? ",1" : "";
    text.insert(at, ", sharding={devices=[" + tiles + ",4]<=[8] last_tile_dim_replicate}");
  }
  return text;
}

Literal expected_of(const ir::Module& module, const FixtureCase& c) {
  return module.entry()->root()->shape.is_tuple ? Literal::tuple(c.results) : c.results[0];
}

TEST(CustomCalls, SplitBatchesNeedNoCommunication) {
  codegen::register_builtin_custom_calls();
  std::set<std::string> silent;
  for (const FixtureCase& c : read_fixtures("linalg/linalg.txt")) {
    if (c.hlo.find("parameter(0)") == std::string::npos) continue;
    SCOPED_TRACE(c.name);
    try {
      auto module = ir::parse_hlo(split_batches(c.hlo), c.name);
      const Literal whole = expected_of(*module, c);
      const auto executable = compiler::compile(std::move(module));
      const auto args = shard_arguments(executable->partitioned(), c.arrays());
      const auto results = executable->run(to_device_arrays(args), {});
      const auto fault = difference(to_literals(*executable, results), whole,
                                    executable->result_shardings(), 1e-4);
      EXPECT_FALSE(fault.has_value()) << *fault << ir::to_string(executable->partitioned());
      if (executable->last_run_collectives().empty()) silent.insert(c.name);
      if (c.hlo.find("[2,") == std::string::npos) continue;
      // What the program of one device says fits its shapes.
      for (const auto& computation : executable->partitioned().computations()) {
        for (const auto& i : computation->instructions()) {
          if (!i->is(ir::Opcode::custom_call)) continue;
          for (const ir::Instruction* o : i->operands()) {
            if (o->shape.rank() == 3) {
              EXPECT_EQ(o->shape.dim(0), 1) << i->describe();
            }
          }
          for (const auto& [key, text] : i->get<ir::CustomCallAttrs>().other) {
            if (key == "operand_layout_constraints") {
              EXPECT_NE(text.find(i->operand(0)->shape.to_string()), std::string::npos) << text;
            }
          }
        }
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
  }
  for (const char* name :
       {"cholesky_f32", "qr_f32", "eigh_f32", "svd_c128", "eig_left_f32", "hessenberg_f32",
        "tridiagonal_f32", "tridiagonal_solve_f32", "ormqr_f32", "triangular_solve_f32"}) {
    EXPECT_EQ(silent.count(name), 1u) << name << " moves data among devices";
  }
}

struct Outcome {
  std::shared_ptr<const compiler::Executable> executable;
  std::int64_t moved = 0;
};

Outcome run(const std::string& lines, const std::vector<Literal>& arguments) {
  codegen::register_builtin_custom_calls();
  auto module = ir::parse_hlo("HloModule m, num_partitions=8\nENTRY main {\n" + lines + "\n}\n");
  const Literal whole = evaluator::evaluate(*module, arguments);
  Outcome r;
  r.executable = compiler::compile(std::move(module));
  const auto args = shard_arguments(r.executable->partitioned(), arguments);
  const auto results = r.executable->run(to_device_arrays(args), {});
  const auto fault = difference(to_literals(*r.executable, results), whole,
                                r.executable->result_shardings(), 1e-5);
  EXPECT_FALSE(fault.has_value()) << *fault << ir::to_string(r.executable->partitioned());
  for (const auto& [kind, c] : r.executable->last_run_collectives()) r.moved += c.first;
  return r;
}

Literal spread(Dims dims, double diagonal) {
  std::vector<double> values;
  const std::int64_t n = dims.back(), rows = dims[dims.size() - 2];
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    const std::int64_t row = i / n % rows, column = i % n;
    values.push_back(row == column ? diagonal : 1.0 / double(1 + row + column));
  }
  return make_literal(DType::f32, std::move(dims), values);
}

constexpr const char* kCholesky =
    "  c = (f32[16,16]{0,1}, s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\", "
    "operand_layout_constraints={f32[16,16]{0,1}}, api_version=API_VERSION_TYPED_FFI, "
    "backend_config={uplo = 76 : ui8}, metadata={source_file=\"model.py\" source_line=7}\n"
    "  ROOT r = f32[16,16] get-tuple-element(c), index=0";

TEST(CustomCalls, SplitMatricesAreGatheredAndReported) {
  const Outcome r =
      run(std::string("  a = f32[16,16] parameter(0), sharding={devices=[4,2]<=[8]}\n") + kCholesky,
          {spread({16, 16}, 40)});
  // Each device lacks seven of eight parts.
  EXPECT_EQ(r.moved, 16 * 16 * 4 * 7 / 8);
  bool reported = false;
  for (const auto& record : r.executable->report().records) {
    reported = reported || record.location.line == 7;
  }
  EXPECT_TRUE(reported);
}

TEST(CustomCalls, SplitRightHandSidesNeedNoCommunication) {
  const std::string solve =
      "f32[8,16]{0,1} custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", "
      "operand_layout_constraints={f32[8,8]{0,1}, f32[8,16]{0,1}}, "
      "api_version=API_VERSION_TYPED_FFI, backend_config={diag = 78 : ui8, side = 76 : ui8, "
      "trans_x = 78 : ui8, uplo = 76 : ui8}";
  const Outcome r =
      run("  a = f32[8,8] parameter(0), sharding={replicated}\n"
          "  b = f32[8,16] parameter(1), sharding={devices=[1,8]<=[8]}\n  ROOT x = " +
              solve,
          {spread({8, 8}, 5), spread({8, 16}, 2)});
  EXPECT_EQ(r.moved, 0);
  EXPECT_EQ(r.executable->result_shardings()[0].shard_dims({8, 16}), (Dims{8, 2}));
}

/// Whichever triangle, and however small: the matrix times the answer is the right-hand side.
TEST(CustomCalls, TriangularSystemsAreSolved) {
  codegen::register_builtin_custom_calls();
  for (const std::int64_t n : {1, 7, 32, 33}) {
    for (const std::int64_t columns : {1, 4, 5}) {
      for (int kind = 0; kind < 8; ++kind) {
        const bool lower = (kind & 1) != 0, turned = (kind & 2) != 0, unit = (kind & 4) != 0;
        const Literal a = spread({n, n}, 3), b = spread({n, columns}, 2);
        const std::string matrix = fmt::format("f32[{},{}]{{0,1}}", n, n),
                          side = fmt::format("f32[{},{}]{{0,1}}", n, columns);
        const auto executable = compiler::compile(ir::parse_hlo(fmt::format(
            "HloModule m\nENTRY main {{\n  a = f32[{0},{0}] parameter(0)\n"
            "  b = f32[{0},{1}] parameter(1)\n"
            "  ROOT x = {3} custom-call(a, b), custom_call_target=\"lapack_strsm_ffi\", "
            "operand_layout_constraints={{{2}, {3}}}, api_version=API_VERSION_TYPED_FFI, "
            "backend_config={{diag = {4} : ui8, side = 76 : ui8, trans_x = {5} : ui8, "
            "uplo = {6} : ui8}}\n}}\n",
            n, columns, matrix, side, int(unit ? 'U' : 'N'), int(turned ? 'T' : 'N'),
            int(lower ? 'L' : 'U'))));
        const auto args = shard_arguments(executable->partitioned(), {a, b});
        const auto results = executable->run(to_device_arrays(args), {});
        const std::vector<Literal> made = to_literals(*executable, results);
        const auto x = made.at(0).data<float>();
        const auto given = a.data<float>(), wanted = b.data<float>();
        for (std::int64_t i = 0; i < n; ++i) {
          for (std::int64_t c = 0; c < columns; ++c) {
            double sum = 0;
            for (std::int64_t k = 0; k < n; ++k) {
              const std::int64_t row = turned ? k : i, column = turned ? i : k;
              if (row != column && (row > column) != lower) continue;
              const double factor =
                  unit && row == column ? 1 : double(given[std::size_t(row * n + column)]);
              sum += factor * double(x[std::size_t(k * columns + c)]);
            }
            EXPECT_NEAR(sum, double(wanted[std::size_t(i * columns + c)]), 1e-4)
                << n << " " << columns << " " << kind;
          }
        }
      }
    }
  }
}

TEST(CustomCalls, TextRulesAreFollowed) {
  // A target without a rule of its own; the call's text has one.
  class Negated : public ir::CustomCallTarget, public codegen::CallKernel {
   public:
    codegen::PreparedCall prepare(const ir::Instruction&) const override {
      codegen::PreparedCall call;
      call.run = [](std::span<const BufferView> in, std::span<const MutableBufferView> out,
                    std::int64_t, std::int64_t) {
        const auto x = in[0].data<float>();
        const auto y = out[0].data<float>();
        for (std::size_t i = 0; i < x.size(); ++i) y[i] = -x[i];
      };
      return call;
    }
  };
  const auto negated = std::make_shared<Negated>();
  codegen::register_custom_call("test.negated", negated, negated);
  const std::string parameter = "  a = f32[16,8] parameter(0), sharding={devices=[8,1]<=[8]}\n";
  const std::string call =
      "  ROOT r = f32[16,8] custom-call(a), custom_call_target=\"test.negated\"";
  const auto rule = [](const std::string& text) {
    return ", frontend_attributes={xla.sdy.sharding_rule=\"#sdy.op_sharding_rule<" + text +
           ", custom>\"}";
  };
  EXPECT_EQ(
      run(parameter + call + rule("([i, j])->([i, j]) {i=16, j=8}"), {spread({16, 8}, 3)}).moved,
      0);
  // Factors that only one side has must not be split.
  EXPECT_GT(
      run(parameter + call + rule("([i, j])->([k, j]) {i=16, j=8, k=16}"), {spread({16, 8}, 3)})
          .moved,
      0);
  EXPECT_GT(run(parameter + call, {spread({16, 8}, 3)}).moved, 0);
  // Shardings don't propagate along a factor that blocks.
  const std::string blocked = "([i, j])->([i, j]) {i=16, j=8} blocked_propagation=";
  EXPECT_GT(run(parameter + call + rule(blocked + "{i}"), {spread({16, 8}, 3)}).moved, 0);
  EXPECT_EQ(run(parameter + call + rule(blocked + "{j}"), {spread({16, 8}, 3)}).moved, 0);
  // Neither must dims whose size isn't that of their factors.
  EXPECT_GT(
      run(parameter + call + rule("([i, j])->([i, j]) {i=4, j=8}"), {spread({16, 8}, 3)}).moved, 0);
  EXPECT_THROW(run(parameter + call + rule("([i])->([i]) {i=16}"), {spread({16, 8}, 3)}),
               ShapeError);
  EXPECT_THROW(run(parameter + call + rule("([i, j])->([i, j) {i=4, j=8}"), {spread({16, 8}, 3)}),
               ParseError);
}

// Where a call asks for row-major matrices, LAPACK takes their memory for column-major ones.
TEST(CustomCalls, LapackHasMemoryAsCallsAskFor) {
  const auto executable = compiler::compile(ir::parse_hlo(R"(
HloModule m
ENTRY main {
  a = f32[3,2] parameter(0)
  raw = (f32[3,2]{1,0}, f32[2]{0}) custom-call(a), custom_call_target="lapack_sgeqrf_ffi", operand_layout_constraints={f32[3,2]{1,0}}, api_version=API_VERSION_TYPED_FFI
  turned = f32[2,3] reshape(a)
  b = f32[3,2] transpose(turned), dimensions={1,0}
  usual = (f32[3,2]{0,1}, f32[2]{0}) custom-call(b), custom_call_target="lapack_sgeqrf_ffi", operand_layout_constraints={f32[3,2]{0,1}}, api_version=API_VERSION_TYPED_FFI
  r = f32[3,2] get-tuple-element(usual), index=0
  back = f32[2,3] transpose(r), dimensions={1,0}
  want = f32[3,2] reshape(back)
  got = f32[3,2] get-tuple-element(raw), index=0
  ROOT both = (f32[3,2], f32[3,2]) tuple(got, want)
}
)"));
  const Literal a = make_literal(DType::f32, {3, 2}, std::vector<float>{1, 2, 3, -4, 5, 6});
  const auto made = to_literals(*executable, executable->run(to_device_arrays({{a}}), {}));
  const std::vector<Literal>& results = made.at(0).elements();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_TRUE(results[0] == results[1]);
  EXPECT_FALSE(results[0] == a);
}

TEST(CustomCalls, MisfitsAreErrorsThatNameTheLine) {
  const Literal a = make_literal(DType::f32, {4, 4}, std::vector<float>(16, 1));
  struct Case {
    std::string call;
    std::string part;
  };
  const std::vector<Case> cases = {
      {"(f32[4,4], s32[]) custom-call(a), custom_call_target=\"lapack_dpotrf_ffi\", "
       "backend_config={uplo = 76 : ui8}",
       "must be f64"},
      {"(f32[4,5], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\", "
       "backend_config={uplo = 76 : ui8}",
       "must be 4"},
      {"(f32[4,4], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\", "
       "backend_config={lower = true}",
       "no attribute 'uplo'"},
      {"(f32[4,4], s32[]) custom-call(a), custom_call_target=\"lapack_spotrf_ffi\", "
       "backend_config={uplo = 65 : ui8}",
       "'L' or 'U'"},
      {"(f32[4,4], f32[4]) custom-call(a, a), custom_call_target=\"lapack_sgeqrf_ffi\"",
       "2 operands"},
      {"(f32[4,4], s32[4], s32[]) custom-call(), custom_call_target=\"lapack_sgetrf_ffi\"",
       "0 operands"},
      {"f32[4,4] custom-call(a), custom_call_target=\"my_kernel\"", "register_custom_call"},
      {"f32[4,4] custom-call(a), custom_call_target=\"xla_ffi_python_cpu_callback\"", "Python"},
  };
  for (const Case& c : cases) {
    const std::string text =
        "HloModule m\nENTRY main {\n  a = f32[4,4] parameter(0)\n  ROOT c = " + c.call +
        ", metadata={source_file=\"model.py\" source_line=12}\n}\n";
    try {
      // Of a call that could be of other shapes, it is an error to run it.
      const auto executable = compiler::compile(ir::parse_hlo(text));
      EXPECT_NE(c.call.find("lapack"), std::string::npos) << "compiled: " << c.call;
      executable->run(to_device_arrays({{a}}), {});
      ADD_FAILURE() << "ran: " << c.call;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(c.part), std::string::npos) << e.what();
      EXPECT_EQ(e.location().line, 12u) << e.what();
    }
  }
}

TEST(CustomCalls, WhatDoesNotFitCompilesOnManyDevices) {
  const auto compiled = [](const std::string& result) {
    return compiler::compile(
        ir::parse_hlo("HloModule m, num_partitions=4\nENTRY main {\n"
                      "  a = f32[8,4] parameter(0), sharding={devices=[4,1]<=[4]}\n  call = " +
                      result +
                      " custom-call(), custom_call_target=\"lapack_sgetrf_ffi\", "
                      "custom_call_has_side_effect=true\n  ROOT n = f32[8,4] negate(a)\n}\n"));
  };
  const auto executable = compiled("token[]");
  EXPECT_NE(ir::to_string(executable->partitioned()).find("lapack_sgetrf_ffi"), std::string::npos);
  EXPECT_THROW(compiled("()"), NotImplementedError);
}

TEST(CustomCalls, CallbacksInBranchesFailWhenTheyAreReached) {
  const auto executable = compiler::compile(ir::parse_hlo(R"(
HloModule m
ask {
  a = f32[2] parameter(0)
  ROOT c = f32[2] custom-call(a), custom_call_target="xla_ffi_python_cpu_callback", metadata={source_file="model.py" source_line=12}
}
same {
  ROOT a = f32[2] parameter(0)
}
ENTRY main {
  p = pred[] parameter(0)
  x = f32[2] parameter(1)
  ROOT r = f32[2] conditional(p, x, x), true_computation=ask, false_computation=same
}
)"));
  const Literal x(Shape(DType::f32, {2}));
  const auto run = [&](bool fails) {
    return executable->run(to_device_arrays({{Literal::scalar(DType::pred, fails), x}}), {});
  };
  EXPECT_TRUE(to_literals(*executable, run(false))[0] == x);
  try {
    run(true);
    ADD_FAILURE() << "ran";
  } catch (const NotImplementedError& e) {
    EXPECT_NE(std::string(e.what()).find("Python"), std::string::npos) << e.what();
    EXPECT_EQ(e.location().line, 12u);
  }
}

TEST(CustomCalls, PlainTargetsAreReplacedByEquivalentOps) {
  codegen::register_builtin_custom_calls();
  const auto module = ir::parse_hlo(R"(
HloModule m
ENTRY main {
  a = f32[4] parameter(0)
  b = f32[4] custom-call(a), custom_call_target="annotate_device_placement", custom_call_has_side_effect=true, frontend_attributes={_xla_buffer_placement="pinned_host"}
  g = () custom-call(b), custom_call_target="xla.sdy.ShardingGroup", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding_group_id="1 : i64"}
  c = f32[4] custom-call(b), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true
  e = f32[4] custom-call(c), custom_call_target="mhlo.erf", backend_config={}
  t = (f32[2], s32[2]) custom-call(e), custom_call_target="TopK"
  u = (f32[2], s32[2]) custom-call(e), custom_call_target="mhlo.topk", backend_config={k = 2 : i64, largest = false}
  v = f32[2] get-tuple-element(t), index=0
  i = s32[2] get-tuple-element(t), index=1
  w = f32[2] get-tuple-element(u), index=0
  ROOT r = (f32[2], s32[2], f32[2]) tuple(v, i, w)
}
)");
  const Literal a = make_literal(DType::f32, {4}, std::vector<double>{0, 2, -1, 1});
  const Literal evaluated = evaluator::evaluate(*module, std::vector<Literal>{a});
  const auto executable = compiler::compile(module->clone());
  const auto results = executable->run(to_device_arrays({{a}}), {});
  const Literal compiled = to_literals(*executable, results)[0];
  for (const Literal* r : {&evaluated, &compiled}) {
    EXPECT_NEAR(r->elements()[0].data<float>()[0], 0.9953223, 1e-6);
    EXPECT_NEAR(r->elements()[0].data<float>()[1], 0.8427008, 1e-6);
    EXPECT_EQ(r->elements()[1].data<std::int32_t>()[0], 1);
    EXPECT_EQ(r->elements()[1].data<std::int32_t>()[1], 3);
    EXPECT_NEAR(r->elements()[2].data<float>()[0], -0.8427008, 1e-6);
  }
}

}  // namespace
}  // namespace tessera::testing
