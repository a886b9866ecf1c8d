// SPDX-License-Identifier: Apache-2.0
// The short forms of operations: `stablehlo.add %0, %1 : tensor<4xf32>`.
//
// OpInfo::form says what stands behind the name:
//   o          an operand                     O   operands, commas between, and before a <
//   , ( ) [ ]  themselves                     {   attributes in braces, if any
//   <w=key>    `w = value`                    ?<w=key>   the same behind a comma, if it is there
//   #<key>     a value                        @   the name of a function or target
//   :S :F ...  ':' and types, see pretty_types
//   *c         a form with a function of its own
#include <cstring>

#include "src/ir/rewrite/builder.h"
#include "src/text/read/reader.h"

namespace tessera::text {
namespace {

// Of `<w=key>` in an OpInfo::form.
const char* close_of_key(const char* form) { return std::strchr(form, '>'); }

}  // namespace

std::string_view Reader::short_value() {
  in_.skip();
  const char* start = in_.position();
  char c = in_.peek();
  if (c == '"') {
    in_.raw_string("a text");
  } else {
    if (c == '#' || c == '@' || c == '-' || c == '+') in_.seek(start + 1);
    const char* p = in_.position();
    while (p < in_.end() && (is_id_char(*p) || *p == '+')) ++p;
    in_.seek(p);
    if (p < in_.end() && (*p == '<' || *p == '[' || *p == '{')) in_.balanced();
  }
  if (in_.position() == start) in_.fail("expected a value");
  return {start, std::size_t(in_.position() - start)};
}

void Reader::keyword_attribute(Operation& op, std::string_view keyword, std::string_view key) {
  if (!in_.accept_word(keyword)) in_.fail("expected '" + std::string(keyword) + " = '");
  in_.expect('=', "after the name of an attribute");
  op.attributes.push_back({key, short_value()});
}

void Reader::pretty(Operation& op) {
  for (const char* f = op.info->form; *f != '\0'; ++f) {
    switch (*f) {
      case 'o':
        operand(op);
        break;
      case 'O':
        pretty_operands(op, f[1] == '<');
        break;
      case '{':
        if (in_.accept('{')) attribute_dict(&op.attributes, '}');
        break;
      case '?':
        if (!in_.accept(',')) {
          f = close_of_key(f);
          break;
        }
        ++f;
        [[fallthrough]];
      case '<': {
        const char *equal = std::strchr(f, '='), *close = close_of_key(equal);
        keyword_attribute(op, {f + 1, std::size_t(equal - f - 1)},
                          {equal + 1, std::size_t(close - equal - 1)});
        f = close;
        break;
      }
      case '#': {
        const char* close = close_of_key(f);
        op.attributes.push_back({{f + 2, std::size_t(close - f - 2)}, short_value()});
        f = close;
        break;
      }
      case '@':
        pretty_callee(op);
        break;
      case ':':
        pretty_types(op, *++f);
        break;
      case '*':
        pretty_special(op, *++f);
        break;
      default:
        in_.expect(*f, "in the operation's short form");
        break;
    }
  }
}

// `goes_on`: something else stands behind a last comma.
void Reader::pretty_operands(Operation& op, bool goes_on) {
  bool comma = op.operands.empty();
  while (in_.peek() == '%') {
    operand(op);
    comma = in_.accept(',');
    if (!comma) break;
  }
  if (goes_on && !comma) in_.fail("expected ',' behind the operands");
}

void Reader::pretty_callee(Operation& op) {
  in_.skip();
  const char* start = in_.position();
  in_.expect('@', "before the name of a function");
  in_.suffix("the name of a function");
  op.attributes.push_back({"callee", {start, std::size_t(in_.position() - start)}});
}

void Reader::pretty_special(Operation& op, char kind) {
  switch (kind) {
    case 'c':
      return pretty_compare(op);
    case 's':
      return pretty_slice(op);
    case 'k':
      return pretty_constant(op);
    case 'd':
      return pretty_dot_general(op);
    case 'v':
      return pretty_convolution(op);
    case 'r':
      return pretty_reduce(op);
    case 'w':
      return pretty_while(op);
    case 'm':
      return pretty_manual_computation(op);
    case 'n':
      return pretty_body(op);
    case 'a':
      return pretty_scan(op);
    case 'e':
      return pretty_edge(op);
    default:
      return pretty_sdy_collective(op);
  }
}

void Reader::pretty_types(Operation& op, char kind) {
  if (kind == 'Z' && in_.peek() != ':') return;  // no operands, no types
  if (kind == 'P' && op.operands.empty() && in_.accept('(')) {
    in_.expect(')', "after '('");
    return;
  }
  in_.expect(':', "before the operation's types");
  switch (kind) {
    case 'S':    // one type for all, or a function's
    case 'C': {  // complex: the result's type
      if (in_.peek() == '(') {
        types_.read_function(&op.operand_types, &op.results);
        return;
      }
      const Shape* type = types_.read();
      op.results.push_back(type);
      if (kind == 'C') {
        in_.skip();
        Shape part(real_type(type->dtype), type->dims);
        for (std::size_t n = 0; n < op.operands.size(); ++n) {
          if (!fits(part, op.operands[n]->shape)) {
            in_.fail_at(op.operand_places[n], "operand " + std::to_string(n) + " is " +
                                                  mlir_type(op.operands[n]->shape) + "; expected " +
                                                  mlir_type(part));
          }
          op.operand_types.push_back(&op.operands[n]->shape);
        }
        return;
      }
      op.operand_types.assign(op.operands.size(), type);
      return;
    }
    case 'F':
      types_.read_function(&op.operand_types, &op.results);
      return;
    case 'R':
      op.results.push_back(types_.read());
      return;
    case 'Z':  // the operands' types; no results
      types_.read_list(&op.operand_types);
      return;
    case 'P':  // pairwise: results as operands
      types_.read_list(&op.operand_types);
      op.results = op.operand_types;
      return;
    case 'T': {  // select: pred, the others
      if (in_.peek() == '(') {
        types_.read_function(&op.operand_types, &op.results);
        return;
      }
      types_.read_list(&op.operand_types);
      if (op.operand_types.size() != 2) in_.fail("expected the types of pred and of the result");
      op.operand_types.push_back(op.operand_types[1]);
      op.results.push_back(op.operand_types[1]);
      return;
    }
    case 'U': {  // tuple
      const Shape* type = types_.read();
      op.results.push_back(type);
      for (const Shape& e : type->elements) op.operand_types.push_back(&e);
      return;
    }
    case 'M':  // `t, t -> t`
      if (in_.peek() == '(') {
        types_.read_function(&op.operand_types, &op.results);
        return;
      }
      types_.read_list(&op.operand_types);
      in_.expect_text("->", "and the type of the result");
      types_.read_results(&op.results);
      return;
    default:
      fail(op, "has a form of types that is not known");
  }
}

void Reader::pretty_compare(Operation& op) {
  op.attributes.push_back({"comparison_direction", in_.word("EQ, NE, GE, GT, LE or LT")});
  in_.expect(',', "after the direction");
  operand(op);
  in_.expect(',', "between the operands");
  operand(op);
  if (in_.accept(',')) {
    op.attributes.push_back({"compare_type", in_.word("FLOAT, TOTALORDER, SIGNED or UNSIGNED")});
  }
}

void Reader::pretty_slice(Operation& op) {
  operand(op);
  op.attributes.push_back({"ranges", in_.balanced()});
}

void Reader::pretty_constant(Operation& op) {
  if (in_.accept('(')) {
    // The generic form behind the bare name.
    in_.expect(')', "after '('");
    if (in_.accept_text("<{")) {
      attribute_dict(&op.attributes, '}');
      in_.expect('>', "after the properties");
    }
    if (in_.accept('{')) attribute_dict(&op.attributes, '}');
    in_.expect(':', "before the operation's type");
    types_.read_function(&op.operand_types, &op.results);
    return;
  }
  if (in_.accept('{')) attribute_dict(&op.attributes, '}');
  in_.skip();
  const char* start = in_.position();
  const Shape* type = nullptr;
  Literal value = literal(&type);
  op.results.push_back(type);
  op.attributes.push_back({"value", {start, std::size_t(in_.position() - start)}});
  literal_ = std::move(value);
  has_literal_ = true;
}

void Reader::pretty_dot_general(Operation& op) {
  operand(op);
  in_.expect(',', "between the operands");
  operand(op);
  while (in_.accept(',')) {
    std::string_view word = in_.word("batching_dims, contracting_dims, precision or algorithm");
    in_.expect('=', "after the name of an attribute");
    if (word == "batching_dims" || word == "contracting_dims") {
      bool batch = word == "batching_dims";
      op.attributes.push_back(
          {batch ? "lhs_batching_dimensions" : "lhs_contracting_dimensions", in_.balanced()});
      in_.expect_word("x", "between the dims of both operands");
      op.attributes.push_back(
          {batch ? "rhs_batching_dimensions" : "rhs_contracting_dimensions", in_.balanced()});
    } else if (word == "precision") {
      op.attributes.push_back({"precision_config", in_.balanced()});
    } else if (word == "algorithm") {
      op.attributes.push_back({"algorithm", in_.balanced()});
    } else {
      in_.fail_at(word.data(), "unknown attribute '" + std::string(word) +
                                   "'; valid: batching_dims, contracting_dims, precision, "
                                   "algorithm");
    }
  }
}

void Reader::pretty_convolution(Operation& op) {
  in_.expect('(', "before the operands");
  do {
    operand(op);
  } while (in_.accept(','));
  in_.expect(')', "after the operands");
  in_.expect_word("dim_numbers", "after the operands");
  in_.expect('=', "after dim_numbers");
  in_.skip();
  const char* start = in_.position();
  in_.balanced();
  in_.expect_word("x", "between the dims of both operands");
  in_.balanced();
  in_.expect_text("->", "and the dims of the result");
  in_.balanced();
  op.attributes.push_back({"dimension_numbers", {start, std::size_t(in_.position() - start)}});
  in_.expect(',', "after dim_numbers");
  in_.expect_word("window", "after dim_numbers");
  in_.expect('=', "after window");
  in_.expect('{', "before the window");
  while (!in_.accept('}')) {
    std::string_view word = in_.word("stride, pad, lhs_dilate, rhs_dilate or reverse");
    in_.expect('=', "after the name of an attribute");
    std::string_view key = word == "stride"       ? "window_strides"
                           : word == "pad"        ? "padding"
                           : word == "lhs_dilate" ? "lhs_dilation"
                           : word == "rhs_dilate" ? "rhs_dilation"
                           : word == "reverse"    ? "window_reversal"
                                                  : "";
    if (key.empty()) {
      in_.fail_at(word.data(), "unknown part '" + std::string(word) +
                                   "' of a window; valid: stride, pad, lhs_dilate, rhs_dilate, "
                                   "reverse");
    }
    op.attributes.push_back({key, in_.balanced()});
    in_.accept(',');
  }
}

// The function of `applies stablehlo.add`.
ir::Computation* Reader::applied_computation(const Operation& op, std::string_view applied) {
  const OpInfo* info = find_operation(applied);
  if (info == nullptr || !ir::is_commutative(info->opcode)) {
    in_.fail_at(applied.data(), "'" + std::string(applied) +
                                    "' can't be applied here; valid: commutative operations on "
                                    "two values such as stablehlo.add");
  }
  const Quantized* q = types_.quantized(op.operand_types[0]);
  if (q != nullptr && q->axis) {
    in_.not_supported_at(applied.data(), "a sum of " + type_text(*op.operand_types[0], q) +
                                             " is not supported; valid: a quantized type of "
                                             "one scale");
  }
  try {
    return q != nullptr ? quantized_computation(op, info->opcode, *q)
                        : binary_computation(info->opcode, op.operands[0]->shape.dtype);
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    in_.not_supported_at(applied.data(), std::string(applied) + " can't be applied here (" +
                                             e.message() + "); write the region out");
  }
}

void Reader::pretty_reduce(Operation& op) {
  // (%x init: %c), (%y init: %d) applies op across dimensions = [1] : types
  std::vector<ir::Instruction*> inits;
  std::vector<const char*> places;
  do {
    in_.expect('(', "before an operand");
    operand(op);
    in_.expect_word("init", "after an operand");
    in_.expect(':', "after init");
    operand(op);
    inits.push_back(op.operands.back());
    places.push_back(op.operand_places.back());
    op.operands.pop_back();
    op.operand_places.pop_back();
    in_.expect(')', "after an initial value");
  } while (in_.accept(','));
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  op.operand_places.insert(op.operand_places.end(), places.begin(), places.end());
  std::string_view applied;
  if (in_.accept_word("applies")) {
    applied = in_.peek() == '"' ? in_.raw_string("an operation") : in_.word("an operation");
  }
  in_.expect_word("across", "before the dimensions");
  in_.expect_word("dimensions", "after across");
  in_.expect('=', "after dimensions");
  op.attributes.push_back({"dimensions", in_.balanced()});
  if (in_.accept('{')) attribute_dict(&op.attributes, '}');
  in_.expect(':', "before the operation's type");
  types_.read_function(&op.operand_types, &op.results);
  check_operands(op);
  if (!applied.empty()) {
    op.regions.push_back(applied_computation(op, applied));
    return;
  }
  trailing_location(op);
  in_.expect_word("reducer", "or 'applies'");
  std::vector<BlockArgument> first, second;
  while (in_.accept('(')) {
    block_argument(&first);
    in_.expect(',', "between the arguments");
    block_argument(&second);
    in_.expect(')', "after the arguments");
  }
  first.insert(first.end(), second.begin(), second.end());
  Captures captures;
  op.regions.push_back(region(op, 0, &first, &captures));
  op.captured = std::move(captures.values);
}

void Reader::pretty_while(Operation& op) {
  std::vector<BlockArgument> arguments;
  in_.expect('(', "before the values of the loop");
  in_.items(')', "after the values of the loop", [&] {
    in_.skip();
    BlockArgument a;
    a.at = in_.position();
    in_.expect('%', "before the name of an argument");
    a.name = in_.suffix("the name of an argument");
    in_.expect('=', "after the name of an argument");
    operand(op);
    arguments.push_back(a);
  });
  if (!arguments.empty()) {
    in_.expect(':', "before the types of the loop");
    types_.read_list(&op.operand_types);
  }
  op.results = op.operand_types;
  check_operands(op);
  for (std::size_t n = 0; n < arguments.size(); ++n) arguments[n].type = op.operand_types[n];
  if (in_.accept_word("attributes")) {
    in_.expect('{', "before the attributes");
    attribute_dict(&op.attributes, '}');
  }
  trailing_location(op);
  Captures captures;
  in_.expect_word("cond", "before the condition");
  op.regions.push_back(region(op, 0, &arguments, &captures));
  in_.expect_word("do", "before the body");
  op.regions.push_back(region(op, 1, &arguments, &captures));
  finish_loop(op, captures);
}

void Reader::pretty_manual_computation(Operation& op) {
  operand_list(op);
  keyword_attribute(op, "in_shardings", "in_shardings");
  keyword_attribute(op, "out_shardings", "out_shardings");
  keyword_attribute(op, "manual_axes", "manual_axes");
  const BoundAxes bound(*this, op);
  pretty_body(op);
}

void Reader::pretty_body(Operation& op) {
  // (%arg1: tensor<4x4xf32>) { ... } : types
  for (const char* key : {"in_shardings", "out_shardings"}) {
    if (op.find(key) == nullptr && in_.accept_word(key)) {
      in_.expect('=', "after the name of an attribute");
      op.attributes.push_back({key, short_value()});
    }
  }
  std::vector<BlockArgument> arguments;
  in_.expect('(', "before the arguments of the body");
  in_.items(')', "after the arguments of the body", [&] { block_argument(&arguments); });
  op.regions.push_back(region(op, 0, &arguments, nullptr));
  if (in_.accept('{')) attribute_dict(&op.attributes, '}');
  in_.expect(':', "before the operation's type");
  types_.read_function(&op.operand_types, &op.results);
}

void Reader::pretty_scan(Operation& op) {
  // (%x) inits(%c) dimension=0 attributes {...} { ... } : types
  operand_list(op);
  op.scanned = op.operands.size();
  in_.expect_word("inits", "after the operands");
  operand_list(op);
  keyword_attribute(op, "dimension", "dimension");
  if (in_.accept_word("attributes")) {
    in_.expect('{', "before the attributes");
    attribute_dict(&op.attributes, '}');
  }
  op.regions.push_back(region(op, 0, nullptr, nullptr));
  in_.expect(':', "before the operation's type");
  types_.read_function(&op.operand_types, &op.results);
}

}  // namespace tessera::text
