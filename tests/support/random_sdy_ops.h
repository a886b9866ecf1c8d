// SPDX-License-Identifier: Apache-2.0
// Operations of StableHLO in two texts side by side, one with shardings.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/shape.h"
#include "tests/support/random_sdy_shardings.h"

namespace tessera::testing::sdy_text {

/// A value by its names in both texts.
struct Value {
  std::string annotated, plain;
  Dims dims;
  double bound = 4;  ///< of the size of its elements, so that sums stay exact
  std::optional<SdySharding> said = std::nullopt;  ///< by what gives it
  std::string element = "f32";
};
using Values = std::vector<Value>;

constexpr double kExact = 1 << 20;

inline std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string out;
  for (const std::int64_t n : numbers) out += (out.empty() ? "" : ", ") + std::to_string(n);
  return out;
}

inline std::string tensor(const Dims& dims, const std::string& element = "f32") {
  std::string out = "tensor<";
  for (const std::int64_t d : dims) out += std::to_string(d) + "x";
  return out + element + ">";
}

inline std::string type_of(const Value& v) { return tensor(v.dims, v.element); }

/// `dense<2.0> : tensor<...>`
inline std::string filled(std::int64_t value, const Value& like) {
  return "dense<" + std::to_string(value) + (like.element[0] == 'i' ? "> : " : ".0> : ") +
         type_of(like);
}

class OperationWriter {
 public:
  explicit OperationWriter(std::uint64_t seed) : dice_(seed), meshes_(dice_) {}
  virtual ~OperationWriter() = default;

 protected:
  std::int64_t size() {
    static const std::vector<std::int64_t> kSizes = {1, 2, 3, 4, 6, 8, 8, 12, 16};
    return dice_.pick(kSizes);
  }

  SdySharding any(const Dims& dims) { return meshes_.any(dims, scope_); }
  /// A kind of partial values stays as long as they are partial.
  static SdySharding fit(const Value& x, SdySharding s) {
    if (x.said && !x.said->unreduced.empty()) s.kind = x.said->kind;
    return s;
  }

  std::string fresh() { return "%" + std::to_string(next_++); }
  void line(const std::string& annotated, const std::string& plain) {
    text_[0] += annotated + "\n";
    text_[1] += plain + "\n";
  }

  /// `#sdy.sharding<...>`, or an alias of it.
  std::string sharding_attribute(const SdySharding& s) {
    const std::string text = meshes_.text(s);
    if (!dice_.chance(0.1)) return "#sdy.sharding" + text;
    const std::string name = "#s" + std::to_string(next_++);
    aliases_ += name + " = " +
                (dice_.chance(0.5) ? "#sdy.sharding" + text : "#sdy<sharding" + text + ">") + "\n";
    return name;
  }

  /// `[<...>, <...>]`
  std::string list_of(const std::vector<SdySharding>& shardings) {
    std::string out = "[";
    for (const SdySharding& s : shardings) out += (out.size() > 1 ? ", " : "") + meshes_.text(s);
    return out + "]";
  }

  /// `sdy.sharding = ...` for that many results, or nothing.
  std::string attribute(const std::vector<Dims>& results, double likely,
                        std::vector<SdySharding>* said) {
    if (!dice_.chance(likely)) return "";
    for (const Dims& dims : results) said->push_back(any(dims));
    return "sdy.sharding = #sdy.sharding_per_value<" + list_of(*said) + ">";
  }

