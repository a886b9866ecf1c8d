// SPDX-License-Identifier: Apache-2.0
// Which attributes of an operation are its properties, and what vhlo has for those of StableHLO.
#include <algorithm>

#include "src/text/bytecode/bytecode_sink.h"

namespace tessera::text {
namespace {

/// What vhlo has where StableHLO leaves an attribute out.
constexpr std::pair<std::string_view, std::string_view> kDefaults[] = {
    {"accumulation_type", "none"},
    {"allow_imprecise_accumulation", "none"},
    {"api_version", "1 : i32"},
    {"backend_config", "\"\""},
    {"called_computations", "[]"},
    {"channel_id", "0 : i64"},
    {"compare_type", "#stablehlo<comparison_type NOTYPE>"},
    {"composite_attributes", "{}"},
    {"has_side_effect", "false"},
    {"indices_are_sorted", "false"},
    {"infeed_config", "\"\""},
    {"is_host_transfer", "false"},
    {"layout", "[]"},
    {"lhs_component_count", "none"},
    {"lhs_precision_type", "none"},
    {"num_primitive_operations", "none"},
    {"operand_layouts", "[]"},
    {"outfeed_config", "\"\""},
    {"output_operand_aliases", "[]"},
    {"result_layouts", "[]"},
    {"rhs_component_count", "none"},
    {"rhs_precision_type", "none"},
    {"unique_indices", "false"},
    {"use_global_device_ids", "false"},
    {"version", "0 : i64"},
};

/// `key = value, ...` or `key` alone.
template <class F>
void each_entry(std::string_view text, F&& f) {
  Cursor in(text, "<properties>");
  while (!in.at_end()) {
    const std::string_view key = in.word("the name of an attribute");
    f(key, in.accept('=') ? in.value() : std::string_view());
    if (!in.accept(',') && !in.at_end()) in.fail("expected ',' between attributes");
  }
}

}  // namespace

BytecodeSink::Number BytecodeSink::default_of(std::string_view key) {
  if (key == "result_accuracy") return attributes_.default_accuracy();
  for (const auto& [known, text] : kDefaults) {
    if (known != key) continue;
    return key == "api_version" ? attributes_.api_version(text) : attributes_.vhlo(text);
  }
  return attributes_.dims({});
}

void BytecodeSink::collect_vhlo(const Op& op, std::string_view key, std::string_view text,
                                std::vector<std::pair<std::string_view, Number>>* all) {
  if (key == "channel_handle") {
    std::vector<std::pair<std::string_view, Number>> parts;
    attributes_.fields(text, &parts);
    for (const auto& [name, number] : parts) {
      if (name == "handle") all->emplace_back("channel_id", number);
      if (name == "type" && (op.name == "stablehlo.send" || op.name == "stablehlo.recv")) {
        all->emplace_back("channel_type", number);
      }
    }
  } else if (text.starts_with("#stablehlo.conv<")) {
    attributes_.convolution(text, all);
  } else if (key.ends_with("dimension_numbers") && text.starts_with("#stablehlo.")) {
    attributes_.fields(text, all);
  } else if (text.starts_with("#stablehlo.dot_algorithm<")) {
    attributes_.fields(text, all);
  } else if (key == "api_version") {
    all->emplace_back(key, attributes_.api_version(text));
  } else if (text.empty() && key == "use_global_device_ids") {
    all->emplace_back(key, attributes_.vhlo("true"));
  } else {
    all->emplace_back(key, attributes_.vhlo(text.empty() ? "unit" : text));
  }
}

void BytecodeSink::collect(const Op& op, bool vhlo,
                           std::vector<std::pair<std::string_view, Number>>* all) {
  const auto add = [&](std::string_view key, std::string_view text) {
    if (vhlo) return collect_vhlo(op, key, text, all);
    all->emplace_back(key, attributes_.native(text.empty() ? "unit" : text));
  };
  each_entry(op.properties, add);
  for (const auto& [key, text] : op.attributes) add(key, text);
  if (op.literal != nullptr) all->emplace_back("value", attributes_.constant(*op.literal));
}

void BytecodeSink::attributes(const Op& op, const Name& name, Node* node) {
  std::vector<std::pair<std::string_view, Number>> all;
  try {
    collect(op, name.vhlo, &all);
  } catch (const ParseError& e) {
    throw NotImplementedError("an attribute of " + std::string(op.name) +
                              " has no form in bytecode: " + e.message());
  }
  if (name.properties != nullptr) {
    ByteWriter out;
    for (const text::Property& p : *name.properties) {
      const auto found =
          std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.first == p.key; });
      if (found != all.end()) {
        p.optional ? out.flagged(found->second, true) : out.varint(found->second);
        all.erase(found);
      } else if (!p.optional) {
        out.varint(default_of(p.key));
      } else if (!p.newer) {
        out.varint(0);
      }
    }
    node->has_properties = true;
    node->properties = tables_.properties(out);
  }
  if (all.empty()) return;
  node->has_attributes = true;
  node->attributes = attributes_.dictionary(std::move(all));
}

BytecodeSink::Number BytecodeSink::argument_attributes(const std::vector<Entries>& list) {
  const auto none = [](const Entries& e) { return e.empty(); };
  std::string text = "[";
  if (!std::all_of(list.begin(), list.end(), none)) {
    for (const Entries& entries : list) {
      text += text.size() > 1 ? ", {" : "{";
      for (const auto& [key, value] : entries) {
        if (text.back() != '{') text += ", ";
        text += key;
        if (!value.empty()) text += " = " + value;
      }
      text += '}';
    }
  }
  return attributes_.vhlo(text + "]");
}

void BytecodeSink::function_properties(const FunctionHead& head, Node* node) {
  ByteWriter out;
  out.varint(argument_attributes(head.argument_attributes));
  out.varint(attributes_.vhlo_function_type(head.arguments, head.results));
  out.varint(argument_attributes(head.result_attributes));
  out.varint(attributes_.string(head.symbol));
  out.varint(attributes_.string(head.entry ? "public" : "private"));
  node->has_properties = true;
  node->properties = tables_.properties(out);
}

}  // namespace tessera::text
