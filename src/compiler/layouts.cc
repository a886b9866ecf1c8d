// SPDX-License-Identifier: Apache-2.0
// Names of the policies of layouts.
#include <tessera/sharding/layouts.h>

#include <string>

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

}  // namespace tessera
