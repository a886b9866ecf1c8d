// SPDX-License-Identifier: Apache-2.0
// Broken text gives a tessera::Error or a module that prints and reads back, never anything else.
#include <filesystem>

#include "src/ir/shapes/shape_inference.h"
#include "tests/ir/text_cases.h"
#include "tests/support/random_program.h"

namespace tessera::ir::testing {
namespace {

using tessera::testing::Dice;

std::string mutate(Dice& dice, std::string text, const std::vector<std::string>& words) {
  int changes = int(dice.between(1, 3));
  for (int n = 0; n < changes && !text.empty(); ++n) {
    auto at = std::size_t(dice.below(std::int64_t(text.size())));
    auto size = std::size_t(dice.between(1, 12));
    switch (dice.below(8)) {
      case 0:  // another character
        text[at] = "{}()[],=\"%0919-+.:<>x_ \n/*aefn?'#\\"[dice.below(35)];
        break;
      case 1:
        text.erase(at, size);
        break;
      case 2:  // a piece of the text elsewhere
        text.insert(std::size_t(dice.below(std::int64_t(text.size()))), text.substr(at, size));
        break;
      case 3:
        text.insert(at, dice.pick(words));
        break;
      case 4:  // another number
        at = text.find_first_of("0123456789", at);
        if (at == std::string::npos) break;
        text.replace(at, 1,
                     dice.pick(std::vector<std::string>{"0", "1", "7", "-1", "99999999",
                                                        "9223372036854775807",
                                                        "18446744073709551616", "2147483648"}));
        break;
      case 5:  // cut off
        if (dice.chance(0.3)) text.resize(at);
        break;
      case 6: {  // swap two lines
        std::size_t a = text.find('\n', at);
        if (a == std::string::npos) break;
        std::size_t b = text.find('\n', a + 1);
        if (b == std::string::npos) break;
        std::string line = text.substr(a, b - a);
        text.erase(a, b - a);
        text.insert(
            text.rfind('\n', a > 0 ? a - 1 : 0) == std::string::npos ? 0 : text.rfind('\n', a - 1),
            line);
        break;
      }
      default:  // a control character
        text[at] = char(dice.below(256));
    }
  }
  return text;
}

TEST(HloMutations, OnlyErrorsAreThrown) {
  const std::vector<std::string> words = {"ROOT",
                                          "ENTRY",
                                          "HloModule",
                                          "{",
                                          "}",
                                          "f32[",
                                          "(",
                                          ")",
                                          "parameter(0)",
                                          ", sharding={devices=[",
                                          "<=[8]",
                                          "T(1,0)",
                                          "{...}",
                                          "nan(0x",
                                          ", metadata={",
                                          "/*",
                                          "*/",
                                          "//",
                                          "\"",
                                          ", to_apply={",
                                          "-start",
                                          "mesh[",
                                          "?",
                                          "s4[2]",
                                          "constant({",
                                          ", dimensions={",
                                          "token[]",
                                          "()",
                                          "(f32[], ",
                                          ", backend_config={\"known_trip_count\":{"};
  std::filesystem::path root = std::filesystem::path(TESSERA_SOURCE_DIR) / "tests/ir/data";
  std::uint64_t seed = 987654321;
  SCOPED_TRACE("seed " + std::to_string(seed));
  Dice dice(seed);
  int accepted = 0, refused = 0;
  for (const char* file : {"all_ops.hlo", "jax_0.10.2/wsc.hlo", "jax_0.10.2/shardmap.hlo",
                           "jax_0.4.30/sort.hlo", "jax_0.10.2/scatter.hlo", "jax_0.10.2/while.hlo",
                           "cond_switch_s2.hlo", "fft_batch_s2.hlo"}) {
    std::string original = read_file((root / file).string());
    int rounds = original.size() > 8000 ? 400 : 700;
    for (int n = 0; n < rounds; ++n) {
      std::string text = mutate(dice, original, words);
      std::unique_ptr<Module> m;
      try {
        m = parse_hlo(text, file);
      } catch (const InternalError& e) {
        ADD_FAILURE() << "an internal error: " << e.what() << "\n" << text;
      } catch (const Error&) {
        ++refused;
      } catch (const std::exception& e) {
        ADD_FAILURE() << "an error of another kind: " << e.what() << "\n" << text;
      }
      if (m != nullptr) {
        ++accepted;
        try {
          verify(*m);
          std::string printed = to_string(*m);
          EXPECT_EQ(to_string(*parse_hlo(printed, "printed")), printed) << text;
        } catch (const std::exception& e) {
          ADD_FAILURE() << "read, and then: " << e.what() << "\n" << text;
        }
      }
      if (HasFailure()) return;
    }
  }
  // Mutations that change nothing or a name are accepted; most are not.
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace tessera::ir::testing
