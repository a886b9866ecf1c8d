// SPDX-License-Identifier: Apache-2.0
// The first line of a module, and the tables of newer dumps behind it.
#include "src/ir/hlo/hlo_parser.h"
#include "src/ir/hlo/sdy_attributes.h"

namespace tessera::ir {

void HloParser::header() {
  module_->name = std::string(in_.name("the module's name"));
  in_.accept(':');  // which XLA takes as part of the name
  AttributeReader reader(in_, "HloModule");
  if (auto value = reader.take("entry_computation_layout")) layout_at_ = *value;
  module_->replica_count = reader.integer_or("replica_count", 1);
  module_->num_partitions = reader.integer_or("num_partitions", 1);
  for (auto [key, value] : {std::pair("replica_count", module_->replica_count),
                            std::pair("num_partitions", module_->num_partitions)}) {
    if (value < 1) {
      reader.fail(reader.need(key), std::string(key) + " must be 1 or more");
    }
  }
  if (auto value = reader.take("input_output_alias")) aliases(reader, *value);
  if (auto value = reader.take("buffer_donor")) donors(reader, *value);
  if (auto value = reader.take("frontend_attributes")) {
    module_->frontend_attributes = frontend_attributes(reader, *value);
    if (auto node = module_->frontend_attributes.extract(kSdyMeshes)) {
      sdy_meshes_ = std::move(node.mapped());
      meshes_at_ = *value;
    }
  }
  for (const char* key :
       {"is_scheduled", "alias_passthrough_params", "allow_spmd_sharding_propagation_to_parameters",
        "allow_spmd_sharding_propagation_to_output"}) {
    if (auto value = reader.take(key)) module_->other.emplace_back(key, std::string(*value));
  }
  reader.take("origin_recovery_table");
  reader.finish({});
  tables();
}

void HloParser::aliases(AttributeReader& reader, std::string_view value) {
  reader.at(value, [&] {
    in_.expect('{', "before the aliases");
    if (in_.accept('}')) return;
    do {
      Alias alias;
      alias.output = in_.braced_integers("an index into the result");
      in_.expect(':', "after the index into the result");
      in_.expect('(', "before the parameter");
      alias.parameter = in_.integer("the number of a parameter");
      in_.expect(',', "after the parameter");
      alias.parameter_index = in_.braced_integers("an index into the parameter");
      if (in_.accept(',')) {
        alias.must = in_.accept_word("must-alias");
        if (!alias.must && !in_.accept_word("may-alias")) {
          in_.fail("expected may-alias or must-alias");
        }
      }
      in_.expect(')', "after the parameter");
      module_->input_output_alias.push_back(std::move(alias));
    } while (in_.accept(','));
    in_.expect('}', "after the aliases");
  });
}

void HloParser::donors(AttributeReader& reader, std::string_view value) {
  reader.at(value, [&] {
    in_.expect('{', "before the donors");
    if (in_.accept('}')) return;
    do {
      in_.expect('(', "before the parameter");
      std::int64_t number = in_.integer("the number of a parameter");
      in_.expect(',', "after the parameter");
      module_->buffer_donor.emplace_back(number,
                                         in_.braced_integers("an index into the parameter"));
      in_.expect(')', "after the parameter");
    } while (in_.accept(','));
    in_.expect('}', "after the donors");
  });
}

void HloParser::tables() {
  // FileNames, FunctionNames: `1 "text"`. FileLocations, StackFrames: `1 {key=2 ...}`.
  auto at_number = [&] { return in_.peek() >= '0' && in_.peek() <= '9'; };
  auto quoted_rows = [&](std::map<std::int64_t, std::string>* rows) {
    while (at_number()) {
      std::int64_t n = in_.integer("the number of a row");
      std::string text = in_.quoted("the text of a row");
      if (rows != nullptr) rows->emplace(n, std::move(text));
    }
  };
  auto keyed_rows = [&](auto&& row) {
    while (at_number()) {
      std::int64_t n = in_.integer("the number of a row");
      in_.expect('{', "before the row");
      std::map<std::string_view, std::int64_t> values;
      while (!in_.accept('}')) {
        std::string_view key = in_.word("the name of a column or '}'");
        in_.expect('=', "after the name of a column");
        values[key] = in_.integer("a number");
        in_.accept(',');
      }
      row(n, values);
    }
  };
  while (true) {
    if (in_.accept_word("FileNames")) {
      quoted_rows(&file_names_);
    } else if (in_.accept_word("FunctionNames")) {
      quoted_rows(nullptr);
    } else if (in_.accept_word("FileLocations")) {
      keyed_rows([&](std::int64_t n, const auto& values) {
        Frame frame;
        if (auto it = values.find("file_name_id"); it != values.end()) {
          frame.file = file_names_[it->second];
        }
        if (auto it = values.find("line"); it != values.end()) frame.line = it->second;
        file_locations_.emplace(n, std::move(frame));
      });
    } else if (in_.accept_word("StackFrames")) {
      keyed_rows([&](std::int64_t n, const auto& values) {
        if (auto it = values.find("file_location_id"); it != values.end()) {
          stack_frames_.emplace(n, file_locations_[it->second]);
        }
      });
    } else {
      return;
    }
  }
}

namespace {

/// Takes the layouts that are stated.
void state_layout(const Shape& stated, Shape* shape) {
  if (!stated.layout.empty()) shape->layout = stated.layout;
  for (std::size_t k = 0; k < stated.elements.size(); ++k) {
    state_layout(stated.elements[k], &shape->elements[k]);
  }
}

Instruction* add_copy(Computation* c, Instruction* x, const Shape& shape) {
  auto copy = std::make_unique<Instruction>();
  copy->opcode = Opcode::copy;
  copy->shape = shape;
  copy->set_operands({x});
  copy->metadata = x->metadata;
  return c->add(std::move(copy));
}

/// Callers have the parameter in that layout. Bitcasts, which depend on layouts, take a copy in the
/// one that the instruction says.
void state_parameter(Computation* entry, Instruction* p, const Shape& stated) {
  const Shape own = p->shape;
  state_layout(stated, &p->shape);
  if (!own.is_array() || own.layout == p->shape.layout) return;
  Instruction* copy = nullptr;
  const UserList before = p->users();
  const std::vector<Instruction*> users(before.begin(), before.end());
  for (Instruction* user : users) {
    if (!user->is(Opcode::bitcast)) continue;
    if (copy == nullptr) copy = add_copy(entry, p, own);
    user->set_operand(0, copy);
  }
  if (copy != nullptr) entry->sort_topologically();
}

void state_result(Computation* entry, const Shape& stated) {
  Instruction* root = entry->root();
  Shape seen = root->shape;
  state_layout(stated, &seen);
  if (root->is(Opcode::bitcast) && seen.layout != root->shape.layout) {
    entry->set_root(add_copy(entry, root, seen));
  } else {
    root->shape = seen;
  }
}

}  // namespace

void HloParser::check_entry_layout() {
  const char* back = in_.position();
  in_.seek(layout_at_.data());
  in_.expect('{', "before the entry's layout");
  in_.expect('(', "before the shapes of the entry's parameters");
  Computation& entry = *module_->entry();
  std::size_t n = 0;
  auto compare = [&](const Shape& actual, const std::string& what) {
    in_.skip();
    const char* at = in_.position();
    Shape stated = in_.shape();
    if (stated != actual) {
      in_.fail_at(at, "entry_computation_layout says " + stated.to_string() + " for " + what +
                          ", which is " + actual.to_string());
    }
    return stated;
  };
  if (!in_.accept(')')) {
    do {
      if (n >= entry.parameters().size() || entry.parameter(n) == nullptr) {
        in_.fail("entry_computation_layout has more than the " +
                 std::to_string(entry.parameters().size()) + " parameters of the entry");
      }
      Instruction* p = entry.parameter(n);
      state_parameter(&entry, p, compare(p->shape, "parameter " + std::to_string(n)));
      ++n;
    } while (in_.accept(','));
    in_.expect(')', "after the shapes of the entry's parameters");
  }
  if (n != entry.parameters().size()) {
    in_.fail("entry_computation_layout has " + std::to_string(n) + " parameters and the entry " +
             std::to_string(entry.parameters().size()));
  }
  if (!in_.accept_text("->")) in_.fail("expected '->' in entry_computation_layout");
  state_result(&entry, compare(entry.root()->shape, "the result"));
  in_.expect('}', "after the entry's layout");
  in_.seek(back);
}

}  // namespace tessera::ir
