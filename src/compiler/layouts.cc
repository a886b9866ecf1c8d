// SPDX-License-Identifier: Apache-2.0
// Names of the policies of layouts, and the variable that chooses among them.
#include "src/compiler/layouts.h"

#include "src/base/env.h"

namespace tessera {
namespace {

constexpr const char* kValid = "; valid: propagated, solved";

}  // namespace

std::string to_string(Layouts layouts) {
  switch (layouts) {
    case Layouts::solved:
      return "solved";
    case Layouts::propagated:
      return "propagated";
  }
  throw ValueError("layouts is " + std::to_string(int(layouts)) + ", a number without a name" +
                   kValid);
}

Layouts parse_layouts(const std::string& text, Location location) {
  for (const Layouts layouts : {Layouts::solved, Layouts::propagated}) {
    if (text == to_string(layouts)) return layouts;
  }
  throw ValueError("layouts is '" + text + "'" + kValid, location);
}

namespace compiler {

Layouts choose_layouts(const std::optional<Layouts>& requested) {
  if (requested) {
    (void)to_string(*requested);  // checks it
    return *requested;
  }
  const std::optional<std::string> text = env_choice("TESSERA_LAYOUTS");
  return text ? parse_layouts(*text, Location{}) : Layouts::solved;
}

}  // namespace compiler
}  // namespace tessera
