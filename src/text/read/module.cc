// SPDX-License-Identifier: Apache-2.0
// What stands outside of functions' bodies: the module, meshes, aliases, signatures.
#include <algorithm>
#include <map>
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

std::unique_ptr<ir::Module> parse_stablehlo(std::string_view text, const std::string& file) {
  return Reader(text, file).run();
}

std::unique_ptr<ir::Module> Reader::run() {
  module_ = std::make_unique<ir::Module>();
  here_.edit().source_file = in_.file();
  scan_functions();
  finish_functions();
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

void Reader::resources() {
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

const char* Reader::skip_region() {
  in_.expect('{', "before the body of a function");
  const char* body = in_.position();
  const char* p = body;
  const char* end = in_.end();
  for (std::int64_t depth = 1; p < end; ++p) {
    char c = *p;
    if (c > '}') continue;
    if (c == '{') {
      ++depth;
    } else if (c == '}') {
      if (--depth == 0) {
        in_.seek(p + 1);
        return body;
      }
    } else if (c == '"') {
      in_.seek(p);
      in_.raw_string("a text");
      p = in_.position() - 1;
    } else if (c == '/' && p + 1 < end && p[1] == '/') {
      while (p < end && *p != '\n') ++p;
      if (p == end) break;
    }
  }
  in_.fail_at(body, "the body of this function is not closed (expected '}')");
}

void Reader::function_argument(Function::Argument* a, bool named) {
  in_.skip();
  if (named && in_.peek() == '%') {
    in_.seek(in_.position() + 1);
    a->name = in_.suffix("the name of an argument");
    in_.expect(':', "after the name of an argument");
  }
  a->type = types_.read();
  if (in_.accept('{')) attribute_dict(&a->attributes, '}');
  for (const Attribute& attribute : a->attributes) {
    if (attribute.key != "sdy.sharding" || !attribute.value.starts_with("#sdy.sharding_per_")) {
      continue;
    }
    in_.fail_at(attribute.value.data(),
                "an argument or result of a function has one sharding (#sdy.sharding<@mesh, "
                "[...]>), not a list");
  }
  if (in_.accept_word("loc")) a->location = in_.balanced();
}

void Reader::function(bool generic) {
  Function& f = functions_.emplace_back();
  f.generic = generic;
  in_.skip();
  f.at = in_.position();
  std::vector<Attribute> attributes;
  if (generic) {
    in_.expect('(', "after the operation's name");
    in_.expect(')', "after the operands");
    if (in_.accept_text("<{")) {
      attribute_dict(&attributes, '}');
      in_.expect('>', "after the properties");
    }
    in_.expect('(', "before the region");
    if (in_.peek() == '{') f.body = skip_region();
    in_.expect(')', "after the region");
    if (in_.accept('{')) attribute_dict(&attributes, '}');
    in_.expect(':', "before the type");
    std::vector<const Shape*> none, operands, results;
    types_.read_function(&none, &none);
    const char* back = in_.position();
    for (const Attribute& a : attributes) {
      in_.seek(a.value.data());
      if (a.key == "sym_name") {
        f.name = in_.raw_string("a name");
      } else if (a.key == "function_type") {
        types_.read_function(&operands, &results);
      } else if (a.key == "sym_visibility") {
        f.is_public = in_.raw_string("a visibility") == "public";
      }
    }
    for (const Shape* s : operands) f.arguments.push_back({{}, s, {}, {}});
    for (const Shape* s : results) f.results.push_back({{}, s, {}, {}});
    for (const Attribute& a : attributes) {
      if (a.key != "arg_attrs" && a.key != "res_attrs") continue;
      auto& list = a.key == "arg_attrs" ? f.arguments : f.results;
      in_.seek(expanded(a.value).data());
      in_.expect('[', "before the attributes of the arguments");
      for (std::size_t n = 0; !in_.accept(']'); ++n) {
        if (n > 0) in_.expect(',', "between the attributes of arguments");
        in_.expect('{', "before the attributes of an argument");
        if (n >= list.size()) in_.fail("there are more attributes than arguments");
        attribute_dict(&list[n].attributes, '}');
      }
    }
    in_.seek(back);
  } else {
    if (in_.accept_word("private") || in_.accept_word("nested")) {
      f.is_public = false;
    } else {
      in_.accept_word("public");
    }
    in_.expect('@', "before the name of a function");
    f.name = in_.suffix("the name of a function");
    in_.expect('(', "before the arguments");
    if (!in_.accept(')')) {
      do {
        function_argument(&f.arguments.emplace_back(), true);
      } while (in_.accept(','));
      in_.expect(')', "after the arguments");
    }
    if (in_.accept_text("->")) {
      if (in_.accept('(')) {
        if (!in_.accept(')')) {
          do {
            function_argument(&f.results.emplace_back(), false);
          } while (in_.accept(','));
          in_.expect(')', "after the types of the results");
        }
      } else {
        f.results.emplace_back().type = types_.read();
      }
    }
    if (in_.accept_word("attributes")) {
      in_.expect('{', "before the attributes of the function");
      attribute_dict(&attributes, '}');
    }
    if (in_.peek() == '{') f.body = skip_region();
  }
  if (f.name.empty()) in_.fail_at(f.at, "the function has no name");
  if (!by_name_.emplace(f.name, &f).second) {
    in_.fail_at(f.at, "function @" + std::string(f.name) + " stands twice");
  }
}

void Reader::finish_functions() {
  Function* main = nullptr;
  if (auto it = by_name_.find("main"); it != by_name_.end()) main = it->second;
  for (Function& f : functions_) {
    if (main == nullptr && f.is_public && f.body != nullptr) {
      if (std::count_if(functions_.begin(), functions_.end(),
                        [](const Function& g) { return g.is_public && g.body != nullptr; }) == 1) {
        main = &f;
      }
    }
  }
  if (main == nullptr) {
    std::string names;
    for (const Function& f : functions_) {
      names += (names.empty() ? "@" : ", @") + std::string(f.name);
    }
    in_.fail_at(functions_.front().at,
                "expected a function @main or one public function; there are " + names);
  }
  if (main->body == nullptr) in_.fail_at(main->at, "the entry function has no body");
  for (Function& f : functions_) {
    f.computation = module_->add_computation(std::string(f.name));
  }
  for (Function& f : functions_) {
    if (f.body != nullptr) read_body(f);
  }
  module_->set_entry(main->computation);
  entry_arguments(*main);
}

void Reader::read_body(Function& f) {
  in_.seek(f.body);
  symbols_.clear();
  Frame top;
  top.kind = Regions::isolated;
  top.computation = f.computation;
  frames_.assign(1, &top);
  if (f.generic) {
    std::vector<BlockArgument> header;
    block_header(&header);
    if (header.size() != f.arguments.size()) {
      in_.fail_at(f.at, "function @" + std::string(f.name) + " has " +
                            std::to_string(f.arguments.size()) + " arguments and its body " +
                            std::to_string(header.size()));
    }
    for (std::size_t n = 0; n < header.size(); ++n) f.arguments[n].name = header[n].name;
  }
  for (std::size_t n = 0; n < f.arguments.size(); ++n) add_parameter(f, n);
  operations(top);
  check_returned(f, top.returned);
  set_root(f, top.returned);
  frames_.clear();
}

void Reader::add_parameter(const Function& f, std::size_t n) {
  const Function::Argument& a = f.arguments[n];
  auto owned = std::make_unique<ir::Instruction>();
  owned->opcode = ir::Opcode::parameter;
  owned->shape = *a.type;
  owned->attrs = ir::ParameterAttrs{std::int64_t(n)};
  owned->metadata = metadata_of(a.location);
  owned->name = owned->metadata->op_name.empty() ? std::string(a.name) : owned->metadata->op_name;
  if (owned->name.empty() || ir::is_digit(owned->name[0])) {
    owned->name = "arg" + std::to_string(n);
  }
  ir::Instruction* p = f.computation->add(std::move(owned));
  pend_attributes(p, a.attributes);
  for (const Attribute& attribute : a.attributes) {
    if (attribute.key == ir::kMemoryKindAttribute && attribute.value.size() >= 2) {
      p->frontend_attributes.edit()[ir::kMemoryKindAttribute] =
          unescape(attribute.value.substr(1, attribute.value.size() - 2));
    }
  }
  note_quantized(p, types_.quantized(a.type));
  if (!a.name.empty()) define(a.name, f.at, &p, 1, Origin::function_argument);
}

void Reader::check_returned(const Function& f, const std::vector<ir::Instruction*>& returned) {
  if (returned.size() != f.results.size()) {
    in_.fail_at(f.at, "function @" + std::string(f.name) + " returns " +
                          std::to_string(returned.size()) + " values and is declared with " +
                          std::to_string(f.results.size()));
  }
  for (std::size_t n = 0; n < returned.size(); ++n) {
    const Quantized* is = quantized(returned[n]);
    const Quantized* declared = types_.quantized(f.results[n].type);
    if (!(returned[n]->shape == *f.results[n].type) || !same_meaning(is, declared)) {
      in_.fail_at(f.at, "result " + std::to_string(n) + " of @" + std::string(f.name) + " is " +
                            type_text(returned[n]->shape, is) + " and declared as " +
                            type_text(*f.results[n].type, declared));
    }
  }
}

void Reader::set_root(const Function& f, std::vector<ir::Instruction*> returned) {
  place_results(f, &returned);
  bool sharded = false;
  for (const Function::Argument& a : f.results) {
    for (const Attribute& attribute : a.attributes) {
      sharded |= attribute.key == "sdy.sharding" || attribute.key == "mhlo.sharding";
    }
  }
  Operation end;
  end.at = f.at;
  ir::Instruction* root = nullptr;
  if (returned.size() == 1 && !sharded) {
    root = returned[0];
  } else {
    std::vector<Shape> shapes;
    for (const ir::Instruction* i : returned) shapes.push_back(i->shape);
    root = add(end, ir::Opcode::tuple, Shape::tuple(shapes), returned);
    if (shapes.size() == 1) root = element(end, root, 0);
  }
  f.computation->set_root(root);
  if (!sharded) return;
  // Each result's sharding is read as of a value of its own and put on the root at the end.
  for (std::size_t n = 0; n < f.results.size(); ++n) {
    auto holder = std::make_unique<ir::Instruction>();
    holder->shape = *f.results[n].type;
    holder->name = "result" + std::to_string(n);
    holder->index = std::int64_t(n);
    holder->set_operands({root});
    pend_attributes(holder.get(), f.results[n].attributes);
    result_holders_.push_back(std::move(holder));
  }
}

void Reader::entry_arguments(const Function& f) {
  for (std::size_t n = 0; n < f.arguments.size(); ++n) {
    for (const Attribute& a : f.arguments[n].attributes) {
      in_.seek(a.value.data());
      if (a.key == "tf.aliasing_output") {
        std::int64_t output = in_.integer("the number of a result");
        if (output < 0 || output >= std::int64_t(f.results.size())) {
          in_.fail_at(a.value.data(), "tf.aliasing_output = " + std::to_string(output) +
                                          " and the function has " +
                                          std::to_string(f.results.size()) + " results");
        }
        ir::Alias alias;
        if (f.computation->root()->shape.is_tuple) alias.output = {output};
        alias.parameter = std::int64_t(n);
        module_->input_output_alias.push_back(std::move(alias));
      } else if (a.key == "jax.buffer_donor" && in_.accept_word("true")) {
        module_->buffer_donor.emplace_back(std::int64_t(n), Dims());
      }
    }
  }
}

void Reader::settle_captured() {
  if (only_captured_.empty()) return;
  const auto settle = [&](ir::Instruction** value) {
    if (const auto it = only_captured_.find(*value); it != only_captured_.end())
      *value = it->second;
  };
  for (GroupMember& m : groups_) settle(&m.value);
  for (SdyCollective& c : collectives_) settle(&c.operand);
  for (Resharded& r : resharded_) settle(&r.operand);
  for (PropagationEdges& e : propagation_edges_) {
    for (ir::Instruction*& value : e.values) settle(&value);
  }
}

void Reader::join_sharding_groups() {
  std::map<int, int> joined;  // to one of a smaller number
  const auto find = [&](int group) {
    for (auto it = joined.find(group); it != joined.end(); it = joined.find(group)) {
      group = it->second;
    }
    return group;
  };
  std::unordered_map<const ir::Instruction*, int> group_of;
  for (const GroupMember& m : groups_) {
    const int a = find(group_of.try_emplace(m.value, m.group).first->second), b = find(m.group);
    if (a != b) joined[std::max(a, b)] = std::min(a, b);
  }
  for (GroupMember& m : groups_) m.group = find(m.group);
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
  settle_captured();
  if (pending_.empty() && meshes_text_.empty() && manual_shardings_.empty()) {
    check_edges_of_shardings();
    check_sharding_groups();
    return;
  }
  ir::HloLexer lexer({in_.begin(), std::size_t(in_.end() - in_.begin())}, in_.file());
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
  if (!manual_shardings_.empty()) {
    MeshTable table;
    for (const DeclaredMesh& declared : meshes_) {
      table[std::string(declared.name)] = declared.mesh;
    }
    for (const auto& [at, text] : manual_shardings_) {
      try {
        parse_sdy_sharding_per_value(text, table);
      } catch (const InternalError&) {
        throw;
      } catch (const Error& e) {
        in_.fail_at(at, "in the shardings " + text + ": " + e.message());
      }
    }
    manual = std::move(table);
  }
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
  join_sharding_groups();
  for (const auto& [instruction, group, at, scope] : groups_) {
    if (instruction->sharding.empty()) {
      instruction->sharding = {TensorSharding::open_on(module_->mesh, instruction->shape.rank())};
    }
    instruction->sharding[0].shard_group = group;
    instruction->sharding[0].shard_like = true;
  }
}

}  // namespace tessera::text
