// SPDX-License-Identifier: Apache-2.0
// The attributes that opcodes compute with.
#include <algorithm>
#include <numeric>
#include <type_traits>

#include "src/ir/custom_call_targets.h"
#include "src/ir/hlo/derivative_calls.h"
#include "src/ir/hlo/enum_text.h"
#include "src/ir/hlo/hlo_parser.h"
#include "src/ir/hooks.h"
#include "src/ir/limits.h"
#include "src/ir/names.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir {
namespace {

std::vector<std::string> precision(AttributeReader& reader) {
  std::vector<std::string> out;
  std::optional<std::string_view> value = reader.take("operand_precision");
  if (!value) return out;
  HloLexer& in = reader.lexer();
  reader.at(*value, [&] {
    in.expect('{', "before the precisions");
    if (in.accept('}')) return;
    do {
      out.emplace_back(in.word("a precision"));
    } while (in.accept(','));
    in.expect('}', "after the precisions");
  });
  if (std::all_of(out.begin(), out.end(), [](const auto& p) { return p == "default"; })) out = {};
  return out;
}

// "3x3", "0_1x0_1": per dim, numbers with '_' between them.
std::vector<Dims> by_x(HloLexer& in, std::string_view what) {
  std::vector<Dims> out;
  do {
    Dims& dim = out.emplace_back();
    do {
      dim.push_back(in.integer(what));
    } while (in.position() < in.end() && *in.position() == '_' && in.accept('_'));
  } while (in.position() < in.end() && *in.position() == 'x' && in.accept('x'));
  return out;
}

std::vector<WindowDim> window(AttributeReader& reader) {
  std::vector<WindowDim> dims;
  std::optional<std::string_view> value = reader.take("window");
  if (!value) return dims;
  HloLexer& in = reader.lexer();
  reader.at(*value, [&] {
    in.expect('{', "before the window");
    bool sized = false;
    while (!in.accept('}')) {
      in.skip();
      const char* at = in.position();
      std::string_view key = in.word("size, stride, pad, lhs_dilate, rhs_dilate or rhs_reversal");
      in.expect('=', "after " + std::string(key));
      if (key == "size" && in.peek() == '}') continue;
      std::vector<Dims> numbers = by_x(in, key);
      if (key == "size") {
        if (sized) in.fail_at(at, "size stands twice in the window");
        sized = true;
        dims.resize(numbers.size());
      } else if (!sized) {
        in.fail_at(at, "the window must start with its size");
      }
      if (numbers.size() != dims.size()) {
        in.fail_at(at, std::string(key) + " has " + std::to_string(numbers.size()) +
                           " dims and the window " + std::to_string(dims.size()));
      }
      for (std::size_t i = 0; i < dims.size(); ++i) {
        const Dims& n = numbers[i];
        WindowDim& d = dims[i];
        if (n.size() != (key == "pad" ? 2u : 1u)) {
          in.fail_at(at, key == "pad" ? "padding is written low_high per dim"
                                      : std::string(key) + " takes one number per dim");
        }
        if (key == "size") {
          d.size = n[0];
        } else if (key == "stride") {
          d.stride = n[0];
        } else if (key == "pad") {
          d.pad_low = n[0];
          d.pad_high = n[1];
        } else if (key == "lhs_dilate") {
          d.lhs_dilation = n[0];
        } else if (key == "rhs_dilate") {
          d.rhs_dilation = n[0];
        } else if (key == "rhs_reversal") {
          d.reversal = n[0] != 0;
        } else {
          in.fail_at(at, "unknown part '" + std::string(key) +
                             "' of a window; valid: size, stride, pad, lhs_dilate, rhs_dilate, "
                             "rhs_reversal");
        }
      }
    }
  });
  return dims;
}

void dim_labels(AttributeReader& reader, ConvolutionAttrs* a) {
  std::string_view value = reader.need("dim_labels");
  std::size_t underscore = value.find('_'), arrow = value.find("->");
  if (underscore == std::string_view::npos || arrow == std::string_view::npos ||
      underscore > arrow) {
    reader.fail(value, "expected dim_labels like b01f_01io->b01f");
  }
  auto part = [&](std::string_view text, char first_label, std::int64_t* first, char second_label,
                  std::int64_t* second, Dims* spatial) {
    if (text.find('?') != std::string_view::npos) {
      reader.lexer().not_supported_at(text.data(),
                                      "dimensions without a role ('?') are not "
                                      "supported in dim_labels");
    }
    std::size_t n = text.size();
    if (n < 2) reader.fail(text, "dim_labels need at least two dims per array");
    spatial->assign(n - 2, -1);
    *first = *second = -1;
    for (std::size_t i = 0; i < n; ++i) {
      char c = text[i];
      std::int64_t* slot = c == first_label    ? first
                           : c == second_label ? second
                           : is_digit(c) && std::size_t(c - '0') < n - 2
                               ? &(*spatial)[std::size_t(c - '0')]
                               : nullptr;
      if (slot == nullptr || *slot != -1) {
        reader.fail(text.substr(i), "label '" + std::string(1, c) + "' of '" + std::string(text) +
                                        "'; each of '" + first_label + "', '" + second_label +
                                        "' and the numbers from 0 stands once");
      }
      *slot = std::int64_t(i);
    }
  };
  part(value.substr(0, underscore), 'b', &a->input_batch, 'f', &a->input_feature,
       &a->input_spatial);
  part(value.substr(underscore + 1, arrow - underscore - 1), 'i', &a->kernel_input_feature, 'o',
       &a->kernel_output_feature, &a->kernel_spatial);
  part(value.substr(arrow + 2), 'b', &a->output_batch, 'f', &a->output_feature, &a->output_spatial);
}

SliceAttrs slice(AttributeReader& reader) {
  SliceAttrs a;
  HloLexer& in = reader.lexer();
  reader.at(reader.need("slice"), [&] {
    in.expect('{', "before the slices");
    if (in.accept('}')) return;
    do {
      in.expect('[', "before start:limit");
      a.starts.push_back(in.integer("the start of a slice"));
      in.expect(':', "after the start of a slice");
      a.limits.push_back(in.integer("the limit of a slice"));
      a.strides.push_back(in.accept(':') ? in.integer("the stride of a slice") : 1);
      in.expect(']', "after a slice");
    } while (in.accept(','));
    in.expect('}', "after the slices");
  });
  return a;
}

PadAttrs padding(const Instruction& i, AttributeReader& reader) {
  PadAttrs a;
  if (!reader.has("padding") && !i.operands().empty() && i.operands()[0]->shape.rank() == 0) {
    reader.take("padding");
    return a;
  }
  std::string_view value = reader.need("padding");
  reader.at(value, [&] {
    for (const Dims& n : by_x(reader.lexer(), "padding")) {
      if (n.size() != 2 && n.size() != 3) {
        reader.fail(value, "padding is written low_high or low_high_interior per dim");
      }
      a.dims.push_back({n[0], n[1], n.size() == 3 ? n[2] : 0});
    }
  });
  return a;
}

std::optional<std::int64_t> channel(AttributeReader& reader) {
  const auto value = reader.take("channel_id");
  if (!value) return std::nullopt;
  std::int64_t id = 0;
  reader.at(*value, [&] { id = reader.lexer().integer("an integer for channel_id"); });
  if (id > kMaxChannel) {
    reader.fail(*value, "channel_id=" + std::to_string(id) + "; valid: at most " +
                            std::to_string(kMaxChannel));
  }
  return id;
}

CollectiveAttrs groups_and_channel(AttributeReader& reader, bool device_ids_flag) {
  CollectiveAttrs a;
  a.groups = parse_groups(reader);
  a.channel_id = channel(reader);
  if (device_ids_flag) a.use_global_device_ids = reader.flag("use_global_device_ids");
  return a;
}

PermuteAttrs permute(AttributeReader& reader) {
  PermuteAttrs a;
  HloLexer& in = reader.lexer();
  std::vector<DevicePairs::Pair> pairs;
  reader.at(reader.need("source_target_pairs"), [&] {
    in.expect('{', "before the pairs");
    if (in.accept('}')) return;
    do {
      in.skip();
      const char* at = in.position();
      Dims pair = in.braced_integers("a pair of devices");
      if (pair.size() != 2) in.fail_at(at, "expected a pair {source,target}");
      pairs.emplace_back(pair[0], pair[1]);
    } while (in.accept(','));
    in.expect('}', "after the pairs");
  });
  a.source_target_pairs = std::move(pairs);
  a.channel_id = channel(reader);
  return a;
}

DotAttrs dot(AttributeReader& reader) {
  DotAttrs a;
  a.lhs_contracting = reader.dims_or_empty("lhs_contracting_dims");
  a.rhs_contracting = reader.dims_or_empty("rhs_contracting_dims");
  a.lhs_batch = reader.dims_or_empty("lhs_batch_dims");
  a.rhs_batch = reader.dims_or_empty("rhs_batch_dims");
  a.operand_precision = precision(reader);
  if (auto value = reader.take("algorithm")) a.algorithm = std::string(*value);
  return a;
}

void not_supported(AttributeReader& reader, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (auto value = reader.take(key)) {
      reader.lexer().not_supported_at(value->data(), "attribute " + std::string(key) + " of " +
                                                         std::string(reader.owner()) +
                                                         " is not supported");
    }
  }
}

