// SPDX-License-Identifier: Apache-2.0
// The forms of sdy: meshes, shardings behind aliases, operations.
#include "src/sharding/axes/sdy_text.h"
#include "src/text/read/reader.h"

namespace tessera::text {
namespace {

// Aliases in aliases can double the text with each.
constexpr std::size_t kMaxExpanded = 1 << 22;
constexpr int kMaxAliasDepth = 64;

/// `<[...]>` of `#sdy.mesh<[...]>` and `#sdy<mesh<[...]>>`.
std::string_view bare_mesh(std::string_view text) {
  for (std::string_view prefix : {"#sdy.mesh", "#sdy<mesh"}) {
    if (!text.starts_with(prefix)) continue;
    text.remove_prefix(prefix.size());
    if (prefix[4] == '<' && text.ends_with('>')) text.remove_suffix(1);
    while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
  }
  return text;
}

}  // namespace

bool is_of_mpmd(std::string_view name) { return name.starts_with("mpmd."); }

void Reader::refuse_mpmd(const char* at, std::string_view name) {
  in_.not_supported_at(at, "operation '" + std::string(name) +
                               "' is of Shardy's mpmd dialect, whose programs run on several "
                               "meshes, and is not supported; valid: sdy, on one mesh");
}

void Reader::mesh(bool generic) {
  std::string_view name, text;
  in_.skip();
  const char* at = in_.position();
  std::vector<Attribute> attributes;
  if (generic) {
    in_.expect('(', "after the operation's name");
    in_.expect(')', "after the operands");
    if (in_.accept_text("<{")) {
      attribute_dict(&attributes, '}');
      in_.expect('>', "after the properties");
    }
    if (in_.accept('{')) attribute_dict(&attributes, '}');
    in_.expect(':', "before the type");
    std::vector<const Shape*> none;
    types_.read_function(&none, &none);
    for (const Attribute& a : attributes) {
      if (a.key == "mesh") text = expanded(a.value);
      if (a.key == "sym_name" && a.value.size() > 2) name = a.value.substr(1, a.value.size() - 2);
    }
  } else {
    in_.expect('@', "before a mesh's name");
    name = in_.suffix("a mesh's name");
    in_.expect('=', "after a mesh's name");
    text = in_.peek() == '<' ? in_.balanced() : expanded(short_value());
    if (in_.accept_word("attributes") || in_.peek() == '{') {
      in_.expect('{', "before the attributes");
      attribute_dict(&attributes, '}');
    }
  }
  declare_mesh(name, text, at);
}

void Reader::declare_mesh(std::string_view name, std::string_view text, const char* at) {
  text = bare_mesh(text);
  if (name.empty() || text.empty()) in_.fail_at(at, "expected sdy.mesh @name = <[\"x\"=2]>");
  try {
    meshes_.push_back({name, text, parse_sdy_mesh(text, std::string(name))});
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    in_.fail_at(text.data(), e.message());
  }
  if (meshes_at_.data() == nullptr) meshes_at_ = text;
}

/// Without a count, or with one of 1, the module is for as many devices as its mesh has; a mesh of
/// one device names a place.
void Reader::check_sizes_of_meshes() {
  if (module_->num_partitions == 1) return;
  for (const auto& [name, text, mesh] : meshes_) {
    const std::int64_t devices = mesh->num_devices();
    // One of fewer devices is on the first ones.
    if (devices <= module_->num_partitions) continue;
    const std::string partitions = std::to_string(module_->num_partitions);
    in_.fail_at(text.data(), "mesh @" + std::string(name) + " = " + std::string(text) + " has " +
                                 std::to_string(devices) +
                                 " devices, and the module's mhlo.num_partitions is " + partitions +
                                 "; valid: a mesh of at most " + partitions +
                                 " devices, or mhlo.num_partitions = " + std::to_string(devices));
  }
}

MeshRef InstructionBuilder::mesh_in_place(const Operation& op, const Attribute& mesh) {
  // #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name = "x", size = 2>], device_ids = dense<...>>
  if (!expanded(mesh.value).starts_with("#stablehlo.mesh<")) return nullptr;
  const Operation parts = fields_of(op, mesh);
  std::vector<std::pair<std::string, std::int64_t>> axes;
  at_value(expanded(need(parts, "axes").value), [&] {
    in_.expect('[', "before the axes of a mesh");
    in_.items(']', "after the axes of a mesh", [&] {
      in_.skip();
      const Attribute axis{"axis", in_.value()};
      const Operation fields = fields_of(op, axis);
      axes.emplace_back(text(fields, "name"), integer(fields, "size"));
    });
  });
  try {
    return make_logical_mesh(std::move(axes), integers_or(parts, "device_ids", {}));
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    in_.fail_at(mesh.value.data(), e.message());
  }
}

std::string InstructionBuilder::expanded_sdy(std::string_view text) {
  std::string out;
  append_expanded(text, 0, &out);
  return out;
}

void InstructionBuilder::append_expanded(std::string_view text, int depth, std::string* out) {
  if (depth > kMaxAliasDepth || out->size() > kMaxExpanded) {
    in_.fail_at(text.data(), "aliases stand for too much text here");
  }
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t next = text.find_first_of("#\"", at);
    out->append(text.substr(at, next - at));
    if (next == std::string_view::npos) return;
    at = next;
    if (text[at] == '"') {
      std::size_t end = text.find('"', at + 1);
      end = end == std::string_view::npos ? text.size() : end + 1;
      out->append(text.substr(at, end - at));
      at = end;
      continue;
    }
    std::size_t stop = at + 1;
    while (stop < text.size() && is_id_char(text[stop])) ++stop;
    const std::string_view name = text.substr(at + 1, stop - at - 1);
    if (const auto it = attribute_aliases_.find(name); it != attribute_aliases_.end()) {
      append_expanded(it->second, depth + 1, out);
      at = stop;
    } else if (name == "sdy" && stop < text.size() && text[stop] == '<') {
      at = append_opened(text, stop, depth, out);
    } else {
      out->append(text.substr(at, stop - at));
      at = stop;
    }
  }
}

