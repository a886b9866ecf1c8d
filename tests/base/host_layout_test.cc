// SPDX-License-Identifier: Apache-2.0
// Strided and packed parts of the host's memory against element by element copies.
#include "src/base/arrays/host_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "src/base/arrays/small_elements.h"

namespace tessera {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int v : values) out.push_back(std::byte(v));
  return out;
}

TEST(HostLayout, TransposedAndReversedArrays) {
  // [2,3] of s16 that lies column by column, and its rows backwards.
  const std::vector<std::int16_t> columns{1, 4, 2, 5, 3, 6};
  const auto* host = reinterpret_cast<const std::byte*>(columns.data());
  const Box all = Box::entire({2, 3});
  std::vector<std::int16_t> out(6);
  auto* to = reinterpret_cast<std::byte*>(out.data());
  copy_from_host(host, {DType::s16, all, {2, 4}}, to, all);
  EXPECT_EQ(out, (std::vector<std::int16_t>{1, 2, 3, 4, 5, 6}));
  copy_from_host(host + 2, {DType::s16, all, {-2, 4}}, to, all);
  EXPECT_EQ(out, (std::vector<std::int16_t>{4, 5, 6, 1, 2, 3}));
  // One row for all.
  copy_from_host(host, {DType::s16, all, {0, 4}}, to, all);
  EXPECT_EQ(out, (std::vector<std::int16_t>{1, 2, 3, 1, 2, 3}));
  // A part of it, to a part of an array, and back.
  std::vector<std::int16_t> part(2);
  copy_from_host(host, {DType::s16, all, {2, 4}}, reinterpret_cast<std::byte*>(part.data()),
                 {{1, 1}, {1, 2}});
  EXPECT_EQ(part, (std::vector<std::int16_t>{5, 6}));
  std::vector<std::int16_t> back(6, -1);
  copy_to_host(reinterpret_cast<const std::byte*>(part.data()), {{1, 1}, {1, 2}},
               reinterpret_cast<std::byte*>(back.data()), {DType::s16, all, {2, 4}});
  EXPECT_EQ(back, (std::vector<std::int16_t>{-1, -1, -1, 5, -1, 6}));
}

TEST(HostLayout, PackedElements) {
  // 1, -2, 7, -8, 3: the first in the low half of a byte.
  const auto packed = bytes({0xe1, 0x87, 0x03});
  const Box all = Box::entire({5});
  std::vector<std::byte> out(5);
  copy_from_host(packed.data(), {DType::s4, all, {}, true}, out.data(), all);
  EXPECT_EQ(out, bytes({1, 0xfe, 7, 0xf8, 3}));
  copy_from_host(packed.data(), {DType::u4, all, {}, true}, out.data(), all);
  EXPECT_EQ(out, bytes({1, 14, 7, 8, 3}));
  EXPECT_EQ(packed_bytes(DType::s4, 5), 3u);
  EXPECT_EQ(packed_bytes(DType::u2, 5), 2u);
  EXPECT_EQ(packed_bytes(DType::u1, 8), 1u);
  EXPECT_EQ(packed_bytes(DType::f32, 5), 20u);
  // With a byte each, whose other bits are the host's own.
  copy_from_host(bytes({1, 0x0e, 7, 0x58, 0xf3}).data(), {DType::s4, all}, out.data(), all);
  EXPECT_EQ(out, bytes({1, 0xfe, 7, 0xf8, 3}));
  copy_from_host(bytes({1, 0xfe, 7, 0x58, 0xf3}).data(), {DType::u4, all, {1}}, out.data(), all);
  EXPECT_EQ(out, bytes({1, 14, 7, 8, 3}));
  settle_elements(DType::s2, out.data(), 3);
  EXPECT_EQ(out, bytes({1, 0xfe, 0xff, 8, 3}));
  EXPECT_FALSE(stands_as_on_devices(DType::f4e2m1fn));
  EXPECT_TRUE(stands_as_on_devices(DType::s8));
  // What shares a byte keeps its value.
  auto back = bytes({0xff, 0xff, 0xff});
  copy_to_host(bytes({1, 0xfe}).data(), {{1}, {2}}, back.data(), {DType::s4, all, {}, true});
  EXPECT_EQ(back, bytes({0x1f, 0xfe, 0xff}));
  // A wider type packs nothing.
  std::vector<std::byte> wide(4);
  copy_from_host(bytes({1, 2, 3, 4}).data(), {DType::s8, Box::entire({4}), {}, true}, wide.data(),
                 Box::entire({4}));
  EXPECT_EQ(wide, bytes({1, 2, 3, 4}));
}

TEST(HostLayout, EmptyPartsAndScalars) {
  const std::vector<float> one{7};
  float out = 0;
  copy_from_host(reinterpret_cast<const std::byte*>(one.data()), {DType::f32, {{}, {}}, {}},
                 reinterpret_cast<std::byte*>(&out), {{}, {}});
  EXPECT_EQ(out, 7);
  copy_from_host(nullptr, {DType::f32, Box::entire({0, 3}), {-4, 8}}, nullptr, Box::entire({0, 3}));
  EXPECT_TRUE((HostLayout{DType::f32, Box::entire({1, 3}), {-400, 4}}.is_plain()));
  EXPECT_FALSE((HostLayout{DType::f32, Box::entire({2, 3}), {4, 8}}.is_plain()));
}

TEST(HostLayout, RandomPartsGoThereAndBack) {
  const unsigned seed = 20261127;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) { return std::int64_t(random() % std::uint64_t(n)); };
  for (int k = 0; k < 300; ++k) {
    const std::size_t rank = std::size_t(below(4));
    Dims size, order;
    for (std::size_t d = 0; d < rank; ++d) {
      size.push_back(1 + below(5));
      order.push_back(std::int64_t(d));
    }
    std::shuffle(order.begin(), order.end(), random);
    const bool packed = below(3) == 0;
    const DType types[] = {DType::u8, DType::f16, DType::f32, DType::c64, DType::c128};
    const DType narrow[] = {DType::u1, DType::s2, DType::u2, DType::s4, DType::u4, DType::f4e2m1fn};
    HostLayout layout{packed ? narrow[below(6)] : types[below(5)], Box::entire(size), {}, packed};
    const auto element = std::int64_t(byte_size(layout.dtype));
    std::int64_t count = layout.box.element_count(), first = 0;
    if (!packed) {
      layout.byte_strides.assign(rank, 0);
      std::int64_t step = element;
      for (const std::int64_t d : order) {
        const bool back = below(2) == 0;
        layout.byte_strides[std::size_t(d)] = back ? -step : step;
        if (back) first += step * (size[std::size_t(d)] - 1);
        step *= size[std::size_t(d)] + below(2);
        count = step / element;
      }
    }
    std::vector<std::byte> host(std::size_t(count * element) + 16), again(host.size());
    for (std::byte& b : host) b = std::byte(random());
    std::vector<std::byte> dense(std::size_t(layout.box.element_count() * element));
    copy_from_host(host.data() + first, layout, dense.data(), layout.box);
    copy_to_host(dense.data(), layout.box, again.data() + first, layout);
    std::vector<std::byte> dense_again(dense.size());
    copy_from_host(again.data() + first, layout, dense_again.data(), layout.box);
    EXPECT_EQ(dense, dense_again) << k;
    if (packed) {
      EXPECT_EQ(std::memcmp(host.data(), again.data(),
                            packed_bytes(layout.dtype, layout.box.element_count()) - 1),
                0)
          << k;
    }
  }
}

}  // namespace
}  // namespace tessera
