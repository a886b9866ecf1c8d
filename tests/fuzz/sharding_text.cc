// SPDX-License-Identifier: Apache-2.0
// HLO's and sdy's texts of shardings and meshes; the first byte chooses.
#include "src/sharding/axes/sdy_text.h"
#include "src/sharding/axes/tiling.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text[0] == '{') {
    std::vector<Tiling> tilings;
    if (!fuzz::accepts([&] { tilings = parse_tilings(text); })) return 0;
    for (const Tiling& t : tilings) {
      std::string printed;
      if (!fuzz::accepts([&] {
            check_tiling(t, t.num_devices());
            printed = t.to_string();
          })) {
        continue;
      }
      fuzz::must("printed tiling is refused", [&] {
        fuzz::same_text(printed, parse_tilings(printed).at(0).to_string(), "the text of a tiling");
      });
    }
  } else if (text.substr(0, 9) == "#sdy.mesh" || text[0] == '<' || text.substr(0, 5) == "mesh<") {
    fuzz::accepts([&] { parse_sdy_mesh(text); });
  } else {
    static const MeshTable meshes = {
        {"mesh", parse_sdy_mesh("#sdy.mesh<[\"x\"=2, \"y\"=4, \"z\"=6]>")}};
    fuzz::accepts([&] {
      const TensorSharding s = parse_sdy_sharding(text, meshes);
      fuzz::must("a sharding can't be described", [&] { s.to_string(); });
    });
    fuzz::accepts([&] { parse_sdy_sharding_per_value(text, meshes); });
  }
  return 0;
}