std::size_t InstructionBuilder::append_opened(std::string_view text, std::size_t bracket, int depth,
                                              std::string* out) {
  // From `#sdy<sharding<...>>` the brackets of the dialect go: `#sdy.sharding<...>`.
  const char* back = in_.position();
  in_.seek(text.data() + bracket);
  std::string_view inside = in_.balanced();
  in_.seek(back);
  out->append("#sdy.");
  append_expanded(inside.substr(1, inside.size() - 2), depth + 1, out);
  return bracket + inside.size();
}

void Reader::pretty_sdy_collective(Operation& op) {
  // sdy.all_gather [{}, {"x"}] %0 out_sharding=<@mesh, [...]> : type
  if (in_.peek() != '%' && in_.peek() != '[' && in_.peek() != '{') {
    op.attributes.push_back({"reduction_op", in_.word("axes in brackets or an operand")});
  }
  while (in_.peek() != '%') {
    if (in_.peek() == '[' || in_.peek() == '{') {
      op.attributes.push_back({"axes", in_.balanced()});
    } else {
      in_.fail("expected axes in brackets or an operand");
    }
  }
  operand(op);
  keyword_attribute(op, "out_sharding", "out_sharding");
  if (in_.accept('{')) attribute_dict(&op.attributes, '}');
  pretty_types(op, 'S');
}

void Reader::pretty_edge(Operation& op) {
  // sdy.data_flow_edge %0 sharding=<@mesh, [...]> : type
  operand(op);
  if (in_.peek() == 's') keyword_attribute(op, "sharding", "sharding");
  if (in_.accept('{')) attribute_dict(&op.attributes, '}');
  pretty_types(op, 'S');
}

}  // namespace tessera::text