  /// One operation in both texts. In `form`, `$n` is operand n, `{}` the attributes.
  Value operation(const std::string& form, const Values& operands, Dims result, double bound,
                  const std::string& more = "") {
    Value v;
    v.annotated = v.plain = fresh();
    v.dims = std::move(result);
    v.bound = bound;
    std::string texts[2] = {v.annotated + " = " + form, v.plain + " = " + form};
    for (int t = 0; t < 2; ++t) {
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const std::string mark = "$" + std::to_string(i);
        for (std::size_t at = texts[t].find(mark); at != std::string::npos;
             at = texts[t].find(mark)) {
          texts[t].replace(at, mark.size(), t == 0 ? operands[i].annotated : operands[i].plain);
        }
      }
    }
    const std::size_t at = texts[0].find("{}");
    if (at != std::string::npos) {
      std::vector<SdySharding> said;
      std::string inside = attribute({v.dims}, 0.35, &said);
      if (!inside.empty() && !more.empty()) inside += ", " + more;
      texts[0].replace(at, 2, inside.empty() ? "" : " {" + inside + "}");
      texts[1].replace(texts[1].find("{}"), 2, "");
      if (!said.empty()) v.said = said[0];
    }
    line(texts[0], texts[1]);
    return v;
  }

  Value constant(double value) {
    const std::string dialect[2] = {dice_.chance(0.5) ? "sdy" : "stablehlo", "stablehlo"};
    Value v;
    v.annotated = v.plain = fresh();
    const std::string rest = "dense<" + std::to_string(int(value)) + ".0> : tensor<f32>";
    std::vector<SdySharding> said;
    const std::string inside = attribute({{}}, 0.15, &said);
    if (!said.empty()) v.said = said[0];
    line(v.annotated + " = " + dialect[0] + ".constant " +
             (inside.empty() ? "" : "{" + inside + "} ") + rest,
         v.plain + " = " + dialect[1] + ".constant " + rest);
    v.bound = std::abs(value);
    return v;
  }

  const Value& pick(const Values& values) {
    // Late ones more often: programs are deep.
    const auto n = std::int64_t(values.size());
    return values[std::size_t(std::max(dice_.below(n), dice_.below(n)))];
  }

  Value alike(const Values& values, const Value& x) {
    Values same;
    for (const Value& v : values) {
      if (v.dims == x.dims && v.element == x.element) same.push_back(v);
    }
    return dice_.pick(same);
  }

  /// Itself, if it isn't among the values.
  Value alike_or(const Values& values, const Value& x) {
    Values all = values;
    all.push_back(x);
    return alike(all, x);
  }

  Value of_element(Value v, const std::string& element) {
    v.element = element;
    return v;
  }
  Value converted(const Value& x, const std::string& element) {
    if (x.element == element) return x;
    return of_element(
        operation("stablehlo.convert $0{} : (" + type_of(x) + ") -> " + tensor(x.dims, element),
                  {x}, x.dims, x.bound),
        element);
  }
  Value pick_f32(const Values& values) { return converted(pick(values), "f32"); }

  /// What Shardy writes of how a sharding came about, and rules that are ignored.
  std::string remarks(const Value& x) {
    if (x.dims.empty() || !dice_.chance(0.2)) return "";
    if (dice_.chance(0.5)) return "sdy.sharding_origins = {self = \"negate\"}";
    std::string factors, sizes;
    for (std::size_t d = 0; d < x.dims.size(); ++d) {
      const std::string between = d > 0 ? ", " : "", f(1, char('i' + int(d)));
      factors += between + f;
      sizes += between + f + "=" + std::to_string(x.dims[d]);
    }
    return "sdy.sharding_rule = #sdy.op_sharding_rule<([" + factors + "])->([" + factors + "]) {" +
           sizes + "}>";
  }

  Value selected(const Value& x, const Value& y) {
    const std::string pred = tensor(x.dims, "i1");
    Value less = of_element(operation("stablehlo.compare LT, $0, $1{} : (" + type_of(x) + ", " +
                                          type_of(x) + ") -> " + pred,
                                      {x, y}, x.dims, 1),
                            "i1");
    if (dice_.chance(0.3)) less = annotated_pred(less);
    return operation("stablehlo.select $2, $1, $0{} : " + pred + ", " + type_of(x), {x, y, less},
                     x.dims, std::max(x.bound, y.bound));
  }
  virtual Value annotated_pred(const Value& x) = 0;

  Value elementwise(const Values& values) {
    Value x = pick(values);
    static const std::vector<std::string> kElements = {"f32", "f32", "i32", "f64"};
    if (dice_.chance(0.1)) {
      const std::string& element = dice_.pick(kElements);
      if (x.element != element) return converted(x, element);
    }
    return of_element(elementwise(x, alike(values, x)), x.element);
  }
  Value elementwise(const Value& x, const Value& y) {
    const std::string type = " : " + type_of(x);
    switch (dice_.below(6)) {
      case 0:
        if (x.bound * y.bound < kExact) {
          return operation("stablehlo.multiply $0, $1{}" + type, {x, y}, x.dims, x.bound * y.bound);
        }
        [[fallthrough]];
      case 1:
        return operation("stablehlo.maximum $0, $1{}" + type, {x, y}, x.dims,
                         std::max(x.bound, y.bound));
      case 2:
        return operation("stablehlo.negate $0{}" + type, {x}, x.dims, x.bound, remarks(x));
      case 3:
        return selected(x, y);
      default:
        if (x.bound + y.bound > kExact) {
          return operation("stablehlo.minimum $0, $1{}" + type, {x, y}, x.dims,
                           std::max(x.bound, y.bound));
        }
        return operation(std::string(dice_.chance(0.5) ? "stablehlo.add" : "stablehlo.subtract") +
                             " $0, $1{}" + type,
                         {x, y}, x.dims, x.bound + y.bound);
    }
  }

  static std::string from_to(const Dims& from, const Dims& to) {
    return " : (" + tensor(from) + ") -> " + tensor(to);
  }

  Value moved(const Values& values) {
    const Value x = pick_f32(values);
    const auto rank = std::int64_t(x.dims.size());
    if (dice_.chance(0.05)) {
      const Dims to{size(), size()};
      return operation("stablehlo.iota dim = 1{} : " + tensor(to), {}, to, double(to[1]));
    }
    if (rank == 0 || dice_.chance(0.15)) {
      Dims to = x.dims;
      const std::int64_t at = dice_.between(0, rank);
      if (rank > 3) return elementwise(values);
      to.insert(to.begin() + at, size());
      Dims where;
      for (std::int64_t d = 0; d < rank; ++d) where.push_back(d < at ? d : d + 1);
      return operation("stablehlo.broadcast_in_dim $0, dims = [" +
                           listed({where.begin(), where.end()}) + "]{}" + from_to(x.dims, to),
                       {x}, to, x.bound);
    }
    const auto d = std::size_t(dice_.below(rank));
    switch (dice_.below(7)) {
      case 0: {
        std::vector<std::int64_t> order;
        for (std::int64_t i = 0; i < rank; ++i) order.push_back(i);
        for (std::size_t i = order.size(); i > 1; --i) {
          std::swap(order[i - 1], order[std::size_t(dice_.below(std::int64_t(i)))]);
        }
        Dims to;
        for (const std::int64_t o : order) to.push_back(x.dims[std::size_t(o)]);
        return operation(
            "stablehlo.transpose $0, dims = [" + listed(order) + "]{}" + from_to(x.dims, to), {x},
            to, x.bound);
      }
      case 1:
        return reshape(x, d);
      case 2: {
        std::string ranges;
        Dims to;
        for (const std::int64_t n : x.dims) {
          const std::int64_t first = dice_.below(n), last = dice_.between(first + 1, n),
                             stride = dice_.between(1, 2);
          ranges += (ranges.empty() ? "" : ", ") + std::to_string(first) + ":" +
                    std::to_string(last) + ":" + std::to_string(stride);
          to.push_back((last - first + stride - 1) / stride);
        }
        return operation("stablehlo.slice $0 [" + ranges + "]{}" + from_to(x.dims, to), {x}, to,
                         x.bound);
      }
      case 3: {
        std::vector<std::int64_t> low, high, interior;
        Dims to;
        for (const std::int64_t n : x.dims) {
          low.push_back(dice_.between(n > 1 ? -1 : 0, 2));
          high.push_back(dice_.between(0, 2));
          interior.push_back(dice_.chance(0.3) ? 1 : 0);
          to.push_back(low.back() + high.back() + n + (n - 1) * interior.back());
        }
        return operation("stablehlo.pad $0, $1, low = [" + listed(low) + "], high = [" +
                             listed(high) + "], interior = [" + listed(interior) + "]{} : (" +
                             tensor(x.dims) + ", tensor<f32>) -> " + tensor(to),
                         {x, constant(1)}, to, x.bound);
      }
      case 4: {
        const Value y = alike_or(values, x);
        Dims to = x.dims;
        to[d] *= 2;
        return operation("stablehlo.concatenate $0, $1, dim = " + std::to_string(d) + "{} : (" +
                             tensor(x.dims) + ", " + tensor(x.dims) + ") -> " + tensor(to),
                         {x, y}, to, std::max(x.bound, y.bound));
      }
      case 5:
        return operation(
            "stablehlo.reverse $0, dims = [" + std::to_string(d) + "]{} : " + tensor(x.dims), {x},
            x.dims, x.bound);
      default:
        return gather(x);
    }
  }

  Value reshape(const Value& x, std::size_t d) {
    Dims to = x.dims;
    if (d + 1 < to.size() && dice_.chance(0.5)) {
      to[d] *= to[d + 1];
      to.erase(to.begin() + std::ptrdiff_t(d) + 1);
    } else if (to[d] % 2 == 0 && to.size() < 5) {
      to[d] /= 2;
      to.insert(to.begin() + std::ptrdiff_t(d) + (dice_.chance(0.5) ? 1 : 0), 2);
    } else {
      to.insert(to.begin(), 1);
    }
    return operation("stablehlo.reshape $0{}" + from_to(x.dims, to), {x}, to, x.bound);
  }

  Value gather(const Value& x) {
    std::vector<std::int64_t> rows, sizes{1}, offsets;
    for (std::int64_t n = dice_.between(1, 6); n > 0; --n) rows.push_back(dice_.below(x.dims[0]));
    Dims to{std::int64_t(rows.size())};
    for (std::size_t i = 1; i < x.dims.size(); ++i) {
      to.push_back(x.dims[i]);
      sizes.push_back(x.dims[i]);
      offsets.push_back(std::int64_t(i));
    }
    const std::string count = std::to_string(rows.size());
    const Value indices = operation(
        "stablehlo.constant dense<[" + listed(rows) + "]> : tensor<" + count + "xi32>", {}, {}, 0);
    return operation(
        "\"stablehlo.gather\"($0, $1) <{dimension_numbers = "
        "#stablehlo.gather<offset_dims = [" +
            listed(offsets) +
            "], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim "
            "= 1>, slice_sizes = array<i64: " +
            listed(sizes) + ">}>{} : (" + tensor(x.dims) + ", tensor<" + count + "xi32>) -> " +
            tensor(to),
        {x, indices}, to, x.bound);
  }

  Value reduced(const Values& values) {
    const Value x = pick_f32(values);
    if (x.dims.empty()) return elementwise(values);
    Dims to;
    std::vector<std::int64_t> over;
    double bound = x.bound;
    const auto one = std::size_t(dice_.below(std::int64_t(x.dims.size())));
    for (std::size_t d = 0; d < x.dims.size(); ++d) {
      if (d == one || dice_.chance(0.3)) {
        over.push_back(std::int64_t(d));
        bound *= double(x.dims[d]);
      } else {
        to.push_back(x.dims[d]);
      }
    }
    const bool sum = bound < kExact && dice_.chance(0.7);
    return operation(std::string("stablehlo.reduce($0 init: $1) applies stablehlo.") +
                         (sum ? "add" : "maximum") + " across dimensions = [" + listed(over) +
                         "]{} : (" + tensor(x.dims) + ", tensor<f32>) -> " + tensor(to),
                     {x, constant(0)}, to, sum ? bound : x.bound);
  }

  Value dot(const Values& values) {
    const Value x = pick_f32(values);
    if (x.dims.empty() || x.dims.size() > 3) return elementwise(values);
    for (std::size_t tries = 0; tries < 8; ++tries) {
      const Value& y = dice_.pick(values);
      if (y.dims.empty() || y.dims.size() > 3 || y.element != x.element) continue;
      const auto i = std::size_t(dice_.below(std::int64_t(x.dims.size())));
      const auto k = std::size_t(dice_.below(std::int64_t(y.dims.size())));
      const double bound = x.bound * y.bound * double(x.dims[i]);
      if (x.dims[i] != y.dims[k] || bound > kExact) continue;
      Dims to;
      for (std::size_t d = 0; d < x.dims.size(); ++d) {
        if (d != i) to.push_back(x.dims[d]);
      }
      for (std::size_t d = 0; d < y.dims.size(); ++d) {
        if (d != k) to.push_back(y.dims[d]);
      }
      return operation("stablehlo.dot_general $0, $1, contracting_dims = [" + std::to_string(i) +
                           "] x [" + std::to_string(k) + "]{} : (" + tensor(x.dims) + ", " +
                           tensor(y.dims) + ") -> " + tensor(to),
                       {x, y}, to, bound);
    }
    return elementwise(values);
  }

  Dice dice_;
  SdyMeshes meshes_;
  std::string text_[2], functions_[2], aliases_;
  SdyScope scope_;
  int next_ = 0;
};

}  // namespace tessera::testing::sdy_text
