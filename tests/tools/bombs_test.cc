// SPDX-License-Identifier: Apache-2.0
// Small modules, files and flags that would take unbounded memory or time: each causes an error
// that explains it, within a second and a gigabyte.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/tools/command_runner.h"

namespace tessera::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kSeconds = 20, kMegabytes = 8000;  // instrumented code
#else
constexpr double kSeconds = 2, kMegabytes = 1000;  // a second's work where others work too
#endif

std::string repeated(const std::string& text, int times) {
  std::string out;
  out.reserve(text.size() * std::size_t(times));
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

/// f(0), f(1), ... one after another.
template <class F>
std::string each(int count, const F& f) {
  std::string out;
  for (int i = 0; i < count; ++i) out += f(std::to_string(i));
  return out;
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& word,
                    const std::string& input = "") {
  const Ran ran = run_tool(arguments, input);
  std::string who;
  for (const std::string& a : arguments) who += a.substr(0, 100) + " ";
  SCOPED_TRACE(who);
  EXPECT_TRUE(ran.code == 1 || ran.code == 2) << ran.code << "\n" << ran.err.substr(0, 1000);
  EXPECT_NE(ran.err.find(word), std::string::npos) << ran.err.substr(0, 1000);
  EXPECT_EQ(ran.err.find("std::"), std::string::npos) << ran.err.substr(0, 1000);
  EXPECT_LT(ran.err.size(), 4000u);
  EXPECT_LT(ran.cpu_seconds, kSeconds);
  EXPECT_LT(ran.megabytes, kMegabytes);
}

/// Whether reading the module is refused already, which shows in each subcommand, or running it.
enum class By { reading, running };

void expect_refused_module(const std::string& text, const std::string& word, By by) {
  const TemporaryFolder folder;
  const bool hlo = text.compare(0, 9, "HloModule") == 0;
  const std::string module = folder / (hlo ? "m.hlo" : "m.mlir");
  write_file(module, text);
  expect_refused({"run", module}, word);
  if (by == By::running) return;
  // The same reader stands in front of each of them: one of them by turns.
  static int turn = 0;
  switch (turn++ % 3) {
    case 0:
      return expect_refused({"partition", module}, word);
    case 1:
      return expect_refused({"convert", module, "--to", hlo ? "stablehlo" : "hlo"}, word);
    default:
      return expect_refused({"opt", module, "--passes", "simplify"}, word);
  }
}

// ----- HLO text

std::string hlo(const std::string& entry, const std::string& before = "",
                const std::string& attributes = "") {
  return "HloModule m" + attributes + "\n" + before + "ENTRY e {\n p = f32[] parameter(0)\n" +
         entry + "\n}\n";
}

constexpr const char* kAdd =
    "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b)\n}\n";

std::string hlo_calls(int count, int calls_each) {
  std::string text = "c0 {\n p = f32[] parameter(0)\n ROOT r = f32[] negate(p)\n}\n";
  for (int i = 1; i <= count; ++i) {
    text += "c" + std::to_string(i) + " {\n x0 = f32[] parameter(0)\n" +
            each(calls_each,
                 [&](const std::string& k) {
                   return " x" + std::to_string(std::stoi(k) + 1) + " = f32[] call(x" + k +
                          "), to_apply=c" + std::to_string(i - 1) + "\n";
                 }) +
            "}\n";
  }
  return hlo(" ROOT r = f32[] call(p), to_apply=c" + std::to_string(count), text);
}

TEST(HloBombs, Nests) {
  const auto refused = [](const std::string& text, const std::string& word) {
    expect_refused_module(text, word, By::reading);
  };
  refused(hlo(" ROOT t = " + repeated("(", 100000) + "f32[]" + repeated(")", 100000) + " copy(p)"),
          "deeper than 64");
  refused(hlo(" t0 = tuple(p)\n" + each(20000,
                                        [](const std::string& i) {
                                          return " t" + std::to_string(std::stoi(i) + 1) +
                                                 " = tuple(t" + i + ")\n";
                                        })),
          "deeper than 64");
  refused(hlo(" t0 = tuple(p, p)\n" + each(60,
                                           [](const std::string& i) {
                                             return " t" + std::to_string(std::stoi(i) + 1) +
                                                    " = tuple(t" + i + ", t" + i + ")\n";
                                           })),
          "parts");
  refused(hlo(" ROOT c = f32[] custom-call(p), custom_call_target=\"x\", backend_config={" +
              repeated("{", 1000000)),
          "closed");
  refused(hlo(" ROOT c = f32[8] constant(" + repeated("{", 1000000)), "expected");
  refused(hlo(" ROOT c = f32[] copy(p), metadata={op_name=\"" + repeated("x", 10000000)),
          "has no end");
}

TEST(HloBombs, Calls) {
  expect_refused_module(hlo_calls(100000, 1), "deep", By::running);
  expect_refused_module(hlo_calls(60, 2), "written out", By::reading);
  expect_refused_module(
      hlo(" ROOT r = f32[] call(p), to_apply=a",
          "a {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=b\n}\n"
          "b {\n p = f32[] parameter(0)\n ROOT r = f32[] call(p), to_apply=a\n}\n"),
      "not defined before", By::reading);
}

TEST(HloBombs, SizesThatOverflow) {
  const auto refused = [](const std::string& entry, const std::string& word) {
    expect_refused_module(hlo(entry), word, By::reading);
  };
  refused(" ROOT b = f32[4294967296,4294967296] broadcast(p), dimensions={}", "64 bits");
  refused(
      " v = f32[1] reshape(p)\n ROOT b = pad(v, p), "
      "padding=9223372036854775807_9223372036854775807",
      "64 bits");
  refused(
      " i = s32[4611686018427387904,1] iota(), iota_dimension=1\n v = f32[4] broadcast(p), "
      "dimensions={}\n ROOT g = gather(v, i), offset_dims={1}, collapsed_slice_dims={}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={4}",
      "64 bits");
  refused(
      " v = f32[4] broadcast(p), dimensions={}\n i = s32[1,1] iota(), iota_dimension=0\n"
      " ROOT g = gather(v, i), offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, "
      "index_vector_dim=1, slice_sizes={9223372036854775807}",
      "slice");
  refused(
      " x = f32[1,1,8] broadcast(p), dimensions={}\n ROOT c = convolution(x, x), window={size=8 "
      "lhs_dilate=9223372036854775807}, dim_labels=bf0_oi0->bf0",
      "64 bits");
}

TEST(HloBombs, Devices) {
  const auto refused = [](const std::string& text, const std::string& word) {
    expect_refused_module(text, word, By::reading);
  };
  refused(hlo(" ROOT c = f32[] copy(p), sharding={devices=[1000000000000]<=[1000000000000]}"),
          "devices");
  refused(hlo(" ROOT c = f32[8] broadcast(p), dimensions={}, "
              "sharding={devices=[4294967296,4294967296]0,1}"),
          "devices");
  refused(hlo(" ROOT c = f32[] all-reduce(p), replica_groups=[9223372036854775807,2]<="
              "[9223372036854775807,2], to_apply=add",
              kAdd, ", num_partitions=8"),
          "devices");
  refused(hlo(" ROOT c = f32[] all-reduce(p), replica_groups={" +
                  each(300000, [](const std::string& i) { return "{" + i + "},"; }) +
                  "{0}}, to_apply=add",
              kAdd, ", num_partitions=8"),
          "stands twice");
  // Devices that the program does not have.
  for (const char* groups : {"{{0,300000}}", "{{300000}}", "{{0,1}}", "[2,4]<=[8]"}) {
    expect_refused_module(hlo(" v = f32[8] broadcast(p), dimensions={}\n ROOT c = f32[8] "
                              "all-reduce(v), channel_id=1, use_global_device_ids=true, "
                              "replica_groups=" +
                                  std::string(groups) + ", to_apply=add",
                              kAdd),
                          "is for 1 devices", By::running);
  }
  expect_refused_module(hlo(" ROOT c = f32[] collective-permute(p), source_target_pairs={{0,7}}"),
                        "is for 1 devices", By::running);
  // Not of the text alone: HLO itself has no limit.
  expect_refused_module(hlo(" ROOT c = f32[] negate(p)", "", ", num_partitions=1000000000000"),
                        "num_partitions=1000000000000", By::running);
}

TEST(HloBombs, ArraysLargerThanTheMemory) {
  const auto refused = [](const std::string& entry, const std::string& before = "") {
    expect_refused_module(hlo(entry, before), "memory", By::running);
  };
  refused(" ROOT i = f32[1000000000000000] iota(), iota_dimension=0");
  refused(" ROOT b = f32[1000000000000000] broadcast(p), dimensions={}");
  refused(" ROOT x = f32[1000000000000] parameter(1)");
  refused(
      " a = f32[1000000,1] broadcast(p), dimensions={}\n b = f32[1,1000000] broadcast(p), "
      "dimensions={}\n ROOT d = f32[1000000,1000000] dot(a, b), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}");
  refused(
      " i = s32[1000000000000,1] iota(), iota_dimension=0\n v = f32[4] broadcast(p), "
      "dimensions={}\n ROOT g = f32[1000000000000,4] gather(v, i), offset_dims={1}, "
      "collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={4}");
  refused(
      " c = c64[] convert(p)\n b = c64[1000000000000] broadcast(c), dimensions={}\n"
      " f = c64[1000000000000] fft(b), fft_type=FFT, fft_length={1000000000000}\n"
      " ROOT s = c64[1] slice(f), slice={[0:1]}");
  refused(
      " b = f32[1000000000000] broadcast(p), dimensions={}\n"
      " s = f32[1000000000000] sort(b), dimensions={0}, to_apply=lt\n"
      " ROOT r = f32[1] slice(s), slice={[0:1]}",
      "lt {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = pred[] compare(a, b), "
      "direction=LT\n}\n");
  refused(" ROOT c = f32[1000000000000] constant({...})");
}

// The arguments alone would fit: what is refused is found before they are made.
TEST(HloBombs, ResultsLargerThanTheMemory) {
  expect_refused_module(hlo(" x = f32[1000000000] parameter(1)\n ROOT f = concatenate(x" +
                            repeated(", x", 9999) + "), dimensions={0}"),
                        "memory", By::running);
}

// ----- StableHLO text

std::string mlir(const std::string& body, const std::string& result = "%a",
                 const std::string& type = "tensor<f32>", const std::string& before = "") {
  return "module @m {\n" + before + " func.func public @main(%a: tensor<f32>, %p: tensor<i1>) -> " +
         type + " {\n" + body + "\n return " + result + " : " + type + "\n }\n}\n";
}

std::string mlir_calls(int count, int calls_each) {
  std::string functions;
  for (int i = 0; i <= count; ++i) {
    functions +=
        " func.func private @f" + std::to_string(i) + "(%0: tensor<f32>) -> tensor<f32> {\n" +
        each(i == count ? 0 : calls_each,
             [&](const std::string& k) {
               return "  %" + std::to_string(std::stoi(k) + 1) + " = call @f" +
                      std::to_string(i + 1) + "(%" + k + ") : (tensor<f32>) -> tensor<f32>\n";
             }) +
        "  return %" + std::to_string(i == count ? 0 : calls_each) + " : tensor<f32>\n }\n";
  }
  return mlir(" %0 = call @f0(%a) : (tensor<f32>) -> tensor<f32>", "%0", "tensor<f32>", functions);
}

/// Regions in regions, closed again.
std::string nested_ifs(int depth) {
  std::string text =
      each(depth, [](const std::string& i) { return "%x" + i + " = \"stablehlo.if\"(%p) ({\n"; });
  text += "\"stablehlo.return\"(%a) : (tensor<f32>) -> ()\n";
  for (int i = depth - 1; i >= 0; --i) {
    text +=
        "}, {\n\"stablehlo.return\"(%a) : (tensor<f32>) -> ()\n}) : (tensor<i1>) -> "
        "tensor<f32>\n";
    if (i > 0) {
      text += "\"stablehlo.return\"(%x" + std::to_string(i) + ") : (tensor<f32>) -> ()\n";
    }
  }
  return text;
}

TEST(StableHloBombs, Nests) {
  const auto refused = [](const std::string& text, const std::string& word) {
    expect_refused_module(text, word, By::reading);
  };
  refused(mlir(nested_ifs(20000), "%x0"), "deep");
  refused(mlir(repeated("%0 = \"stablehlo.case\"(%a) ({\n", 100000)), "closed");
  refused("module attributes {a = " + repeated("(", 100000) + " {\n}", "the end of the text");
  refused("module attributes {mhlo.num_partitions = " + repeated("[", 1000000) +
              repeated("]", 1000000) + "} {\n}",
          "expected");
  refused(mlir("%0 = stablehlo.constant dense<" + repeated("[", 1000000) + "> : tensor<2xf32>"),
          "expected");
  refused("module @m {\n func.func @main(%a: " + repeated("tuple<", 100000) + "tensor<f32>" +
              repeated(">", 100000) + ") {\n return\n }\n}\n",
          "deep");
}

TEST(StableHloBombs, Calls) {
  const auto refused = [](const std::string& text, const std::string& word) {
    expect_refused_module(text, word, By::reading);
  };
  expect_refused_module(mlir_calls(100000, 1), "deep", By::running);
  refused(mlir_calls(60, 2), "written out");
  refused(mlir("%0 = call @main(%a, %p) : (tensor<f32>, tensor<i1>) -> tensor<f32>"),
          "calls itself");
  refused(
      mlir("%0 = call @f(%a) : (tensor<f32>) -> tensor<f32>", "%0", "tensor<f32>",
           " func.func private @f(%a: tensor<f32>) -> tensor<f32> {\n"
           "  %0 = call @g(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n }\n"
           " func.func private @g(%a: tensor<f32>) -> tensor<f32> {\n"
           "  %0 = call @f(%a) : (tensor<f32>) -> tensor<f32>\n  return %0 : tensor<f32>\n }\n"),
      "calls itself");
}

TEST(StableHloBombs, SizesThatOverflow) {
  const auto refused = [](const std::string& body, const std::string& word) {
    expect_refused_module(mlir(body), word, By::reading);
  };
  refused(
      "%0 = stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> "
      "tensor<4294967296x4294967296xf32>",
      "64 bits");
  refused("%0 = stablehlo.iota dim = 0 : tensor<99999999999999999999xf32>", "64 bits");
  refused("%0 = stablehlo.constant dense<\"0x0000\"> : tensor<1000000000000xi8>", "blob");
  refused("%0:1000000000 = stablehlo.custom_call @x(%a) : (tensor<f32>) -> tensor<f32>",
          "1000000000 values");
  refused("%0 = stablehlo.transpose %a, dims = [" + repeated("0, ", 1000000) +
              "0] : (tensor<f32>) -> tensor<f32>",
          "dim");
  refused(
      "%0 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<0> : "
      "tensor<1000000000x1000000xi64>}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n "
      "stablehlo.return %x : tensor<f32>\n}) : (tensor<f32>) -> tensor<f32>",
      "");
}

TEST(StableHloBombs, Meshes) {
  const auto refused = [](const std::string& meshes, const std::string& word, By by) {
    expect_refused_module(mlir("", "%a", "tensor<f32>", " sdy.mesh @mesh = " + meshes + "\n"), word,
                          by);
  };
  refused("<[\"x\"=4000000]>", "num_partitions=4000000", By::running);
  refused("<[\"x\"=1000000000]>", "too many devices", By::reading);
  refused("<[\"x\"=1000000000, \"y\"=1000000000, \"z\"=1000000000]>", "too many devices",
          By::reading);
  refused("<[\"x\"=8], device_ids=[" + each(1000000, [](const std::string& i) { return i + ","; }) +
              "0]>",
          "device ids", By::reading);
  refused(
      "<[" + each(100000, [](const std::string& i) { return "\"x" + i + "\"=1,"; }) + "\"y\"=1]>",
      "100001 axes", By::reading);
  refused("<[\"x\"=2]>\n" +
              each(50000,
                   [](const std::string& i) { return " sdy.mesh @m" + i + " = <[\"x\"=2]>\n"; }) +
              " sdy.mesh @mesh = <[\"x\"=2]>",
          "stands twice", By::reading);
}

TEST(StableHloBombs, ArraysLargerThanTheMemory) {
  const auto refused = [](const std::string& op, const std::string& type) {
    expect_refused_module(mlir(" %0 = " + op + type, "%0", type), "memory", By::running);
  };
  refused("stablehlo.iota dim = 0 : ", "tensor<1000000000000000xf32>");
  refused("stablehlo.constant dense<1.0> : ", "tensor<1000000000000xf32>");
  refused("stablehlo.broadcast_in_dim %a, dims = [] : (tensor<f32>) -> ",
          "tensor<1000000x1000000000xf32>");
}

// ----- What is no bomb, and must not become one while it is compiled

/// Loops in loops, each with the value that it carries.
std::string nested_loops(int depth) {
  std::string text = each(depth, [](const std::string& i) {
    const std::string outer = i == "0" ? "%a" : "%i" + std::to_string(std::stoi(i) - 1);
    return "%x" + i + " = stablehlo.while(%i" + i + " = " + outer +
           ") : tensor<f32>\n cond {\n  stablehlo.return %p : tensor<i1>\n} do {\n";
  });
  for (int i = depth - 1; i >= 0; --i) {
    text += " stablehlo.return %" +
            (i == depth - 1 ? "i" + std::to_string(i) : "x" + std::to_string(i + 1)) +
            " : tensor<f32>\n}\n";
  }
  return text;
}

TEST(NoBombs, LoopsInLoopsAreCompiledSoon) {
  const TemporaryFolder folder;
  const std::string module = folder / "m.mlir";
  write_file(module, mlir(nested_loops(40), "%x0"));
  for (const char* mesh : {"", "x=4"}) {
    std::vector<std::string> arguments{"partition", module, "--stats"};
    if (*mesh != '\0') arguments.insert(arguments.end(), {"--mesh", mesh});
    const Ran ran = run_tool(arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    EXPECT_LT(ran.cpu_seconds, kSeconds) << mesh;
    EXPECT_LT(ran.megabytes, kMegabytes) << mesh;
  }
}

// Conditions that loop too, so that each level doubles what there is.
TEST(NoBombs, LoopsInConditionsAreCompiledSoon) {
  std::string text;
  for (int i = 0; i < 11; ++i) {
    const std::string at = std::to_string(i), below = std::to_string(i - 1);
    const std::string step =
        i == 0 ? "negate(p)" : "while(p), condition=c" + below + ", body=b" + below;
    text += "c" + at + " {\n p = f32[] parameter(0)\n w = f32[] " + step +
            "\n ROOT r = pred[] compare(w, p), direction=LT\n}\nb" + at +
            " {\n p = f32[] parameter(0)\n ROOT w = f32[] " + step + "\n}\n";
  }
  const TemporaryFolder folder;
  const std::string module = folder / "m.hlo";
  write_file(module, hlo(" ROOT w = f32[] while(p), condition=c10, body=b10", text));
  const Ran ran = run_tool({"partition", module, "--stats"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_LT(ran.cpu_seconds, kSeconds);
  EXPECT_LT(ran.megabytes, kMegabytes);
}

TEST(NoBombs, ManyResults) {
  const TemporaryFolder folder;
  const std::string module = folder / "m.hlo";
  write_file(module, hlo(" ROOT t = tuple(p" + repeated(", p", 50000) + ")"));
  const Ran ran = run_tool({"partition", module});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_LT(ran.cpu_seconds, kSeconds);
  EXPECT_LT(ran.megabytes, kMegabytes);
}

TEST(NoBombs, WindowsThatAreMostlyPadding) {
  const TemporaryFolder folder;
  const std::string module = folder / "m.hlo";
  write_file(module,
             hlo(" v = f32[8] broadcast(p), dimensions={}\n ROOT c = f32[8] reduce-window(v, p), "
                 "window={size=1000000000001 pad=500000000000_500000000000}, to_apply=add",
                 kAdd));
  const Ran ran = run_tool({"run", module});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_LT(ran.cpu_seconds, kSeconds);
}

// ----- Files and flags

TEST(OtherBombs, ArrayFilesThatClaimMore) {
  const TemporaryFolder folder;
  const std::string module = folder / "m.hlo";
  write_file(module, "HloModule m\nENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n");
  const auto file = [&](const std::string& shape) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
    while ((header.size() + 11) % 64 != 0) header += ' ';
    header += '\n';
    std::string bytes = std::string("\x93NUMPY\x01\x00", 8) + char(header.size() % 256) +
                        char(header.size() / 256) + header;
    write_file(folder / "arg0.npy", bytes + std::string(32, '\0'));
    expect_refused({"run", module, "--inputs", folder.path().string()}, "arg0.npy");
  };
  file("(1000000000000000,)");
  file("(4294967296, 4294967296)");
  file("(99999999999999999999999,)");
  file("(" + repeated("1,", 20000) + ")");
  file(repeated("(", 20000));
  // A header of 4 GB, of which nothing is there.
  write_file(folder / "arg0.npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'", 20));
  expect_refused({"run", module, "--inputs", folder.path().string()}, "arg0.npy");
}

TEST(OtherBombs, Flags) {
  const TemporaryFolder folder;
  const std::string module = folder / "m.hlo";
  write_file(module, "HloModule m\nENTRY e {\n ROOT p = f32[8] parameter(0)\n}\n");
  expect_refused({"run", module, "--mesh", "x=1048576,y=1048576"}, "devices");
  expect_refused({"run", module, "--mesh", "x=1048576,y=1048576", "--in-shardings", "P('x')"},
                 "devices");
  expect_refused({"run", module, "--mesh", "x=9223372036854775807"}, "x");
  expect_refused({"run", module, "--devices", "1000000000000"}, "devices");
  expect_refused({"run", module, "--mesh", "x=2", "--in-shardings", "P(" + repeated("(", 100000)},
                 "--in-shardings");
  expect_refused(
      {"run", module, "--mesh",
       each(3000, [](const std::string& i) { return (i == "0" ? "x" : ",x") + i + "=1"; })},
      "axes");
  expect_refused({"sharding", "--mesh", "x=1048576,y=2", "--shape", "8"}, "devices");
  expect_refused({"sharding", "--mesh", "x=8", "--shape", "99999999999999999999"}, "--shape");
  expect_refused({"sharding", "--jsonl"}, "JSON", repeated("[", 1000000));
  expect_refused({"sharding", "--jsonl"}, "mesh",
                 "{\"mesh\": {\"a\": 1000000000000}, \"device_order\": [0], \"spec\": []}");
}

TEST(OtherBombs, ACorpusOfThem) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "bomb");
  write_file(folder / "bomb/plain.hlo", hlo_calls(60, 2));
  write_file(folder / "bomb/s0.hlo", hlo(" ROOT i = f32[1000000000000000] iota(), "
                                         "iota_dimension=0"));
  write_file(folder / "bomb/plain.mlir", mlir_calls(300, 1));
  const Ran ran = run_tool({"check", folder.path().string()});
  EXPECT_EQ(ran.code, 1) << ran.out << ran.err;
  EXPECT_LT(ran.cpu_seconds, kSeconds);
  EXPECT_LT(ran.megabytes, kMegabytes);
}

}  // namespace
}  // namespace tessera::testing
