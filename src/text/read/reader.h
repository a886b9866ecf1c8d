// SPDX-License-Identifier: Apache-2.0
// The reader of StableHLO text; stablehlo.h is its front.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/small_vector.h"
#include "src/text/read/conversions.h"
#include "src/text/read/symbols.h"

namespace tessera::text {

/// Whether it names an operation of Shardy's dialect for several meshes.
bool is_of_mpmd(std::string_view name);

/// Functions, operations and regions as they are written.
class Reader : public Conversions {
 public:
  explicit Reader(std::string_view text, const std::string& file, const Places* places = nullptr)
      : Conversions(text, file, places) {}
  /// Null if `arguments` is asked for and gives none.
  std::unique_ptr<ir::Module> run(const Arguments* arguments);

 protected:
  friend class Verifier;

  // ----- what another form than text does in its own way; see bytecode/reader.h

  /// Finds functions and meshes, and reads what stands outside of functions.
  virtual void scan_functions();
  /// Goes to a function's body, and finds the names or places of its arguments.
  virtual void start_body(Function& f);
  /// The operations of the region that was begun.
  virtual void operations(Frame& frame);
  /// All functions' bodies were read.
  virtual void end_of_operations() {}
  virtual void define(std::string_view name, const char* at, ir::Instruction* const* values,
                      std::size_t count, Origin origin = Origin::other);
  /// The operand that stands there, and which of its results if it stands for several.
  virtual Symbol* symbol_at(const char* at, std::int64_t* number);
  virtual std::string value_name(const char* at);
  /// Reads a function's body while another is being read.
  virtual void read_apart(Function& f);

  // verify/verifier.cc: what the specification asks of an operation as written
  void verify(const Operation& op);

  // module.cc: what stands outside of functions
  void module_items(char close);
  void module_attribute(const Attribute& a);
  void alias(char kind);
  void function(bool generic);
  /// Name, types, and attributes of arguments, from attributes of these names.
  void function_attributes(Function* f, const std::vector<Attribute>& attributes);
  void declare(Function* declared);
  void check_argument_count(const Function& f, std::size_t count);
  void function_argument(Function::Argument* a, bool named);
  Function& entry_function();
  void read_functions();
  void read_body(Function& f);
  void add_parameter(const Function& f, std::size_t n);
  void check_returned(const Function& f, const std::vector<ir::Instruction*>& returned);
  /// Copies results to the memory that their types name.
  void place_results(const Function& f, std::vector<ir::Instruction*>* returned);
  void set_root(const Function& f, std::vector<ir::Instruction*> returned);
  void entry_arguments(const Function& f);
  MeshTable meshes_of_manual_computations();
  void entry_layouts(const Function& f);
  void resolve();
  const char* skip_region();

  // closed_functions.cc: functions for the sizes of what they are given
  Signature signature_of(const Function& f);
  void refuse_open(const Function& f);
  /// The entry function for the arguments' sizes; null if they aren't given now.
  Function* closed_entry(Function& f, const Arguments* arguments);
  /// That no size of an argument is more than its type allows.
  void check_bounds(const Function& f, std::size_t n, const Dims& sizes);
  Function& function_for(const Operation& op, Function& f,
                         const std::vector<ir::Instruction*>* operands) override;
  Function& closed_copy(const Function& f, const std::vector<const Shape*>& types);
  void close_returned(Function& f, const std::vector<ir::Instruction*>& returned);
  /// A value that is known, for a region on scalars that sees it; null: it isn't known.
  ir::Instruction* known_constant(Frame& frame, const ir::Instruction& outer);
  /// What is known of a value is known in regions that see it.
  void note_captured(const ir::Instruction& outer, const ir::Instruction& inner);

  // sdy.cc: the forms of sdy
  void mesh(bool generic);
  void declare_mesh(std::string_view name, std::string_view text, const char* at);
  void check_sizes_of_meshes();
  [[noreturn]] void refuse_mpmd(const char* at, std::string_view name);
  void pretty_sdy_collective(Operation& op);
  void pretty_edge(Operation& op);

  // verify_sdy.cc: what Shardy's verifier refuses
  struct BoundAxes;
  void check_bound_axes(std::string_view sharding, const char* at) override;
  void check_sharding_rule(const Operation& op);
  void check_sdy_collectives();
  /// The mesh that the text of a value's sharding names; empty: none.
  std::string named_mesh(const ir::Instruction* i) const;
  void check_sharding_groups();
  void check_sdy_collective(const SdyRecords::Collective& c);
  void check_kinds_kept();

  // verify_edges.cc: where data-flow edges may stand, and what attributes say of propagation
  static Origin origin_of(const OpInfo& info);
  [[noreturn]] void fail_read_twice(const char* at);
  void check_data_flow_edge(const Operation& op) override;
  void check_propagation_edges(const Operation& op);
  void check_edges_of_shardings();