// Attributes that are carried as text.
Attributes text_attributes(AttributeReader& reader, const std::vector<const char*>& keys) {
  TextAttrs a;
  for (const char* key : keys) {
    if (auto value = reader.take(key)) a.items.emplace_back(key, std::string(*value));
  }
  if (a.items.empty()) return {};
  return a;
}

Attributes transfer(AttributeReader& reader) {
  TextAttrs a;
  if (reader.has("channel_id")) {
    a.items.emplace_back("channel_id", std::to_string(reader.integer("channel_id")));
  }
  if (reader.flag("is_host_transfer")) a.items.emplace_back("is_host_transfer", "true");
  if (a.items.empty()) return {};
  return a;
}

/// `{f32[8,8]{0,1}, s32[]}`: the operands' shapes, with the layouts that the call wants them in.
void check_operand_layouts(const Instruction& i, AttributeReader& reader, std::string_view value) {
  HloLexer& in = reader.lexer();
  reader.at(value, [&] {
    in.expect('{', "before the operands' shapes");
    std::size_t n = 0;
    for (; !in.accept('}'); ++n) {
      if (n > 0) in.expect(',', "between the operands' shapes");
      in.skip();
      const char* at = in.position();
      const Shape shape = in.shape();
      if (n < i.operands().size() && shape != i.operands()[n]->shape) {
        in.fail_at(at, "operand_layout_constraints gives operand " + std::to_string(n) +
                           " the shape " + shape.to_string() + ", and it is " +
                           i.operands()[n]->shape.to_string());
      }
    }
    if (n != i.operands().size()) {
      in.fail_at(value.data(), "operand_layout_constraints has " + inference::plural(n, "shape") +
                                   " for " + inference::plural(i.operands().size(), "operand"));
    }
  });
}

