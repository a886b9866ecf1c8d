// SPDX-License-Identifier: Apache-2.0
// Random modules with every form of sdy, through all stages, against the evaluator on the same
// program without sdy. SOAK_PROGRAMS / 4 of them (500 if unset), from seed SOAK_SEED.
#include <gtest/gtest.h>

#include <cstdlib>

#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/compiler/read_module.h"
#include "src/evaluator/evaluator.h"
#include "src/ir/custom_calls/custom_call.h"
#include "src/ir/rewrite/whole_arrays.h"
#include "src/text/read/stablehlo.h"
#include "tests/compiler/run_executable.h"
#include "tests/support/random_program.h"
#include "tests/support/random_sdy.h"
#include "tests/support/shards.h"

namespace tessera::testing {
namespace {

std::uint64_t number_or(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : fallback;
}

/// A target without a rule of its own: calls state theirs.
class Negate : public ir::CustomCallTarget, public codegen::CallKernel {
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

void register_negate() {
  static const bool done = [] {
    const auto negate = std::make_shared<Negate>();
    codegen::register_custom_call("sdy_random.negate", negate, negate);
    return true;
  }();
  static_cast<void>(done);
}

/// As it is, or as Tessera writes it in one form or the other.
std::unique_ptr<ir::Module> read(const std::string& text, std::int64_t way) {
  auto module = compiler::read_module(text, "sdy.mlir");
  if (way > 1) return module;
  const auto form = way == 0 ? compiler::TextForm::stablehlo : compiler::TextForm::hlo;
  return compiler::read_module(compiler::write_module(*module, form), "written");
}

/// Partial sums keep no sign of zeros (docs/from-jax.md).
Literal without_signed_zeros(const Literal& l) {
  if (l.is_tuple()) {
    std::vector<Literal> parts;
    for (const Literal& e : l.elements()) parts.push_back(without_signed_zeros(e));
    return Literal::tuple(std::move(parts));
  }
  if (l.dtype() != DType::f32) return l;
  Literal out = l;
  for (float& v : out.mutable_data<float>()) v += 0.0F;
  return out;
}

/// Empty if all is well.
std::string fault_of(std::uint64_t seed, Layouts layouts) {
  const RandomSdy program = random_sdy(seed);
  const auto failed = [&](const std::string& why) {
    return "SOAK_SEED=" + std::to_string(seed) + ": " + why + "\n--- with sdy\n" +
           program.annotated + "--- without\n" + program.plain;
  };
  try {
    Dice dice(seed + 1);
    std::vector<Literal> arguments;
    for (const Dims& dims : program.arguments) {
      arguments.push_back(random_literal(dice, DType::f32, dims, true));
    }
    const auto plain = text::parse_stablehlo(program.plain, "plain.mlir");
    const Literal whole = evaluator::evaluate(*plain, arguments);
    compiler::Options options;
    options.layouts = layouts;
    auto module = read(program.annotated, dice.below(6));
    ir::take_whole_arrays(module.get());
    const auto executable = compiler::compile(std::move(module), options);
    std::vector<std::vector<Literal>> shards{arguments};
    if (executable->num_devices() > 1) {
      shards = shard_arguments(executable->partitioned(), arguments);
    }
    compiler::DeviceArrays buffers = to_device_arrays(shards);
    const std::vector<bool> donated(buffers.size(), true);
    const auto results = executable->run(std::move(buffers), donated);
    std::vector<Literal> met = to_literals(*executable, results);
    const bool partial = program.annotated.find("unreduced") != std::string::npos;
    if (partial) {
      for (Literal& l : met) l = without_signed_zeros(l);
    }
    const auto fault = difference(met, partial ? without_signed_zeros(whole) : whole,
                                  executable->result_shardings(), 0);
    if (fault) return failed(*fault);
  } catch (const std::exception& e) {
    return failed(e.what());
  }
  return {};
}

void run(Layouts layouts) {
  register_negate();
  const std::uint64_t first = number_or("SOAK_SEED", 1);
  const std::uint64_t count = number_or("SOAK_PROGRAMS", 2000) / 4;
  int failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < 3; ++seed) {
    const std::string fault = fault_of(seed, layouts);
    if (fault.empty()) continue;
    ADD_FAILURE() << fault;
    ++failures;
  }
}

TEST(DifferentialSdy, Solved) { run(Layouts::solved); }

TEST(DifferentialSdy, AsPropagated) { run(Layouts::propagated); }

}  // namespace
}  // namespace tessera::testing
