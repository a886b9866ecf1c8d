// SPDX-License-Identifier: Apache-2.0
// Sets of mesh axes over which per-device values vary, and messages about them.
#include "src/frontend/trace/varying.h"

#include <algorithm>
#include <iterator>

#include "src/base/contains.h"

namespace tessera::frontend {

namespace {
std::string listed(const VaryingAxes& axes) {
  std::string out;
  for (const std::string& a : axes) out += (out.empty() ? "'" : ", '") + a + "'";
  return out;
}
}  // namespace

std::string axes_text(const VaryingAxes& axes) { return "{" + listed(axes) + "}"; }

std::string as_argument(const VaryingAxes& axes) {
  if (axes.size() == 1) return "\"" + *axes.begin() + "\"";
  std::string out;
  for (const std::string& a : axes) out += (out.empty() ? "\"" : ", \"") + a + "\"";
  return "{" + out + "}";
}

VaryingAxes without(const VaryingAxes& a, const VaryingAxes& b) {
  VaryingAxes out;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(out, out.end()));
  return out;
}

bool ManualScope::binds(const std::string& axis) const { return contains(axes, axis); }

std::string ManualScope::to_string() const {
  std::string out = user_mesh.to_string() + ";manual";
  for (const std::string& a : axes) out += " " + a;
  return out + (check_vma ? ";checked" : "");
}

std::string pcast_advice(const std::vector<VaryingMismatch>& list, const std::string& where) {
  std::string out;
  for (const VaryingMismatch& m : list) {
    out += (out.empty() ? "" : "; and ") + std::string("pcast(..., ") + as_argument(m.lacks) +
           ") to " + where + m.what;
  }
  return out;
}

}  // namespace tessera::frontend
