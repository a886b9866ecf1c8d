// SPDX-License-Identifier: Apache-2.0
// Lines of JSON that ask for facts about shardings.
#include "tools/tessera/sharding_facts.h"

#include "tests/fuzz/text_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto line = tool::OrderedJson::parse(text, nullptr, false);
  if (line.is_discarded()) return 0;
  std::string first;
  if (!fuzz::accepts([&] { first = tool::sharding_facts(line).dump(); })) return 0;
  fuzz::must("facts can't be asked twice",
             [&] { fuzz::same_text(first, tool::sharding_facts(line).dump(), "the facts"); });
  return 0;
}