/// `{{0}: (1, {}, may-alias)}`: by index of the result, an operand and an index in it.
void check_output_aliases(const Instruction& i, AttributeReader& reader, std::string_view value) {
  HloLexer& in = reader.lexer();
  reader.at(value, [&] {
    in.expect('{', "before the aliases");
    for (bool first = true; !in.accept('}'); first = false) {
      if (!first) in.expect(',', "between aliases");
      in.braced_integers("an index of the result");
      in.expect(':', "after the index of the result");
      in.expect('(', "before the operand");
      in.skip();
      const char* at = in.position();
      const std::int64_t operand = in.integer("an operand's number");
      if (operand < 0 || operand >= std::int64_t(i.operands().size())) {
        in.fail_at(at, "output_to_operand_aliasing names operand " + std::to_string(operand) +
                           " of " + inference::plural(i.operands().size(), "operand"));
      }
      in.expect(',', "after the operand's number");
      in.braced_integers("an index of the operand");
      if (in.accept(',')) in.word("the kind of alias");
      in.expect(')', "after the operand");
    }
  });
}

ScanAttrs scan(const Instruction& i, AttributeReader& reader) {
  ScanAttrs a;
  const Dims dims = reader.dims("dimensions");
  if (dims.size() != 1) {
    reader.fail(reader.need("dimensions"), "scan takes exactly one dimension");
  }
  a.dim = dims[0];
  a.carries = reader.integer_or("num_carries", 0);
  a.constants = reader.integer_or("num_constants", 0);
  a.reverse = reader.flag("is_reverse");
  if (reader.has("is_associative")) a.associative = reader.flag("is_associative");
  if (reader.has("length")) {
    a.length = reader.integer("length");
    // HLO's own has no such attribute.
    a.unroll = i.is(Opcode::custom_call) ? reader.integer_or("unroll", 1) : 1;
    return a;
  }
  // The length is that of the inputs, or of the result.
  const Shape* stacked = nullptr;
  if (a.carries < std::int64_t(i.operands().size())) {
    stacked = &i.operand(0)->shape;
  } else if (a.carries < std::int64_t(i.shape.elements.size())) {
    stacked = &i.shape.elements[0];
  } else {
    reader.fail(reader.need("dimensions"),
                "without inputs the result must be a tuple of outputs and carries, which tells how "
                "long they are");
  }
  if (a.dim >= 0 && a.dim < stacked->rank()) a.length = stacked->dim(a.dim);
  return a;
}

