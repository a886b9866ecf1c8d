// SPDX-License-Identifier: Apache-2.0
// What a program communicates, where and why, and what would avoid it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/layouts.h>

namespace tessera {

/// One step on the way from a tensor's sharding back to what the user wrote.
struct ExplainStep {
  std::string tensor;    ///< the array, by its name in the program
  std::string spec;      ///< how it lies
  std::string op;        ///< what gave it these axes: "dot", or at the end "argument 2 (w)"
  std::string location;  ///< "file:line" of that
  std::string how;       ///< "from dim 1 of operand 1"; at the end "stated", or "chosen by cost"
};

/// Why some axes stand on one dim of a tensor: rule by rule, back to an argument, a result or a
/// constraint.
struct ExplainChain {
  std::string axes;      ///< in the user's names: "model"
  std::int64_t dim = 0;  ///< -1: the tensor is a partial sum over them
  std::vector<ExplainStep> steps;
  /// `"model" on dim 1 <- dot at net.cc:12 <- argument 2 (w) P(None, "model")`; long chains are cut
  /// in their middle.
  std::string to_string() const;
};

/// One collective instruction of the device program.
struct ExplainCollective {
  std::string kind;         ///< "all-gather", ...
  std::string instruction;  ///< its name there
  std::string computation;  ///< that it stands in
  double bytes = 0;         ///< received by one device, each time it runs
  double times = 1;         ///< how often it runs, as far as trip counts are known
  bool trips_known = true;
  /// False in a branch that communicates less than another one of the same conditional: totals take
  /// the dearest.
  bool counted = true;
};

/// A change of one annotation, tried by partitioning the program again with it.
struct ExplainSuggestion {
  std::string target;      ///< "argument 2 (w)", "result 0", "a constraint on the result of dot"
  std::string location;    ///< of the op that a new constraint is to follow, or of the old one
  std::string spec;        ///< what to write there: P("data", None)
  std::string was;         ///< what stands there now; empty if nothing does
  double total_bytes = 0;  ///< that a device then receives in all
  double saved_bytes = 0;  ///< less than now
  /// The price, if it isn't free: that many more bytes of arguments and results lie on a device.
  double more_held_bytes = 0;
  std::string to_string() const;
};

/// One movement of data between devices: a reshard, or what an op exchanges itself.
struct ExplainEntry {
  std::string op;        ///< the operation that needs it
  std::string op_name;   ///< its path in the program, if it has one
  std::string location;  ///< "file:line" of the user's code
  std::string tensor;    ///< what moves
  std::string type;      ///< "f32[64,64]", global
  std::string from, to;  ///< specs in axis names
  std::string reason;    ///< "operand 1 of dot"
  bool full_gather = false;
  double bytes = 0;  ///< that one device receives, all runs together
  std::vector<ExplainCollective> collectives;
  std::vector<ExplainChain> from_because, to_because;
  /// What stood against the other layout: axes that another tensor of the op holds, dims that
  /// the op needs whole, tensors that an annotation closes.
  std::vector<std::string> conflicts;
  std::optional<ExplainSuggestion> suggestion;
  int tried = 0;  ///< annotations tried for it
  /// Several lines, as they stand in Explanation::to_text.
  std::string to_text() const;
};

/// What put axes on a dim of an array: see ExplainValue.
struct ExplainCause {
  std::int64_t dim = 0;
  std::string axes;
  std::string op, location, how;
  std::int64_t from = -1;  ///< index into Explanation::values(); -1: the chain ends here
};

/// One operation of the program before partitioning, and how its result lies.
struct ExplainValue {
  std::string name, op, op_name, location, type, spec, computation;
  std::vector<std::int64_t> operands;  ///< indices into Explanation::values()
  std::vector<ExplainCause> causes;
  std::vector<std::int64_t> entries;  ///< movements for this op: indices into entries()
  double bytes = 0;                   ///< of those
};

/// The report on one program (see docs/explain.md).
/// @code
/// auto f = jit([](Array x, Array w) { return matmul(x, w); });
/// std::cout << explain(f, x, w).to_text();
/// @endcode
class Explanation {
 public:
  const std::string& module() const { return module_; }
  std::int64_t num_devices() const { return devices_; }
  /// `data=2, model=4`
  const std::string& mesh() const { return mesh_; }
  /// Whether the shardings of intermediate arrays are those propagated, or a search chose them.
  Layouts layouts() const { return layouts_; }
  /// Received by one device in one run: the bytes of all entries.
  double total_bytes() const { return total_bytes_; }
  /// The dearest first.
  const std::vector<ExplainEntry>& entries() const { return entries_; }
  /// All operations of the program, callees first.
  const std::vector<ExplainValue>& values() const { return values_; }
  /// The entries that gather a whole array on each device without need.
  std::vector<ExplainEntry> full_gathers() const;

  std::string to_text() const;
  /// One object; docs/explain.md names its fields.
  std::string to_json() const;
  /// A page that needs nothing else: table, graph, search.
  std::string to_html() const;

  /// Filled by the compiler.
  struct Parts {
    std::string module, mesh;
    std::int64_t devices = 1;
    Layouts layouts = Layouts::searched;
    double total_bytes = 0;
    std::vector<ExplainEntry> entries;
    std::vector<ExplainValue> values;
  };
  explicit Explanation(Parts parts)
      : module_(std::move(parts.module)),
        mesh_(std::move(parts.mesh)),
        devices_(parts.devices),
        layouts_(parts.layouts),
        total_bytes_(parts.total_bytes),
        entries_(std::move(parts.entries)),
        values_(std::move(parts.values)) {}

 private:
  std::string module_, mesh_;
  std::int64_t devices_;
  Layouts layouts_;
  double total_bytes_;
  std::vector<ExplainEntry> entries_;
  std::vector<ExplainValue> values_;
};

/// What an explanation takes into account.
struct ExplainOptions {
  /// Look for annotations that lower the bytes; each one tried is a partitioning of the program.
  bool suggest = true;
  /// The most that are tried; 0: by the program's size, 6 to 100.
  int most_trials = 0;
};

/// Traces a jitted function for these arguments and explains the program. Nothing runs.
template <class Function, class... Args>
auto explain(const Function& f, Args&&... args) -> decltype(f.lower(args...).explain()) {
  return f.lower(std::forward<Args>(args)...).explain();
}

}  // namespace tessera
