// SPDX-License-Identifier: Apache-2.0
// MLIR's types as shapes.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "src/base/arrays/dtype_names.h"
#include "src/base/arrays/shape.h"
#include "src/text/read/cursor.h"
#include "src/text/read/open_types.h"
#include "src/text/read/quantized.h"

namespace tessera::text {

/// Shapes of a module's types, each kept once: the same text gives the same pointer.
///
/// A quantized tensor has the shape of what it stores; quantized() says what that stands for.
class TypeParser {
 public:
  using Aliases = std::unordered_map<std::string_view, std::string_view>;

  /// `attributes`: the aliases of attributes, which an encoding may be one of.
  TypeParser(Cursor& in, const Aliases& attributes) : in_(in), attributes_(attributes) {}

  /// `tensor<8x16xf32>`, `tuple<...>`, `!stablehlo.token`, `f32`, `!alias`.
  const Shape* read();
  /// `t, t, ...`
  void read_list(std::vector<const Shape*>* out);
  /// `(t, t) -> t` or `(t) -> (t, t)`.
  void read_function(std::vector<const Shape*>* operands, std::vector<const Shape*>* results);
  /// One type or a list in parentheses, as after `->`.
  void read_results(std::vector<const Shape*>* out);
  /// How the elements of a type that was read here stand for real numbers; null if they are what
  /// they are.
  const Quantized* quantized(const Shape* type) const {
    auto it = quantized_.find(type);
    return it == quantized_.end() ? nullptr : &it->second;
  }
  bool any_quantized() const { return !quantized_.empty(); }
  /// The most that the open dims of a type may be, kOpenSize where nothing is said; null if it says
  /// nothing of any.
  const Dims* bounds(const Shape* type) const {
    auto it = bounds_.find(type);
    return it == bounds_.end() ? nullptr : &it->second;
  }
  /// The same dims with the numbers that a quantized type stands for.
  const Shape* expressed(const Shape* type);
  /// An open type with the sizes of what is of it, which it fits.
  const Shape* closed(const Shape* type, const Shape& actual);
  void define_alias(std::string_view name, std::string_view text) { aliases_[name] = text; }

 private:
  Shape parse(int depth);
  Shape tensor();
  DType element();
  DType quantized_element();
  /// `#stablehlo.bounds<4, ?>`, `#mhlo.type_extensions<bounds = [4, ?]>`, or an alias.
  Dims bounds_of(const Shape& shape);

  Cursor& in_;
  const Aliases& attributes_;
  std::unordered_map<std::string_view, const Shape*> known_;
  Aliases aliases_;
  std::deque<Shape> shapes_;
  std::unordered_map<const Shape*, Quantized> quantized_;
  std::unordered_map<const Shape*, Dims> bounds_;
  std::unordered_map<const Shape*, const Shape*> expressed_;
  std::map<std::pair<const Shape*, Dims>, const Shape*> closed_;
  /// That of the element type read last.
  std::optional<Quantized> element_;
  std::optional<Dims> bounds_read_;
  int depth_ = 0;
};

/// As MLIR writes it: tensor<8x16xf32>.
std::string mlir_type(const Shape& shape);

}  // namespace tessera::text
