// SPDX-License-Identifier: Apache-2.0
// The stages of a jitted function: lowered (traced) and compiled.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <tessera/array.h>
#include <tessera/cost_analysis.h>
#include <tessera/detail/type_key.h>
#include <tessera/explain.h>
#include <tessera/sharding/layouts.h>
#include <tessera/tree.h>

namespace tessera {

/// One HLO module of an executable.
class HloModule {
 public:
  /// A module with this text.
  explicit HloModule(std::string text) : text_(std::move(text)) {}
  /// The module's HLO text.
  const std::string& to_string() const { return text_; }

 private:
  std::string text_;
};

/// A movement of data between devices in a compiled program, and the operation that needs it.
struct CollectiveInfo {
  std::string kind;      ///< kind of collective: "all-reduce", "all-gather", ...
  std::string op;        ///< the operation that needs it
  std::string location;  ///< "file:line" of that operation
  std::string from, to;  ///< shardings before and after, in axis names
  /// Bytes received by one device each time this happens: within a loop, once per trip.
  /// CostAnalysis::bytes_received is the total of a run.
  double bytes_received = 0;
  bool full_gather = false;  ///< an entire array is gathered on each device without need
  std::string reason;        ///< role of the array: "operand 1 of dot", ...
};

/// One array of a function's arguments or of its result.
struct ValueInfo {
  /// Position in the tree: "argument 0.w1" or "x[2]" of arguments, "" or "[1]" of results.
  std::string path;
  std::vector<std::int64_t> shape;  ///< global shape
  DType dtype = DType::f32;         ///< dtype
  bool donated = false;             ///< listed in donate_argnums
  Sharding sharding;                ///< sharding; not `valid()` before compilation
};

/// What becomes of the memory of one donated array of the arguments.
struct DonationInfo {
  /// What a result may do with it.
  enum class Use : unsigned char {
    aliased,  ///< the result at `result` may take its place: input_output_alias in the text
    donor,    ///< a result of another shape, or something within the program, may take it
    none,     ///< nothing can; the array stays alive
  };
  std::string argument;    ///< position in the tree: "argument 0.w1"
  Use use = Use::none;     ///< what becomes of the memory
  std::string result;      ///< with Use::aliased: position of the result, "" if there is only one
  std::int64_t bytes = 0;  ///< bytes per device
};

namespace internal {
struct CompiledState;
struct LoweredState;
}  // namespace internal

/// What `Compiled::serialize` makes.
struct SerializeOptions {
  /// The processor that its machine code is for: "native" is this one, "x86-64-v3" (AVX2 and FMA)
  /// or "x86-64-v4" (AVX-512) any one of that level.
  std::string cpu = "native";
};

/// A compiled program: what one device runs after propagation and partitioning
/// (jax.stages.Compiled).
class Compiled {
 public:
  /// For internal use; see Lowered::compile.
  explicit Compiled(std::shared_ptr<internal::CompiledState> state) : state_(std::move(state)) {}
  /// Returns one device's program as HLO text, with its collectives.
  std::string as_text() const;
  /// Explains what the program communicates, why, and which annotations would avoid it. Compiles
  /// the program again with a record of each decision, and partitions it once per annotation tried.
  Explanation explain(const ExplainOptions& options = {}) const;
  /// Returns this object (JAX's path to `hlo_modules`).
  const Compiled& runtime_executable() const { return *this; }
  /// Returns the modules of the executable: one, with the text of `as_text`.
  std::vector<HloModule> hlo_modules() const;
  /// Returns the shardings of all arrays of the arguments, unused ones included.
  std::vector<Sharding> input_shardings() const;
  /// Returns the shardings of all arrays of the result.
  std::vector<Sharding> output_shardings() const;
  /// Returns the layouts and shardings of all arrays of the arguments (jax.stages.Compiled
  /// .input_formats): where Layout::AUTO was given, what was chosen.
  std::vector<Format> input_formats() const;
  /// Returns the layouts and shardings of all arrays of the result.
  std::vector<Format> output_formats() const;
  /// Describes all arrays of the arguments.
  std::vector<ValueInfo> args_info() const;
  /// Describes all arrays of the result.
  std::vector<ValueInfo> out_info() const;
  /// Returns what becomes of each donated array of the arguments.
  std::vector<DonationInfo> donations() const;
  /// Returns the structure of the arguments, static ones left out: "(2:*[2:**]]" is a tuple of an
  /// array and a vector of two.
  const std::string& in_tree() const;
  /// Returns the structure of the result.
  std::string out_tree() const;
  /// Returns shape_dtype_structs of all arrays of the arguments, with their shardings.
  std::vector<Array> in_avals() const;
  /// Returns shape_dtype_structs of all arrays of the result, with their shardings.
  std::vector<Array> out_avals() const;
  /// Returns the memory that a device needs.
  MemoryAnalysis memory_analysis() const;
  /// Returns how the shardings of intermediate arrays were chosen.
  Layouts layouts() const;
  /// Returns what one run costs a device, and estimates its time on a described machine.
  CostAnalysis cost_analysis(const Network& network = {}) const;
  /// Returns all movements of data between devices.
  std::vector<CollectiveInfo> collectives() const;
  /// Returns the operations that are computed on gathered operands because they can't be
  /// partitioned.
  std::vector<std::string> replicated_ops() const;
  /// Returns the operations that have no kernel and run on the reference interpreter.
  std::vector<std::string> evaluator_ops() const;
  /// Runs the program on the arrays of the arguments, in order, and returns those of the result.
  /// @throws TypeError if the number, shapes or dtypes of the arrays differ from those compiled
  ///   for.
  /// @throws ValueError if a committed array has another sharding, or the program's devices don't
  ///   exist (its mesh is abstract).
  std::vector<Array> call_flat(const std::vector<Array>& leaves,
                               Location location = Location::current()) const;
  /// Returns the program as bytes, with the machine code of its kernels: `deserialize` loads them,
  /// in this process or another of the same build, without compiling anything. What runs them has
  /// the same bits on this kind of processor. Arrays that the function captured are part of it.
  /// @throws ValueError for another processor than SerializeOptions::cpu lists.
  /// @throws NotImplementedError if the program calls functions of this process, or runs on an
  ///   accelerator.
  std::string serialize(const SerializeOptions& options = {},
                        Location location = Location::current()) const;
  /// Writes what `serialize` returns to a file, which is replaced as a whole.
  /// @throws IoError if it can't be written.
  void save(const std::string& path, const SerializeOptions& options = {},
            Location location = Location::current()) const;
  /// The representation; for internal use.
  const std::shared_ptr<internal::CompiledState>& state() const { return state_; }

