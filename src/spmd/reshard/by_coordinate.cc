// SPDX-License-Identifier: Apache-2.0
// Arithmetic on progressions.
#include "src/spmd/reshard/by_coordinate.h"

#include <limits>

namespace tessera::spmd {

ByCoordinate::ByCoordinate(const Dims& numbers) : size_(std::int64_t(numbers.size())) {
  for (std::size_t c = 0; c < numbers.size();) {
    Piece p{std::int64_t(c), numbers[c], 0};
    if (++c < numbers.size()) p.step = numbers[c] - numbers[c - 1];
    while (c < numbers.size() && numbers[c] - numbers[c - 1] == p.step) ++c;
    pieces_.push_back(p);
  }
}

ByCoordinate ByCoordinate::line(std::int64_t size, std::int64_t first, std::int64_t step) {
  ByCoordinate out;
  out.append(size, first, step);
  return out;
}

ByCoordinate ByCoordinate::quotients(std::int64_t size, std::int64_t first, std::int64_t step,
                                     std::int64_t divisor) {
  if (step % divisor == 0) return line(size, ceil_div(first, divisor), step / divisor);
  ByCoordinate out;
  for (std::int64_t c = 0; c < size; ++c) out.push_back(ceil_div(first + step * c, divisor));
  return out;
}

ByCoordinate ByCoordinate::of_ranges(std::int64_t size, std::int64_t other,
                                     const std::vector<Range>& ranges) {
  Dims ends{0, size};
  for (const Range& r : ranges) {
    if (r.first < r.last) ends.insert(ends.end(), {r.first, r.last});
  }
  std::sort(ends.begin(), ends.end());
  ByCoordinate out;
  for (std::size_t k = 0; k + 1 < ends.size(); ++k) {
    std::int64_t value = other;
    for (const Range& r : ranges) {
      if (r.first <= ends[k] && ends[k] < r.last) value = r.value;
    }
    out.append(ends[k + 1] - ends[k], value, 0);
  }
  return out;
}

bool ByCoordinate::is_sorted() const {
  for (std::size_t k = 0; k < pieces_.size(); ++k) {
    if (pieces_[k].step < 0) return false;
    if (k > 0 && pieces_[k].value < (*this)[std::size_t(pieces_[k].begin - 1)]) return false;
  }
  return true;
}

std::int64_t ByCoordinate::operator[](std::size_t c) const {
  const auto at = std::int64_t(c);
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), at,
                                [](std::int64_t x, const Piece& p) { return x < p.begin; });
  --piece;
  return piece->value + piece->step * (at - piece->begin);
}

std::int64_t ByCoordinate::least() const {
  std::int64_t out = std::numeric_limits<std::int64_t>::max();
  for (std::size_t k = 0; k < pieces_.size(); ++k) {
    const Piece& p = pieces_[k];
    out = std::min({out, p.value, p.value + p.step * (end_of(k) - 1 - p.begin)});
  }
  return out;
}

std::int64_t ByCoordinate::greatest() const { return -times(-1).least(); }

std::int64_t ByCoordinate::count(std::int64_t number) const {
  std::int64_t out = 0;
  for (std::size_t k = 0; k < pieces_.size(); ++k) {
    const Piece& p = pieces_[k];
    const std::int64_t length = end_of(k) - p.begin;
    if (p.step == 0) {
      if (p.value == number) out += length;
      continue;
    }
    const std::int64_t at = (number - p.value) / p.step;
    if (at >= 0 && at < length && p.value + at * p.step == number) ++out;
  }
  return out;
}

void ByCoordinate::append(std::int64_t count, std::int64_t value, std::int64_t step) {
  while (count > 0) {
    if (count == 1) step = 0;
    if (size_ == 0) {
      pieces_.push_back({0, value, step});
      size_ = count;
      return;
    }
    Piece& last = pieces_.back();
    const std::int64_t length = size_ - last.begin;
    // Two numbers are always a line.
    if (length == 1) last.step = value - last.value;
    if (value == last.value + last.step * length) {
      const bool all = count == 1 || step == last.step;
      size_ += all ? count : 1;
      if (all) return;
      --count;
      value += step;
      continue;
    }
    pieces_.push_back({size_, value, step});
    size_ += count;
    return;
  }
}

ByCoordinate operator+(const ByCoordinate& a, const ByCoordinate& b) {
  ByCoordinate out;
  for_lines<2>({&a, &b}, [&](std::int64_t, std::int64_t count, const auto& v, const auto& s) {
    out.append(count, v[0] + v[1], s[0] + s[1]);
  });
  return out;
}

ByCoordinate ByCoordinate::plus(std::int64_t k) const {
  ByCoordinate out = *this;
  for (Piece& p : out.pieces_) p.value += k;
  return out;
}

ByCoordinate ByCoordinate::times(std::int64_t k) const {
  ByCoordinate out;
  for (std::size_t p = 0; p < pieces_.size(); ++p) {
    out.append(end_of(p) - pieces_[p].begin, pieces_[p].value * k, pieces_[p].step * k);
  }
  return out;
}

ByCoordinate least_of(const ByCoordinate& a, const ByCoordinate& b) {
  ByCoordinate out;
  for_lines<2>({&a, &b}, [&](std::int64_t, std::int64_t count, const auto& v, const auto& s) {
    // Up to where they cross one is the lesser, then the other.
    const std::size_t first = v[0] < v[1] || (v[0] == v[1] && s[0] <= s[1]) ? 0 : 1;
    const std::size_t other = 1 - first;
    std::int64_t until = count;
    if (s[first] > s[other]) {
      until = std::min(count, (v[other] - v[first]) / (s[first] - s[other]) + 1);
    }
    out.append(until, v[first], s[first]);
    out.append(count - until, v[other] + s[other] * until, s[other]);
  });
  return out;
}

ByCoordinate greatest_of(const ByCoordinate& a, const ByCoordinate& b) {
  return least_of(a.times(-1), b.times(-1)).times(-1);
}

}  // namespace tessera::spmd
