// SPDX-License-Identifier: Apache-2.0
// Checks and finds the axes over which values of loops vary.
#include "src/frontend/control_flow/varying_values.h"

#include <utility>

#include "src/ir/analysis/varying_axes.h"

namespace tessera::internal {

void check_carry_varies(const std::vector<Array>& carry,
                        const std::vector<frontend::AbstractValue>& results,
                        const std::vector<std::string>& paths, const std::string& name,
                        Location location) {
  const frontend::ManualScope* scope = frontend::Trace::current()->manual_scope();
  if (!scope || !scope->check_vma) return;
  std::string differ;
  std::vector<frontend::VaryingMismatch> wrong;
  for (std::size_t i = 0; i < carry.size(); ++i) {
    const frontend::VaryingAxes have = frontend::varying_of(carry[i]);
    const frontend::VaryingAxes lacks = frontend::without(results[i].varying, have);
    if (lacks.empty()) continue;
    wrong.push_back({"carry" + paths[i], lacks});
    differ += (differ.empty() ? "" : "; ") + wrong.back().what + " (" +
              results[i].shape.to_string() + ") varies over " + frontend::axes_text(have) +
              " before and over " + frontend::axes_text(results[i].varying) + " after the body";
  }
  if (wrong.empty()) return;
  throw TypeError(name + ": the body must keep the axes over which the carry varies: " + differ +
                      ". This might be fixed by applying " +
                      frontend::pcast_advice(wrong, "the initial "),
                  location);
}

void check_branches_vary(const std::vector<frontend::TracedFunction>& branches,
                         const BranchNames& names) {
  const frontend::ManualScope* scope = frontend::Trace::current()->manual_scope();
  if (!scope || !scope->check_vma) return;
  std::string differ;
  std::vector<frontend::VaryingMismatch> wrong;
  for (std::size_t r = 0; r < branches[0].results.size(); ++r) {
    frontend::VaryingAxes all;
    for (const auto& f : branches) ir::add_axes(&all, f.results[r].varying);
    std::string varies_over;
    bool same = true;
    for (std::size_t b = 0; b < branches.size(); ++b) {
      const frontend::VaryingAxes& mine = branches[b].results[r].varying;
      varies_over += (varies_over.empty() ? "" : ", ") + std::string("over ") +
                     frontend::axes_text(mine) + " in " + names.branch(b);
      if (const auto lacks = frontend::without(all, mine); !lacks.empty()) {
        same = false;
        wrong.push_back({names.result(r) + " of " + names.branch(b), lacks});
      }
    }
    if (!same) {
      differ += (differ.empty() ? "" : "; ") + names.result(r) + " varies " + varies_over;
    }
  }
  if (wrong.empty()) return;
  throw TypeError(names.api +
                      ": the branches must return values that vary over the same axes: " + differ +
                      ". This might be fixed by applying " + frontend::pcast_advice(wrong, "the "),
                  names.location);
}

std::vector<frontend::AbstractValue> varying_results(
    std::vector<frontend::AbstractValue> values, frontend::VaryingAxes exit,
    const std::vector<frontend::AbstractValue>& seen, const std::vector<Array>& captures) {
  const frontend::ManualScope* scope = frontend::Trace::current()->manual_scope();
  if (scope && !scope->check_vma) {
    for (const auto* list : {&std::as_const(values), &seen}) {
      for (const frontend::AbstractValue& v : *list) ir::add_axes(&exit, v.varying);
    }
    for (const Array& c : captures) ir::add_axes(&exit, frontend::varying_of(c));
  }
  for (frontend::AbstractValue& v : values) ir::add_axes(&v.varying, exit);
  return values;
}

}  // namespace tessera::internal
