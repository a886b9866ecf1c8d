// SPDX-License-Identifier: Apache-2.0
// The Layouts extension: arrays of other orders than row-major.
#include <gtest/gtest.h>

#include "tests/pjrt/ffi_client.h"

namespace tessera::pjrt_tests {
namespace {

const PJRT_Layouts_Extension& layouts() {
  const auto* found =
      reinterpret_cast<const PJRT_Layouts_Extension*>(find_extension(PJRT_Extension_Type_Layouts));
  if (found == nullptr) throw std::runtime_error("there is no Layouts extension");
  return *found;
}

std::string text_of(PJRT_Layouts_MemoryLayout* layout) {
  auto args = make<PJRT_Layouts_MemoryLayout_Serialize_Args>();
  args.layout = layout;
  EXPECT_TRUE(answer(layouts().PJRT_Layouts_MemoryLayout_Serialize(&args)).ok());
  std::string out(args.serialized_bytes, args.serialized_bytes_size);
  reinterpret_cast<void (*)(void*)>(args.serialized_layout_deleter)(args.serialized_layout);
  return out;
}

std::string drop(PJRT_Layouts_MemoryLayout* layout) {
  const std::string out = text_of(layout);
  auto gone = make<PJRT_Layouts_MemoryLayout_Destroy_Args>();
  gone.layout = layout;
  EXPECT_TRUE(answer(layouts().PJRT_Layouts_MemoryLayout_Destroy(&gone)).ok());
  return out;
}

std::string layout_of(const Buffer& buffer) {
  auto args = make<PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args>();
  args.buffer = buffer.get();
  EXPECT_TRUE(answer(layouts().PJRT_Layouts_PJRT_Buffer_MemoryLayout(&args)).ok());
  return drop(args.layout);
}

std::vector<std::string> result_layouts(const Loaded& program) {
  const Executable e = executable_of(program);
  auto args = make<PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args>();
  args.executable = e.get();
  EXPECT_TRUE(answer(layouts().PJRT_Layouts_PJRT_Executable_GetOutputLayouts(&args)).ok());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < args.num_outputs; ++i) out.push_back(text_of(args.layouts[i]));
  return out;
}

std::vector<std::string> parameter_layouts(const Loaded& program) {
  const Executable e = executable_of(program);
  auto args = make<PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args>();
  args.executable = e.get();
  EXPECT_TRUE(answer(layouts().PJRT_Layouts_PJRT_Executable_GetParameterLayouts(&args)).ok());
  std::vector<std::string> out;
  for (std::size_t i = 0; i < args.num_parameters; ++i) out.push_back(text_of(args.layouts[i]));
  return out;
}

/// As it stands in memory.
std::vector<float> raw(const Buffer& buffer, std::size_t count) {
  std::vector<float> out(count);
  auto args = make<PJRT_Buffer_CopyRawToHost_Args>();
  args.buffer = buffer.get();
  args.dst = out.data();
  args.transfer_size = std::int64_t(count * sizeof(float));
  const Answer a = answer(api().PJRT_Buffer_CopyRawToHost(&args));
  EXPECT_TRUE(a.ok()) << a.message;
  if (a.ok()) done(args.event);
  return out;
}

PJRT_Buffer_MemoryLayout order(const std::vector<std::int64_t>& minor_to_major) {
  auto out = make<PJRT_Buffer_MemoryLayout>();
  out.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  out.tiled.struct_size = sizeof out.tiled;
  out.tiled.minor_to_major = minor_to_major.data();
  out.tiled.minor_to_major_size = minor_to_major.size();
  return out;
}

std::vector<float> by_rows(const Buffer& buffer) {
  const std::vector<std::int64_t> rows = {1, 0};
  PJRT_Buffer_MemoryLayout layout = order(rows);
  return get(buffer, &layout);
}

Answer put(const Client& client, const std::vector<float>& values,
           const std::vector<std::int64_t>& dims, PJRT_Buffer_MemoryLayout* layout, Buffer* out) {
  auto args = make<PJRT_Client_BufferFromHostBuffer_Args>();
  args.client = client.get();
  args.data = values.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.device = client.devices()[0];
  args.device_layout = layout;
  const Answer a = answer(api().PJRT_Client_BufferFromHostBuffer(&args));
  if (!a.ok()) return a;
  done(args.done_with_host_buffer);
  out->reset(args.buffer);
  return a;
}

/// main(%x: 2x3 with that mode) -> %x, its transpose times 2, with those modes.
std::string program(const std::string& argument, const std::string& same,
                    const std::string& transposed, const std::string& sharding = "") {
  const std::string mesh = sharding.empty() ? "" : "  sdy.mesh @mesh = <[\"x\"=2]>\n";
  return "module @m {\n" + mesh +
         "  func.func public @main(%x: tensor<2x3xf32> {mhlo.layout_mode = \"" + argument + "\"" +
         sharding + "}) -> (tensor<2x3xf32> {mhlo.layout_mode = \"" + same +
         "\"}, tensor<3x2xf32> {mhlo.layout_mode = \"" + transposed + R"("}) {
    %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %two = stablehlo.constant dense<2.0> : tensor<3x2xf32>
    %y = stablehlo.multiply %t, %two : tensor<3x2xf32>
    return %x, %y : tensor<2x3xf32>, tensor<3x2xf32>
  }
})";
}

