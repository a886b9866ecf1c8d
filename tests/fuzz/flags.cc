// SPDX-License-Identifier: Apache-2.0
// What users write after --mesh and --in-shardings, and values of environment variables. Lines: the
// mesh, the specs, a variable's value.
#include <cstdlib>

#include "src/base/env.h"
#include "src/ir/hlo/hlo_text.h"
#include "tests/fuzz/text_mutator.h"
#include "tools/tessera/placement.h"

namespace {

constexpr const char* kModule = R"(HloModule m
ENTRY e {
  a = f32[8,12] parameter(0)
  b = f32[] parameter(1)
  ROOT t = (f32[8,12], f32[]) tuple(a, b)
})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  std::string rest(reinterpret_cast<const char*>(data), size);
  const auto line = [&] {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string out = rest.substr(0, end);
    rest.erase(0, end + 1);
    return out;
  };
  tool::PlacementFlags flags;
  flags.mesh = line();
  flags.in_shardings = line();
  fuzz::accepts([&] {
    std::int64_t devices = 1;
    if (!flags.mesh.empty()) {
      for (const auto& [name, n] : tool::parse_mesh(flags.mesh)) devices *= n;
    }
    if (devices > 4096) return;  // takes a while, and is the same each time
    const auto module = ir::parse_hlo(kModule);
    tool::place(module.get(), flags);
    const std::string printed = ir::to_string(*module);
    fuzz::must("a placed module is refused", [&] {
      fuzz::same_text(printed, ir::to_string(*ir::parse_hlo(printed)), "a placed module");
    });
  });
  fuzz::accepts([&] { tool::parse_specs(flags.in_shardings); });
  const std::string value = line();
  if (value.find('\0') != std::string::npos) return 0;
  for (const EnvVariable& v : env_table()) {
    setenv(v.name, value.c_str(), 1);
    fuzz::accepts([] { check_environment(); });
    unsetenv(v.name);
  }
  return 0;
}
