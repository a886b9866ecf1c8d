// SPDX-License-Identifier: Apache-2.0
// Device tilings: text, and their translation to mesh axes.
#include "src/sharding/axes/tiling.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/sharding/random_case.h"
#include "tests/support/error_table.h"

namespace tessera {
namespace {

Tiling parse(const std::string& text) {
  const std::vector<Tiling> all = parse_tilings(text);
  EXPECT_EQ(all.size(), 1u) << text;
  return all.at(0);
}

std::string refusal(const std::string& text) {
  try {
    parse_tilings(text);
  } catch (const ParseError& e) {
    tessera::testing::note_error(e);
    return e.what();
  }
  return "accepted";
}

std::vector<std::string> split(const std::string& line, const std::string& separator) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (std::size_t end; (end = line.find(separator, begin)) != std::string::npos;) {
    out.push_back(line.substr(begin, end - begin));
    begin = end + separator.size();
  }
  out.push_back(line.substr(begin));
  return out;
}

TEST(Tiling, TextsAndDevicesAsXlaHasThem) {
  std::ifstream file(TESSERA_SOURCE_DIR "/tests/fixtures/tiling_texts.txt");
  int lines = 0, same_text = 0;
  for (std::string line; std::getline(file, line);) {
    ++lines;
    const auto part = split(line, " | ");
    ASSERT_EQ(part.size(), 5u) << line;
    const Tiling t = parse(part[0]);
    // XLA leaves some sizes of 1 and some orders of copies as they come; the meaning is the same.
    same_text += t.to_string() == part[3];
    EXPECT_TRUE(parse(part[3]).canonical() == t.canonical()) << line << "\n" << t.to_string();
    EXPECT_EQ(t.num_devices(), std::stoll(part[2])) << line;
    EXPECT_EQ(t.rank(), std::stoll(part[1])) << line;
    EXPECT_EQ(join(t.device_list()), part[4]) << line;
    // The same as an explicit list, and from the printed text.
    Tiling explicit_list = t;
    explicit_list.devices = t.device_list();
    explicit_list.reshape.clear();
    explicit_list.perm.clear();
    EXPECT_EQ(explicit_list.to_string(), t.to_string()) << line;
    EXPECT_TRUE(parse(t.to_string()) == t.canonical()) << line << "\n" << t.to_string();
  }
  EXPECT_EQ(lines, 300);
  EXPECT_GE(same_text, 270);
}

TEST(Tiling, PlainKindsAndGroups) {
  for (const char* text :
       {"{replicated}", "{maximal device=3}", "{manual}", "{unknown}", "{unreduced}",
        "{devices=[8]<=[8] shard_as 3}", "{replicated shard_like 12}",
        "{devices=[8]0,1,2,3,4,6,5,7}", "{devices=[2,4]<=[8]}",
        "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}"}) {
    EXPECT_EQ(parse(text).to_string(), text);
  }
  EXPECT_EQ(parse("{devices=[4,2]0,4,1,5,2,6,3,7}").to_string(), "{devices=[4,2]<=[2,4]T(1,0)}");
  EXPECT_EQ(parse("{maximal_mesh[device_id=3]}").to_string(), "{maximal device=3}");
  EXPECT_EQ(parse("{devices=[1,1,1]0}").to_string(), "{replicated}");
}

TEST(Tiling, MetadataIsPassedOver) {
  EXPECT_EQ(parse("{devices=[2]<=[2] metadata={op_name=\"a{\" source_line=3}}").to_string(),
            "{devices=[2]<=[2]}");
  EXPECT_EQ(parse("{replicated metadata={{op_name=\"a\"}, {op_name=\"b}\\\"\"}}}").to_string(),
            "{replicated}");
}

TEST(Tiling, Tuples) {
  bool tuple = false;
  auto all = parse_tilings("{{devices=[2]0,1}, {replicated}, /*index=2*/{manual}}", &tuple);
  EXPECT_TRUE(tuple);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].to_string(), "{devices=[2]<=[2]}");
  EXPECT_EQ(all[1].to_string(), "{replicated}");
  EXPECT_EQ(all[2].to_string(), "{manual}");
  EXPECT_EQ(parse_tilings("{}", &tuple).size(), 0u);
  EXPECT_TRUE(tuple);
  EXPECT_EQ(parse_tilings("{replicated}", &tuple).size(), 1u);
  EXPECT_FALSE(tuple);
}

