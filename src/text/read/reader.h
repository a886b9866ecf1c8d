// SPDX-License-Identifier: Apache-2.0
// The reader of StableHLO text; stablehlo.h is its front.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/base/small_vector.h"
#include "src/ir/hlo/hlo_parser.h"
#include "src/ir/module.h"
#include "src/text/read/cursor.h"
#include "src/text/read/function.h"
#include "src/text/read/operation.h"
#include "src/text/read/sdy_records.h"
#include "src/text/read/symbols.h"
#include "src/text/read/types.h"

namespace tessera {
struct AxisRef;
}

namespace tessera::text {

/// Whether it names an operation of Shardy's dialect for several meshes.
bool is_of_mpmd(std::string_view name);

class Reader {
 public:
  explicit Reader(std::string_view text, const std::string& file, const Places* places = nullptr)
      : in_(text, file, places), types_(in_) {}
  virtual ~Reader() = default;
  Reader(const Reader&) = delete;
  std::unique_ptr<ir::Module> run();

  // ----- conversions, named in the table of operations; one file a family

  // convert/elementwise.cc
  void elementwise(Operation& op);
  void identity(Operation& op);
  void convert(Operation& op);
  void bitcast_convert(Operation& op);
  void complex_elementwise(Operation& op);
  void compare(Operation& op);
  void select(Operation& op);
  void clamp(Operation& op);
  void reduce_precision(Operation& op);
  void constant(Operation& op);
  void unsupported(Operation& op);

  // convert/quantized.cc
  void uniform_quantize(Operation& op);
  void uniform_dequantize(Operation& op);

  // convert/structure.cc
  void iota(Operation& op);
  void broadcast(Operation& op);
  void broadcast_in_dim(Operation& op);
  void transpose(Operation& op);
  void reverse(Operation& op);
  void reshape(Operation& op);
  void slice(Operation& op);
  void real_dynamic_slice(Operation& op);
  void dynamic_slice(Operation& op);
  void dynamic_update_slice(Operation& op);
  void concatenate(Operation& op);
  void pad(Operation& op);
  void dynamic_pad(Operation& op);
  void gather(Operation& op);
  void scatter(Operation& op);
  void dimension_size(Operation& op);
  void torch_index_select(Operation& op);

  // convert/compute.cc
  void dot(Operation& op);
  void dot_general(Operation& op);
  void fft(Operation& op);
  void cholesky(Operation& op);
  void triangular_solve(Operation& op);
  void batch_norm(Operation& op);
  void rng(Operation& op);
  void rng_bit_generator(Operation& op);
  void rng_state(Operation& op);

  // convert/einsum.cc
  void einsum(Operation& op);

  // convert/convolution.cc
  void convolution(Operation& op);

  // convert/reduce.cc
  void sort(Operation& op);
  void map(Operation& op);
  void reduce(Operation& op);
  void reduce_window(Operation& op);
  void select_and_scatter(Operation& op);

  // convert/control.cc
  void async_start(Operation& op);
  void async_done(Operation& op);
  void tuple(Operation& op);
  void get_tuple_element(Operation& op);
  void while_loop(Operation& op);
  void conditional(Operation& op);
  void call(Operation& op);
  void composite(Operation& op);
  void optimization_barrier(Operation& op);
  void token(Operation& op);
  void infeed(Operation& op);
  void outfeed(Operation& op);
  void send(Operation& op);
  void recv(Operation& op);
  void terminator(Operation& op);

  // convert/collective.cc
  void device_id(Operation& op);
  void all_gather(Operation& op);
  void all_reduce(Operation& op);
  void reduce_scatter(Operation& op);
  void all_to_all(Operation& op);
  void collective_permute(Operation& op);
  void collective_broadcast(Operation& op);
  void collective_reduce(Operation& op);
  void cross_replica_sum(Operation& op);

