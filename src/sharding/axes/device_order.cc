// SPDX-License-Identifier: Apache-2.0
// Factors device lists into mixed-radix digits: HLO's iota form and its transposes.
#include "src/sharding/axes/device_order.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

/// Indices of the digits by descending stride.
IndexList by_stride(std::span<const Digit> digits) {
  IndexList order(digits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return digits[std::size_t(a)].stride > digits[std::size_t(b)].stride;
  });
  return order;
}

}  // namespace

std::vector<Digit> joined_digits(std::span<const Digit> digits) {
  std::vector<Digit> out;
  for (const Digit& d : digits) {
    if (d.size == 1) continue;
    if (!out.empty() && out.back().stride == d.size * d.stride) {
      out.back() = Digit{out.back().size * d.size, d.stride};
    } else {
      out.push_back(d);
    }
  }
  return out;
}

std::vector<Digit> digits_of_iota(std::span<const std::int64_t> reshape,
                                  std::span<const int> perm) {
  const Dims strides = row_major_strides(reshape);
  std::vector<Digit> digits;
  for (std::size_t i = 0; i < reshape.size(); ++i) {
    const std::size_t d = perm.empty() ? i : std::size_t(perm[i]);
    digits.push_back({reshape[d], strides[d]});
  }
  return joined_digits(digits);
}

std::optional<std::vector<Digit>> digits_of_list(std::span<const std::int64_t> list) {
  // Lists of a text may have any numbers; of these no stride overflows.
  const auto count = std::int64_t(list.size());
  if (std::any_of(list.begin(), list.end(), [&](auto d) { return d < 0 || d >= count; })) {
    return std::nullopt;
  }
  std::vector<Digit> digits;  // minor to major
  std::size_t block = 1;      // number of entries per value of the next digit
  while (block < list.size()) {
    const std::int64_t stride = list[block] - list[0];
    std::size_t size = 1;
    while (size * block < list.size() &&
           list[size * block] - list[0] == std::int64_t(size) * stride) {
      ++size;
    }
    if (stride <= 0 || (list.size() / block) % size != 0) return std::nullopt;
    digits.push_back({std::int64_t(size), stride});
    block *= size;
  }
  std::reverse(digits.begin(), digits.end());
  digits = joined_digits(digits);
  // The strides must be those of a row-major array of all numbers from 0.
  std::int64_t expected = std::int64_t(list.size());
  for (int i : by_stride(digits)) {
    const Digit& d = digits[std::size_t(i)];
    if (d.stride * d.size != expected) return std::nullopt;
    expected = d.stride;
  }
  if (expected != 1) return std::nullopt;
  // The digits were found from a few entries only.
  for (std::size_t p = 0; p < list.size(); ++p) {
    std::int64_t value = 0;
    std::int64_t rest = std::int64_t(p);
    for (std::size_t i = digits.size(); i-- > 0;) {
      value += rest % digits[i].size * digits[i].stride;
      rest /= digits[i].size;
    }
    if (list[p] != value) return std::nullopt;
  }
  return digits;
}

void iota_of_digits(std::span<const Digit> digits, Dims* reshape, IndexList* perm) {
  reshape->clear();
  perm->clear();
  if (digits.empty()) {
    reshape->push_back(1);
    return;
  }
  const IndexList order = by_stride(digits);
  perm->resize(digits.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    reshape->push_back(digits[std::size_t(order[k])].size);
    (*perm)[std::size_t(order[k])] = int(k);
  }
  if (std::is_sorted(perm->begin(), perm->end())) perm->clear();
}

std::optional<std::vector<std::vector<Digit>>> split_digits(std::span<const Digit> digits,
                                                            std::span<const std::int64_t> tile) {
  std::vector<std::vector<Digit>> out(tile.size());
  std::vector<Digit> rest(digits.begin(), digits.end());
  for (std::size_t i = tile.size(); i-- > 0;) {
    std::int64_t missing = tile[i];
    while (missing > 1) {
      if (rest.empty()) return std::nullopt;
      Digit& d = rest.back();
      if (missing % d.size == 0) {
        missing /= d.size;
        out[i].push_back(d);
        rest.pop_back();
      } else if (d.size % missing == 0) {
        out[i].push_back({missing, d.stride});
        d = Digit{d.size / missing, d.stride * missing};
        missing = 1;
      } else {
        return std::nullopt;
      }
    }
    std::reverse(out[i].begin(), out[i].end());
  }
  if (!rest.empty()) return std::nullopt;
  return out;
}

}  // namespace tessera
