// SPDX-License-Identifier: Apache-2.0
// What each operation becomes, however it was written. The files are those of convert/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/text/read/instruction_builder.h"
#include "src/text/read/sdy_records.h"

namespace tessera {
struct AxisRef;
}

namespace tessera::text {

class Conversions : public InstructionBuilder {
 public:
  using InstructionBuilder::InstructionBuilder;

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
  bool cut_dimension(Operation& op, std::int64_t dim);
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
  void approx_top_k(Operation& op);

  // convert/chlo.cc
  void chlo_unary(Operation& op);
  void chlo_binary(Operation& op);
  void chlo_broadcast(Operation& op);
  void chlo_broadcast_select(Operation& op);
  void chlo_constant_like(Operation& op);
  // convert/chlo_trigonometric.cc
  void chlo_trigonometric(Operation& op);
  void top_k(Operation& op);
  void ragged_dot(Operation& op);
  // convert/chlo_scan.cc
  void scan(Operation& op);
  // what bytecode has between the types of vhlo and others
  void cast(Operation& op);

 protected:
  friend class ChloMath;

  struct EinsumLabels;
  struct Scan;

  // what is known of the text around
  virtual void check_data_flow_edge(const Operation& op) = 0;
  /// A function as it is called here: where sizes are open, as it is for these operands (if null,
  /// as it is declared).
  virtual Function& function_for(const Operation& op, Function& f,
                                 const std::vector<ir::Instruction*>* operands) = 0;

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

  // convert/chlo_scan.cc
  Scan read_scan(const Operation& op);
  void check_scan_body(const Operation& op, Scan* s);
  std::vector<ir::Instruction*> zero_outputs(const Operation& op, const Scan& s);
  void scan_as_window(Operation& op, const Scan& s, ir::Opcode sum);
  void scan_as_loop(Operation& op, const Scan& s);
  ir::Computation* scan_condition(const Operation& op, const Scan& s, const Shape& state);
  ir::Computation* scan_step(const Operation& op, const Scan& s, const Shape& state);

  // convert/quantized.cc
  const Quantized* quantized(const ir::Instruction* i) const;
  void note_quantized(const ir::Instruction* i, const Quantized* q);
  static bool same_meaning(const Quantized* a, const Quantized* b);
  static std::string type_text(const Shape& shape, const Quantized* q);
  /// One number for each index of the axis, or one for all, in the shape `dims`.
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

  // convert/compute.cc
  /// Of a dot; empty if it has none.
  std::optional<Operation> dot_algorithm(const Operation& op);

  // convert/open_results.cc
  /// Closes the results that a conversion looks at, or that shape inference has to be told.
  void close_before_conversion(Operation& op);
  void close_as_operands(Operation& op);
  void close_as_second(Operation& op);
  void close_by_shape(Operation& op);
  void close_broadcast(Operation& op);
  void close_chlo_broadcast(Operation& op);
  void close_bitcast(Operation& op);
  void close_slice(Operation& op);
  void close_gather(Operation& op);
  void close_index_select(Operation& op);

  // convert/dynamic_calls.cc
  /// False if the target is none of these.
  bool dynamic_call(Operation& op, std::string_view target);
  void shape_assertion(Operation& op);
  void dynamic_reduce_window(Operation& op);
  void close_by_shape_operands(Operation& op);
  Dims shape_operands(const Operation& op);
  void leave_out_shape_operands(Operation& op, std::vector<Dims>* layouts);

  // convert/elementwise.cc
  Literal constant_value(std::string_view text, const Shape** type);

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
  Dims slice_sizes_of_result(Operation& op, const ir::GatherAttrs& a);
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
  ir::Instruction* call_function(Operation& op, std::string_view symbol);

  std::unordered_map<std::string_view, Function*> by_name_;
  std::unordered_map<const char*, std::pair<Literal, const Shape*>> constants_read_;
  /// The value of a constant in its short form.
  Literal literal_;
  bool has_literal_ = false;
  /// What stored values stand for.
  std::unordered_map<const ir::Instruction*, const Quantized*> quantized_;
  /// Lists of shardings of manual computations, kept as text: to be read once all meshes are known.
  std::vector<std::pair<const char*, std::string>> manual_shardings_;
  SdyRecords sdy_;
  /// The manual computation that is being read, by number; 0: none.
  int manual_scope_ = 0, manual_scopes_ = 0;
};

}  // namespace tessera::text