  // convert/custom_call.cc
  void custom_call(Operation& op);
  std::string_view call_target(const Operation& op);
  bool wrapped_operation(Operation& op, std::string_view target, const Attribute& attributes);
  std::string call_config(const Operation& op, std::int64_t* version);
  std::vector<Dims> call_layouts(const Operation& op, const char* key, std::size_t count);
  Shape with_layout(const Operation& op, Shape shape, const Dims& layout);
  std::string operand_layout_constraints(const Operation& op, const std::vector<Dims>& layouts);
  std::string output_aliases(const Operation& op, const Attribute& aliases);
  std::vector<ir::Computation*> called_functions(const Operation& op);
  void set_call_attributes(const Operation& op, ir::Instruction* i);

  // convert/sdy.cc
  void sharding_constraint(Operation& op);
  void sharding_group(Operation& op);
  void manual_computation(Operation& op);
  void named_computation(Operation& op);
  void propagation_barrier(Operation& op);
  void data_flow_edge(Operation& op);
  void sdy_collective(Operation& op);
  /// The values, each under a constraint of the list of shardings in that attribute, if there is.
  std::vector<ir::Instruction*> constrained(const Operation& op,
                                            std::vector<ir::Instruction*> values,
                                            std::string_view key);

  // convert/approx_top_k.cc
  void approx_top_k(Operation& op, const std::vector<ir::Computation*>& called);

  // chlo.cc
  void chlo_unary(Operation& op);
  void chlo_binary(Operation& op);
  void chlo_broadcast(Operation& op);
  void chlo_broadcast_select(Operation& op);
  void chlo_constant_like(Operation& op);
  // chlo_trigonometric.cc
  void chlo_trigonometric(Operation& op);
  void top_k(Operation& op);
  void ragged_dot(Operation& op);
  // chlo_scan.cc
  void scan(Operation& op);
  // what bytecode has between the types of vhlo and others
  void cast(Operation& op);

 protected:
  friend class ChloMath;
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
  /// The value of a constant that is kept elsewhere, whose name comes next.
  virtual Literal resource_literal(const Shape& type);

  struct EinsumLabels;
  struct Scan;

  // verify/verifier.cc: what the specification asks of an operation as written
  void verify(const Operation& op);

  // convert/einsum.cc
  EinsumLabels einsum_labels(const Operation& op);
  void check_labels(const Operation& op, const std::string& labels, const Shape& shape);
  ir::Instruction* sum_unshared(const Operation& op, ir::Instruction* x, std::string* labels,
                                const std::string& other, const std::string& out);
  ir::Instruction* einsum_dot(const Operation& op, ir::Instruction* x, ir::Instruction* y,
                              const EinsumLabels& labels, std::string* order);

  // convert/convolution.cc
  std::vector<ir::WindowDim> window(const Operation& op, std::size_t rank);
  void convolution_dims(const char* first_role, std::int64_t* first, const char* second_role,
                        std::int64_t* second, Dims* spatial);
  void convolution_numbers(const Operation& op, ir::ConvolutionAttrs* a);
  void pad_by_operand(const Operation& op, std::size_t operand, std::vector<ir::WindowDim>* window);

  // chlo_scan.cc
  Scan read_scan(const Operation& op);
  void check_scan_body(const Operation& op, Scan* s);
  std::vector<ir::Instruction*> zero_outputs(const Operation& op, const Scan& s);
  void scan_as_window(Operation& op, const Scan& s, ir::Opcode sum);
  void scan_as_loop(Operation& op, const Scan& s);
  ir::Computation* scan_condition(const Operation& op, const Scan& s, const Shape& state);
  ir::Computation* scan_step(const Operation& op, const Scan& s, const Shape& state);

  // module.cc: what stands outside of functions
  void module_items(char close);
  void module_attribute(const Attribute& a);
  void alias(char kind);
  void resources();
  void function(bool generic);
  /// Name, types, and attributes of arguments, from attributes of these names.
  void function_attributes(Function* f, const std::vector<Attribute>& attributes);
  void declare(Function* declared);
  void check_argument_count(const Function& f, std::size_t count);
  void function_argument(Function::Argument* a, bool named);
  void finish_functions();
  void read_body(Function& f);
  void add_parameter(const Function& f, std::size_t n);
  void check_returned(const Function& f, const std::vector<ir::Instruction*>& returned);
  /// Copies results to the memory that their types name.
  void place_results(const Function& f, std::vector<ir::Instruction*>* returned);
  void set_root(const Function& f, std::vector<ir::Instruction*> returned);
  void entry_results(Function& f);
  void entry_arguments(const Function& f);
  MeshTable meshes_of_manual_computations();
  void entry_layouts(const Function& f);
  void resolve();
  const char* skip_region();

