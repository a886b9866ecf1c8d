// SPDX-License-Identifier: Apache-2.0
// Constraints of the StableHLO specification that no conversion and no shape inference checks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/text/read/reader.h"

namespace tessera::text {

/// Checks one operation as it stands in the text.
class Verifier {
 public:
  Verifier(Reader& reader, const Operation& op) : r_(reader), op_(op) {}
  /// ParseError if the operation breaks a rule.
  void run();

  // collectives.cc
  void groups_not_empty();
  void groups_complete();
  void global_ids_need_channel();
  void groups_of_split_count();
  void channel_type();
  void pairs_of_devices();
  void async_body();

  // arrays.cc
  void broadcast_result();
  void shape_operand();
  void sorted_dims();
  void window_dimensions();
  void convolution_types();
  void spatial_dims();
  void precisions();
  void dot_algorithm();
  void scan_size();
  void distinct_dims();
  void known_dims();
  void types_kept();
  void normal_of_floats();
  void generator_state();

  // calls.cc
  void data_then_token();
  void infeed_layout();
  void call_layouts();
  void call_aliases();
  void call_config();
  void call_of_buffers();
  void composite_name();

  // quantized.cc
  void same_storage();
  void axis_of_sum();
  void axis_of_broadcast();
  void axis_of_transpose();
  void axis_of_reshape();
  void quantized_convolution();
  void quantized_dot();

 private:
  [[noreturn]] void fail(const std::string& message) { r_.fail(op_, message); }
  void result_accuracy();
  void quantized_types();
  bool token(const Shape& shape) const;
  const Quantized* operand_quantized(std::size_t n) const;
  const Quantized* result_quantized() const;
  /// The numbers of an operand that is a constant.
  std::optional<Dims> known(std::size_t operand);
  /// `[a, b]` as texts.
  std::vector<std::string_view> items(std::string_view list);
  std::vector<Dims> group_lists(bool* by_axes);
  void alias(const Attribute& a);
  const Shape* part(const Shape* whole, const Dims& path, const char* what);
  /// What products say of their operands' quantized types; false if none is quantized.
  bool quantized_product();

  Reader& r_;
  const Operation& op_;
};

}  // namespace tessera::text
