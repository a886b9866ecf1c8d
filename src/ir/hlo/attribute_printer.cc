// SPDX-License-Identifier: Apache-2.0
// Prints the attributes and shardings of instructions as HLO text.
#include <algorithm>
#include <charconv>

#include "src/ir/hlo/attribute_text.h"
#include "src/ir/hlo/device_texts.h"
#include "src/ir/hlo/enum_text.h"
#include "src/ir/hlo/text_out.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/hooks.h"

namespace tessera::ir {
namespace {

struct Writer {
  std::string& out;
  const Instruction& instruction;
  DeviceTexts& texts;

  /// Writes what `fields` names; flags and lists that are optional only where they say something.
  struct FieldWriter {
    Writer& writer;
    void operator()(std::string_view k, std::int64_t v) { writer.integer(k, v); }
    void operator()(std::string_view k, bool v) {
      if (v) writer.flag(k, true);
    }
    void operator()(std::string_view k, const Dims& v) { writer.dims(k, v); }
    void operator()(std::string_view k, float v) { writer.real(k, v); }
    void always(std::string_view k, bool v) { writer.flag(k, v); }
    void optional(std::string_view k, const Dims& v) {
      if (!v.empty()) writer.dims(k, v);
    }
  };

  void key(std::string_view k) {
    out += ", ";
    out += k;
    out += '=';
  }
  void word(std::string_view k, std::string_view v) {
    key(k);
    out += v;
  }
  void integer(std::string_view k, std::int64_t v) {
    key(k);
    append_int(out, v);
  }
  void real(std::string_view k, float v) {
    key(k);
    char buffer[40];
    out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
  }
  void flag(std::string_view k, bool v) { word(k, v ? "true" : "false"); }
  void dims(std::string_view k, const Dims& v) {
    key(k);
    append_braced(out, v);
  }
  void items(const std::vector<std::pair<std::string, std::string>>& list) {
    for (const auto& [k, v] : list) word(k, v);
  }
  void precision(const std::vector<std::string>& list) {
    bool plain = std::all_of(list.begin(), list.end(),
                             [](const std::string& p) { return p.empty() || p == "default"; });
    if (plain) return;
    key("operand_precision");
    out += '{';
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) out += ',';
      out += list[i].empty() ? "default" : list[i];
    }
    out += '}';
  }