TEST(Tiling, NamedMeshForm) {
  auto text = [](const std::string& t) { return parse(t).to_string(); };
  EXPECT_EQ(text("{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}"), "{devices=[2,4]<=[8]}");
  EXPECT_EQ(text("{mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2, ?}]}"),
            "{devices=[2,2,2]<=[8] last_tile_dim_replicate}");
  EXPECT_EQ(text("{mesh['a'=2,'b'=4], [{'b':(2)2}, {'b':(1)2}]}"),
            "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}");
  EXPECT_EQ(text("{mesh['a'=2,'b'=4], [{'b'}, {}], unreduced={'a'}}"),
            "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dims={unreduced}}");
  EXPECT_EQ(text("{mesh['a'=2,'b'=4], [{}, {'b'}], manual={'a'}}"),
            "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={manual}}");
  EXPECT_EQ(text("{mesh['a'=2,'b'=4], [{'a'}, {}], replicated={'b'}}"),
            "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  EXPECT_EQ(text("{mesh['a'=2,'b'=4], replicated}"), "{replicated}");
  EXPECT_EQ(text("{mesh['a'=4,'b'=2], device_ids=([2,4]T(1,0)), [{'a'}, {'b'}]}"),
            "{devices=[4,2]<=[2,4]T(1,0)}");
  EXPECT_EQ(text("{mesh['a'=3], device_ids=(0,2,1), [{'a'}]}"), "{devices=[3]0,2,1}");
  EXPECT_NE(refusal("{mesh['a'=2], [{'z'}]}").find("axis 'z' is not in mesh"), std::string::npos);
  EXPECT_NE(refusal("{mesh['a'=2], [{'a'}, {'a'}]}").find("'a' stands twice"), std::string::npos);
  EXPECT_NE(refusal("{mesh['a'=6], [{'a':(2)2}]}").find("doesn't divide"), std::string::npos);
  EXPECT_NE(refusal("{mesh['a'=6], [{'a':(1)2}, {'a':(3)2}]}").find("don't nest"),
            std::string::npos);
}

TEST(Tiling, Behaviour_069_RefusalsNameTheReasonAndThePlace) {
  auto expect = [](const std::string& text, const std::string& why) {
    const std::string message = refusal(text);
    EXPECT_NE(message.find(why), std::string::npos) << text << " -> " << message;
    EXPECT_NE(message.find("column "), std::string::npos) << message;
    EXPECT_NE(message.find(text), std::string::npos) << message;
  };
  expect("{devices=[2,2]<=[]}", "'<=' needs dims");
  expect("{devices=[2,2]<=[8]}", "<=[8] has 8 devices and the tiles 4");
  expect("{devices=[2,2]<=[2,2]T(1)}", "T(1) has 1 entries for the 2 dims of [2,2]");
  expect("{devices=[2,2]<=[2,2]T(0,0)}", "T(0,0) is no permutation");
  expect("{devices=[2]<=[2] last_tile_dims={manual, replicated}}",
         "2 kinds of last tile dims for 1 tile dims");
  expect("{devices=[2,2]0,1,2}", "need 4 devices and 3 are listed");
  expect("{devices=[2,2]0,1,2,2}", "device 2 is listed twice");
  expect("{devices=[0,2]}", "a dim of size 0");
  expect("{devices=[]0}", "needs tile dims");
  expect("{replicated manual}", "second kind");
  expect("{maximal}", "'maximal' needs 'device=N'");
  expect("{replicated last_tile_dim_replicate}", "need 'devices=[...]'");
  expect("{shard_as 3}", "no kind of sharding");
  expect("{sharded}", "expected replicated, maximal");
  expect("{replicated", "expected '}'");
  expect("{replicated} x", "nothing may follow");
  expect("{devices=[99999999999999999999]<=[1]}", "number too large");
  expect("{devices=[2147483648,2147483648,4]<=[1]}", "too many devices");
}

TEST(Tiling, DamagedTextsAreReadOrRefused) {
  test::RandomCase random("DamagedTextsAreReadOrRefused");
  const std::string good[] = {
      "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate metadata={op_name=\"a\"}}",
      "{devices=[2,2,2]0,4,1,5,2,6,3,7 last_tile_dims={manual, replicated} shard_as 3}",
      "{{maximal device=3}, {replicated}, {devices=[2]<=[2]}}",
      "{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {'b':(1)2, ?}], "
      "unreduced={'b':(2)2}}"};
  const std::string letters = "{}[](),=<>:?'\"T0123456789 amdr";
  int read = 0, refused = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string text = good[random.below(4)];
    for (std::int64_t k = 1 + random.below(3); k > 0; --k) {
      const std::size_t at = std::size_t(random.below(std::int64_t(text.size())));
      const char c = letters[std::size_t(random.below(std::int64_t(letters.size())))];
      switch (random.below(3)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1);
      }
    }
    SCOPED_TRACE("seed " + std::to_string(random.seed()) + ": " + text);
    try {
      for (const Tiling& t : parse_tilings(text)) {
        // What was read has a text that reads as the same.
        EXPECT_TRUE(parse(t.to_string()).canonical() == t.canonical());
      }
      ++read;
    } catch (const ParseError&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 30);
  EXPECT_GT(refused, 1000);
}

