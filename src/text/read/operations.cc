// SPDX-License-Identifier: Apache-2.0
// Operations in a region, their operands and results, and values captured from outside.
#include "src/text/read/reader.h"

// Compiled apart: all of a text goes through here, and the compiler inlines less in large units.
namespace tessera::text {
namespace {

constexpr std::size_t kMaxRegionDepth = 200;
constexpr std::int64_t kMaxResults = 1 << 20;

}  // namespace

void Reader::operations(Frame& frame) {
  bool ended = false;
  while (!in_.accept('}')) {
    if (in_.at_end()) in_.fail("expected an operation or '}'");
    if (ended) {
      if (in_.peek() == '^') {
        in_.not_supported_at(in_.position(), "regions of several blocks are not supported");
      }
      in_.fail("expected '}' after the operation that ends the region");
    }
    operation(&ended);
  }
  if (!ended) {
    in_.fail_at(in_.position() - 1, frames_.size() == 1
                                        ? "expected 'return' at the end of the function"
                                        : "expected 'stablehlo.return' at the end of the region");
  }
  for (std::string_view name : frame.names) symbols_.slot(name).level = -1;
}

// `%a, %b:2 = `
void Reader::result_names(ResultNames* names) {
  if (in_.peek() != '%') return;
  do {
    in_.skip();
    const char* at = in_.position();
    in_.expect('%', "before the name of a result");
    ResultName r{in_.suffix("the name of a result"), at, 1};
    if (in_.accept(':')) {
      r.count = in_.integer("a number of results");
      if (r.count < 1 || r.count > kMaxResults) {
        in_.fail_at(at, "a result can't stand for " + std::to_string(r.count) + " values");
      }
    }
    names->push_back(r);
  } while (in_.accept(','));
  in_.expect('=', "after the names of the results");
}

void Reader::check_results(const Operation& op) {
  if (op.values.size() == op.results.size()) return;
  fail(op, "gives " + std::to_string(op.values.size()) + " results and is written with " +
               std::to_string(op.results.size()));
}

void Reader::define_results(const Operation& op, const ResultNames& names) {
  check_results(op);
  std::size_t named = 0;
  for (const ResultName& r : names) named += std::size_t(r.count);
  if (named != 0 && named != op.values.size()) {
    fail(op, "gives " + std::to_string(op.values.size()) + " results and " + std::to_string(named) +
                 " are named");
  }
  const Origin origin = origin_of(*op.info);
  ir::Instruction* const* next = op.values.data();
  for (const ResultName& r : names) {
    define(r.name, r.at, next, std::size_t(r.count), origin);
    next += r.count;
  }
}

// The operation's name and all that is written behind it.
void Reader::written_operation(Operation& op) {
  in_.skip();
  op.at = in_.position();
  const bool quoted = in_.position() < in_.end() && *in_.position() == '"';
  op.name = quoted ? in_.raw_string("an operation") : in_.word("an operation");
  op.info = find_operation(op.name);
  if (op.info == nullptr) fail_unknown(op);
  if (quoted) {
    generic(op);
  } else {
    if (op.info->form[0] == '\0') {
      in_.fail_at(op.at, "'" + std::string(op.name) + "' has no short form; expected \"" +
                             std::string(op.name) + "\"(...) in quotes");
    }
    pretty(op);
  }
  trailing_location(op);
  check_operands(op);
}

void Reader::fail_unknown(const Operation& op) {
  if (is_of_mpmd(op.name)) refuse_mpmd(op.at, op.name);
  std::size_t dot = op.name.find('.');
  std::string_view dialect = op.name.substr(0, dot == std::string_view::npos ? 0 : dot);
  bool ours = dialect == "stablehlo" || dialect == "chlo" || dialect == "sdy";
  in_.fail_at(op.at, ours ? "there is no operation '" + std::string(op.name) + "'"
                          : "operation '" + std::string(op.name) +
                                "' is of a dialect that is not read here; valid: stablehlo, "
                                "chlo, sdy, func");
}

Operation& Reader::next_operation(const char* at) {
  if (depth_ == pool_.size()) {
    if (depth_ >= kMaxRegionDepth) in_.fail_at(at, "operations nest deeper than 200");
    pool_.push_back(std::make_unique<Operation>());
  }
  Operation& op = *pool_[depth_++];
  op.clear();
  return op;
}

void Reader::operation(bool* ended) {
  in_.skip();
  Operation& op = next_operation(in_.position());
  ResultNames names;
  result_names(&names);
  written_operation(op);
  convert_operation(op, ended);
  define_results(op, names);
  --depth_;
}

void Reader::convert_operation(Operation& op, bool* ended) {
  if (depth_ > 1 && pool_[depth_ - 2]->info->regions == Regions::inlined) {
    pool_[depth_ - 2]->inside.push_back(op.info);
  }
  if (open_) close_before_conversion(op);
  verify(op);
  if (types_.any_quantized()) {
    convert_quantized(op);
  } else {
    (this->*op.info->convert)(op);
  }
  if (op.info->convert == &Reader::terminator) *ended = true;
  if (!op.attributes.empty()) {
    set_shardings(op);
    check_sharding_rule(op);
    check_propagation_edges(op);
  }
}

void Reader::operand_list(Operation& op) {
  in_.expect('(', "before the operands");
  in_.items(')', "after the operands", [&] { operand(op); });
}

void Reader::generic(Operation& op) {
  operand_list(op);
  if (in_.peek() == '[') {
    in_.not_supported_at(in_.position(), "branches between blocks are not supported");
  }
  if (in_.accept_text("<{")) {
    attribute_dict(&op.attributes, '}');
    in_.expect('>', "after the properties");
  }
  if (in_.peek() == '(') {
    const BoundAxes bound(*this, op);
    regions(op);
  }
  if (in_.accept('{')) attribute_dict(&op.attributes, '}');
  in_.expect(':', "before the operation's type");
  types_.read_function(&op.operand_types, &op.results);
}

void Reader::operand(Operation& op) {
  in_.skip();
  const char* at = in_.position();
  if (!in_.accept('%')) in_.fail("expected an operand such as %0");
  std::string_view name = in_.suffix("the name of a value");
  std::int64_t number = -1;
  if (in_.position() < in_.end() && *in_.position() == '#') {
    in_.seek(in_.position() + 1);
    number = in_.integer("the number of a result");
  }
  op.operands.push_back(value(name, at, number));
  op.operand_places.push_back(at);
}

ir::Instruction* Reader::value(std::string_view name, const char* at, std::int64_t number) {
  Symbol* s = symbols_.find(name);
  if (s == nullptr) {
    in_.fail_at(at, "value %" + std::string(name) + " is not defined before this use");
  }
  ir::Instruction* v = s->one;
  if (v == nullptr) {
    if (number < 0 || number >= std::int64_t(s->count)) {
      in_.fail_at(at,
                  "value %" + std::string(name) + " stands for " + std::to_string(s->count) +
                      " results; expected " +
                      (s->count == 0 ? std::string("another value")
                                     : "%" + std::string(name) + "#0" +
                                           (s->count > 1 ? " to #" + std::to_string(s->count - 1)
                                                         : std::string())));
    }
    v = symbols_.pool[s->first + std::size_t(number)];
  } else if (number > 0) {
    in_.fail_at(at, "value %" + std::string(name) + " is a single result and has no #" +
                        std::to_string(number));
  }
  if (++symbols_.reads_of(*s, number) > Symbols::kReadByEdge) fail_read_twice(at);
  return seen_here(v, s->level, at);
}

ir::Instruction* Reader::seen_here(ir::Instruction* v, int from, const char* at) {
  for (std::size_t level = std::size_t(from) + 1; level < frames_.size(); ++level) {
    const Quantized* q = quantized(v);
    v = capture(*frames_[level], v, at);
    note_quantized(v, q);
  }
  return v;
}

ir::Instruction* Reader::capture(Frame& frame, ir::Instruction* outer, const char* at) {
  auto [it, fresh] = frame.inside.emplace(outer, nullptr);
  if (!fresh && it->second != nullptr) return it->second;
  auto clone = [&](const ir::Instruction& source, std::vector<ir::Instruction*> operands) {
    auto copy = std::make_unique<ir::Instruction>(source);
    copy->set_operands(std::move(operands));
    copy->sharding.clear();
    return frame.computation->add(std::move(copy));
  };
  // Constants, also spread ones, are written again: what is known stays known inside.
  if (outer->is(ir::Opcode::constant)) return it->second = clone(*outer, {});
  if (outer->is(ir::Opcode::broadcast) && outer->operand(0)->is(ir::Opcode::constant)) {
    ir::Instruction* scalar = capture(frame, outer->operand(0), at);
    return frame.inside[outer] = clone(*outer, {scalar});
  }
  if (frame.kind == Regions::inlined) return it->second = outer;
  if (open_ && frame.kind == Regions::scalar) {
    if (ir::Instruction* known = known_constant(frame, *outer)) return frame.inside[outer] = known;
  }
  if (frame.captures == nullptr) {
    if (frame.kind == Regions::scalar) {
      in_.not_supported_at(at,
                           "this region uses a value from outside that is no constant; it may "
                           "only use its arguments");
    }
    in_.fail_at(at, "a value from outside can't be used in this region; pass it as an operand");
  }
  auto [position, added] = frame.captures->index.emplace(outer, frame.captures->values.size());
  if (added) frame.captures->values.push_back(outer);
  auto owned = std::make_unique<ir::Instruction>();
  ir::Instruction* inner = owned.get();
  if (open_) note_captured(*outer, *inner);
  if (frame.kind == Regions::scalar) {
    inner->opcode = ir::Opcode::parameter;
    inner->name = "captured." + std::to_string(++next_number_);
    inner->shape = outer->shape;
    inner->attrs = ir::ParameterAttrs{std::int64_t(frame.own + position->second)};
    inner->metadata = outer->metadata;
    return it->second = frame.computation->add(std::move(owned));
  }
  inner->opcode = ir::Opcode::get_tuple_element;
  inner->name = "get-tuple-element." + std::to_string(++next_number_);
  inner->shape = outer->shape;
  inner->set_operands({frame.tuple});
  inner->attrs = ir::GetTupleElementAttrs{std::int64_t(frame.own + position->second)};
  inner->metadata = outer->metadata;
  return it->second = frame.computation->add(std::move(owned));
}

void Reader::define(std::string_view name, const char* at, ir::Instruction* const* values,
                    std::size_t count, Origin origin) {
  if (name.empty()) return;
  Symbol& s = symbols_.slot(name);
  if (s.level >= 0) in_.fail_at(at, "value %" + std::string(name) + " is defined twice");
  s.level = int(frames_.size()) - 1;
  s.one = count == 1 ? values[0] : nullptr;
  s.count = std::uint32_t(count);
  s.origin = origin;
  s.reads = 0;
  if (count != 1) {
    s.first = std::uint32_t(symbols_.pool.size());
    symbols_.pool.insert(symbols_.pool.end(), values, values + count);
    symbols_.reads.resize(symbols_.pool.size(), 0);
  }
  // Names of a function's body die with it.
  if (frames_.size() > 1) frame().names.push_back(name);
}

void Reader::check_operands(Operation& op) {
  if (op.operand_types.size() != op.operands.size()) {
    in_.fail_at(op.at, std::string(op.name) + " has " + std::to_string(op.operands.size()) +
                           " operands and the types of " + std::to_string(op.operand_types.size()));
  }
  for (std::size_t n = 0; n < op.operands.size(); ++n) {
    const Quantized* is = quantized(op.operands[n]);
    const Quantized* used = types_.quantized(op.operand_types[n]);
    if (fits(*op.operand_types[n], op.operands[n]->shape) && same_meaning(is, used)) {
      if (open_) op.operand_types[n] = types_.closed(op.operand_types[n], op.operands[n]->shape);
      continue;
    }
    in_.fail_at(op.operand_places[n],
                "operand " + std::to_string(n) + " of " + std::string(op.name) + " is " +
                    type_text(op.operands[n]->shape, is) + " and is used as " +
                    type_text(*op.operand_types[n], used));
  }
}

void InstructionBuilder::attribute_dict(std::vector<Attribute>* out, char close) {
  if (in_.accept(close)) return;
  do {
    in_.skip();
    const char* at = in_.position();
    Attribute a;
    a.key = in_.peek() == '"' ? in_.raw_string("the name of an attribute")
                              : in_.word("the name of an attribute");
    a.value = {in_.position(), 0};
    if (in_.accept('=')) a.value = in_.value();
    for (const Attribute& known : *out) {
      if (known.key == a.key) {
        in_.fail_at(at, "attribute " + std::string(a.key) + " stands twice");
      }
    }
    out->push_back(a);
    if (!in_.accept(',')) break;
    // Fields of an attribute may end in a comma.
  } while (close != '>' || in_.peek() != '>');
  in_.expect(close, "after the attributes");
}

void Reader::trailing_location(Operation& op) {
  if (in_.peek() == 'l' && in_.accept_word("loc")) op.location = in_.balanced();
}

}  // namespace tessera::text
