// SPDX-License-Identifier: Apache-2.0
// Headers of safetensors files: what is written, what is read, and what is refused.
#include "src/base/files/safetensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <span>

#include "src/base/files/json_text.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

SafetensorsEntry array_entry(std::string name, DType dtype, Dims dims) {
  SafetensorsEntry out;
  out.name = std::move(name);
  out.shape = Shape(dtype, std::move(dims));
  return out;
}

/// A file of this JSON and so many bytes of data.
std::string file_of(const std::string& json, std::size_t data = 0) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += char(json.size() >> (8 * i) & 0xff);
  return out + json + std::string(data, 'x');
}

std::string refusal_of(const std::string& bytes) {
  try {
    const SafetensorsHeader h = parse_safetensors_header(bytes, bytes.size(), "x.safetensors");
    return "read " + std::to_string(h.entries.size());
  } catch (const IoError& e) {
    return e.message();
  }
}

void expect_refused(const std::string& bytes, const std::string& why) {
  const std::string message = refusal_of(bytes);
  EXPECT_EQ(message.rfind("x.safetensors", 0), 0u) << message;
  EXPECT_NE(message.find(why), std::string::npos) << message << "\nlacks: " << why;
}

TEST(SafetensorsFormat, AllDtypesComeBack) {
  std::vector<SafetensorsEntry> entries;
  for (int t = 0; t < int(DType::token); ++t) {
    const std::string type(name(DType(t)));
    entries.push_back(array_entry("matrix." + type, DType(t), {3, 2}));
    entries.push_back(array_entry("scalar." + type, DType(t), {}));
    entries.push_back(array_entry("empty." + type, DType(t), {0, 5}));
  }
  std::string bytes = safetensors_header(&entries, {{"by", "a test"}}, "x");
  EXPECT_EQ(bytes.size() % 64, 0u);
  std::uint64_t end = bytes.size();
  for (const SafetensorsEntry& e : entries) {
    EXPECT_EQ(e.bytes, std::uint64_t(e.shape.byte_count()));
    EXPECT_EQ(e.begin % byte_size(e.shape.dtype), 0u) << e.name;
    end = std::max(end, e.begin + e.bytes);
  }
  const SafetensorsHeader read = parse_safetensors_header(bytes, end, "x");
  EXPECT_EQ(read.data_begin, bytes.size());
  EXPECT_EQ(read.metadata, (std::map<std::string, std::string>{{"by", "a test"}}));
  ASSERT_EQ(read.entries.size(), entries.size());
  for (const SafetensorsEntry& r : read.entries) {
    const auto same = std::find_if(entries.begin(), entries.end(),
                                   [&](const SafetensorsEntry& e) { return e.name == r.name; });
    ASSERT_NE(same, entries.end()) << r.name;
    EXPECT_EQ(r.shape, same->shape) << r.name;
    EXPECT_EQ(r.begin, same->begin) << r.name;
    EXPECT_EQ(r.bytes, same->bytes) << r.name;
    EXPECT_FALSE(r.packed);
  }
}

