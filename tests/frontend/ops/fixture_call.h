// SPDX-License-Identifier: Apache-2.0
// One `call` line of the fixtures as a call of Tessera.
#pragma once

#include <tessera/tessera.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/fixtures.h"

namespace tessera::testing {

/// Operands and options of one case.
class FixtureCall {
 public:
  /// `arrays`: what stands for the arrays among the operands, in order.
  FixtureCall(const FixtureCase& c, std::vector<Array> arrays);

  const FixtureCase& fixture() const { return case_; }
  std::size_t count() const { return operands_.size(); }
  const Array& operator[](std::size_t i) const { return operands_.at(i); }
  const std::vector<Array>& operands() const { return operands_; }
  std::vector<Array> operands_from(std::size_t first) const {
    return {operands_.begin() + std::ptrdiff_t(first), operands_.end()};
  }
  /// A plain number among the operands.
  double plain(std::size_t i) const;
  bool is_float(std::size_t i) const { return case_.operands[i].scalar.kind == "float"; }

  bool has(const std::string& key) const;
  std::string word(const std::string& key, const std::string& otherwise = "") const;
  std::int64_t integer(const std::string& key, std::int64_t otherwise = 0) const;
  double number(const std::string& key, double otherwise = 0) const;
  std::vector<std::int64_t> list(const std::string& key) const;
  DType dtype(const std::string& key, DType otherwise) const;
  std::optional<DType> dtype(const std::string& key) const;
  /// [..] or a number; all without the key.
  Axes axes(const std::string& key = "axis") const;
  std::optional<std::int64_t> axis() const;

 private:
  const FixtureCase& case_;
  std::vector<Array> operands_;
};

using FixtureFunction = std::function<std::vector<Array>(const FixtureCall&)>;

/// Arrays of the case made on the default device.
std::vector<Array> device_operands(const FixtureCase& c);
/// Empty, or what is wrong with the results.
std::string check_results(const std::vector<Array>& results, const FixtureCase& c);
/// The function traced, then evaluated by the reference evaluator.
std::string run_traced(const FixtureFunction& f, const FixtureCase& c);
/// Outside of any trace.
std::string run_eagerly(const FixtureFunction& f, const FixtureCase& c);
/// Under jit.
std::string run_jitted(const FixtureFunction& f, const FixtureCase& c);
/// Under jit, operands split over eight devices where their sizes allow it. Sums are then made in
/// another order: floats may differ by a little more.
std::string run_sharded(const FixtureFunction& f, const FixtureCase& c);

}  // namespace tessera::testing
