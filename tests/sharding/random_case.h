// SPDX-License-Identifier: Apache-2.0
// Random numbers with a seed that is printed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

namespace tessera::test {

/// Random numbers that are the same on every platform. The seed is printed; TEST_SEED sets it.
class RandomCase {
 public:
  explicit RandomCase(const char* name) {
    if (const char* text = std::getenv("TEST_SEED")) seed_ = std::strtoull(text, nullptr, 10);
    std::cout << name << ": TEST_SEED=" << seed_ << "\n";
    engine_.seed(seed_);
  }
  std::int64_t below(std::int64_t n) { return std::int64_t(engine_() % std::uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class List>
  void shuffle(List& v) {
    for (std::size_t i = v.size(); i > 1; --i)
      std::swap(v[i - 1], v[std::size_t(below(std::int64_t(i)))]);
  }
  /// n as a product of so many ordered factors.
  std::vector<std::int64_t> factors(std::int64_t n, std::int64_t parts) {
    std::vector<std::int64_t> out(std::size_t(parts), 1);
    for (std::int64_t p = 2; n > 1; ++p) {
      for (; n % p == 0; n /= p) out[std::size_t(below(parts))] *= p;
    }
    return out;
  }
  std::uint64_t seed() const { return seed_; }

 private:
  std::uint64_t seed_ = 20240607;
  std::mt19937_64 engine_;
};

}  // namespace tessera::test