TEST(SafetensorsFormat, WritesTheBytesThatOthersRead) {
  std::vector<SafetensorsEntry> entries{array_entry("b", DType::s8, {2}),
                                        array_entry("a", DType::f32, {1, 2})};
  const std::string json =
      R"({"__metadata__":{"k":"v"},"a":{"data_offsets":[0,8],"dtype":"F32","shape":[1,2]},)"
      R"("b":{"data_offsets":[8,10],"dtype":"I8","shape":[2]}})";
  const std::string bytes = safetensors_header(&entries, {{"k", "v"}}, "x");
  EXPECT_EQ(bytes.substr(0, 8), std::string("\xb8\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(8), json + std::string(0xb8 - json.size(), ' '));
  EXPECT_EQ(entries[0].begin, 0xb8 + 8u + 8u);
  EXPECT_EQ(entries[1].begin, 0xb8 + 8u);
  entries.clear();
  EXPECT_EQ(refusal_of(safetensors_header(&entries, {}, "x")), "read 0");
}

TEST(SafetensorsFormat, WhatCantBeWrittenIsAnError) {
  std::vector<SafetensorsEntry> twice{array_entry("a", DType::f32, {}),
                                      array_entry("a", DType::f32, {})};
  EXPECT_THROW(safetensors_header(&twice, {}, "x"), ValueError);
  std::vector<SafetensorsEntry> reserved{array_entry("__metadata__", DType::f32, {})};
  EXPECT_THROW(safetensors_header(&reserved, {}, "x"), ValueError);
  std::vector<SafetensorsEntry> no_text{array_entry("\xff", DType::f32, {})};
  EXPECT_THROW(safetensors_header(&no_text, {}, "x"), ValueError);
  std::vector<SafetensorsEntry> token{array_entry("a", DType::token, {})};
  EXPECT_THROW(safetensors_header(&token, {}, "x"), ValueError);
}

TEST(SafetensorsFormat, HostileHeadersAreErrorsThatNameTheFile) {
  const std::string good = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  EXPECT_EQ(refusal_of(file_of(good, 2)), "read 1");
  // Lengths.
  expect_refused("", "less than 8 bytes");
  expect_refused("abc", "less than 8 bytes");
  expect_refused(std::string(8, '\xff'), "would have 18446744073709551615 bytes");
  expect_refused(std::string("\x40\0\0\0\0\0\0\0{}", 10), "64 bytes, and 2 follow");
  expect_refused(std::string("\0\xe1\xf5\x05\x01\0\0\0", 8), "at most 100000000");
  expect_refused(file_of(""), "doesn't begin with {");
  expect_refused(file_of(good, 1), "cut short");
  expect_refused(file_of(good, 3), "its arrays end at");
  // JSON.
  expect_refused(file_of(" " + good, 2), "doesn't begin with {");
  expect_refused(file_of(good + "}", 2), "not JSON");
  expect_refused(file_of("{\"a\":"), "not JSON");
  expect_refused(file_of("{\"\xff\":1}"), "not JSON");
  expect_refused(file_of("[1]"), "doesn't begin");
  expect_refused(file_of("{\"a\":" + std::string(50000, '[') + std::string(50000, ']') + "}"),
                 "deep");
  expect_refused(file_of("{\"a\":" + std::string(500000, '[')), "deep");
  std::string nested;
  for (int i = 0; i < 10000; ++i) nested += "{\"a\":";
  expect_refused(file_of(nested), "deep");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                         2),
                 "'a' occurs twice");
  expect_refused(
      file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
      "'dtype' occurs twice");
  // Entries.
  const auto with = [](const std::string& dtype, const std::string& shape,
                       const std::string& offsets, std::size_t data) {
    return file_of("{\"a\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
                       ",\"data_offsets\":" + offsets + "}}",
                   data);
  };
  expect_refused(file_of(R"({"a":1})"), "'dtype' is missing");
  expect_refused(file_of(R"({"a":{"dtype":"U8","shape":[2]}})", 2), "'data_offsets' is missing");
  expect_refused(with("3", "[2]", "[0,2]", 2), "'dtype' is no string");
  expect_refused(with("\"F6_E2M3\"", "[4]", "[0,3]", 3), "F6_E2M3, four of which lie in three");
  expect_refused(with("\"F6_E3M2\"", "[4]", "[0,3]", 3), "F6_E3M2, four of which lie in three");
  expect_refused(with("\"F7\"", "[4]", "[0,3]", 3), "F7, which arrays here lack");
  expect_refused(with("\"F4\"", "[3]", "[0,2]", 2), "odd number");
  expect_refused(with("\"U8\"", "2", "[0,2]", 2), "'shape' is no list");
  expect_refused(with("\"U8\"", "[-2]", "[0,2]", 2), "'shape' is no number from 0");
  expect_refused(with("\"U8\"", "[2.0]", "[0,2]", 2), "'shape' is no number from 0");
  expect_refused(with("\"U8\"", "[18446744073709551615]", "[0,2]", 2), "'shape' is no number");
  expect_refused(with("\"U8\"", "[1e400]", "[0,2]", 2), "not JSON");
  expect_refused(with("\"F64\"", "[4611686018427387904,4]", "[0,2]", 2), "x.safetensors: 'a'");
  expect_refused(with("\"F64\"", "[2305843009213693952]", "[0,2]", 2), "x.safetensors: 'a'");
  expect_refused(with("\"U8\"", "[" + std::string(200, '1') + "]", "[0,2]", 2), "'shape'");
  std::string many = "1";
  for (int i = 0; i < 100; ++i) many += ",1";
  expect_refused(with("\"U8\"", "[" + many + "]", "[0,1]", 1), "101 dimensions");
  expect_refused(with("\"U8\"", "[2]", "[0]", 2), "isn't a pair");
  expect_refused(with("\"U8\"", "[2]", "[2,0]", 2), "takes 2 bytes");
  expect_refused(with("\"U8\"", "[2]", "[0,3]", 3), "takes 2 bytes");
  expect_refused(with("\"U8\"", "[2]", "[9223372036854775805,9223372036854775807]", 2),
                 "begins at");
  expect_refused(with("\"U8\"", "[2]", "[0,-2]", 2), "'data_offsets' is no number");
  // Places.
  const auto two = [](const std::string& a, const std::string& b) {
    return file_of(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":)" + a +
                       R"(},"b":{"dtype":"U8","shape":[2],"data_offsets":)" + b + "}}",
                   4);
  };
  EXPECT_EQ(refusal_of(two("[2,4]", "[0,2]")), "read 2");
  expect_refused(two("[0,2]", "[1,3]"), "overlap");
  expect_refused(two("[0,2]", "[0,2]"), "overlap");
  expect_refused(two("[1,3]", "[3,5]"), "gap");
  expect_refused(two("[0,2]", "[3,5]"), "gap");
  // Metadata.
  expect_refused(file_of(R"({"__metadata__":3})"), "__metadata__ is no object");
  expect_refused(file_of(R"({"__metadata__":{"k":3}})"), "'k' is no string");
  const auto typed = [](const std::string& type, const std::string& shape,
                        const std::string& says) {
    return file_of(R"({"__metadata__":{"tessera.dtypes":)" + Json(says).dump() +
                       R"(},"a":{"dtype":")" + type + R"(","shape":)" + shape +
                       R"(,"data_offsets":[0,8]}})",
                   8);
  };
  EXPECT_EQ(refusal_of(typed("I8", "[8]", R"({"a":"s4"})")), "read 1");
  EXPECT_EQ(refusal_of(typed("I8", "[8]", R"({"other":"s4"})")), "read 1");
  EXPECT_EQ(refusal_of(typed("U8", "[8]", R"({"a":"f6e2m3fn"})")), "read 1");
  EXPECT_EQ(refusal_of(typed("U8", "[8]", R"({"a":"f6e3m2fn"})")), "read 1");
  expect_refused(typed("I8", "[8]", R"({"a":"f6e2m3fn"})"), "elements of I8 are f6e2m3fn");
  expect_refused(typed("F6_E2M3", "[8]", R"({"a":"f6e2m3fn"})"), "elements of F6_E2M3 are");
  expect_refused(typed("I8", "[8]", R"({"a":"u4"})"), "elements of I8 are u4");
  expect_refused(typed("I8", "[8]", R"({"a":"f32"})"), "elements of I8 are f32");
  expect_refused(typed("I8", "[8]", R"({"a":"token"})"), "elements of I8 are token");
  expect_refused(typed("F64", "[1]", R"({"a":"c128"})"), "elements of F64 are c128");
  expect_refused(typed("F64", "[]", R"({"a":"c128"})"), "elements of F64 are c128");
  expect_refused(typed("I8", "[8]", "[1]"), "no object");
  expect_refused(typed("I8", "[8]", "{"), "not JSON");
}

