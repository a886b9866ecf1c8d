// SPDX-License-Identifier: Apache-2.0
// Shape inference: the checks that rules share, and dispatch by opcode.
#include "src/ir/shapes/shape_inference.h"

#include <algorithm>

#include "src/ir/limits.h"
#include "src/ir/shapes/inference_site.h"

namespace tessera::ir {
namespace inference {
namespace {

std::string described(const Site& site) {
  constexpr std::size_t kShown = 8;
  std::string out(text_name(site.op));
  out += "(";
  for (std::size_t i = 0; i < site.operands.size() && i < kShown; ++i) {
    if (i > 0) out += ", ";
    constexpr std::size_t kLongest = 200;
    const Shape& s = site.operands[i]->shape;
    const bool many = shape_parts(s, kLongest) > std::int64_t(kLongest);
    const std::string text = many ? "a tuple of many parts" : s.to_string();
    out += text.size() > kLongest ? text.substr(0, kLongest) + "..." : text;
  }
  if (site.operands.size() > kShown) {
    out += ", ... " + std::to_string(site.operands.size()) + " operands";
  }
  return out + "): ";
}

}  // namespace

void Site::foreign_attributes() const {
  throw InternalError(std::string(name(op)) + " was built with the attributes of another opcode",
                      where);
}
void Site::shape_error(const std::string& what) const {
  throw ShapeError(described(*this) + what, where);
}
void Site::dtype_error(const std::string& what) const {
  throw DTypeError(described(*this) + what, where);
}

std::string plural(std::size_t n, const char* noun) {
  return std::to_string(n) + " " + noun + (n == 1 ? "" : "s");
}

void Site::need_operands(std::size_t n) const {
  if (operands.size() != n) {
    shape_error("takes " + plural(n, "operand") + ", not " + std::to_string(operands.size()));
  }
}
void Site::need_operands_at_least(std::size_t n) const {
  if (operands.size() < n) {
    shape_error("takes at least " + plural(n, "operand") + ", not " +
                std::to_string(operands.size()));
  }
}
void Site::need_called(std::size_t n) const {
  if (called.size() != n) {
    shape_error("needs " + plural(n, "called computation") + ", not " +
                std::to_string(called.size()));
  }
}
const Shape& Site::need_declared() const {
  if (declared == nullptr) {
    shape_error("the result's shape can't be inferred from the operands and must be given");
  }
  return *declared;
}
const Shape& Site::array(std::size_t i) const {
  const Shape& s = shape(i);
  if (!s.is_array()) {
    dtype_error("operand " + std::to_string(i) + " must be an array, not " + s.to_string());
  }
  return s;
}
void Site::same_dtype(std::size_t i, std::size_t j) const {
  if (array(i).dtype != array(j).dtype) {
    dtype_error("operands " + std::to_string(i) + " and " + std::to_string(j) +
                " have element types " + std::string(name(shape(i).dtype)) + " and " +
                std::string(name(shape(j).dtype)) + "; they must be equal (convert one)");
  }
}
void Site::same_dims(std::size_t i, std::size_t j) const {
  if (array(i).dims != array(j).dims) {
    shape_error("operands " + std::to_string(i) + " and " + std::to_string(j) + " have dims " +
                to_string(shape(i).dims) + " and " + to_string(shape(j).dims) +
                "; they must be equal (broadcast one)");
  }
}
void Site::check_dim(std::int64_t dim, std::int64_t rank, const char* what) const {
  if (dim < 0 || dim >= rank) {
    shape_error(std::string(what) + " " + std::to_string(dim) +
                (rank == 0 ? " of a rank 0 array (it has no dims)"
                           : " is not in [0, " + std::to_string(rank) + ")"));
  }
}
void Site::check_dims(const Dims& dims, std::int64_t rank, const char* what) const {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    check_dim(dims[i], rank, what);
    if (std::find(dims.begin(), dims.begin() + std::ptrdiff_t(i), dims[i]) !=
        dims.begin() + std::ptrdiff_t(i)) {
      shape_error(std::string(what) + " " + std::to_string(dims[i]) + " stands twice in {" +
                  join(dims) + "}");
    }
  }
}
const Shape& Site::result_of(std::size_t callee) const {
  const Computation* c = called[callee];
  if (c == nullptr || c->root() == nullptr) {
    shape_error("called computation " + (c ? c->name() : std::to_string(callee)) + " has no root");
  }
  return c->root()->shape;
}
void Site::check_parameters(std::size_t callee, std::span<const Shape> expected,
                            const char* role) const {
  const Computation& c = *called[callee];
  if (c.parameters().size() != expected.size()) {
    shape_error(std::string(role) + " " + c.name() + " has " +
                plural(c.parameters().size(), "parameter") + " and needs " +
                std::to_string(expected.size()));
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Instruction* p = c.parameter(i);
    if (p == nullptr) {
      shape_error(std::string(role) + " " + c.name() + " lacks parameter " + std::to_string(i));
    }
    if (p->shape != expected[i]) {
      shape_error("parameter " + std::to_string(i) + " of " + role + " " + c.name() + " is " +
                  p->shape.to_string() + " and must be " + expected[i].to_string());
    }
  }
}

Shape one_or_tuple(std::vector<Shape> shapes) {
  if (shapes.size() == 1) return std::move(shapes.front());
  return Shape::tuple(std::move(shapes));
}

namespace {

Shape infer(const Site& site) {
  switch (site.op) {
#define OP(enumerator, text, operands, attributes, types, rule, ...) \
  case Opcode::enumerator:                                           \
    return rule(site);
#include "src/ir/opcode_list.inc"
  }
  TESSERA_CHECK(false, "opcode number " + std::to_string(int(site.op)));
  return {};
}

}  // namespace
}  // namespace inference

Shape infer_shape(Opcode op, std::span<Instruction* const> operands, const Attributes& attrs,
                  std::span<Computation* const> called, const Shape* declared, Location where,
                  ProcessGrid grid) {
  inference::Site site{op, operands, attrs, called, declared, where, grid};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    TESSERA_CHECK(operands[i] != nullptr,
                  std::string(name(op)) + ": operand " + std::to_string(i) + " is null");
  }
  for (const Computation* c : called) {
    TESSERA_CHECK(c != nullptr, std::string(name(op)) + ": a called computation is null");
  }
  if (int n = info(op).operands; n >= 0) site.need_operands(std::size_t(n));
  Shape shape = inference::infer(site);
  if (shape.is_array()) {
    try {
      (void)shape.byte_count();
    } catch (const ValueError&) {
      site.shape_error("the size of the result " + shape.to_string() + " does not fit 64 bits");
    }
  }
  if (declared != nullptr && shape != *declared) {
    site.shape_error("the result is " + shape.to_string() + " and " + declared->to_string() +
                     " was declared");
  }
  return shape;
}

}  // namespace tessera::ir
