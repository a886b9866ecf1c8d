// SPDX-License-Identifier: Apache-2.0
// Lines of HLO text for formulas on matrices, whatever their element type and batch.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "src/base/arrays/shape.h"

namespace tessera::compiler::accelerators {

/// Lines of a computation on matrices [batch, m, n].
class Lines {
 public:
  explicit Lines(const Shape& matrix)
      : matrix_(matrix), rank_(matrix.rank()), real_(matrix.dtype, {}), batch_(matrix.dims) {
    if (matrix.dtype == DType::c64) real_.dtype = DType::f32;
    if (matrix.dtype == DType::c128) real_.dtype = DType::f64;
    batch_.resize(std::size_t(rank_ - 2));
    rows_ = batch_, columns_ = batch_;
    rows_.push_back(matrix.dims[std::size_t(rank_ - 2)]);
    columns_.push_back(matrix.dims[std::size_t(rank_ - 1)]);
  }

  DType dtype() const { return matrix_.dtype; }
  DType real() const { return real_.dtype; }
  bool is_complex() const { return real() != dtype(); }
  const Dims& all() const { return matrix_.dims; }
  const Dims& batch() const { return batch_; }
  const Dims& rows() const { return rows_; }        ///< of a column: [batch, m]
  const Dims& columns() const { return columns_; }  ///< of a row: [batch, n]
  std::int64_t rank() const { return rank_; }
  std::int64_t row_dim() const { return rank_ - 2; }
  std::int64_t column_dim() const { return rank_ - 1; }

  static std::string type(DType t, const Dims& dims) { return Shape(t, dims).to_string(); }
  std::string add(const std::string& type, const std::string& expression) {
    std::string name = "v" + std::to_string(count_++);
    text += "  " + name + " = " + type + " " + expression + "\n";
    return name;
  }
  std::string op(DType t, const Dims& dims, const std::string& what) {
    return add(type(t, dims), what);
  }
  std::string constant(DType t, const std::string& value, const Dims& dims) {
    return broadcast(t, dims, add(type(t, {}), "constant(" + value + ")"), {});
  }
  std::string zeros(DType t, const Dims& dims) {
    const bool complex = t == DType::c64 || t == DType::c128;
    return constant(t, complex ? "(0, 0)" : "0", dims);
  }
  std::string ones(DType t, const Dims& dims) {
    const bool complex = t == DType::c64 || t == DType::c128;
    return constant(t, complex ? "(1, 0)" : "1", dims);
  }
  std::string broadcast(DType t, const Dims& to, const std::string& x, const Dims& dims) {
    return op(t, to, "broadcast(" + x + "), dimensions=" + braces(dims));
  }
  /// A value per matrix, column or row, for all elements of the matrices.
  std::string spread(DType t, const std::string& x, bool has_rows, bool has_columns) {
    Dims dims;
    for (std::int64_t d = 0; d < rank_ - 2; ++d) dims.push_back(d);
    if (has_rows) dims.push_back(row_dim());
    if (has_columns) dims.push_back(column_dim());
    return broadcast(t, all(), x, dims);
  }
  std::string iota(const Dims& dims, std::int64_t dim) {
    return op(DType::s32, dims, "iota(), iota_dimension=" + std::to_string(dim));
  }
  std::string compare(const Dims& dims, const std::string& a, const std::string& b,
                      const char* direction) {
    return op(DType::pred, dims, "compare(" + a + ", " + b + "), direction=" + direction);
  }
  std::string binary(DType t, const Dims& dims, const char* opcode, const std::string& a,
                     const std::string& b) {
    return op(t, dims, std::string(opcode) + "(" + a + ", " + b + ")");
  }
  std::string select(DType t, const Dims& dims, const std::string& mask, const std::string& yes,
                     const std::string& no) {
    return op(t, dims, "select(" + mask + ", " + yes + ", " + no + ")");
  }
  /// `by`: add, maximum or minimum.
  std::string reduce(DType t, const Dims& to, const std::string& x, const Dims& dims,
                     const char* by, const std::string& start) {
    const std::string initial = add(type(t, {}), "constant(" + start + ")");
    reducers[std::string(by) + "_" + std::string(name(t))] = {t, by};
    return op(t, to,
              "reduce(" + x + ", " + initial + "), dimensions=" + braces(dims) +
                  ", to_apply=" + by + "_" + std::string(name(t)));
  }
  /// The column or row of a matrix that the mask has, as sums over what it hides.
  std::string column(const std::string& x, const std::string& mask) {
    const std::string only = select(dtype(), all(), mask, x, zeros(dtype(), all()));
    return reduce(dtype(), rows(), only, {column_dim()}, "add", zero());
  }
  std::string row(const std::string& x, const std::string& mask) {
    const std::string only = select(dtype(), all(), mask, x, zeros(dtype(), all()));
    return reduce(dtype(), columns(), only, {row_dim()}, "add", zero());
  }
  std::string zero() const { return is_complex() ? "(0, 0)" : "0"; }
  std::string conjugate(const std::string& x, const Dims& dims) {
    if (!is_complex()) return x;
    const std::string re = op(real(), dims, "real(" + x + ")");
    const std::string im = op(real(), dims, "imag(" + x + ")");
    const std::string back = op(real(), dims, "negate(" + im + ")");
    return op(dtype(), dims, "complex(" + re + ", " + back + ")");
  }
  std::string squares(const std::string& x, const Dims& dims) {
    if (!is_complex()) return binary(dtype(), dims, "multiply", x, x);
    const std::string re = op(real(), dims, "real(" + x + ")");
    const std::string im = op(real(), dims, "imag(" + x + ")");
    return binary(real(), dims, "add", binary(real(), dims, "multiply", re, re),
                  binary(real(), dims, "multiply", im, im));
  }
  std::string as_complex(const std::string& x, const Dims& dims) {
    if (!is_complex()) return x;
    return op(dtype(), dims, "complex(" + x + ", " + zeros(real(), dims) + ")");
  }
  static std::string braces(const Dims& dims) {
    std::string out = "{";
    for (const std::int64_t d : dims) out += (out.size() > 1 ? "," : "") + std::to_string(d);
    return out + "}";
  }

  std::string text;
  std::map<std::string, std::pair<DType, std::string>> reducers;

 private:
  Shape matrix_;
  std::int64_t rank_;
  Shape real_;
  Dims batch_, rows_, columns_;
  int count_ = 0;
};

inline std::string reducer_texts(const Lines& lines) {
  std::string out;
  for (const auto& [name, reducer] : lines.reducers) {
    const std::string t = Lines::type(reducer.first, {});
    out += name + " {\n  a = " + t + " parameter(0)\n  b = " + t +
           " parameter(1)\n  ROOT r = " + t + " " + reducer.second + "(a, b)\n}\n";
  }
  return out;
}

}  // namespace tessera::compiler::accelerators
