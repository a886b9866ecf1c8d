// SPDX-License-Identifier: Apache-2.0
// Small texts that would expand without bound, and large ones that can only be mistakes: each
// causes an Error, quickly and without much memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

#include "src/ir/hlo/hlo_text.h"
#include "src/ir/shapes/shape_inference.h"

namespace tessera {
namespace {

std::string repeated(const std::string& text, int times) {
  std::string out;
  out.reserve(text.size() * std::size_t(times));
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return double(usage.ru_utime.tv_sec) + 1e-6 * double(usage.ru_utime.tv_usec);
}

/// Reading must end in an Error whose message has `word`, within a few seconds of work.
void refused(const std::string& text, const std::string& word) {
  const double start = cpu_seconds();
  try {
    ir::verify(*ir::parse_hlo(text));
    ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  } catch (const InternalError& e) {
    ADD_FAILURE() << e.what();
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find(word), std::string::npos) << what.substr(0, 400);
    EXPECT_LT(what.size(), 4000u);
  }
  EXPECT_LT(cpu_seconds() - start, 5);  // a second's work, and a sanitizer's slowness
}

std::string chain_of_calls(int count, int calls_each) {
  std::string text = "c0 {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}\n";
  for (int i = 1; i <= count; ++i) {
    const std::string callee = "to_apply=c" + std::to_string(i - 1);
    text += "c" + std::to_string(i) + " {\n p = f32[] parameter(0)\n";
    for (int k = 0; k < calls_each; ++k) {
      text += " x" + std::to_string(k) + " = f32[] call(" +
              (k == 0 ? std::string("p") : "x" + std::to_string(k - 1)) + "), " + callee + "\n";
    }
    text += "}\n";
  }
  return text + "ENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=c" +
         std::to_string(count) + "\n}\n";
}

TEST(Bombs, TuplesThatDouble) {
  std::string text = "ENTRY e {\n p = f32[] parameter(0)\n t0 = tuple(p, p)\n";
  for (int i = 1; i < 50; ++i) {
    const std::string before = "t" + std::to_string(i - 1);
    text += " t" + std::to_string(i) + " = tuple(" + before + ", " + before + ")\n";
  }
  refused(text + "}\n", "parts");
}

TEST(Bombs, TuplesInTuples) {
  std::string text = "ENTRY e {\n p = f32[] parameter(0)\n t0 = tuple(p)\n";
  for (int i = 1; i < 20000; ++i) {
    text += " t" + std::to_string(i) + " = tuple(t" + std::to_string(i - 1) + ")\n";
  }
  refused(text + "}\n", "deeper than 64");
  refused("ENTRY e {\n p = " + repeated("(", 100000) + "f32[]" + repeated(")", 100000) +
              " parameter(0)\n}",
          "deeper than 64");
}

TEST(Bombs, WideTuplesOfWideTuples) {
  const std::string first = "p" + repeated(", p", 999);
  const auto row = [](const std::string& name) { return name + repeated(", " + name, 999); };
  refused("ENTRY e {\n p = f32[] parameter(0)\n a = tuple(" + first + ")\n b = tuple(" + row("a") +
              ")\n c = tuple(" + row("b") + ")\n}",
          "parts");
}

TEST(Bombs, CallsThatDouble) { refused(chain_of_calls(30, 2), "written out"); }

TEST(Bombs, CallsInCalls) { refused(chain_of_calls(20000, 1), "deep"); }

TEST(Bombs, CallsOfThemselves) {
  refused(
      "c {\n p = f32[] parameter(0)\n ROOT r = f32[] fusion(p), kind=kLoop, calls=c\n}\n"
      "ENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=c\n}",
      "not defined before");
  refused(
      "a {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=b\n}\n"
      "b {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=a\n}\n"
      "ENTRY e {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=a\n}",
      "not defined before");
}

TEST(Bombs, CyclesMadeInMemory) {
  auto module = ir::parse_hlo(chain_of_calls(2, 1));
  ir::Computation* inner = module->computations()[0].get();
  auto call = std::make_unique<ir::Instruction>();
  call->opcode = ir::Opcode::call;
  call->shape = Shape(DType::f32, {});
  call->set_operands({inner->parameter(0)});
  call->set_called({module->computations()[1].get()});
  inner->add(std::move(call));
  EXPECT_THROW(ir::verify(*module), ValueError);
}

TEST(Bombs, AMillionParameters) {
  std::string text = "ENTRY e {\n";
  for (int i = 0; i < 1000000; ++i) {
    text += " p" + std::to_string(i) + " = f32[] parameter(" + std::to_string(i) + ")\n";
  }
  refused(text + "}\n", "parameter number");
  refused("ENTRY e {\n p = f32[] parameter(1000000000)\n}", "parameter number");
}

TEST(Bombs, SizesThatOverflow) {
  const std::string head = "ENTRY e {\n c = f32[] constant(1)\n v = f32[1] reshape(c)\n";
  refused(head + " b = f32[4294967296,4294967296] broadcast(c), dimensions={}\n}", "64 bits");
  refused(head + " b = pad(v, c), padding=9223372036854775000_0\n}", "64 bits");
  refused(head + " b = pad(v, c), padding=9223372036854775807_9223372036854775807\n}", "64 bits");
  refused(head +
              " x = f32[1,1,1] reshape(c)\n b = convolution(x, x), window={size=1 "
              "pad=4611686018427387904_4611686018427387904}, dim_labels=bf0_oi0->bf0\n}",
          "64 bits");
  refused(
      "ENTRY e {\n v = f32[4611686018427387904,0] parameter(0)\n"
      " b = concatenate(v, v, v), dimensions={0}\n}",
      "64 bits");
  refused("ENTRY e {\n c = f32[99999999999999999999] parameter(0)\n}", "64 bits");
}

TEST(Bombs, LiteralsWithMissingElements) {
  refused("ENTRY e {\n ROOT c = f32[1000000,1000000] constant({1})\n}", "too short");
  refused("ENTRY e {\n ROOT c = f32[8] constant(" + repeated("{", 1000000) + "\n}", "expected");
}

TEST(Bombs, BracketsWithoutEnd) {
  refused("ENTRY e {\n ROOT c = f32[8] parameter(0), metadata=" + repeated("{", 1000000), "closed");
  refused("ENTRY e {\n ROOT c = " + repeated("negate(", 100000), "nest deeper");
  refused("ENTRY e {\n p = f32[] parameter(0)\n ROOT c = " +
              repeated("f32[] call(p), to_apply={ q = f32[] parameter(0) ROOT r = ", 100000),
          "closed");
  refused("ENTRY e {\n ROOT c = f32[" + repeated("1,", 1000000) + "1] parameter(0)\n}",
          "255 dimensions");
}

TEST(Bombs, LongLayouts) {
  refused("ENTRY e {\n ROOT c = f32[8]{" + repeated("0,", 1000000) + "0} parameter(0)\n}",
          "more than the 1 dimensions");
}

TEST(Bombs, ManyDevices) {
  const std::string parameter = "ENTRY e {\n ROOT c = f32[8] parameter(0)";
  refused(parameter + ", sharding={devices=[1000000000000]<=[1000000000000]}\n}", "devices");
  refused(parameter + ", sharding={mesh['a'=1000000000,'b'=1000000000], [{'a'}]}\n}", "devices");
  refused(
      "HloModule m, num_partitions=8\nENTRY e {\n c = f32[8] parameter(0)\n ROOT p = f32[8] "
      "collective-broadcast(c), replica_groups=[1000000,1000000]<=[1000000000000]\n}",
      "devices");
}

// The limits must not refuse large programs that are meant.
TEST(Bombs, OrdinaryProgramsAreFarFromTheLimits) {
  const auto accepted = [](const std::string& text) {
    std::unique_ptr<ir::Module> module = ir::parse_hlo(text);
    ir::verify(*module);
    return module;
  };
  EXPECT_EQ(accepted(chain_of_calls(100, 1))->computations().size(), 102u);
  EXPECT_EQ(accepted(chain_of_calls(12, 2))->computations().size(), 14u);
  std::string text = "ENTRY e {\n";
  std::string operands;
  for (int i = 0; i < 20000; ++i) {
    text += " p" + std::to_string(i) + " = f32[] parameter(" + std::to_string(i) + ")\n";
    operands += (i > 0 ? ", p" : "p") + std::to_string(i);
  }
  const auto wide = accepted(text + " ROOT t = tuple(" + operands + ")\n}");
  EXPECT_EQ(wide->entry()->root()->shape.elements.size(), 20000u);
}

}  // namespace
}  // namespace tessera
