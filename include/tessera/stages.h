// SPDX-License-Identifier: Apache-2.0
// What a jitted function goes through: lowered, compiled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/cost_analysis.h>
#include <tessera/explain.h>
#include <tessera/layouts.h>
#include <tessera/tree.h>

namespace tessera {

/// One HLO module of an executable.
class HloModule {
 public:
  explicit HloModule(std::string text) : text_(std::move(text)) {}
  const std::string& to_string() const { return text_; }

 private:
  std::string text_;
};

/// One collective of a compiled program, with the user's line that asked for it.
struct CollectiveInfo {
  std::string kind;           ///< "all-reduce", ...
  std::string op;             ///< the user's operation
  std::string location;       ///< "file:line"
  std::string from, to;       ///< specs in axis names
  double bytes_received = 0;  ///< by one device, per execution
  bool full_gather = false;
  std::string reason;
};

/// One array of a function's arguments or of its result.
struct ValueInfo {
  std::string path;  ///< "argument 0.w1", "x[2]"; of results "", "[1]"
  std::vector<std::int64_t> shape;
  DType dtype = DType::f32;
  bool donated = false;
  Sharding sharding;  ///< not valid() before compilation
};

namespace internal {
struct CompiledState;
struct LoweredState;
}  // namespace internal

/// A compiled program (jax.stages.Compiled).
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<internal::CompiledState> state) : state_(std::move(state)) {}
  /// HLO text of one device's program.
  std::string as_text() const;
  /// What it communicates, why, and what would avoid it: the program is compiled once more, with a
  /// record of each decision, and again for each annotation that is tried.
  Explanation explain(const ExplainOptions& options = {}) const;
  const Compiled& runtime_executable() const { return *this; }
  std::vector<HloModule> hlo_modules() const;
  /// One per array of the arguments (unused ones too) and of the result.
  std::vector<Sharding> input_shardings() const;
  std::vector<Sharding> output_shardings() const;
  std::vector<ValueInfo> args_info() const;
  std::vector<ValueInfo> out_info() const;
  MemoryAnalysis memory_analysis() const;
  /// Whether the shardings of intermediate arrays are those propagated, or a search chose them.
  Layouts layouts() const;
  /// What one run costs a device, and how long that takes on a described machine.
  CostAnalysis cost_analysis(const Network& network = {}) const;
  /// What is communicated and why.
  std::vector<CollectiveInfo> collectives() const;
  /// Operations computed on gathered operands because no partitioned form is known.
  std::vector<std::string> replicated_ops() const;
  /// Operations without a kernel, run by the reference interpreter.
  std::vector<std::string> evaluator_ops() const;
  /// Runs on the arrays of the arguments, in order. TypeError and ValueError list the arguments
  /// whose types or shardings differ from those compiled for.
  std::vector<Array> call_flat(const std::vector<Array>& leaves,
                               Location location = Location::current()) const;
  const std::shared_ptr<internal::CompiledState>& state() const { return state_; }

 protected:
  /// call_flat after a check of the trees; `prototype`: the result's tree.
  std::vector<Array> call_tree(const std::vector<Array>& leaves, const std::string& signature,
                               std::shared_ptr<void>* prototype, Location location) const;

 private:
  std::shared_ptr<internal::CompiledState> state_;
};

/// A traced program (jax.stages.Lowered).
class Lowered {
 public:
  explicit Lowered(std::shared_ptr<internal::LoweredState> state) : state_(std::move(state)) {}
  /// The program before partitioning, shardings as annotations. `dialect`: "hlo", or "stablehlo"
  /// for StableHLO with shardings in the sdy dialect, as JAX reads and prints it. A call of
  /// custom_partitioning stands there as a composite with its plain body.
  /// @throws ValueError if the dialect is another one.
  std::string as_text(const std::string& dialect = "hlo",
                      Location location = Location::current()) const;
  std::vector<ValueInfo> args_info() const;
  std::vector<ValueInfo> out_info() const;
  Compiled compile(Location location = Location::current()) const;
  /// What the compiled program would communicate; see Compiled::explain. A program with full
  /// gathers is explained also where TESSERA_FULL_GATHER=error refuses to compile it.
  Explanation explain(const ExplainOptions& options = {}) const;

 private:
  std::shared_ptr<internal::LoweredState> state_;
};

/// A compiled function: takes the traced arguments (static ones were fixed by lower) as trees and
/// returns the function's own result type. It never traces or compiles.
template <class R, class Traced>
class CompiledFunction;
template <class R, class... T>
class CompiledFunction<R, std::tuple<T...>> : public Compiled {
 public:
  explicit CompiledFunction(Compiled c) : Compiled(std::move(c)) {}
  /// TypeError if trees, shapes or dtypes differ from those compiled for, ValueError if an argument
  /// is committed to another placement; uncommitted arrays are moved.
  R operator()(const T&... args, Location location = Location::current()) const {
    const std::tuple<const T&...> all(args...);
    const auto walk = [&](internal::TreeVisitor& v) {
      v.begin(internal::TreeVisitor::Node::tuple, sizeof...(T));
      [[maybe_unused]] std::size_t n = 0;
      std::apply(
          [&](const auto&... one) {
            ((v.key(n++),
              internal::visit_tree(const_cast<std::remove_cvref_t<decltype(one)>&>(one), v)),
             ...);
          },
          all);
      v.end();
    };
    std::shared_ptr<void> prototype;
    const std::vector<Array> leaves = call_tree(
        internal::collect_leaves(walk), internal::tree_signature(walk), &prototype, location);
    return tree_unflatten(*std::static_pointer_cast<R>(prototype), leaves);
  }
};

/// What `lower` of a jitted function returns: a Lowered that knows the function's types.
template <class R, class Traced>
class LoweredFunction : public Lowered {
 public:
  explicit LoweredFunction(Lowered l) : Lowered(std::move(l)) {}
  CompiledFunction<R, Traced> compile(Location location = Location::current()) const {
    return CompiledFunction<R, Traced>(Lowered::compile(location));
  }
};

}  // namespace tessera
