// SPDX-License-Identifier: Apache-2.0
// Reports of what a program communicates, why, and what would avoid it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/sharding/layouts.h>

namespace tessera {

/// One step on the way from an array's sharding back to the annotation it comes from.
struct ExplainStep {
  std::string tensor;  ///< the array, by its name in the program
  std::string spec;    ///< its sharding
  std::string op;  ///< operation that propagated the axes to it: "dot"; at the end "argument 2 (w)"
  std::string location;  ///< "file:line" of that operation
  std::string how;       ///< "from dim 1 of operand 1"; at the end "stated" or "chosen by cost"
};

/// Why a dimension of an array is split over some axes: propagation step by step, back to an
/// argument, a result or a constraint.
struct ExplainChain {
  std::string axes;                ///< the axes, by the user's names: "model"
  std::int64_t dim = 0;            ///< the dimension; -1: the array is a partial sum over the axes
  std::vector<ExplainStep> steps;  ///< from the array to the annotation
  /// Returns for example `"model" on dim 1 <- dot at net.cc:12 <- argument 2 (w) P(None, "model")`.
  /// Long chains are abridged in the middle.
  std::string to_string() const;
};

/// One collective instruction of the device program.
struct ExplainCollective {
  std::string kind;         ///< kind: "all-gather", ...
  std::string instruction;  ///< name of the instruction
  std::string computation;  ///< the computation that contains it
  double bytes = 0;         ///< bytes received by one device, each time it runs
  double times = 1;         ///< number of times it runs; loops of unknown trip count count once
  bool trips_known = true;  ///< whether all trip counts around it are known
  /// False in a branch that communicates less than another branch of the same conditional: totals
  /// count the most expensive branch.
  bool counted = true;
};

/// A change of one annotation that lowers communication, verified by partitioning the program with
/// it.
struct ExplainSuggestion {
  std::string target;      ///< "argument 2 (w)", "result 0", "a constraint on the result of dot"
  std::string location;    ///< line of the constraint, or of the operation after which to add one
  std::string spec;        ///< the new spec: P("data", None)
  std::string was;         ///< the current spec; empty if there is none
  double total_bytes = 0;  ///< total bytes that a device would receive
  double saved_bytes = 0;  ///< bytes fewer than at present
  /// Additional memory for arguments and results on a device, in bytes.
  double more_held_bytes = 0;
  /// Returns one sentence.
  std::string to_string() const;
};

/// One movement of data between devices: a reshard, or the communication of an operation.
struct ExplainEntry {
  std::string op;            ///< the operation that needs it
  std::string op_name;       ///< its path in the program, if it has one
  std::string location;      ///< "file:line" of the user's code
  std::string tensor;        ///< the array that moves
  std::string type;          ///< its dtype and global shape: "f32[64,64]"
  std::string from, to;      ///< shardings before and after, in axis names
  std::string reason;        ///< role of the array: "operand 1 of dot"
  bool full_gather = false;  ///< an entire array is gathered on each device without need
  double bytes = 0;          ///< bytes that one device receives, in all trips of loops
  /// The instructions of the device program that move it.
  std::vector<ExplainCollective> collectives;
  /// Why the array has the sharding it has, and why another one is needed.
  std::vector<ExplainChain> from_because, to_because;
  /// What prevented the other layout: axes used by another array of the operation, dimensions that
  /// must be replicated, shardings fixed by an annotation.
  std::vector<std::string> conflicts;
  /// The best annotation found, if any lowers the total.
  std::optional<ExplainSuggestion> suggestion;
  int tried = 0;  ///< number of annotations tried
  /// Returns the lines of Explanation::to_text about it.
  std::string to_text() const;
};

/// What gave a dimension of an array its axes; see ExplainValue.
struct ExplainCause {
  std::int64_t dim = 0;  ///< the dimension
  std::string axes;      ///< the axes
  /// As in ExplainStep.
  std::string op, location, how;
  std::int64_t from = -1;  ///< index into Explanation::values(); -1: the chain ends here
};

/// An operation that reads or makes an array, in an ExplainChoice.
struct ExplainEdge {
  std::int64_t op = -1;       ///< index into Explanation::values()
  std::int64_t operand = -1;  ///< which operand of it the array is; -1: its result
  std::string spec;           ///< the sharding that the operation needs or gives, in axis names
  double seconds = 0;         ///< estimated time of the reshard between
  double next_seconds = 0;    ///< the same, with the next best sharding of the array
};

/// What the solver chose for an array that the program leaves open, and the next best sharding.
///
/// Times are the solver's estimates for one run of the program on the described machine
/// (JitOptions::network). For the next best one all other arrays stay as they are, and the
/// operations around share out their work in the best way.
struct ExplainChoice {
  std::string spec;                ///< the chosen sharding
  double seconds = 0;              ///< of the array's reshards and of the operations around it
  std::string next_spec;           ///< the next best sharding; empty: there is none
  double next_seconds = 0;         ///< the same times with that
  std::vector<std::int64_t> with;  ///< other values that have the same sharding, as they must
  std::vector<ExplainEdge> edges;  ///< the operations around it
};

/// One operation of the program before partitioning, and the sharding of its result.
struct ExplainValue {
  /// As in ExplainEntry and ExplainCollective.
  std::string name, op, op_name, location, type, spec, computation;
  std::vector<std::int64_t> operands;     ///< indices into Explanation::values()
  std::vector<ExplainCause> causes;       ///< what gave its dimensions their axes
  std::vector<std::int64_t> entries;      ///< its movements: indices into Explanation::entries()
  double bytes = 0;                       ///< bytes of those movements
  std::optional<ExplainChoice> choice{};  ///< set if the solver chose its sharding
};

/// A report of what a program communicates and why, made by `explain`.
/// @code
/// auto f = jit([](Array x, Array w) { return matmul(x, w); });
/// std::cout << explain(f, x, w).to_text();
/// @endcode
class Explanation {
 public:
  /// Name of the module.
  const std::string& module() const { return module_; }
  /// Number of devices.
  std::int64_t num_devices() const { return devices_; }
  /// The mesh: `data=2, model=4`.
  const std::string& mesh() const { return mesh_; }
  /// How the shardings of intermediate arrays were chosen.
  Layouts layouts() const { return layouts_; }
  /// Bytes received by one device in one run: the sum of all entries.
  double total_bytes() const { return total_bytes_; }
  /// All movements of data, the most expensive first.
  const std::vector<ExplainEntry>& entries() const { return entries_; }
  /// All operations of the program before partitioning, callees first.
  const std::vector<ExplainValue>& values() const { return values_; }
  /// The entries that gather an entire array on each device without need.
  std::vector<ExplainEntry> full_gathers() const;