  // sdy.cc: the forms of sdy
  void mesh(bool generic);
  void declare_mesh(std::string_view name, std::string_view text, const char* at);
  void check_sizes_of_meshes();
  [[noreturn]] void refuse_mpmd(const char* at, std::string_view name);
  /// A mesh that StableHLO's attribute holds itself; null if it only names one.
  MeshRef mesh_in_place(const Operation& op, const Attribute& mesh);
  /// What the aliases in it stand for put in place, and `#sdy<sharding<...>>` as
  /// `#sdy.sharding<...>`.
  std::string expanded_sdy(std::string_view text);
  void append_expanded(std::string_view text, int depth, std::string* out);
  std::size_t append_opened(std::string_view text, std::size_t bracket, int depth,
                            std::string* out);
  void pretty_sdy_collective(Operation& op);
  void pretty_edge(Operation& op);

  // verify_sdy.cc: what Shardy's verifier refuses
  struct BoundAxes;
  void check_bound_axes(std::string_view sharding, const char* at);
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
  void check_data_flow_edge(const Operation& op);
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
  void attribute_dict(std::vector<Attribute>* out, char close);
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
  ir::Instruction* add_to(ir::Computation* c, ir::Opcode opcode, Shape shape, ir::Attributes attrs,
                          std::vector<ir::Instruction*> operands);
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
  ir::Computation* binary_computation(ir::Opcode opcode, DType dtype);

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

  // convert/quantized.cc
  const Quantized* quantized(const ir::Instruction* i) const;
  void note_quantized(const ir::Instruction* i, const Quantized* q);
  static bool same_meaning(const Quantized* a, const Quantized* b);
  static std::string type_text(const Shape& shape, const Quantized* q);
  /// One number for each index of the axis, or one for all, in the shape `dims`.
  ir::Instruction* scales_of(const Operation& op, const Quantized& q, const Dims& dims,
                             const std::vector<double>& values);
  /// The zero points as numbers of a type, in the same way.
  ir::Instruction* zero_points_of(const Operation& op, const Quantized& q, DType dtype,
                                  const Dims& dims);
  ir::Instruction* dequantize(const Operation& op, ir::Instruction* x, const Quantized& q);
  ir::Instruction* quantize(const Operation& op, ir::Instruction* x, const Quantized& q);
  bool stored_means_the_same(const Operation& op);
  void check_passed_on(const Operation& op);
  void check_regions(const Operation& op);
  void check_all_quantized(const Operation& op);
  void check_range(const Operation& op);
  void convert_quantized(Operation& op);
  void convert_expressed(Operation& op);
  void convert_shifted(Operation& op);
  ir::Computation* quantized_computation(const Operation& op, ir::Opcode opcode,
                                         const Quantized& q);

