// SPDX-License-Identifier: Apache-2.0
// The report on a program: compiles it once more, with a record of every decision.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <tessera/explain.h>

#include "src/compiler/explain/cause_chains.h"
#include "src/compiler/pipeline.h"

namespace tessera::compiler {

/// `module`: as given to compile(). What it says of the device program is true of the one that
/// compile() makes of it.
Explanation explain_module(const ir::Module& module, const Options& options = {},
                           const ExplainOptions& what = {}, explain::Names names = {});

namespace explain {

/// A program, its propagation and its device program, which belong together.
struct Run {
  std::unique_ptr<ir::Module> prepared;  ///< what propagation begins with
  Compilation compilation;               ///< source: the propagated module; module: the device's
  /// Propagation by the rules alone, and what it says. Where the compiler then found a better
  /// sharding for an intermediate array, that one has no rule: it was chosen by cost. The records
  /// of the compilation's report speak of this module's instructions.
  std::unique_ptr<ir::Module> ruled;
  spmd::propagation::Provenance provenance;
  /// The specs that the program is partitioned with, by instruction of `ruled`.
  std::unordered_map<const ir::Instruction*, const ir::Instruction*> final_of;
  double reshard_bytes = 0;  ///< spmd::bytes_of_reshards
};
/// All stages up to the last that changes the module, and the rules' record.
std::unique_ptr<Run> run_stages_for(const ir::Module& module, const Options& options);
/// The stages alone, from a module that was prepared already. `is_worthwhile`: see Compilation.
std::unique_ptr<Run> run_prepared(std::unique_ptr<ir::Module> prepared, const Options& options,
                                  const Purpose& purpose,
                                  std::function<bool(double bytes)> is_worthwhile = nullptr);

/// Entries and what they are made of.
struct Found {
  ExplainEntry entry;
  const spmd::CommunicationRecord* record = nullptr;  ///< null: a collective of the program itself
  std::vector<Annotation> annotations;                ///< that its chains end at
};
std::vector<Found> find_entries(const Run& run, const CauseChains& why);
std::vector<ExplainValue> list_values(const Run& run, const CauseChains& why);
/// What the solver chose, by the first array that each choice is about.
void add_choices(const Run& run, std::vector<ExplainValue>* values);
/// Fills the chains, conflicts and annotations of an entry with a record.
void explain_entry(const CauseChains& why, Found* found);
/// Tries annotations, costliest entries first.
void suggest(const Run& run, const CauseChains& why, const Options& options,
             const ExplainOptions& what, std::vector<Found>* entries);

}  // namespace explain
}  // namespace tessera::compiler