  /// Returns the report as text.
  std::string to_text() const;
  /// Returns the report as a JSON object; docs/explain.md lists its fields.
  std::string to_json() const;
  /// Returns the report as a self-contained HTML page with a table, a graph and a search box.
  std::string to_html() const;

  /// The content of a report; for internal use.
  struct Parts {
    std::string module, mesh;           ///< names of the module and of the mesh's axes
    std::int64_t devices = 1;           ///< number of devices
    Layouts layouts = Layouts::solved;  ///< policy of layouts
    double total_bytes = 0;             ///< sum of all entries
    std::vector<ExplainEntry> entries;  ///< movements of data
    std::vector<ExplainValue> values;   ///< operations
  };
  /// For internal use.
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

/// Options of `explain`.
struct ExplainOptions {
  /// Search for annotations that lower communication; each one tried partitions the program once.
  bool suggest = true;
  /// Maximum number of annotations tried; 0: from 6 to 100 by the size of the program.
  int most_trials = 0;
};

/// Explains what a jitted function communicates for these arguments. It traces and compiles the
/// function; nothing runs.
/// @code
/// auto layer = jit([](Array x, Array w) { return relu(matmul(x, w)); });
/// Explanation why = explain(layer, x, w);
/// for (const ExplainEntry& entry : why.entries()) std::cout << entry.to_text();
/// @endcode
/// Errors are those of tracing and compiling the function.
template <class Function, class... Args>
auto explain(const Function& f, Args&&... args) -> decltype(f.lower(args...).explain()) {
  return f.lower(std::forward<Args>(args)...).explain();
}

}  // namespace tessera
