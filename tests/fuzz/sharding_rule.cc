// SPDX-License-Identifier: Apache-2.0
// The einsum-like language of sharding rules.
#include <tessera/sharding/sharding_rule.h>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::accepts([&] { ShardingRule(text).to_string(); });
  fuzz::accepts([&] {
    ShardingRule::Options options;
    options.reduction_factors = {"k"};
    options.factor_sizes = {{"i", 2}, {"k", 4}};
    ShardingRule(text, options).to_string();
  });
  return 0;
}