TEST(Tiling, CheckedAgainstTheNumberOfDevices) {
  EXPECT_NO_THROW(check_tiling(parse("{devices=[2,4]<=[8]}"), 8));
  EXPECT_NO_THROW(check_tiling(parse("{replicated}"), 5));
  auto why = [](const char* text, std::int64_t n) -> std::string {
    try {
      check_tiling(parse(text), n);
    } catch (const ShardingError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why("{devices=[2,4]<=[8]}", 4),
            "sharding {devices=[2,4]<=[8]} is for 8 devices and there are 4");
  EXPECT_EQ(why("{devices=[2]0,7}", 2), "sharding {devices=[2]0,7} names device 7 of 2");
  EXPECT_NE(why("{maximal device=8}", 8).find("not among the 8"), std::string::npos);
  EXPECT_EQ(why("{devices=[2,1]0,7777777777777077773}", 2),
            "sharding {devices=[2,1]0,7777777777777077773} names device 7777777777777077773 of 2");
}

TEST(Tiling, FieldsThatDescribeNoTilingAreRefused) {
  const auto why = [](const Tiling& t, std::int64_t n) -> std::string {
    try {
      check_tiling(t, n);
    } catch (const ShardingError& e) {
      return e.what();
    }
    return "accepted";
  };
  Tiling t;
  t.kind = Tiling::Kind::tiled;
  t.tile = {2, 3};
  t.reshape = {3, 2};
  t.perm = {1, 0};
  EXPECT_EQ(why(t, 6), "accepted");
  for (const IndexList& perm : {IndexList{0}, IndexList{1, 1}, IndexList{0, 2}, IndexList{-1, 0}}) {
    t.perm = perm;
    EXPECT_NE(why(t, 6).find("devices <=[3,2]T(" + join(Dims(perm.begin(), perm.end())) + ")"),
              std::string::npos)
        << why(t, 6);
  }
  t.perm.clear();
  t.reshape = {7};
  EXPECT_NE(why(t, 6).find("tiles [2,3]"), std::string::npos) << why(t, 6);
  t.reshape.clear();
  EXPECT_NE(why(t, 6).find("lists 0 devices"), std::string::npos) << why(t, 6);
  t.tile = {1 << 20, 1 << 20, 1 << 20, 1 << 20};
  EXPECT_NE(why(t, 1).find("lists 0 devices"), std::string::npos) << why(t, 1);
  t.tile = {2};
  t.devices = {1, 0};
  t.subgroups = {Tiling::Subgroup::manual, Tiling::Subgroup::manual};
  EXPECT_NE(why(t, 2).find("2 of them subgroups"), std::string::npos) << why(t, 2);
}

}  // namespace
}  // namespace tessera
