// SPDX-License-Identifier: Apache-2.0
// The state of a jitted function.
#pragma once

#include <tessera/jit.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/jit/jit_cache.h"
#include "src/frontend/jit/jit_stages.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/in_flight.h"
#include "src/frontend/trace/trace.h"

namespace tessera::internal {

struct JitCore::State {
  State();
  ~State();
  /// All jitted functions, for clear_caches.
  struct Alive {
    std::mutex mutex;
    std::set<State*> states;
  };
  static Alive& alive() {
    static Alive& a = *new Alive;  // functions may live until the process ends
    return a;
  }

  JitOptions options;
  Location location;
  bool pjit = false;
  std::string name;
  /// The names by which the user gave the shardings.
  std::string in_name = "in_shardings", out_name = "out_shardings";
  std::uint64_t id = 0;
  std::mutex mutex;
  JitCache entries;
  RecentPrograms recent;
  /// Programs that threads are tracing and compiling, so that other threads can wait for them.
  struct Compiling : frontend::Pending<JitEntry> {
    CallKey key;
  };
  std::vector<std::shared_ptr<Compiling>> compiling;
  std::atomic<std::int64_t> traces{0};

  std::string argument_name(int position) const {
    const auto i = std::size_t(position);
    return i < options.arg_names.size() ? options.arg_names[i]
                                        : "argument " + std::to_string(position);
  }
  /// pjit or jit.
  std::string api() const { return pjit ? "pjit" : "jit"; }
  /// Takes the options by their older names. ValueError if they are given by both, or to jit.
  void take_axis_resources();
  /// Makes of `device` a sharding of results. ValueError if there are shardings, too.
  void take_device();
  /// The checks before anything is traced: of the mesh in scope, for the older names.
  void check_mesh() const;
  /// The sharding of an argument with FROM_GDA. ValueError if it isn't placed on a mesh.
  Sharding sharding_of_argument(const ArrayImpl& impl, const std::string& who,
                                Location where) const;
  /// donate_argnums and the positions of donate_argnames.
  std::vector<int> donated_positions() const;
  /// The call with its arguments on `options.device`. ValueError with a mesh in scope.
  CallInfo on_device(const CallInfo& info, Location where) const;
  /// ValueError for more names than arguments.
  void check_names(const CallInfo& info) const;
  /// One text per leaf: "x[0] of 'f'".
  std::vector<std::string> leaf_names(const CallInfo& info, bool with_function = true) const;
  MissNames miss_names(const CallInfo& info) const;
  /// Of what is AUTO, a sharding on its mesh; empty for the rest.
  using Automatic = std::vector<std::optional<Sharding>>;
  using Stated = std::vector<std::optional<Layout>>;
  std::vector<std::optional<Sharding>> wanted_inputs(const CallInfo& info, Location where,
                                                     Automatic* automatic = nullptr,
                                                     Stated* layouts = nullptr) const;
  /// The checks of out_shardings that need no results.
  void check_outputs() const;
  std::vector<std::optional<Sharding>> wanted_outputs(const CallInfo& info,
                                                      const Prototype& prototype, std::size_t count,
                                                      Location where,
                                                      Automatic* automatic = nullptr,
                                                      Stated* layouts = nullptr) const;
  /// ValueError if a donated argument's layout is AUTO and its result's not, or the other way
  /// round.
  void check_donated_layouts(const frontend::Program& program, Location where) const;
  std::vector<bool> donated_leaves(const CallInfo& info, Location where) const;

  struct Traced {
    frontend::Program program;
    std::vector<Array> captures;
    Prototype prototype;
    std::vector<std::optional<Sharding>> types;  ///< of the results, in explicit mode
  };
  Traced trace_root(const CallInfo& info, Location where);
  std::vector<Array> call_inside(frontend::Trace& outer, const CallInfo& info, Prototype* prototype,
                                 Location where);
  /// The program for a call: from the cache, or made now, by one thread for all.
  std::shared_ptr<const JitEntry> entry_for(const CallInfo& info, const Mesh& context,
                                            Location where);
  std::shared_ptr<const JitEntry> compile(const CallInfo& info, const Mesh& context,
                                          Location where);
  /// Calls in programs that are traced, of which there is a computation; kept while misses are
  /// explained only.
  InsideCalls inside;
  /// Logs why a call is traced, if that is asked for.
  void explain(const CallInfo& info, const Mesh& context, Location where);
  void explain_inside(const frontend::Trace& outer, const CallInfo& info, const Mesh& context,
                      Location where);
};

/// What a parameter is in the traced function: in explicit mode sharded as in_shardings say.
frontend::AbstractValue parameter_value(const Array& leaf, const std::optional<Sharding>& wanted);

}  // namespace tessera::internal