const std::vector<float> kRows = {0, 1, 2, 3, 4, 5}, kColumns = {0, 3, 1, 4, 2, 5};

TEST(PjrtLayouts, DefaultsAreRowMajor) {
  const Client client(1);
  const std::vector<std::int64_t> dims = {2, 3, 4};
  auto args = make<PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args>();
  args.client = client.get();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = dims.data();
  args.num_dims = 3;
  ASSERT_TRUE(answer(layouts().PJRT_Layouts_PJRT_Client_GetDefaultLayout(&args)).ok());
  EXPECT_EQ(drop(args.layout), "{2,1,0}");
  EXPECT_EQ(layout_of(client.put(kRows, {2, 3})), "{1,0}");
  const Loaded plain = client.compile(program("default", "default", "default"), options_for(1));
  EXPECT_EQ(parameter_layouts(plain), std::vector<std::string>{"{1,0}"});
  EXPECT_EQ(result_layouts(plain), (std::vector<std::string>{"{1,0}", "{1,0}"}));
}

TEST(PjrtLayouts, BuffersStandInTheOrderThatTheClientAsksFor) {
  const Client client(1);
  const std::vector<std::int64_t> columns = {0, 1};
  PJRT_Buffer_MemoryLayout layout = order(columns);
  Buffer b;
  ASSERT_TRUE(put(client, kRows, {2, 3}, &layout, &b).ok());
  EXPECT_EQ(layout_of(b), "{0,1}");
  EXPECT_EQ(raw(b, 6), kColumns);
  EXPECT_EQ(get(b), kColumns);
  EXPECT_EQ(by_rows(b), kRows);
  const std::vector<std::int64_t> wrong = {0, 0};
  layout = order(wrong);
  EXPECT_EQ(put(client, kRows, {2, 3}, &layout, &b).code, PJRT_Error_Code_INVALID_ARGUMENT);
  layout = order(columns);
  layout.tiled.num_tiles = 1;
  EXPECT_EQ(put(client, kRows, {2, 3}, &layout, &b).code, PJRT_Error_Code_UNIMPLEMENTED);
}

