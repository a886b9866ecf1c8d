// SPDX-License-Identifier: Apache-2.0
// The writer of StableHLO at work: functions, regions and ops go to a sink, in order.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/ir/hlo/device_texts.h"
#include "src/ir/module.h"
#include "src/text/write/meshes.h"
#include "src/text/write/sink.h"

namespace tessera::text {

/// Leaves of a shape in pre-order; they live as long as the shape does.
void append_leaves(const Shape& shape, Types* leaves);
inline Types leaves_of(const Shape& shape) {
  Types leaves;
  append_leaves(shape, &leaves);
  return leaves;
}

class Writer {
 public:
  Writer(const ir::Module& module, Sink& sink);
  std::string run();

 private:
  /// A computation while its instructions are written: what each of them became, by index. Tuples
  /// are lists of leaves.
  struct Frame {
    const ir::Computation* computation;
    std::vector<Values> values;
    /// Results of ops that were started and not yet ended.
    std::unordered_map<const ir::Instruction*, Values> started;
  };
  // module.cc: functions and regions
  void function(const ir::Computation& c, const std::string& symbol);
  const std::string& symbol_of(const ir::Computation& c);
  std::string unused_symbol(const std::string& name);
  /// Writes the computation's instructions here; returns its root's values.
  Values body(const ir::Computation& c, const Values& arguments);
  /// As body, or as a call of a function if the computation is large and used several times.
  Values inlined(const ir::Instruction& i, const ir::Computation& c, const Values& arguments);
  bool outlined(const ir::Computation& c) const;
  /// `{ ^bb0(%arg1: tensor<f32>): ... stablehlo.return ... }` with new block arguments.
  void region(const ir::Instruction& i, const ir::Computation& c,
              std::string_view terminator = "stablehlo.return");
  /// `{ ... stablehlo.return ... }` of values that are in reach.
  void closed_region(const ir::Instruction& i, const ir::Computation& c, const Values& arguments);
  Values call(const ir::Instruction& i, const ir::Computation& c, const Values& arguments,
              bool decorated);

  // values.cc: ops and their attributes
  Values emit(const ir::Instruction& i, Op op);
  /// An op of one operand with a short form, made on the way to what the instruction is.
  Values step(const ir::Instruction& i, std::string_view name, const Value& x, const Shape* type);
  Entries decorations(const ir::Instruction& i);
  Values constant(const ir::Instruction& i, const Literal& literal, bool decorated);
  const Shape* own(Shape shape);
  std::string sharding_text(const TensorSharding& s, std::int64_t rank) const;
  /// As HLO has it.
  std::string tiling_text(const ir::Instruction& i);
  Values constrained(const ir::Instruction& i, const Values& list);
  std::string precision(const std::vector<std::string>& words) const;
  std::string precision_config(const std::vector<std::string>& words) const;
  [[noreturn]] void unsupported(const ir::Instruction& i, const std::string& what) const;

  // ops.cc
  Values instruction(Frame& f, const ir::Instruction& i);
  const Values& of(const Frame& f, const ir::Instruction& i) const;
  Values operands(const Frame& f, const ir::Instruction& i) const;
  Values elementwise(const ir::Instruction& i, const Values& xs);
  Values convert(const ir::Instruction& i, const Value& x, DType to);
  Values reshape(const ir::Instruction& i, const Value& x, Dims dims);
  Values transpose(const ir::Instruction& i, const Value& x, const Dims& permutation);
  Values slice(const ir::Instruction& i, const Value& x, const Dims& starts, const Dims& limits,
               const Dims& strides, bool decorated);
  Values bitcast(const ir::Instruction& i, const Value& x);
  Values starts_of_slice(const ir::Instruction& i, const Values& xs, std::size_t first,
                         std::size_t count);
  Values written_operands(const ir::Instruction& i, const Values& xs);
  void short_attributes(const ir::Instruction& i, Op* op);
  void comparison(std::string_view direction, std::string_view kind, Op* op) const;
  Values short_form(const ir::Instruction& i, const Values& xs);
  // ops_arrays.cc
  Values arrays(const ir::Instruction& i, const Values& xs);
  Values dot(const ir::Instruction& i, const Values& xs);
  Values ragged_dot(const ir::Instruction& i, const Values& xs);
  Values convolution(const ir::Instruction& i, const Values& xs);
  Values gather(const ir::Instruction& i, const Values& xs);
  Values scatter(const ir::Instruction& i, const Values& xs);
  Values window(const ir::Instruction& i, const Values& xs);
  Values random(const ir::Instruction& i, const Values& xs);
  Values top_k(const ir::Instruction& i, const Values& xs);
  // ops_control.cc
  Values control(Frame& f, const ir::Instruction& i);
  Values conditional(const Frame& f, const ir::Instruction& i);
  Values sort(const ir::Instruction& i, const Values& xs);
  Values map(const ir::Instruction& i, const Values& xs);
  Values add_dependency(const ir::Instruction& i, const Values& xs);
  Values started(const ir::Instruction& i, const Values& xs);
  const Values& started_as(const Frame& f, const ir::Instruction& i, const char* step) const;
  Values while_loop(const ir::Instruction& i, const Values& xs);
  Values reduce(const ir::Instruction& i, const Values& xs);
  Values composite(const ir::Instruction& i, const Values& xs, const std::string& name,
                   const std::string& attributes, const std::string& version);
  /// What is printed as a custom call, as one.
  const ir::Instruction& as_call(const ir::Instruction& i);
  Values sharding_constraint(const ir::Instruction& i, const Values& xs);
  Values custom_partitioning(const ir::Instruction& i, const Values& xs);
  Values custom_call(const ir::Instruction& i, const Values& xs);
  Values manual_computation(const ir::Instruction& i, const Values& xs);
  Values host_transfer(const ir::Instruction& i, const Values& xs);
  // ops_collective.cc
  Values collective(const ir::Instruction& i, const Values& xs, const Types& results);
  Values tuple_all_to_all(const ir::Instruction& i, const Values& xs);
  std::string groups(const ir::Instruction& i, const ir::DeviceGroups& g, std::int64_t* group_size);

  const ir::Module& module_;
  Sink& sink_;
  std::vector<ir::Computation*> order_;
  std::set<std::string> symbols_;
  MeshSymbols meshes_;
  std::unordered_map<const ir::Computation*, std::string> functions_;
  std::vector<const ir::Computation*> pending_;  // functions that are called and not yet written
  std::unordered_map<const ir::Computation*, int> uses_;
  /// Markers of results' shardings at the root: they are written with the results.
  std::unordered_set<const ir::Instruction*> result_markers_;
  std::unordered_set<const ir::Instruction*> echoes_;  ///< say again what a marker says
  std::deque<Shape> owned_;
  std::deque<ir::Instruction> calls_;
  int depth_ = 0;
  std::map<std::pair<const LogicalMesh*, IndexList>, std::string> group_texts_;
  std::map<DevicePairs, std::string> pair_texts_;
  ir::DeviceTexts devices_;
  std::int64_t next_channel_;
  std::int64_t partitions_;  ///< as many as the module says, and as its meshes have devices
};

}  // namespace tessera::text