Attributes custom_call(const Instruction& i, AttributeReader& reader) {
  CustomCallAttrs a;
  a.target = reader.text("custom_call_target");
  if (a.target == kScanTarget && i.is(Opcode::custom_call)) return scan(i, reader);
  a.has_side_effect = reader.flag("custom_call_has_side_effect");
  if (auto value = reader.take("api_version")) a.api_version = std::string(*value);
  const auto keep = [&](const char* key) {
    const auto value = reader.take(key);
    if (!value) return;
    if (key == std::string_view("operand_layout_constraints")) {
      check_operand_layouts(i, reader, *value);
    } else if (key == std::string_view("output_to_operand_aliasing")) {
      check_output_aliases(i, reader, *value);
    }
    a.other.emplace_back(key, std::string(*value));
  };
  for (const char* key :
       {"window", "dim_labels", "feature_group_count", "batch_group_count",
        "operand_layout_constraints", "output_to_operand_aliasing", "literal", "operand_precision",
        "padding_type", "schedule", "in_shardings", "out_shardings", "manual_axes"}) {
    keep(key);
  }
  if (a.target == kRematTarget || a.target == kCustomDerivativeTarget) {
    for (const char* key : kDerivativeCallKeys) keep(key);
  }
  return a;
}

Attributes convolution(AttributeReader& reader) {
  not_supported(reader, {"convolution_kind", "sparsity_config"});
  ConvolutionAttrs a;
  a.window = window(reader);
  dim_labels(reader, &a);
  a.feature_group_count = reader.integer_or("feature_group_count", 1);
  a.batch_group_count = reader.integer_or("batch_group_count", 1);
  a.operand_precision = precision(reader);
  return a;
}

CompareAttrs compare(const Instruction& i, AttributeReader& reader) {
  CompareAttrs a;
  a.direction = Direction(reader.choice("direction", kDirections.data(), kDirections.size()));
  if (!reader.has("type")) {
    reader.take("type");
    return a;
  }
  a.type = ComparisonType(reader.choice("type", kComparisonTypes.data(), kComparisonTypes.size()));
  if (i.operands()[0]->shape.is_array() &&
      a.type == default_comparison(i.operands()[0]->shape.dtype)) {
    a.type = ComparisonType::by_dtype;
  }
  return a;
}

/// Takes what `fields` names.
struct FieldReader {
  AttributeReader& reader;
  void operator()(std::string_view key, std::int64_t& value) { value = reader.integer(key); }
  void operator()(std::string_view key, bool& value) { value = reader.flag(key, value); }
  void operator()(std::string_view key, Dims& value) { value = reader.dims(key); }
  void operator()(std::string_view key, float& value) { value = reader.real(key); }
  void always(std::string_view key, bool& value) { value = reader.flag(key, value); }
  void optional(std::string_view key, Dims& value) { value = reader.dims_or_empty(key); }
};

template <class A>
Attributes by_fields_of(Opcode op, AttributeReader& reader) {
  if constexpr (HasFields<A>) {
    A attrs;
    FieldReader fields{reader};
    A::fields(attrs, fields);
    return attrs;
  } else if constexpr (std::is_same_v<A, NoAttrs>) {
    return is_elementwise(op) && info(op).operands == 1
               ? text_attributes(reader, {"result_accuracy"})
               : Attributes();
  } else {
    return {};  // those of parameters and constants stand elsewhere
  }
}

Attributes by_fields(Opcode op, AttributeReader& reader) {
  switch (op) {
#define OP(enumerator, text, operands, attributes, ...) \
  case Opcode::enumerator:                              \
    return by_fields_of<attributes>(op, reader);
#include "src/ir/opcode_list.inc"
  }
  return {};
}

Attributes collective(Opcode op, AttributeReader& reader) {
  const bool reduces =
      op == Opcode::all_reduce || op == Opcode::all_reduce_start || op == Opcode::reduce_scatter;
  const bool gathers = op == Opcode::all_gather || op == Opcode::all_gather_start;
  if (reduces) not_supported(reader, {"mode"});
  CollectiveAttrs a = groups_and_channel(reader, reduces || gathers);
  if (gathers || op == Opcode::reduce_scatter) a.dims = reader.dims("dimensions");
  if (op == Opcode::all_to_all || op == Opcode::ragged_all_to_all) {
    a.dims = reader.dims_or_empty("dimensions");
  }
  if (reduces || gathers || op == Opcode::all_to_all) {
    a.constrain_layout = reader.flag("constrain_layout");
  }
  return a;
}