  // "3x3", from one number per dim.
  template <class F>
  void by_x(const std::vector<WindowDim>& dims, F&& write) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (i > 0) out += 'x';
      write(dims[i]);
    }
  }
  void window(const std::vector<WindowDim>& dims) {
    if (dims.empty()) return;
    auto any = [&](auto test) { return std::any_of(dims.begin(), dims.end(), test); };
    key("window");
    out += "{size=";
    by_x(dims, [&](const WindowDim& d) { append_int(out, d.size); });
    if (any([](const WindowDim& d) { return d.stride != 1; })) {
      out += " stride=";
      by_x(dims, [&](const WindowDim& d) { append_int(out, d.stride); });
    }
    if (any([](const WindowDim& d) { return d.pad_low != 0 || d.pad_high != 0; })) {
      out += " pad=";
      by_x(dims, [&](const WindowDim& d) {
        append_int(out, d.pad_low);
        out += '_';
        append_int(out, d.pad_high);
      });
    }
    if (any([](const WindowDim& d) { return d.lhs_dilation != 1; })) {
      out += " lhs_dilate=";
      by_x(dims, [&](const WindowDim& d) { append_int(out, d.lhs_dilation); });
    }
    if (any([](const WindowDim& d) { return d.rhs_dilation != 1; })) {
      out += " rhs_dilate=";
      by_x(dims, [&](const WindowDim& d) { append_int(out, d.rhs_dilation); });
    }
    if (any([](const WindowDim& d) { return d.reversal; })) {
      out += " rhs_reversal=";
      by_x(dims, [&](const WindowDim& d) { out += d.reversal ? '1' : '0'; });
    }
    out += '}';
  }

  /// For those who look at a function before its vmap.
  void batch_axis(const BatchAxis& axis) {
    key("batch_axis");
    out += axis.name + "=" + std::to_string(axis.size);
  }

  void groups(const DeviceGroups& g) {
    if (g.batch) return batch_axis(g.batch);
    key("replica_groups");
    texts.append_groups(out, g);
  }

  template <HasFields A>
  void operator()(const A& a) {
    FieldWriter fields{*this};
    A::fields(a, fields);
  }
  void operator()(const ParameterAttrs&) {}
  void operator()(const ConstantAttrs&) {}
  void operator()(const DimensionsAttrs& a) { dims("dimensions", a.dims); }
  void operator()(const SortAttrs& a) {
    dims("dimensions", {a.dim});
    if (a.is_stable) flag("is_stable", true);
  }
  void operator()(const CompareAttrs& a) {
    word("direction", kDirections[std::size_t(a.direction)]);
    if (a.type == ComparisonType::by_dtype) return;
    if (!instruction.operands().empty() && instruction.operands()[0]->shape.is_array() &&
        a.type == default_comparison(instruction.operands()[0]->shape.dtype)) {
      return;
    }
    word("type", kComparisonTypes[std::size_t(a.type)]);
  }
  void operator()(const SliceAttrs& a) {
    bool plain =
        std::all_of(a.strides.begin(), a.strides.end(), [](std::int64_t s) { return s == 1; });
    key("slice");
    out += '{';
    for (std::size_t i = 0; i < a.starts.size(); ++i) {
      out += i > 0 ? ", [" : "[";
      append_int(out, a.starts[i]);
      out += ':';
      append_int(out, a.limits[i]);
      if (!plain) {
        out += ':';
        append_int(out, a.strides[i]);
      }
      out += ']';
    }
    out += '}';
  }
  void operator()(const PadAttrs& a) {
    // HLO has no text for the padding of no dims.
    if (a.dims.empty()) return;
    bool interior =
        std::any_of(a.dims.begin(), a.dims.end(), [](const PadDim& d) { return d.interior != 0; });
    key("padding");
    for (std::size_t i = 0; i < a.dims.size(); ++i) {
      if (i > 0) out += 'x';
      append_int(out, a.dims[i].low);
      out += '_';
      append_int(out, a.dims[i].high);
      if (interior) {
        out += '_';
        append_int(out, a.dims[i].interior);
      }
    }
  }
  void operator()(const DotAttrs& a) {
    if (!a.lhs_batch.empty()) dims("lhs_batch_dims", a.lhs_batch);
    dims("lhs_contracting_dims", a.lhs_contracting);
    if (!a.rhs_batch.empty()) dims("rhs_batch_dims", a.rhs_batch);
    dims("rhs_contracting_dims", a.rhs_contracting);
    precision(a.operand_precision);
    if (!a.algorithm.empty()) word("algorithm", a.algorithm);
  }
  void operator()(const WindowAttrs& a) { window(a.dims); }
  void operator()(const ConvolutionAttrs& a) {
    window(a.window);
    key("dim_labels");
    std::size_t rank = a.input_spatial.size() + 2;
    auto labels = [&](std::int64_t first, char first_label, std::int64_t second, char second_label,
                      const Dims& spatial) {
      std::string text(rank, '?');
      auto put = [&](std::int64_t at, char label) {
        if (at >= 0 && std::size_t(at) < rank) text[std::size_t(at)] = label;
      };
      put(first, first_label);
      put(second, second_label);
      for (std::size_t i = 0; i < spatial.size(); ++i) put(spatial[i], char('0' + i));
      out += text;
    };
    labels(a.input_batch, 'b', a.input_feature, 'f', a.input_spatial);
    out += '_';
    labels(a.kernel_input_feature, 'i', a.kernel_output_feature, 'o', a.kernel_spatial);
    out += "->";
    labels(a.output_batch, 'b', a.output_feature, 'f', a.output_spatial);
    if (a.feature_group_count != 1) integer("feature_group_count", a.feature_group_count);
    if (a.batch_group_count != 1) integer("batch_group_count", a.batch_group_count);
    precision(a.operand_precision);
  }
  void operator()(const FftAttrs& a) {
    word("fft_type", kFftTypes[std::size_t(a.type)]);
    dims("fft_length", a.lengths);
  }
  void operator()(const CollectiveAttrs& a) {
    if (a.channel_id) integer("channel_id", *a.channel_id);
    groups(a.groups);
    if (a.constrain_layout) flag("constrain_layout", true);
    if (a.use_global_device_ids) flag("use_global_device_ids", true);
    if (!a.dims.empty()) dims("dimensions", a.dims);
  }
  void operator()(const PermuteAttrs& a) {
    if (a.channel_id) integer("channel_id", *a.channel_id);
    if (a.batch) batch_axis(a.batch);
    key("source_target_pairs");
    texts.append_pairs(out, a.source_target_pairs);
  }
  template <class A>
  requires HasCallAttrs<A>
  void operator()(const A&) {
    TESSERA_CHECK(false, instruction.describe() + " is printed as a custom call");
  }
  void operator()(const CustomCallAttrs& a) {
    key("custom_call_target");
    append_quoted(out, a.target);
    items(a.other);
    if (a.has_side_effect) flag("custom_call_has_side_effect", true);
    if (!a.api_version.empty()) word("api_version", a.api_version);
  }
  void operator()(const TriangularSolveAttrs& a) {
    if (a.left_side) flag("left_side", true);
    if (a.lower) flag("lower", true);
    if (a.unit_diagonal) flag("unit_diagonal", true);
    word("transpose_a", kTransposes[std::size_t(a.transpose_a)]);
  }
  void operator()(const RngAttrs& a) {
    word(instruction.opcode == Opcode::rng ? "distribution" : "algorithm", a.kind);
  }
  void operator()(const WhileAttrs&) {}
  void operator()(const ScanAttrs& a) {
    const bool plain = has_own_text(instruction);
    if (!plain) {
      key("custom_call_target");
      append_quoted(out, kScanTarget);
    }
    dims("dimensions", {a.dim});
    if (!plain) integer("length", a.length);
    integer("num_carries", a.carries);
    if (!plain) integer("num_constants", a.constants);
    flag("is_reverse", a.reverse);
    if (a.associative) flag("is_associative", *a.associative);
    if (a.unroll != 1) integer("unroll", a.unroll);
  }
  void operator()(const TextAttrs& a) { items(a.items); }
};

}  // namespace