TEST(SafetensorsFormat, DamagedHeadersAreReadOrRefused) {
  std::vector<SafetensorsEntry> entries{array_entry("w", DType::f32, {4, 2}),
                                        array_entry("b", DType::s4, {3}),
                                        array_entry("c", DType::c128, {2})};
  std::string bytes = safetensors_header(&entries, {{"k", "v"}}, "x");
  bytes += std::string(32 + 32 + 3, '\1');
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = bytes;
    const int changes = 1 + int(random() % 3);
    for (int k = 0; k < changes; ++k) damaged[random() % damaged.size()] = char(random() % 256);
    if (i % 5 == 0) damaged.resize(random() % damaged.size());
    try {
      const SafetensorsHeader h =
          parse_safetensors_header(damaged, damaged.size(), "x.safetensors");
      for (const SafetensorsEntry& e : h.entries) EXPECT_LE(e.begin + e.bytes, damaged.size());
    } catch (const IoError& e) {
      ++refused;
      EXPECT_EQ(e.message().rfind("x.safetensors", 0), 0u) << e.message();
    }
  }
  EXPECT_GT(refused, 10000);
}

TEST(SafetensorsFormat, ElementsAreBroughtIntoForm) {
  const auto of = [](DType dtype, int value) {
    std::byte b{std::uint8_t(value)};
    canonicalise(dtype, &b, 1);
    return int(b);
  };
  EXPECT_EQ(of(DType::pred, 7), 1);
  EXPECT_EQ(of(DType::pred, 0), 0);
  EXPECT_EQ(of(DType::s4, 0x77), 7);
  EXPECT_EQ(of(DType::s4, 0x0f), 0xff);
  EXPECT_EQ(of(DType::s2, 2), 0xfe);
  EXPECT_EQ(of(DType::s1, 1), 0xff);
  EXPECT_EQ(of(DType::u4, 0xff), 15);
  EXPECT_EQ(of(DType::u2, 0xff), 3);
  EXPECT_EQ(of(DType::u1, 0xfe), 0);
  EXPECT_EQ(of(DType::f4e2m1fn, 0x9c), 0xc);
  EXPECT_EQ(of(DType::f6e2m3fn, 0xe9), 0x29);
  EXPECT_EQ(of(DType::f6e3m2fn, 0x7f), 0x3f);
  EXPECT_EQ(of(DType::u8, 0xff), 0xff);
}

TEST(JsonText, LimitsAndDuplicates) {
  EXPECT_EQ(parse_json("{\"a\":[1,{\"a\":2}]}", 3, "x")["a"][1]["a"], 2);
  EXPECT_THROW(parse_json("{\"a\":[1,{\"a\":2}]}", 2, "x"), IoError);
  EXPECT_THROW(parse_json("{\"a\":1,\"\\u0061\":2}", 2, "x"), IoError);
  EXPECT_THROW(parse_json("", 2, "x"), IoError);
  EXPECT_THROW(parse_json("{}x", 2, "x"), IoError);
}

}  // namespace
}  // namespace tessera