SortAttrs sort(AttributeReader& reader) {
  Dims dims = reader.dims("dimensions");
  if (dims.size() != 1) {
    reader.fail(reader.need("dimensions"), "sort takes exactly one dimension");
  }
  return {dims[0], reader.flag("is_stable")};
}

TriangularSolveAttrs triangular_solve(AttributeReader& reader) {
  TriangularSolveAttrs a;
  a.left_side = reader.flag("left_side");
  a.lower = reader.flag("lower");
  a.unit_diagonal = reader.flag("unit_diagonal");
  if (reader.has("transpose_a")) {
    a.transpose_a = TriangularSolveAttrs::Transpose(
        reader.choice("transpose_a", kTransposes.data(), kTransposes.size()));
  }
  return a;
}

// Of the first operand. A map can be over no others, so its text may leave them out.
Dims all_dims(const Instruction& i) {
  Dims out(i.operands().empty() ? 0 : i.operand(0)->shape.dims.size());
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Of opcodes whose attributes nothing computes with.
std::vector<const char*> text_keys(Opcode op) {
  switch (op) {
    case Opcode::call:
      return {"is_composite"};
    case Opcode::reshape:
      return {"inferred_dimension"};
    case Opcode::fusion:
      return {"kind", "output_to_operand_aliasing"};
    case Opcode::domain:
      return {"domain"};
    case Opcode::copy_start:
      return {"cross_program_prefetch_index"};
    case Opcode::infeed:
      return {"infeed_config"};
    case Opcode::outfeed:
      return {"outfeed_shape", "outfeed_config"};
    case Opcode::rng_get_and_update_state:
      return {"delta"};
    case Opcode::ragged_dot:
    case Opcode::scaled_dot:
      return {
          "lhs_batch_dims",  "lhs_contracting_dims", "rhs_batch_dims",    "rhs_contracting_dims",
          "lhs_ragged_dims", "rhs_group_dims",       "operand_precision", "algorithm"};
    case Opcode::async_start:
    case Opcode::async_update:
    case Opcode::async_done:
      return {"async_execution_thread", "output_to_operand_aliasing"};
    default:
      return {};
  }
}

}  // namespace

Attributes parse_attributes(Opcode op, const Instruction& i, AttributeReader& reader) {
  switch (op) {
    case Opcode::broadcast:
      // A scalar's may be left out.
      return DimensionsAttrs{reader.dims_or_empty("dimensions")};
    case Opcode::transpose:
    case Opcode::reverse:
    case Opcode::concatenate:
    case Opcode::reduce:
    case Opcode::get_dimension_size:
    case Opcode::set_dimension_size:
      return DimensionsAttrs{reader.dims("dimensions")};
    case Opcode::map:
      return DimensionsAttrs{reader.has("dimensions") ? reader.dims("dimensions") : all_dims(i)};
    case Opcode::sort:
      return sort(reader);
    case Opcode::compare:
      return compare(i, reader);
    case Opcode::slice:
      return slice(reader);
    case Opcode::pad:
      return padding(i, reader);
    case Opcode::dot:
      return dot(reader);
    case Opcode::reduce_window:
    case Opcode::select_and_scatter:
      return WindowAttrs{window(reader)};
    case Opcode::convolution:
      return convolution(reader);
    case Opcode::fft: {
      auto type = FftType(reader.choice("fft_type", kFftTypes.data(), kFftTypes.size()));
      return FftAttrs{type, reader.dims("fft_length")};
    }
    case Opcode::all_gather:
    case Opcode::all_gather_start:
    case Opcode::all_reduce:
    case Opcode::all_reduce_start:
    case Opcode::reduce_scatter:
    case Opcode::all_to_all:
    case Opcode::ragged_all_to_all:
    case Opcode::collective_broadcast:
      return collective(op, reader);
    case Opcode::collective_permute:
    case Opcode::collective_permute_start:
      not_supported(reader, {"slice_sizes"});
      return permute(reader);
    case Opcode::custom_call:
      return custom_call(i, reader);
    case Opcode::triangular_solve:
      return triangular_solve(reader);
    case Opcode::rng:
      return RngAttrs{std::string(reader.need("distribution"))};
    case Opcode::rng_bit_generator:
      return RngAttrs{std::string(reader.need("algorithm"))};
    case Opcode::while_:
      return WhileAttrs{};
    case Opcode::send:
    case Opcode::send_done:
    case Opcode::recv:
    case Opcode::recv_done:
      return transfer(reader);
    case Opcode::scan:
      return scan(i, reader);
    default:
      break;
  }
  if (const auto keys = text_keys(op); !keys.empty()) return text_attributes(reader, keys);
  return by_fields(op, reader);
}

}  // namespace tessera::ir