void append_attributes(std::string& out, const Instruction& i, DeviceTexts& texts) {
  if (is_printed_as_custom_call(i.opcode)) return append_attributes(out, as_custom_call(i), texts);
  i.attrs.visit(Writer{out, i, texts});
}

void append_attributes(std::string& out, const Instruction& i) {
  DeviceTexts texts;
  append_attributes(out, i, texts);
}

bool has_own_text(const Instruction& i) {
  const auto* scan = i.attrs.get_if<ScanAttrs>();
  if (scan == nullptr) return true;
  // HLO's has no constants, is not unrolled, and its length is that of inputs or outputs.
  const auto carries = std::size_t(scan->carries);
  return scan->constants == 0 && scan->unroll == 1 &&
         (i.operands().size() > carries || i.shape.elements.size() > carries);
}

std::vector<std::string_view> callee_keys(const Instruction& i) {
  if (i.called().empty()) return {};
  if (!has_own_text(i)) return {"called_computations"};
  switch (i.opcode) {
    case Opcode::while_:
      return {"condition", "body"};
    case Opcode::select_and_scatter:
      return {"select", "scatter"};
    case Opcode::conditional:
      if (i.called().size() == 2 && !i.operands().empty() && i.operands()[0]->shape.is_array() &&
          i.operands()[0]->shape.dtype == DType::pred) {
        return {"true_computation", "false_computation"};
      }
      return {"branch_computations"};
    case Opcode::custom_call:
      return {"called_computations"};
    case Opcode::fusion:
    case Opcode::async_start:
    case Opcode::async_update:
    case Opcode::async_done:
      return {"calls"};
    default:
      return {"to_apply"};
  }
}

void append_sharding(std::string& out, const Instruction& i, DeviceTexts& texts) {
  if (!i.shape.is_tuple && i.sharding.size() == 1) return texts.append_tiling(out, i.sharding[0]);
  out += '{';
  for (std::size_t n = 0; n < i.sharding.size(); ++n) {
    if (n > 0) out += ", ";
    texts.append_tiling(out, i.sharding[n]);
  }
  out += '}';
}

std::string sharding_text(const Instruction& i) {
  std::string out;
  DeviceTexts texts;
  append_sharding(out, i, texts);
  return out;
}

void append_canonical_sharding(std::string& out, const Instruction& i, DeviceTexts& texts) {
  out += '{';
  auto axes = [&](const char* word, const IndexList& list) {
    if (list.empty()) return;
    out += ' ';
    out += word;
    append_braced(out, Dims(list.begin(), list.end()));
  };
  for (const TensorSharding& s : i.sharding) {
    out += '<';
    out += s.kind == TensorSharding::Kind::maximal   ? "maximal "
           : s.kind == TensorSharding::Kind::unknown ? "unknown "
                                                     : "";
    if (s.kind == TensorSharding::Kind::maximal) append_int(out, s.device);
    if (s.mesh != nullptr) {
      out += "mesh";
      for (const MeshAxis& axis : s.mesh->axes) {
        out += ' ';
        append_int(out, axis.size);
        if (!axis.is_full()) {
          out += ':';
          append_int(out, axis.pre);
          out += '/';
          append_int(out, axis.full);
        }
      }
      if (!s.mesh->device_ids.empty()) {
        out += " ids";
        texts.append_order(out, s.mesh);
      }
    }
    for (const DimSharding& d : s.dims) {
      out += " [";
      for (int axis : d.axes) {
        append_int(out, axis);
        out += ',';
      }
      if (d.open) out += '?';
      if (d.priority != 0) {
        out += 'p';
        append_int(out, d.priority);
      }
      out += ']';
    }
    axes("replicated", s.replicated);
    axes("unreduced", s.unreduced);
    if (!s.unreduced.empty() && s.reduction != Reduction::sum) {
      out += ' ';
      out += to_string(s.reduction);
    }
    axes("manual", s.manual);
    if (s.shard_group >= 0) {
      out += s.shard_like ? " like " : " as ";
      append_int(out, s.shard_group);
    }
    out += '>';
  }
  out += '}';
}

std::string canonical_sharding_text(const Instruction& i) {
  std::string out;
  DeviceTexts texts;
  append_canonical_sharding(out, i, texts);
  return out;
}

}  // namespace tessera::ir
