// SPDX-License-Identifier: Apache-2.0
// What stands outside of functions' bodies: the module, meshes, aliases, signatures.
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/analysis/verifier.h"
#include "src/ir/hlo/sdy_attributes.h"
#include "src/ir/hlo/typed_calls.h"
#include "src/ir/limits.h"
#include "src/ir/names.h"
#include "src/ir/post_order.h"
#include "src/sharding/axes/sdy_text.h"
#include "src/text/read/reader.h"
#include "src/text/read/stablehlo.h"

namespace tessera::text {

std::unique_ptr<ir::Module> parse_stablehlo(std::string_view text, const std::string& file,
                                            const Arguments* arguments) {
  return Reader(text, file).run(arguments);
}

std::unique_ptr<ir::Module> Reader::run(const Arguments* arguments) {
  module_ = std::make_unique<ir::Module>();
  here_.edit().source_file = in_.file();
  open_ = has_open_types({in_.begin(), std::size_t(in_.end() - in_.begin())});
  scan_functions();
  Function* entry = &entry_function();
  if (open_) {
    entry = closed_entry(*entry, arguments);
    if (entry == nullptr) return nullptr;
  } else {
    read_functions();
  }
  module_->set_entry(entry->computation);
  entry_arguments(*entry);
  entry_layouts(*entry);
  end_of_operations();
  resolve();
  // What follows walks calls by recursion.
  std::vector<ir::Computation*> all;
  for (const auto& c : module_->computations()) all.push_back(c.get());
  ir::check_limits(ir::post_order(all));
  // Not before: shardings wait for instructions.
  for (const auto& c : module_->computations()) c->remove_dead();
  module_->remove_dead_computations();
  locate_callees();
  ir::verify_structure(*module_, false);
  return std::move(module_);
}

bool has_open_types(std::string_view text) {
  for (std::size_t at = text.find('?'); at != std::string_view::npos; at = text.find('?', at + 1)) {
    if (at + 1 < text.size() && text[at + 1] == 'x') return true;
  }
  return false;
}

void Reader::scan_functions() {
  // Aliases may stand before the module, and those of locations after it.
  bool inside = false;
  while (!in_.at_end()) {
    char c = in_.peek();
    if (c == '#' || c == '!') {
      alias(c);
    } else if (in_.accept_text("{-#")) {
      resources();
    } else if (!inside && (in_.accept_word("module") || in_.accept_word("builtin.module"))) {
      inside = true;
      if (in_.peek() == '@') {
        in_.seek(in_.position() + 1);
        module_->name = std::string(in_.suffix("the module's name"));
      }
      if (in_.accept_word("attributes")) {
        std::vector<Attribute> attributes;
        in_.expect('{', "before the module's attributes");
        attribute_dict(&attributes, '}');
        for (const Attribute& a : attributes) module_attribute(a);
      }
      in_.expect('{', "before the module's functions");
      module_items('}');
    } else if (!inside && in_.accept_text("\"builtin.module\"")) {
      inside = true;
      std::vector<Attribute> attributes;
      in_.expect('(', "after the operation's name");
      in_.expect(')', "after the operands");
      if (in_.accept_text("<{")) {
        attribute_dict(&attributes, '}');
        in_.expect('>', "after the properties");
      }
      in_.expect('(', "before the region");
      in_.expect('{', "before the module's functions");
      module_items('}');
      in_.expect(')', "after the region");
      if (in_.accept('{')) attribute_dict(&attributes, '}');
      for (const Attribute& a : attributes) module_attribute(a);
      in_.expect(':', "before the type of the module");
      std::vector<const Shape*> none;
      types_.read_function(&none, &none);
    } else if (!inside) {
      // Functions without a module around.
      inside = true;
      module_items('\0');
      continue;
    } else {
      in_.fail("expected the end of the text, an alias or '{-#'");
    }
    if (in_.accept_word("loc")) in_.balanced();
  }
  if (functions_.empty()) in_.fail("expected a module with a function (func.func @main)");
}

void Reader::module_attribute(const Attribute& a) {
  const char* back = in_.position();
  if (a.key == "mhlo.num_partitions" || a.key == "mhlo.num_replicas") {
    in_.seek(expanded(a.value).data());
    in_.skip();
    const char* at = in_.position();
    std::int64_t n = in_.integer("a count of devices");
    if (n < 1 || n > (1 << 24)) {
      in_.fail_at(at, std::string(a.key) + " = " + std::to_string(n) + "; valid: 1 to 16777216");
    }
    (a.key == "mhlo.num_partitions" ? module_->num_partitions : module_->replica_count) = n;
  } else if (a.key == "sym_name") {
    in_.seek(a.value.data());
    module_->name = in_.string("the module's name");
  } else if (a.key == "mhlo.frontend_attributes") {
    module_->frontend_attributes = frontend(a);
    if (auto node = module_->frontend_attributes.extract(ir::kSdyMeshes)) {
      meshes_text_ = std::move(node.mapped());
      meshes_at_ = a.value;
    }
  }
  in_.seek(back);
}

void Reader::module_items(char close) {
  while (true) {
    char c = in_.peek();
    if (close != '\0' && in_.accept(close)) return;
    if (in_.at_end()) {
      if (close == '\0') return;
      in_.fail("expected '}' after the module's functions");
    }
    const char* at = in_.position();
    if (c == '#' || c == '!') {
      alias(c);
      continue;
    }
    if (c == '{' && close == '\0') return;
    bool generic = c == '"';
    std::string_view name =
        generic ? in_.raw_string("an operation") : in_.word("func.func, sdy.mesh or '}'");
    if (name == "func.func" || name == "func") {
      function(generic);
    } else if (name == "sdy.mesh") {
      mesh(generic);
    } else if (name == "module" || name == "builtin.module") {
      in_.not_supported_at(at, "modules inside of modules are not supported");
    } else {
      if (is_of_mpmd(name)) refuse_mpmd(at, name);
      in_.fail_at(at, "operation '" + std::string(name) +
                          "' can't stand in a module here; valid: func.func, sdy.mesh");
    }
    if (in_.accept_word("loc")) in_.balanced();
  }
}

void Reader::alias(char kind) {
  in_.expect(kind, "before an alias");
  const char* at = in_.position();
  std::string_view name = in_.suffix("the name of an alias");
  in_.expect('=', "after the name of an alias");
  in_.skip();
  const char* start = in_.position();
  if (kind == '!') {
    if (in_.peek() == '!') in_.seek(in_.position() + 1);
    in_.suffix("a type");
    if (in_.peek() == '<') in_.balanced();
    types_.define_alias(name, {start, std::size_t(in_.position() - start)});
    return;
  }
  // A word with brackets behind it, a text, a list, a number: to the end of the line or bracket.
  std::string_view text;
  if (in_.accept_word("loc")) {
    in_.balanced();
    text = {start, std::size_t(in_.position() - start)};
  } else {
    while (in_.position() < in_.end() && *in_.position() != '\n') {
      char c = *in_.position();
      if (c == '"') {
        in_.raw_string("a text");
      } else if (c == '(' || c == '[' || c == '{' || c == '<') {
        in_.balanced();
      } else if (c == '/' && in_.position() + 1 < in_.end() && in_.position()[1] == '/') {
        break;
      } else {
        in_.seek(in_.position() + 1);
      }
    }
    text = {start, std::size_t(in_.position() - start)};
  }
  if (!attribute_aliases_.emplace(name, text).second) {
    in_.fail_at(at, "alias #" + std::string(name) + " stands twice");
  }
}

void InstructionBuilder::resources() {
  // {-# dialect_resources: { builtin: { name: "0x..." } } #-}
  while (!in_.accept_text("#-}")) {
    if (in_.at_end()) in_.fail("expected '#-}' after the resources");
    if (in_.peek() == '"') {
      in_.raw_string("a text");
      continue;
    }
    std::string_view name = in_.word_or_empty();
    if (name.empty()) {
      in_.seek(in_.position() + 1);
      continue;
    }
    if (in_.accept(':') && in_.peek() == '"') resources_[name] = in_.raw_string("a resource");
  }
}

MeshTable Reader::meshes_of_manual_computations() {
  MeshTable table;
  for (const DeclaredMesh& declared : meshes_) {
    table[std::string(declared.name)] = declared.mesh;
  }
  const char* last = nullptr;
  MeshRef mesh;
  for (const auto& [at, text] : manual_shardings_) {
    if (at != last) mesh = nullptr;
    last = at;
    try {
      for (const TensorSharding& s : parse_sdy_sharding_per_value(text, table)) {
        if (s.kind != TensorSharding::Kind::axes || !s.mesh) continue;
        if (mesh && !same_mesh(mesh, s.mesh)) {
          throw ShardingError("mesh @" + s.mesh->name + " is another than mesh @" + mesh->name +
                              "; all shardings of a manual computation are on one");
        }
        mesh = s.mesh;
      }
    } catch (const InternalError&) {
      throw;
    } catch (const Error& e) {
      in_.fail_at(at, "in the shardings " + text + ": " + e.message());
    }
  }
  return table;
}

void Reader::resolve() {
  std::unordered_set<std::string_view> names;
  for (const DeclaredMesh& declared : meshes_) {
    if (const std::string_view name = declared.name; !names.insert(name).second) {
      in_.fail_at(name.data(), "mesh @" + std::string(name) + " stands twice");
    }
  }
  if (!meshes_.empty()) {
    meshes_text_ = "{";
    for (const DeclaredMesh& declared : meshes_) {
      if (meshes_text_.size() > 1) meshes_text_ += ", ";
      meshes_text_ += declared.name;
      meshes_text_ += " = #sdy.mesh";
      meshes_text_ += declared.text;
    }
    meshes_text_ += "}";
  }
  check_sizes_of_meshes();
  sdy_.replace(only_captured_);
  if (pending_.empty() && meshes_text_.empty() && manual_shardings_.empty()) {
    check_edges_of_shardings();
    check_sharding_groups();
    return;
  }
  ir::HloLexer lexer({in_.begin(), std::size_t(in_.end() - in_.begin())}, in_.file());
  if (in_.places() != nullptr) {
    lexer.refuse_by(
        [this](const char* where, const std::string& what) { in_.fail_at(where, what); });
  }
  // A list of many devices is read once.
  const auto read_mesh = [&](std::string_view text, const std::string& name) {
    for (const DeclaredMesh& declared : meshes_) {
      constexpr std::string_view prefix = "#sdy.mesh";
      if (declared.name == name && text.starts_with(prefix) &&
          text.substr(prefix.size()) == declared.text) {
        return declared.mesh;
      }
    }
    return parse_sdy_mesh(text, name);
  };
  ir::resolve_shardings(lexer, module_.get(), pending_, meshes_text_, meshes_at_, read_mesh);
  std::optional<MeshTable> manual;
  if (!manual_shardings_.empty()) manual = meshes_of_manual_computations();
  if (!module_->mesh) {
    // Nothing is sharded; the mesh still says how many devices there are.
    for (const DeclaredMesh& declared : meshes_) {
      if (!declared.mesh->axes.empty() && !module_->mesh) module_->mesh = declared.mesh;
    }
  }
  if (manual) ir::raise_manual_computations(module_.get(), std::move(*manual));
  check_sdy_collectives();
  check_kinds_kept();
  check_edges_of_shardings();
  for (const auto& holder : result_holders_) {
    ir::Instruction* root = holder->operands()[0];
    TensorSharding s = TensorSharding::open_on(module_->mesh, holder->shape.rank());
    root->sharding.push_back(holder->sharding.empty() ? s : holder->sharding[0]);
  }
  check_sharding_groups();
  sdy_.join_groups();
  for (const auto& [instruction, group, at, scope] : sdy_.groups) {
    if (instruction->sharding.empty()) {
      instruction->sharding = {TensorSharding::open_on(module_->mesh, instruction->shape.rank())};
    }
    instruction->sharding[0].shard_group = group;
    instruction->sharding[0].shard_like = true;
  }
}

}  // namespace tessera::text
