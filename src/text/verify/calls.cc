// SPDX-License-Identifier: Apache-2.0
// Rules of calls out of a program: infeed, recv, custom calls, composites.
#include <algorithm>
#include <cctype>

#include "src/text/verify/verifier.h"

namespace tessera::text {

void Verifier::data_then_token() {
  if (op_.results.empty() || !token(*op_.results.back())) fail("needs a token as its last result");
  for (std::size_t n = 0; n + 1 < op_.results.size(); ++n) {
    if (!token(*op_.results[n])) continue;
    fail("gives a token as result " + std::to_string(n) + "; valid: arrays, and a token at last");
  }
}

void Verifier::infeed_layout() {
  const Attribute* a = op_.find("layout");
  if (a == nullptr) return;
  const std::vector<std::string_view> layouts = items(a->value);
  if (layouts.size() != op_.results.size() - 1) {
    fail("has " + std::to_string(layouts.size()) + " layouts; valid: " +
         std::to_string(op_.results.size() - 1) + ", one for each result but the token");
  }
  for (std::string_view layout : layouts) {
    if (layout.empty() || layout[0] != '[') {
      fail("has the layout " + std::string(layout) + "; valid: a list of dims such as [0, 1]");
    }
    for (std::string_view dim : items(layout)) {
      if (!dim.empty() && (std::isdigit(static_cast<unsigned char>(dim[0])) != 0)) continue;
      fail("has " + std::string(dim) + " in a layout; valid: integers");
    }
  }
}

void Verifier::call_layouts() {
  const Attribute *in = op_.find("operand_layouts"), *out = op_.find("result_layouts");
  if ((in == nullptr) != (out == nullptr)) {
    fail(std::string("has ") + (in == nullptr ? "result" : "operand") +
         "_layouts alone; valid: layouts of both operands and results, or none");
  }
  if (in == nullptr) return;
  for (bool operands : {true, false}) {
    const std::vector<std::string_view> layouts = items((operands ? in : out)->value);
    const bool tuple = !operands && op_.results.size() == 1 && op_.results[0]->is_tuple;
    const std::size_t count = operands ? op_.operands.size()
                              : tuple  ? op_.results[0]->elements.size()
                                       : op_.results.size();
    for (std::size_t n = 0; n < layouts.size() && n < count; ++n) {
      const Shape& shape = operands ? op_.operands[n]->shape
                           : tuple  ? op_.results[0]->elements[n]
                                    : *op_.results[n];
      if (shape.is_tuple) {
        fail("has a layout for " + mlir_type(shape) + "; valid: layouts of arrays and tokens");
      }
      if (!token(shape) || r_.dims_of(layouts[n]).empty()) continue;
      fail("has a layout for " + std::string(operands ? "operand " : "result ") +
           std::to_string(n) + ", a token; valid: an empty one");
    }
  }
}

const Shape* Verifier::part(const Shape* whole, const Dims& path, const char* what) {
  for (std::int64_t index : path) {
    const std::size_t size = whole->is_tuple ? whole->elements.size() : 0;
    if (index < 0 || index >= std::int64_t(size)) {
      fail("has an alias with " + std::string(what) + " " + std::to_string(index) + " in " +
           mlir_type(*whole) + "; valid: " +
           (size == 0 ? "none, as it is no tuple" : "0 to " + std::to_string(size - 1)));
    }
    whole = &whole->elements[std::size_t(index)];
  }
  return whole;
}

void Verifier::alias(const Attribute& a) {
  const Operation parts = r_.fields_of(op_, a);
  const std::int64_t operand = r_.integer(parts, "operand_index");
  if (operand < 0 || operand >= std::int64_t(op_.operands.size())) {
    fail("has output_operand_aliases that name operand " + std::to_string(operand) + " of " +
         std::to_string(op_.operands.size()));
  }
  Shape all;
  if (op_.results.size() != 1) {
    std::vector<Shape> shapes;
    for (const Shape* s : op_.results) shapes.push_back(*s);
    all = Shape::tuple(std::move(shapes));
  }
  const Shape* to = part(op_.results.size() == 1 ? op_.results[0] : &all,
                         r_.integers_or(parts, "output_tuple_indices", {}), "output_tuple_indices");
  const Shape* from =
      part(&op_.operands[std::size_t(operand)]->shape,
           r_.integers_or(parts, "operand_tuple_indices", {}), "operand_tuple_indices");
  if (*from == *to) return;
  fail("has an alias of " + mlir_type(*from) + " and " + mlir_type(*to) + "; valid: equal types");
}

void Verifier::call_aliases() {
  const Attribute* aliases = op_.find("output_operand_aliases");
  if (aliases == nullptr) return;
  for (std::string_view one : items(aliases->value)) alias(Attribute{aliases->key, one});
}

void Verifier::call_config() {
  const Attribute* config = op_.find("backend_config");
  if (config == nullptr) return;
  const std::int64_t version = r_.integer_or(op_, "api_version", 1);
  const std::string_view value = r_.expanded(config->value);
  const bool dictionary = !value.empty() && value[0] == '{';
  if (dictionary == (version == 4)) return;
  fail("has api_version " + std::to_string(version) + " and a backend_config " +
       std::string(value.substr(0, 40)) +
       "; valid: " + (version == 4 ? "a dictionary such as {a = 1 : i32}" : "a text in quotes"));
}

void Verifier::call_of_buffers() {
  // Types of memory are refused where they stand.
  const std::string_view target = r_.call_target(op_);
  if (target != "Pin" && target != "Unpin" && target != "CreateBuffer") return;
  fail("calls " + std::string(target) +
       ", which is about a memref, on tensors alone; valid: other "
       "targets");
}

void Verifier::composite_name() {
  const std::string name = r_.text(op_, "name");
  bool valid = !name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) != 0;
  std::size_t dots = 0;
  for (std::size_t n = 0; n < name.size(); ++n) {
    const char c = name[n];
    if (c == '.') {
      ++dots;
      valid &= n + 1 < name.size() && name[n + 1] != '.';
    } else {
      valid &=
          std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (c == '$' && dots > 0);
    }
  }
  if (valid && dots > 0) return;
  fail("has the name '" + name + "'; valid: a namespace and a name, such as chlo.top_k");
}

}  // namespace tessera::text
