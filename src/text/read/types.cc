// SPDX-License-Identifier: Apache-2.0
// Parses and prints MLIR types.
#include "src/text/read/types.h"

#include <algorithm>

#include "src/base/arrays/dtype_names.h"

namespace tessera::text {
namespace {

constexpr int kMaxTypeDepth = 64;
constexpr std::size_t kMaxRank = 255;

/// Those that are one word, for messages.
std::string element_types() {
  std::string out;
  for (int k = 0; k <= int(DType::token); ++k) {
    const std::string_view mlir = mlir_name(DType(k));
    if (!mlir.empty() && !is_complex(DType(k))) out += std::string(mlir) + ", ";
  }
  return out + "index";
}

}  // namespace

std::string mlir_type(const Shape& shape) {
  std::string out;
  if (shape.is_tuple) {
    out = "tuple<";
    for (std::size_t i = 0; i < shape.elements.size(); ++i) {
      if (i > 0) out += ", ";
      out += mlir_type(shape.elements[i]);
    }
    return out + ">";
  }
  if (shape.dtype == DType::token) return "!stablehlo.token";
  out = "tensor<";
  for (std::int64_t d : shape.dims) out += size_text(d) + "x";
  // s1 has no name there.
  const std::string_view mlir = mlir_name(shape.dtype);
  out += mlir.empty() ? name(shape.dtype) : mlir;
  return out + ">";
}

const Shape* TypeParser::read() {
  in_.skip();
  const char* start = in_.position();
  // A tensor's text up to its bracket names the shape.
  const char* stop = start;
  while (stop < in_.end() && (is_id_char(*stop) || *stop == '!')) ++stop;
  if (stop < in_.end() && *stop == '<') {
    int depth = 0;
    for (; stop < in_.end(); ++stop) {
      if (*stop == '<') ++depth;
      if (*stop == '>' && --depth == 0) {
        ++stop;
        break;
      }
      if (*stop == '\n') break;
    }
  }
  std::string_view text(start, std::size_t(stop - start));
  if (auto it = known_.find(text); it != known_.end()) {
    in_.seek(stop);
    return it->second;
  }
  element_.reset();
  bounds_read_.reset();
  shapes_.push_back(parse(0));
  const Shape* shape = &shapes_.back();
  if (element_) {
    if (shape->is_tuple) {
      in_.not_supported_at(start, "quantized tensors in a tuple are not supported");
    }
    quantized_.emplace(shape, *std::move(element_));
  }
  if (bounds_read_ && !shape->is_tuple) bounds_.emplace(shape, *std::move(bounds_read_));
  if (in_.position() == stop) known_.emplace(text, shape);
  return shape;
}

const Shape* TypeParser::expressed(const Shape* type) {
  const Quantized* q = quantized(type);
  if (q == nullptr) return type;
  const Shape*& known = expressed_[type];
  if (known == nullptr) {
    shapes_.emplace_back(q->expressed, type->dims);
    known = &shapes_.back();
  }
  return known;
}

const Shape* TypeParser::closed(const Shape* type, const Shape& actual) {
  if (!is_open(*type)) return type;
  if (actual.is_tuple) return &shapes_.emplace_back(actual);
  const Shape*& known = closed_[{type, actual.dims}];
  if (known == nullptr) {
    known = &shapes_.emplace_back(type->dtype, actual.dims);
    if (const Quantized* q = quantized(type)) quantized_.emplace(known, Quantized(*q));
  }
  return known;
}

DType TypeParser::element() {
  in_.skip();
  const char* at = in_.position();
  if (in_.accept('!')) {
    std::string_view name = in_.suffix("the name of a type");
    if (auto alias = aliases_.find(name); alias != aliases_.end()) {
      // Aliases are read where they stand; one may name another that was given before.
      if (++depth_ > kMaxTypeDepth) in_.fail_at(at, "types nest deeper than 64");
      const char* back = in_.position();
      in_.seek(alias->second.data());
      DType dtype = element();
      in_.seek(back);
      --depth_;
      return dtype;
    }
    if (name == "quant.uniform") return quantized_element();
    in_.not_supported_at(at, "element type !" + std::string(name) +
                                 " is not supported; valid: a builtin type such as f32, "
                                 "!quant.uniform<...>");
  }
  std::string_view word = in_.word("an element type such as f32, i32, complex<f32>");
  if (word == "complex") {
    in_.expect('<', "after complex");
    std::string_view part = in_.word("f32 or f64");
    in_.expect('>', "after the type of the parts");
    if (part == "f32") return DType::c64;
    if (part == "f64") return DType::c128;
    in_.not_supported_at(at, "complex numbers of " + std::string(part) +
                                 " are not supported; valid: complex<f32>, complex<f64>");
  }
  std::optional<DType> dtype = dtype_from_mlir(word);
  if (!dtype) {
    in_.not_supported_at(at, "element type " + std::string(word) + " is not supported; valid: " +
                                 element_types() + ", complex<f32>, complex<f64>");
  }
  return *dtype;
}

Shape TypeParser::tensor() {
  Shape shape;
  in_.expect('<', "after tensor");
  if (in_.peek() == '*') {
    in_.not_supported_at(in_.position(), "tensors of unknown rank are not supported");
  }
  while (true) {
    const char c = in_.peek();
    const char* at = in_.position();
    if (c == '?') {
      in_.seek(at + 1);
      shape.dims.push_back(kOpenSize);
    } else if (is_decimal(c)) {
      // "0x8": a size of 0, not a hexadecimal number.
      shape.dims.push_back(in_.integer("the size of a dim"));
    } else {
      break;
    }
    if (in_.position() == in_.end() || *in_.position() != 'x') {
      in_.fail("expected 'x' after the size of a dim");
    }
    in_.seek(in_.position() + 1);
    if (shape.dims.size() > kMaxRank) in_.fail_at(at, "more than 255 dims");
  }
  const char* at_element = in_.position();
  shape.dtype = element();
  if (element_ && element_->axis) {
    std::int64_t axis = *element_->axis;
    if (axis >= shape.rank() || !fits(shape.dim(axis), std::int64_t(element_->scales.size()))) {
      in_.fail_at(at_element, "this type has " + std::to_string(element_->scales.size()) +
                                  " scales along dim " + std::to_string(axis) +
                                  "; expected one for each index of a dim of the tensor");
    }
  }
  if (in_.accept(',')) bounds_read_ = bounds_of(shape);
  in_.expect('>', "after a tensor's type");
  return shape;
}

Dims TypeParser::bounds_of(const Shape& shape) {
  in_.skip();
  const char* at = in_.position();
  std::string_view encoding = in_.value();
  for (int steps = 0; steps < kMaxTypeDepth && encoding.size() > 1; ++steps) {
    auto alias = attributes_.find(encoding.substr(1));
    if (alias == attributes_.end()) break;
    encoding = alias->second;
  }
  constexpr std::string_view kWord = "bounds";
  const std::size_t word = encoding.find(kWord);
  if (word == std::string_view::npos) {
    in_.not_supported_at(at, "encoding " + std::string(encoding) +
                                 " of a tensor is not supported; valid: #stablehlo.bounds<...>");
  }
  const char* back = in_.position();
  in_.seek(encoding.data() + word + kWord.size());
  in_.accept('=');
  const bool is_list = in_.accept('[');
  if (!is_list) in_.expect('<', "before the bounds");
  Dims out;
  in_.items(is_list ? ']' : '>', "after the bounds", [&] {
    // A minus is how texts of old say that there is none.
    const std::int64_t bound = in_.accept('?') ? kOpenSize : in_.integer("a bound");
    out.push_back(std::max(bound, kOpenSize));
  });
  in_.seek(back);
  if (std::int64_t(out.size()) != shape.rank()) {
    in_.fail_at(at, "there are " + std::to_string(out.size()) + " bounds for " +
                        std::to_string(shape.rank()) + " dims");
  }
  for (std::size_t d = 0; d < out.size(); ++d) {
    if (out[d] == kOpenSize || shape.dims[d] == kOpenSize) continue;
    in_.fail_at(at, "dim " + std::to_string(d) + " has a bound and is of size " +
                        std::to_string(shape.dims[d]) + "; valid: a bound of a dim '?'");
  }
  return out;
}

Shape TypeParser::parse(int depth) {
  in_.skip();
  const char* at = in_.position();
  if (depth > kMaxTypeDepth) in_.fail_at(at, "types nest deeper than 64");
  if (in_.accept('!')) {
    std::string_view name = in_.suffix("the name of a type");
    if (name == "stablehlo.token" || name == "mhlo.token") return Shape::token();
    if (name == "stablehlo.future") {
      // What is computed meanwhile is computed at once here.
      in_.expect('<', "after future");
      std::vector<Shape> values;
      do {
        values.push_back(parse(depth + 1));
      } while (in_.accept(','));
      in_.expect('>', "after the types of a future");
      return values.size() == 1 ? values[0] : Shape::tuple(std::move(values));
    }
    auto alias = aliases_.find(name);
    if (alias != aliases_.end()) {
      const char* back = in_.position();
      in_.seek(alias->second.data());
      Shape shape = parse(depth + 1);
      in_.seek(back);
      return shape;
    }
    in_.not_supported_at(at, "type !" + std::string(name) +
                                 " is not supported; valid: tensor<...>, tuple<...>, "
                                 "!stablehlo.token");
  }
  std::string_view word = in_.word("a type such as tensor<8x16xf32>");
  if (word == "tensor") {
    Shape shape = tensor();
    try {
      // Sizes that no memory holds end here, before anything counts with them.
      Dims known = shape.dims;
      std::erase(known, kOpenSize);
      checked_multiply(element_count(known), 16);
    } catch (const ValueError&) {
      in_.fail_at(at, "the size of this tensor doesn't fit 64 bits");
    }
    return shape;
  }
  if (word == "tuple") {
    std::vector<Shape> elements;
    in_.expect('<', "after tuple");
    if (!in_.accept('>')) {
      do {
        elements.push_back(parse(depth + 1));
      } while (in_.accept(','));
      in_.expect('>', "after the types of a tuple");
    }
    return Shape::tuple(std::move(elements));
  }
  if (word == "memref" || word == "vector" || word == "none") {
    in_.not_supported_at(at, "type " + std::string(word) + " is not supported; valid: tensor<...>");
  }
  in_.seek(at);
  return Shape(element(), {});
}

void TypeParser::read_list(std::vector<const Shape*>* out) {
  do {
    out->push_back(read());
  } while (in_.accept(','));
}

void TypeParser::read_results(std::vector<const Shape*>* out) {
  if (!in_.accept('(')) {
    out->push_back(read());
    return;
  }
  if (in_.accept(')')) return;
  read_list(out);
  in_.expect(')', "after the types");
}

void TypeParser::read_function(std::vector<const Shape*>* operands,
                               std::vector<const Shape*>* results) {
  in_.expect('(', "before the types of the operands");
  if (!in_.accept(')')) {
    read_list(operands);
    in_.expect(')', "after the types of the operands");
  }
  in_.expect_text("->", "and the types of the results");
  read_results(results);
}

}  // namespace tessera::text