TEST(PjrtLayouts, ProgramsTakeAndGiveTheOrdersThatTheyState) {
  const Client client(1);
  const Loaded f = client.compile(program("{0,1}", "default", "{0,1}"), options_for(1));
  EXPECT_EQ(parameter_layouts(f), std::vector<std::string>{"{0,1}"});
  EXPECT_EQ(result_layouts(f), (std::vector<std::string>{"{1,0}", "{0,1}"}));
  const std::vector<std::int64_t> columns = {0, 1};
  PJRT_Buffer_MemoryLayout layout = order(columns);
  Buffer x;
  ASSERT_TRUE(put(client, kRows, {2, 3}, &layout, &x).ok());
  std::vector<std::vector<Buffer>> out;
  ASSERT_TRUE(run(f, {{x.get()}}, 2, &out).ok());
  EXPECT_EQ(layout_of(out[0][0]), "{1,0}");
  EXPECT_EQ(layout_of(out[0][1]), "{0,1}");
  EXPECT_EQ(get(out[0][0]), kRows);
  EXPECT_EQ(raw(out[0][0], 6), kRows);
  EXPECT_EQ(get(out[0][1]), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(by_rows(out[0][1]), (std::vector<float>{0, 6, 2, 8, 4, 10}));
  EXPECT_EQ(raw(out[0][1], 6), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  // An argument of another layout would be read wrongly.
  const Buffer rows = client.put(kRows, {2, 3});
  const Answer a = run(f, {{rows.get()}}, 2, &out);
  EXPECT_EQ(a.code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(a.message.find("has the layout {1,0}, and the program takes f32[2,3]{0,1}"),
            std::string::npos)
      << a.message;
}

TEST(PjrtLayouts, StoredProgramsKeepThem) {
  const Client client(1);
  const Loaded f = client.compile(program("{0,1}", "default", "auto"), options_for(1));
  Answer a;
  const Loaded again = client.load(serialized(f), &a);
  ASSERT_TRUE(a.ok()) << a.message;
  EXPECT_EQ(parameter_layouts(again), parameter_layouts(f));
  EXPECT_EQ(result_layouts(again), result_layouts(f));
}

TEST(PjrtLayouts, OpenOnesAreThoseOfTheTransposedArray) {
  const Client client(1);
  const Loaded f = client.compile(program("auto", "auto", "auto"), options_for(1));
  EXPECT_EQ(parameter_layouts(f), std::vector<std::string>{"{1,0}"});
  EXPECT_EQ(result_layouts(f), (std::vector<std::string>{"{1,0}", "{0,1}"}));
  const Loaded g = client.compile(program("{0,1}", "auto", "auto"), options_for(1));
  EXPECT_EQ(result_layouts(g), (std::vector<std::string>{"{0,1}", "{1,0}"}));
}

TEST(PjrtLayouts, PartsHaveThemAndShardingsAreOfTheArray) {
  const Client client(2);
  const Loaded f = client.compile(
      program("{0,1}", "{0,1}", "auto", R"(, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>)"),
      options_for(2));
  std::vector<Buffer> parts;
  std::vector<std::vector<PJRT_Buffer*>> arguments;
  for (std::size_t d = 0; d < 2; ++d) {
    parts.push_back(client.put({float(3 * d), float(3 * d + 1), float(3 * d + 2)}, {1, 3}, d));
    arguments.push_back({parts.back().get()});
  }
  // A part of one row stands alike in both orders.
  std::vector<std::vector<Buffer>> out;
  const Answer a = run(f, arguments, 2, &out);
  ASSERT_TRUE(a.ok()) << a.message;
  EXPECT_EQ(layout_of(out[0][0]), "{0,1}");
  std::vector<float> whole = get(out[0][0]);
  if (whole.size() == 3) {
    const std::vector<float> rest = get(out[1][0]);
    whole.insert(whole.end(), rest.begin(), rest.end());
  }
  EXPECT_EQ(whole, kRows);
}

TEST(PjrtLayouts, HloTextStatesThem) {
  const Client client(1);
  const std::vector<std::int64_t> columns = {0, 1};
  PJRT_Buffer_MemoryLayout layout = order(columns);
  Buffer x;
  ASSERT_TRUE(put(client, kRows, {2, 3}, &layout, &x).ok());
  const std::string head =
      "HloModule m, entry_computation_layout={(f32[2,3]{0,1})->(f32[2,3]{1,0}, f32[3,2]{0,1}, "
      "f32[6]{0})}\n";
  // With layouts in the program, in which a bitcast takes the elements as they stand, and without.
  for (const auto& [at, flat] :
       {std::pair("{0,1}", kColumns), std::pair("{1,0}", kRows), std::pair("", kRows)}) {
    const std::string code = head + "ENTRY e {\n  p = f32[2,3]" + at + R"( parameter(0)
  t = f32[3,2] transpose(p), dimensions={1,0}
  b = f32[6] bitcast(p)
  ROOT r = (f32[2,3], f32[3,2], f32[6]) tuple(p, t, b)
})";
    const Loaded f = client.compile(code, options_for(1), nullptr, "hlo_text");
    EXPECT_EQ(parameter_layouts(f), std::vector<std::string>{"{0,1}"});
    EXPECT_EQ(result_layouts(f), (std::vector<std::string>{"{1,0}", "{0,1}", "{0}"}));
    std::vector<std::vector<Buffer>> out;
    ASSERT_TRUE(run(f, {{x.get()}}, 3, &out).ok());
    EXPECT_EQ(raw(out[0][0], 6), kRows);
    EXPECT_EQ(raw(out[0][1], 6), kRows);
    EXPECT_EQ(raw(out[0][2], 6), flat) << at;
  }
  const Loaded one = client.compile(
      "HloModule m, entry_computation_layout={(f32[6]{0})->f32[2,3]{0,1}}\n"
      "ENTRY e {\n  p = f32[6] parameter(0)\n  ROOT b = f32[2,3] bitcast(p)\n}\n",
      options_for(1), nullptr, "hlo_text");
  const Buffer row = client.put(kRows, {6});
  std::vector<std::vector<Buffer>> out;
  ASSERT_TRUE(run(one, {{row.get()}}, 1, &out).ok());
  EXPECT_EQ(raw(out[0][0], 6), kColumns);
}

TEST(PjrtLayouts, CopiesStayWithinTheMemoryOfTheHost) {
  const Client client(1);
  const Buffer b = client.put(kRows, {2, 3});
  std::vector<float> there(12, -1);
  const auto copy = [&](std::vector<std::int64_t> strides, std::size_t floats) {
    auto layout = make<PJRT_Buffer_MemoryLayout>();
    layout.type = PJRT_Buffer_MemoryLayout_Type_Strides;
    layout.strides.struct_size = sizeof layout.strides;
    layout.strides.byte_strides = strides.data();
    layout.strides.num_byte_strides = strides.size();
    auto args = make<PJRT_Buffer_ToHostBuffer_Args>();
    args.src = b.get();
    args.host_layout = &layout;
    args.dst = there.data();
    args.dst_size = floats * sizeof(float);
    Answer a = answer(api().PJRT_Buffer_ToHostBuffer(&args));
    if (a.ok()) done(args.event);
    return a;
  };
  EXPECT_TRUE(copy({16, 4}, 7).ok());
  EXPECT_EQ(there, (std::vector<float>{0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1}));
  const Answer beyond = copy({16, 4}, 6);
  EXPECT_EQ(beyond.code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_NE(beyond.message.find("f32[2,3] with strides [16,4] stands outside of them"),
            std::string::npos)
      << beyond.message;
  EXPECT_EQ(copy({-12, 4}, 12).code, PJRT_Error_Code_INVALID_ARGUMENT);
  EXPECT_EQ(copy({std::int64_t(1) << 62, 4}, 12).code, PJRT_Error_Code_INVALID_ARGUMENT);
}

TEST(PjrtLayouts, AScalarHasOne) {
  const Client client(1);
  auto args = make<PJRT_Client_CreateUninitializedBuffer_Args>();
  args.client = client.get();
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.device = client.devices()[0];
  ASSERT_TRUE(answer(api().PJRT_Client_CreateUninitializedBuffer(&args)).ok());
  const Buffer b(args.buffer);
  EXPECT_EQ(layout_of(b), "{}");
  EXPECT_EQ(get(b), std::vector<float>{0});
}

TEST(PjrtLayouts, OthersAreRefused) {
  const Client client(1);
  for (const char* mode : {"{1,0:T(8,128)}", "{0,0}", "{0}", "{0,1", "{2,1,0}", "{1,-1}", "{1 0}",
                           "column-major", "{1,0:E(4)}"}) {
    for (const std::string& code :
         {program(mode, "default", "default"), program("default", "default", mode)}) {
      Answer a;
      client.compile(code, options_for(1), &a);
      EXPECT_FALSE(a.ok()) << mode;
      EXPECT_NE(a.message.find("layout"), std::string::npos) << a.message;
    }
  }
}

}  // namespace
}  // namespace tessera::pjrt_tests