  // values.cc: attributes as values
  /// Runs `read` at the value's place, and goes on here.
  template <class F>
  void at_value(std::string_view value, F&& read) {
    const char* back = in_.position();
    in_.seek(value.data());
    read();
    in_.seek(back);
  }
  const Attribute& need(const Operation& op, std::string_view key);
  Dims integers(const Operation& op, std::string_view key);
  Dims integers_or(const Operation& op, std::string_view key, Dims otherwise);
  std::vector<Dims> integer_rows(const Operation& op, std::string_view key);
  std::int64_t integer(const Operation& op, std::string_view key);
  std::int64_t integer_or(const Operation& op, std::string_view key, std::int64_t otherwise);
  bool flag(const Operation& op, std::string_view key, bool otherwise);
  double real(const Operation& op, std::string_view key);
  /// The word of an enumeration: `#stablehlo<comparison_direction LT>` or `LT`.
  std::string_view keyword(const Operation& op, std::string_view key);
  std::string text(const Operation& op, std::string_view key);
  /// `#stablehlo.gather<offset_dims = [1], ...>` as attributes.
  std::vector<Attribute> fields(const Attribute& a);
  /// The same under the name and place of the operation, for what reads an operation's attributes.
  Operation fields_of(const Operation& op, const Attribute& a);
  /// The fields of that attribute, or the operation's own attributes if they are flat.
  Operation fields_or_own(const Operation& op, std::string_view key);
  /// Of a dot; empty if it has none.
  std::optional<Operation> dot_algorithm(const Operation& op);
  /// `{a = 1, b = 2}` as attributes.
  std::vector<Attribute> dictionary(const Attribute& a, const char* where);
  std::vector<std::string> precision(const Operation& op);
  std::string_view expanded(std::string_view value);
  Dims dims_of(std::string_view value);
  Dims read_dims(std::string_view value);
  Literal constant_value(std::string_view text, const Shape** type);
  /// Bytecode has the text of an attribute once, however often it is used.
  bool shared_texts() const { return in_.places() != nullptr; }
  bool dense_integers(Dims* out);

  // literals.cc
  /// `dense<...> : type` and its like. A splat gives a scalar.
  Literal literal(const Shape** type);
  Literal aliased_literal(const Shape** type);
  Literal bare_literal(std::string_view word, const char* at, const Shape** type);
  const Shape* type_behind_elements(const char* constant);
  std::string_view resource_digits(const char* start);
  Literal dense(const Shape& type);
  Literal blob(std::string_view hex, const Shape& type, const char* at);

  // locations.cc
  const Cow<ir::Metadata>& metadata_of(std::string_view location);
  /// Gives what functions without lines of their own hold the line that calls them, if it is one.
  void locate_callees();
  ir::Metadata parse_location(int depth);

  // build.cc: making instructions
  ir::Instruction* add(const Operation& op, ir::Opcode opcode, Shape shape,
                       std::vector<ir::Instruction*> operands, ir::Attributes attributes = {},
                       std::vector<ir::Computation*> called = {});
  /// ParseError where the shape isn't what operands and attributes give.
  void check_shape(const Operation& op, const ir::Instruction& i);
  /// The one result with the type that the text gives.
  void set(Operation& op, ir::Opcode opcode, std::vector<ir::Instruction*> operands,
           ir::Attributes attributes = {}, std::vector<ir::Computation*> called = {});
  /// Several results: a tuple and its elements; one: as set().
  void set_results(Operation& op, ir::Opcode opcode, std::vector<ir::Instruction*> operands,
                   ir::Attributes attributes = {}, std::vector<ir::Computation*> called = {});
  void unpack(Operation& op, ir::Instruction* tuple, std::size_t count);
  ir::Instruction* element(const Operation& op, ir::Instruction* tuple, std::size_t index);
  ir::Instruction* scalar_constant(const Operation& op, DType dtype, double value);
  ir::Instruction* splat(const Operation& op, ir::Instruction* scalar, const Dims& dims);
  ir::Instruction* broadcast_to(const Operation& op, ir::Instruction* x, const Shape& to,
                                const Dims& dims);
  /// The value of an operand that must be a constant.
  Dims constant_integers(const Operation& op, std::size_t operand);
  void set_shardings(Operation& op);
  void pend(ir::Instruction* i, std::string_view sdy, std::string_view tiling);
  void pend_attributes(ir::Instruction* i, const std::vector<Attribute>& attributes);
  std::map<std::string, std::string> frontend(const Attribute& a);
  void need_operands(const Operation& op, std::size_t least, std::size_t most);
  void need_results(const Operation& op, std::size_t count);
  void need_regions(const Operation& op, std::size_t count);
  [[noreturn]] void fail(const Operation& op, const std::string& message);
  [[noreturn]] void not_supported(const Operation& op, const std::string& message);