 protected:
  /// call_flat after a check of types and trees; `prototype`: the result's tree.
  std::vector<Array> call_tree(const std::vector<Array>& leaves, const std::string& tree,
                               internal::TypeKey types, internal::Prototype* prototype,
                               Location location) const;

 private:
  std::shared_ptr<internal::CompiledState> state_;
};

/// A traced program before propagation and partitioning (jax.stages.Lowered).
class Lowered {
 public:
  /// For internal use; see JitFunction::lower.
  explicit Lowered(std::shared_ptr<internal::LoweredState> state) : state_(std::move(state)) {}
  /// Returns the text of the program, with shardings as annotations.
  /// @param dialect  "hlo", or "stablehlo" for StableHLO with shardings in the sdy dialect, as JAX
  ///   reads and prints it. There calls of custom_partitioning are composites of the plain
  ///   function.
  /// @param location  The line named in messages.
  /// @throws ValueError for another dialect.
  std::string as_text(const std::string& dialect = "hlo",
                      Location location = Location::current()) const;
  /// Returns the program as MLIR bytecode: a portable artifact of StableHLO 1.10 with the lines of
  /// the source, which `load_stablehlo`, JAX since 0.7 and StableHLO's tools read. It holds what
  /// `as_text("stablehlo")` says.
  std::string as_bytecode() const;
  /// Describes all arrays of the arguments.
  std::vector<ValueInfo> args_info() const;
  /// Describes all arrays of the result.
  std::vector<ValueInfo> out_info() const;
  /// Returns the structure of the arguments; see Compiled::in_tree.
  const std::string& in_tree() const;
  /// Returns the structure of the result.
  std::string out_tree() const;
  /// Returns shape_dtype_structs of all arrays of the arguments.
  std::vector<Array> in_avals() const;
  /// Returns shape_dtype_structs of all arrays of the result.
  std::vector<Array> out_avals() const;
  /// Returns the positions of the donated arguments.
  const std::vector<int>& donate_argnums() const;
  /// Propagates shardings, partitions the program and compiles it for its devices.
  /// @throws CompileError if it can't be compiled as requested, for example with a full gather
  ///   under TESSERA_FULL_GATHER=error.
  Compiled compile(Location location = Location::current()) const;
  /// Explains what the compiled program would communicate; see Compiled::explain. Also explains
  /// programs that TESSERA_FULL_GATHER=error refuses to compile.
  Explanation explain(const ExplainOptions& options = {}) const;

