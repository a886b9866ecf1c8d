// SPDX-License-Identifier: Apache-2.0
// Functions that the exporter wrote without lines of their own, as JAX does for those of its own
// library: what they compute is at the line that calls them, where that is one.
#include <unordered_map>

#include "src/ir/post_order.h"
#include "src/text/read/reader.h"

namespace tessera::text {

using ir::Computation;
using ir::Instruction;

namespace {

/// The lines from which a computation is called.
struct Callers {
  const ir::Metadata* line = nullptr;
  bool one = true;
};

}  // namespace

void Reader::locate_callees() {
  // What stands at its place in this text has no line of its own.
  const auto placed = [&](const Instruction& i) {
    const std::string& file = i.metadata->source_file;
    return !file.empty() && file != in_.file();
  };
  std::unordered_map<const Computation*, Callers> callers;
  const std::vector<Computation*> order = ir::post_order({module_->entry()});
  for (auto c = order.rbegin(); c != order.rend(); ++c) {
    const auto from = callers.find(*c);
    const bool known = from != callers.end() && from->second.one && from->second.line != nullptr;
    for (const auto& i : (*c)->instructions()) {
      if (known && !placed(*i)) {
        ir::Metadata& m = i->metadata.edit();
        m.source_file = from->second.line->source_file;
        m.source_line = from->second.line->source_line;
      }
      for (const Computation* callee : i->called()) {
        Callers& of = callers[callee];
        if (!placed(*i)) {
          of.one = false;
        } else if (of.line == nullptr) {
          of.line = &*i->metadata;
        } else if (of.line->source_file != i->metadata->source_file ||
                   of.line->source_line != i->metadata->source_line) {
          of.one = false;
        }
      }
    }
  }
}

}  // namespace tessera::text
