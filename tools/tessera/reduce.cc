// SPDX-License-Identifier: Apache-2.0
// Cuts the end off a program by halves, then takes instructions out in ever smaller groups.
#include "tools/tessera/reduce.h"

#include <algorithm>
#include <string>
#include <vector>

#include "src/ir/rewrite/builder.h"

namespace tessera::tool {
namespace {

using ir::Instruction;
using ir::Module;
using ir::Opcode;

/// What can become a result or a parameter.
bool is_value(const Instruction& i) {
  return !i.is(Opcode::parameter) && !i.is(Opcode::constant) && i.shape.is_array();
}

/// Positions in the entry.
std::vector<std::size_t> values_of(const Module& module) {
  std::vector<std::size_t> out;
  const auto& all = module.entry()->instructions();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_value(*all[i]) && all[i].get() != module.entry()->root()) out.push_back(i);
  }
  return out;
}

std::unique_ptr<Module> copy_of(const Module& module) {
  std::unique_ptr<Module> out = module.clone();
  // They name parts of the results.
  out->input_output_alias.clear();
  out->buffer_donor.clear();
  return out;
}

void remove_unused(Module* module) {
  module->entry()->remove_dead();
  module->remove_dead_computations();
}

std::unique_ptr<Module> ended_at(const Module& module, std::size_t position) {
  std::unique_ptr<Module> out = copy_of(module);
  ir::Computation* entry = out->entry();
  entry->set_root(entry->instructions()[position].get());
  remove_unused(out.get());
  return out;
}

std::unique_ptr<Module> without(const Module& module, const std::vector<std::size_t>& positions) {
  std::unique_ptr<Module> out = copy_of(module);
  ir::Computation* entry = out->entry();
  std::vector<Instruction*> gone;
  for (const std::size_t p : positions) gone.push_back(entry->instructions()[p].get());
  ir::Builder builder(entry);
  for (Instruction* i : gone) {
    Instruction* parameter =
        builder.parameter(std::int64_t(entry->parameters().size()), i->shape, i->name + ".given");
    parameter->sharding = i->sharding;
    i->replace_all_uses_with(parameter);
  }
  remove_unused(out.get());
  entry->sort_topologically();
  return out;
}

bool still_shows(const Module& module, const ShowsFault& shows) {
  try {
    return shows(module);
  } catch (const ValueError&) {
    return false;  // it can't be written
  } catch (const NotImplementedError&) {
    return false;
  }
}

/// The first instruction that shows the fault as the result, as if all after it did so, too.
void cut_end(std::unique_ptr<Module>* module, const ShowsFault& shows,
             const std::function<bool()>& goes_on) {
  const std::vector<std::size_t> values = values_of(**module);
  std::unique_ptr<Module> best;
  std::size_t low = 0, high = values.size();
  while (low < high && goes_on()) {
    const std::size_t middle = (low + high) / 2;
    std::unique_ptr<Module> tried = ended_at(**module, values[middle]);
    if (still_shows(*tried, shows)) {
      best = std::move(tried);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (best) *module = std::move(best);
}

/// Groups of instructions become parameters. True if some could.
bool take_out(std::unique_ptr<Module>* module, const ShowsFault& shows,
              const std::function<bool()>& goes_on) {
  bool any = false;
  std::vector<std::size_t> values = values_of(**module);
  for (std::size_t group = std::max<std::size_t>(values.size() / 2, 1);; group /= 2) {
    for (std::size_t at = 0; at < values.size() && goes_on();) {
      const std::size_t end = std::min(at + group, values.size());
      std::unique_ptr<Module> tried = without(
          **module, {values.begin() + std::ptrdiff_t(at), values.begin() + std::ptrdiff_t(end)});
      if (still_shows(*tried, shows)) {
        *module = std::move(tried);
        any = true;
        // Others went as well, and positions are new.
        values = values_of(**module);
      } else {
        at = end;
      }
    }
    if (group <= 1) return any;
  }
}

}  // namespace

std::unique_ptr<Module> reduced(const Module& module, const ShowsFault& shows,
                                const std::function<bool()>& goes_on) {
  std::unique_ptr<Module> out = module.clone();
  do {
    cut_end(&out, shows, goes_on);
  } while (goes_on() && take_out(&out, shows, goes_on));
  return out;
}

}  // namespace tessera::tool
