// SPDX-License-Identifier: Apache-2.0
// The writer of StableHLO at work: functions, regions and ops go into one text, in order.
#pragma once

#include <deque>
#include <functional>
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
#include "src/text/write/stablehlo.h"

namespace tessera::text {

/// An SSA value: %4, %4#1, %arg4.
struct Value {
  std::int32_t number = 0;
  std::int32_t result = -1;  ///< which of several results of one op; -1: the only one
  bool argument = false;
  const Shape* type = nullptr;  ///< array or token
};
using Values = std::vector<Value>;
using Types = std::vector<const Shape*>;
/// Entries of an attribute dictionary.
using Entries = std::vector<std::pair<std::string, std::string>>;

/// Leaves of a shape in pre-order; they live as long as the shape does.
void append_leaves(const Shape& shape, Types* leaves);
inline Types leaves_of(const Shape& shape) {
  Types leaves;
  append_leaves(shape, &leaves);
  return leaves;
}

class Writer {
 public:
  Writer(const ir::Module& module, const WriteOptions& options);
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
  /// A generic op.
  struct Op {
    std::string_view name;
    Values operands;
    std::string properties;  ///< between <{ and }>
    Types results;
    std::function<void()> regions;  ///< writes `{...}, {...}`
    bool decorated = true;          ///< carries the instruction's sharding and attributes
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
  void region(const ir::Instruction& i, const ir::Computation& c);
  /// `{ ... stablehlo.return ... }` of values that are in reach.
  void closed_region(const ir::Instruction& i, const ir::Computation& c, const Values& arguments,
                     std::string_view terminator = "stablehlo.return");
  Values call(const ir::Instruction& i, const ir::Computation& c, const Values& arguments,
              bool decorated);

  // values.cc: pieces of text
  void line() { out_.append(indent_ * 2, ' '); }
  void value(const Value& v);
  void values(const Values& list);
  void types(const Types& list);
  void types(const Values& list);
  /// `: (a, b) -> c`
  void function_type(const Values& operands, const Types& results);
  /// `%4:2 = `
  Values results(const Types& types);
  Values arguments(const Types& types);
  void bound_arguments(const Values& list, const std::vector<std::string>& attributes = {});
  void end(const ir::Instruction& i);
  Entries decorations(const ir::Instruction& i);
  /// ` {a = 1, b = 2}` sorted by key; nothing if there are none.
  void dictionary(Entries entries);
  void decorate(const ir::Instruction& i) { dictionary(decorations(i)); }
  Values generic(const ir::Instruction& i, const Op& op);
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
  void short_attributes(const ir::Instruction& i);
  void short_types(const ir::Instruction& i, const Values& operands);
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
  const WriteOptions options_;
  std::string out_;
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
  std::size_t indent_ = 0;
  int depth_ = 0;
  std::int32_t next_value_ = 0, next_argument_ = 0;
  std::map<std::pair<const LogicalMesh*, IndexList>, std::string> group_texts_;
  ir::DeviceTexts devices_;
  std::int64_t next_channel_;
  std::int64_t partitions_;  ///< as many as the module says, and as its meshes have devices
};

}  // namespace tessera::text