  // operations.cc: operations, regions, values
  /// A cleared one, until depth_ is decreased.
  Operation& next_operation(const char* at);
  void operation(bool* ended);
  /// Verifies what was read, and makes its values.
  void convert_operation(Operation& op, bool* ended);
  struct ResultName {
    std::string_view name;
    const char* at;
    std::int64_t count;  ///< `%name:2` stands for two results
  };
  using ResultNames = SmallVector<ResultName, 2>;
  void result_names(ResultNames* names);
  void check_results(const Operation& op);
  void define_results(const Operation& op, const ResultNames& names);
  void written_operation(Operation& op);
  [[noreturn]] void fail_unknown(const Operation& op);
  void generic(Operation& op);
  void operand(Operation& op);
  void operand_list(Operation& op);
  ir::Instruction* value(std::string_view name, const char* at, std::int64_t number);
  /// A value of the region at a level, as the current one sees it.
  ir::Instruction* seen_here(ir::Instruction* v, int from, const char* at);
  void check_operands(Operation& op);
  ir::Instruction* capture(Frame& frame, ir::Instruction* outer, const char* at);
  /// A value in a short form: it ends before ':' too.
  std::string_view short_value();
  void trailing_location(Operation& op);

  // regions.cc
  struct BlockArgument {
    std::string_view name;
    const char* at;
    const Shape* type;
  };
  void block_argument(std::vector<BlockArgument>* out);
  void block_header(std::vector<BlockArgument>* out);
  void regions(Operation& op);
  void check_closed(const BlockArgument& argument, const Shape& type);
  /// Makes what the arguments of a region stand for, and defines their names.
  void region_arguments(const Operation& op, const std::vector<BlockArgument>& arguments,
                        const char* at, Frame* inner);
  /// The region whose opening brace comes next. `arguments`: names given outside of the braces.
  ir::Computation* region(Operation& op, std::size_t number,
                          const std::vector<BlockArgument>* arguments, Captures* captures);
  /// What a region that begins becomes, by whatever operations() reads.
  ir::Computation* region_of(Operation& op, std::size_t number,
                             const std::vector<BlockArgument>& arguments, const char* at,
                             Captures* captures);
  static bool captures_any(const Operation& op);
  void finish_regions(Operation& op, Captures& captures);
  void inlined_region(Operation& op);
  void inline_region(Operation& op, const std::vector<BlockArgument>& arguments, const char* at);
  void finish_loop(Operation& op, Captures& captures);
  void finish_branches(Operation& op, Captures& captures);

  // pretty.cc
  void pretty(Operation& op);
  void pretty_operands(Operation& op, bool goes_on);
  void pretty_callee(Operation& op);
  void pretty_special(Operation& op, char kind);
  void pretty_types(Operation& op, char kind);
  void pretty_compare(Operation& op);
  void pretty_slice(Operation& op);
  void pretty_constant(Operation& op);
  void pretty_dot_general(Operation& op);
  void pretty_convolution(Operation& op);
  ir::Computation* applied_computation(const Operation& op, std::string_view applied);
  void pretty_reduce(Operation& op);
  void pretty_while(Operation& op);
  void pretty_manual_computation(Operation& op);
  void pretty_body(Operation& op);
  void pretty_scan(Operation& op);
  void keyword_attribute(Operation& op, std::string_view keyword, std::string_view key);

  // call_locations.cc
  /// Gives what functions without lines of their own hold the line that calls them, if it is one.
  void locate_callees();

  Symbols symbols_;
  std::deque<Function> functions_;
  std::unordered_map<const Function*, std::deque<ClosedFunction>> closed_;
  int open_calls_ = 0;  ///< functions that are being read
  /// Reused, one per depth of nesting.
  std::vector<std::unique_ptr<Operation>> pool_;
  std::size_t depth_ = 0;
  std::string meshes_text_;
  std::string_view meshes_at_;
  /// Captured values that turned out to be the only argument of a branch.
  std::unordered_map<const ir::Instruction*, ir::Instruction*> only_captured_;
  /// The manual axes of the manual computations around what is being read.
  std::vector<std::string> bound_axes_;
  /// Stand for the entry's results until their shardings are known.
  std::vector<std::unique_ptr<ir::Instruction>> result_holders_;
};

/// While it lives, what is read is inside of this manual computation, if it is one.
struct Reader::BoundAxes {
  BoundAxes(Reader& reader, const Operation& op);
  ~BoundAxes() {
    reader_.bound_axes_.resize(before_);
    reader_.manual_scope_ = outer_;
  }
  BoundAxes(const BoundAxes&) = delete;

 private:
  Reader& reader_;
  std::size_t before_;
  int outer_;
};

}  // namespace tessera::text
