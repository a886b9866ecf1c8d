// SPDX-License-Identifier: Apache-2.0
// Functions: signatures, then bodies.
#include <algorithm>

#include "src/ir/analysis/memory_kinds.h"
#include "src/ir/names.h"
#include "src/text/read/layout_modes.h"
#include "src/text/read/reader.h"

namespace tessera::text {

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

void Reader::function_attributes(Function* f, const std::vector<Attribute>& attributes) {
  std::vector<const Shape*> operands, results;
  const char* back = in_.position();
  for (const Attribute& a : attributes) {
    in_.seek(a.value.data());
    if (a.key == "sym_name") {
      f->name = in_.raw_string("a name");
    } else if (a.key == "function_type") {
      types_.read_function(&operands, &results);
    } else if (a.key == "sym_visibility") {
      f->is_public = in_.raw_string("a visibility") == "public";
    }
  }
  for (const Shape* s : operands) f->arguments.push_back({{}, s, {}, {}});
  for (const Shape* s : results) f->results.push_back({{}, s, {}, {}});
  for (const Attribute& a : attributes) {
    if (a.key != "arg_attrs" && a.key != "res_attrs") continue;
    auto& list = a.key == "arg_attrs" ? f->arguments : f->results;
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
    std::vector<const Shape*> none;
    types_.read_function(&none, &none);
    function_attributes(&f, attributes);
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
  declare(&f);
}

void Reader::declare(Function* declared) {
  const Function& f = *declared;
  if (f.name.empty()) in_.fail_at(f.at, "the function has no name");
  if (!by_name_.emplace(f.name, declared).second) {
    in_.fail_at(f.at, "function @" + std::string(f.name) + " stands twice");
  }
}

namespace {

bool compares_scalars(const Function& f) {
  return !f.arguments.empty() &&
         std::all_of(f.arguments.begin(), f.arguments.end(),
                     [](const Function::Argument& a) { return a.type->is_scalar(); }) &&
         f.results.size() == 1 && f.results[0].type->is_scalar() &&
         f.results[0].type->dtype == DType::pred;
}

}  // namespace

Function& Reader::entry_function() {
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
  return *main;
}

void Reader::read_functions() {
  for (Function& f : functions_) {
    f.computation = module_->add_computation(std::string(f.name));
  }
  // Operations that sort look at what compares, which may stand behind them.
  for (const bool comparators : {true, false}) {
    for (Function& f : functions_) {
      if (f.body != nullptr && compares_scalars(f) == comparators) read_body(f);
    }
  }
}

void Reader::start_body(Function& f) {
  in_.seek(f.body);
  symbols_.clear();
  if (!f.generic) return;
  std::vector<BlockArgument> header;
  block_header(&header);
  check_argument_count(f, header.size());
  for (std::size_t n = 0; n < header.size(); ++n) f.arguments[n].name = header[n].name;
}

void Reader::check_argument_count(const Function& f, std::size_t count) {
  if (count == f.arguments.size()) return;
  in_.fail_at(f.at, "function @" + std::string(f.name) + " has " +
                        std::to_string(f.arguments.size()) + " arguments and its body " +
                        std::to_string(count));
}

void Reader::read_body(Function& f) {
  Frame top;
  top.kind = Regions::isolated;
  top.computation = f.computation;
  frames_.assign(1, &top);
  start_body(f);
  for (std::size_t n = 0; n < f.arguments.size(); ++n) add_parameter(f, n);
  operations(top);
  check_returned(f, top.returned);
  if (open_) close_returned(f, top.returned);
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
  if (n < f.known.size() && f.known[n]) known_.note(*p, p->shape, *f.known[n], true);
  define(a.name, f.at, &p, 1, Origin::function_argument);
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
    if (!fits(*f.results[n].type, returned[n]->shape) || !same_meaning(is, declared)) {
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

void Reader::entry_layouts(const Function& f) {
  // Empty: the default.
  const auto mode = [](const Function::Argument& of) -> std::string_view {
    for (const Attribute& a : of.attributes) {
      if (a.key != kLayoutMode || a.value.size() < 2) continue;
      const std::string_view text = a.value.substr(1, a.value.size() - 2);
      if (text != "default") return text;
    }
    return {};
  };
  for (std::size_t n = 0; n < f.arguments.size(); ++n) {
    const std::string_view of = mode(f.arguments[n]);
    if (of.empty()) continue;
    f.computation->parameter(n)->frontend_attributes.edit()[kLayoutMode] = unescape(of);
  }
  std::string all;
  bool any = false;
  for (const Function::Argument& result : f.results) {
    const std::string_view of = mode(result);
    any = any || !of.empty();
    if (&result != &f.results.front()) all += ';';
    all += of.empty() ? "default" : unescape(of);
  }
  if (any) module_->frontend_attributes[kResultLayoutModes] = all;
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

}  // namespace tessera::text