 private:
  std::shared_ptr<internal::LoweredState> state_;
};

/// A compiled program with the types of its function. Called with the function's arguments, without
/// the static ones that `lower` fixed, it returns the function's result; it never traces or
/// compiles.
template <class R, class Traced>
class CompiledFunction;
/// The same for a list of argument types.
template <class R, class... T>
class CompiledFunction<R, std::tuple<T...>> : public Compiled {
 public:
  /// For internal use; see LoweredFunction::compile.
  explicit CompiledFunction(Compiled c) : Compiled(std::move(c)) {}
  /// Runs the program. Uncommitted arguments are placed as it expects them.
  /// @throws TypeError if C++ types, trees, shapes or dtypes differ from those compiled for.
  /// @throws ValueError if a committed argument has another sharding, or the mesh is abstract.
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
    internal::Prototype prototype;
    const std::vector<Array> leaves =
        call_tree(internal::collect_leaves(walk), internal::tree_signature(walk),
                  internal::TypeKey::of<R(T...)>(), &prototype, location);
    return tree_unflatten(prototype.as<R>(), leaves);
  }
};

namespace internal {
/// Gives a loaded program the types of a function; TypeError if its result has another tree.
void give_types(const Compiled& compiled, TypeKey types, const std::string& result_tree,
                Prototype prototype, Location location);

template <class Signature>
struct LoadedAs;
template <class R, class... T>
struct LoadedAs<R(T...)> {
  using Function = CompiledFunction<std::remove_cvref_t<R>, std::tuple<std::remove_cvref_t<T>...>>;
  using Result = std::remove_cvref_t<R>;
  static Function of(Compiled compiled, Result like, Location location) {
    const std::string tree = tree_signature([&](TreeVisitor& v) { visit_tree(like, v); });
    give_types(compiled, TypeKey::of<Result(std::remove_cvref_t<T>...)>(), tree,
               Prototype(std::make_shared<Result>(std::move(like))), location);
    return Function(std::move(compiled));
  }
};
}  // namespace internal

/// Loads a program that `Compiled::serialize` made, in milliseconds: nothing is traced, partitioned
/// or compiled, and the compiler of kernels isn't needed.
/// @param bytes  The program. It holds machine code, which is run: it must come from a trusted
///   source.
/// @param devices  Where to run it, as many as it was compiled for; empty: on devices with the same
///   numbers.
/// @throws RuntimeError if it is of another build of Tessera, or for another processor.
/// @throws IoError if the bytes are damaged, or no stored program.
/// @throws ValueError if there are no such devices.
Compiled deserialize(std::string_view bytes, const std::vector<Device>& devices = {},
                     Location location = Location::current());
/// The same from a file.
/// @throws IoError if it can't be read.
Compiled load_compiled(const std::string& path, const std::vector<Device>& devices = {},
                       Location location = Location::current());
/// The same as a function with types, those of the function that was compiled without its static
/// arguments:
/// @code
/// auto step = load_compiled<State(State, Array)>("step.tsx");
/// state = step(state, batch);
/// @endcode
/// @param like  A result with as many elements in vectors and maps as the function returns.
/// @throws TypeError if the result has another structure; calls check that of the arguments.
template <class Signature>
auto load_compiled(const std::string& path,
                   typename internal::LoadedAs<Signature>::Result like = {},
                   Location location = Location::current()) {
  return internal::LoadedAs<Signature>::of(load_compiled(path, std::vector<Device>(), location),
                                           std::move(like), location);
}
/// The same from bytes.
template <class Signature>
auto deserialize(std::string_view bytes, typename internal::LoadedAs<Signature>::Result like = {},
                 Location location = Location::current()) {
  return internal::LoadedAs<Signature>::of(deserialize(bytes, std::vector<Device>(), location),
                                           std::move(like), location);
}

/// Returns when the kernels of all programs that were compiled have optimized code. Until then they
/// run on quick code, which gives the same results, bit for bit. For those who measure run times:
///
///     auto compiled = step.lower(x).compile();
///     compiled(x);
///     wait_for_optimized_code();
///     // compiled(x) now takes what it takes from here on
///
/// Without it the code is optimized in the background while programs run. With
/// `TESSERA_TIERED_COMPILATION=off` there is nothing to wait for (docs/performance.md).
void wait_for_optimized_code();

/// A traced program with the types of its function, as `lower` returns it.
template <class R, class Traced>
class LoweredFunction : public Lowered {
 public:
  /// For internal use; see JitFunction::lower.
  explicit LoweredFunction(Lowered l) : Lowered(std::move(l)) {}
  /// As Lowered::compile.
  CompiledFunction<R, Traced> compile(Location location = Location::current()) const {
    return CompiledFunction<R, Traced>(Lowered::compile(location));
  }
};

}  // namespace tessera
