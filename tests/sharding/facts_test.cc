// SPDX-License-Identifier: Apache-2.0
// Shardings as JAX states them, through the code of `tessera sharding --jsonl`.
#include "tools/tessera/sharding_facts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace tessera::test {
namespace {

// The order of keys means something in a mesh only.
using Json = nlohmann::json;
using tool::OrderedJson;

/// Keys of the line that are results, "message" left out: JAX's words are not ours.
const char* const kResults[] = {
    "hlo",         "shard_shape",   "index_map", "replica_ids", "fully_replicated",
    "parsed_spec", "equivalent_to", "error"};

void check_file(const std::string& path, int at_least) {
  std::ifstream file(path);
  ASSERT_TRUE(file) << path;
  int number = 0, refused = 0, failed = 0;
  for (std::string text; std::getline(file, text) && failed < 10;) {
    ++number;
    const OrderedJson line = OrderedJson::parse(text);
    const Json want = line, got = tool::sharding_facts(line);
    refused += want.contains("error");
    for (const char* key : kResults) {
      const Json a = want.contains(key) ? want.at(key) : Json("absent");
      const Json b = got.contains(key) ? got.at(key) : Json("absent");
      if (a == b) continue;
      ++failed;
      ADD_FAILURE() << path << ":" << number << ": " << key << " is " << b << ", expected " << a
                    << "\n  mesh " << want.at("mesh") << " spec " << want.at("spec") << " shape "
                    << want.at("shape") << "\n  " << got.value("message", "");
    }
    if (want.contains("error") && got.contains("message")) {
      // The spec as the user wrote it stands in every refusal.
      const std::string spec = tool::spec_from_json(line.at("spec")).to_string();
      EXPECT_NE(got.at("message").get<std::string>().find(spec), std::string::npos)
          << path << ":" << number << ": " << got.at("message");
    }
  }
  EXPECT_GE(number, at_least);
  EXPECT_GT(refused, 0);
}

TEST(ShardingFacts, AllLinesOfTheFixtureHold) {
  check_file(TESSERA_SOURCE_DIR "/tests/fixtures/sharding_facts.jsonl", 400);
  // More lines, made by tests/fixtures/scripts/sharding_facts.py with other seeds.
  if (const char* more = std::getenv("SHARDING_FACTS_FILE")) check_file(more, 1);
}

}  // namespace
}  // namespace tessera::test