  // convert/reduce.cc: functions on scalars that use values from outside
  void reduce_with(Operation& op, ir::Opcode opcode, ir::Attributes attributes);
  void scatter_with(Operation& op, ir::ScatterAttrs attributes);
  void set_joined(Operation& op, ir::Opcode opcode, std::vector<ir::Instruction*> operands,
                  ir::Attributes attributes);
  enum class Join : std::uint8_t { compared, reduced };
  /// Puts captured values among the function's arguments: both of one operand side by side
  /// (compared), or all first ones before all second ones and among the results (reduced).
  void join_captured(Operation& op, std::size_t own, Join join);
  /// Converts an operand to the wider type that the function takes as this parameter, if it does.
  void promote(Operation& op, std::size_t operand, const ir::Computation& by, std::size_t as);
  void need_arguments(const Operation& op, std::size_t count);
  void need_returned(const Operation& op, std::size_t count);
  void need_scalars_captured(const Operation& op);
  void need_none_captured(const Operation& op);

  // helpers of families
  ir::DeviceGroups groups(const Operation& op);
  ir::DeviceGroups groups_by_axes(const Operation& op, const Attribute& a);
  AxisRef axis_of_group(const Operation& op, std::string_view written);
  std::optional<std::int64_t> channel(const Operation& op);
  /// Where this device stands in its group, s32[]; -1 if it is in none.
  ir::Instruction* place_in_group(const Operation& op, const ir::CollectiveAttrs& a);
  ir::DeviceGroups all_in_groups(const Operation& op, const ir::CollectiveAttrs& a);
  /// Which place in its group gives the values of that operand.
  ir::Instruction* root_of(const Operation& op, std::size_t operand);
  /// `x` where `source` is this device's place, else zeros.
  ir::Instruction* only_at(const Operation& op, ir::Instruction* x, ir::Instruction* source,
                           ir::Instruction* place, ir::Direction direction);
  void call_function(Operation& op, std::string_view symbol);

  Frame& frame() { return *frames_.back(); }
  ir::Computation* current() { return frames_.back()->computation; }

  Cursor in_;
  TypeParser types_;
  Symbols symbols_;
  std::unique_ptr<ir::Module> module_;
  std::deque<Function> functions_;
  std::unordered_map<std::string_view, Function*> by_name_;
  std::vector<Frame*> frames_;
  /// Reused, one per depth of nesting.
  std::vector<std::unique_ptr<Operation>> pool_;
  std::size_t depth_ = 0;
  std::int64_t next_number_ = 0;
  std::unordered_map<std::string_view, std::string_view> attribute_aliases_;
  std::unordered_map<std::string_view, std::string_view> resources_;
  std::unordered_map<std::string_view, Cow<ir::Metadata>> locations_;
  const std::pair<const std::string_view, Cow<ir::Metadata>>* last_location_ = nullptr;
  /// What texts of attributes stand for, by where they are, if operations share them.
  std::unordered_map<const char*, Dims> dims_read_;
  std::unordered_map<const char*, std::pair<Literal, const Shape*>> constants_read_;
  Cow<ir::Metadata> here_;  ///< scratch
  /// The value of a constant in its short form.
  Literal literal_;
  bool has_literal_ = false;
  std::map<std::pair<ir::Opcode, DType>, ir::Computation*> binary_computations_;
  /// What stored values stand for.
  std::unordered_map<const ir::Instruction*, const Quantized*> quantized_;
  struct DeclaredMesh {
    std::string_view name, text;
    MeshRef mesh;
  };
  std::vector<DeclaredMesh> meshes_;
  /// Lists of shardings of manual computations, kept as text: to be read once all meshes are known.
  std::vector<std::pair<const char*, std::string>> manual_shardings_;
  std::string meshes_text_;
  std::string_view meshes_at_;
  std::vector<ir::PendingSharding> pending_;
  /// Captured values that turned out to be the only argument of a branch.
  std::unordered_map<const ir::Instruction*, ir::Instruction*> only_captured_;
  SdyRecords sdy_;
  /// The manual axes of the manual computations around what is being read.
  std::vector<std::string> bound_axes_;
  /// The manual computation that is being read, by number; 0: none.
  int manual_scope_ = 0, manual_scopes_ = 0;
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
