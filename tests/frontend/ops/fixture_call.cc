// SPDX-License-Identifier: Apache-2.0
// Parses one `call` line of the fixtures and makes the call.
#include "tests/frontend/ops/fixture_call.h"

#include <sstream>

#include "src/evaluator/evaluator.h"
#include "src/frontend/trace/trace.h"

// Compiled apart: includes private headers, whose `internal` others take for testing::internal.
namespace tessera::testing {

namespace {

Array plain_array(const PlainScalar& s) {
  std::istringstream words(s.text);
  std::string first, second;
  words >> first >> second;
  if (s.kind == "bool") return Array(first == "1");
  if (s.kind == "int") return Array(std::int64_t(std::stoll(first)));
  if (s.kind == "float") return Array(std::strtod(first.c_str(), nullptr));
  return Array(std::complex<double>(std::strtod(first.c_str(), nullptr),
                                    std::strtod(second.c_str(), nullptr)));
}

}  // namespace

FixtureCall::FixtureCall(const FixtureCase& c, std::vector<Array> arrays) : case_(c) {
  std::size_t next = 0;
  for (const FixtureOperand& o : c.operands) {
    operands_.push_back(o.array ? arrays.at(next++) : plain_array(o.scalar));
  }
}

double FixtureCall::plain(std::size_t i) const {
  return std::strtod(case_.operands.at(i).scalar.text.c_str(), nullptr);
}
bool FixtureCall::has(const std::string& key) const { return case_.options.count(key) > 0; }
std::string FixtureCall::word(const std::string& key, const std::string& otherwise) const {
  return has(key) ? case_.options.at(key) : otherwise;
}
std::int64_t FixtureCall::integer(const std::string& key, std::int64_t otherwise) const {
  return has(key) ? std::int64_t(std::stoll(word(key))) : otherwise;
}
double FixtureCall::number(const std::string& key, double otherwise) const {
  return has(key) ? std::strtod(word(key).c_str(), nullptr) : otherwise;
}
std::vector<std::int64_t> FixtureCall::list(const std::string& key) const {
  std::string text = word(key);
  for (char& ch : text) {
    if (ch == '[' || ch == ']' || ch == ',') ch = ' ';
  }
  std::istringstream words(text);
  std::vector<std::int64_t> out;
  for (std::int64_t v; words >> v;) out.push_back(v);
  return out;
}
std::optional<DType> FixtureCall::dtype(const std::string& key) const {
  if (!has(key)) return std::nullopt;
  return dtype_from_name(word(key)).value();
}
DType FixtureCall::dtype(const std::string& key, DType otherwise) const {
  return dtype(key).value_or(otherwise);
}
Axes FixtureCall::axes(const std::string& key) const { return has(key) ? Axes(list(key)) : Axes(); }
std::optional<std::int64_t> FixtureCall::axis() const {
  if (!has("axis")) return std::nullopt;
  return list("axis").at(0);
}

std::vector<Array> device_operands(const FixtureCase& c) {
  std::vector<Array> out;
  for (const FixtureOperand& o : c.operands) {
    if (o.array) out.push_back(frontend::from_literal(*o.array));
  }
  return out;
}

std::string check_results(const std::vector<Array>& results, const FixtureCase& c) {
  std::vector<Literal> values;
  for (const Array& r : results) values.push_back(frontend::to_literal(r, {}));
  return difference(Literal::tuple(std::move(values)), c);
}

std::string run_traced(const FixtureFunction& f, const FixtureCase& c) {
  frontend::Trace trace("traced", static_cast<frontend::Trace*>(nullptr));
  std::vector<Array> parameters;
  std::vector<Literal> arguments;
  for (const FixtureOperand& o : c.operands) {
    if (!o.array) continue;
    parameters.push_back(trace.add_parameter({o.array->shape(), false}));
    arguments.push_back(*o.array);
  }
  {
    const frontend::ActiveTrace active(&trace);
    trace.finish(f(FixtureCall(c, parameters)), {});
  }
  // Values made on the host while tracing are parameters, too.
  for (const Array& captured : trace.captures()) {
    arguments.push_back(frontend::to_literal(captured, {}));
  }
  const std::unique_ptr<ir::Module> module = trace.take_module();
  return difference(evaluator::evaluate(*module, arguments), c);
}

std::string run_eagerly(const FixtureFunction& f, const FixtureCase& c) {
  return check_results(f(FixtureCall(c, device_operands(c))), c);
}

std::string run_jitted(const FixtureFunction& f, const FixtureCase& c) {
  auto jitted =
      jit([&](std::vector<Array> arrays) { return f(FixtureCall(c, std::move(arrays))); });
  return check_results(jitted(device_operands(c)), c);
}

std::string run_sharded(const FixtureFunction& f, const FixtureCase& c) {
  const Mesh mesh = make_mesh({{"x", 2}, {"y", 2}, {"z", 2}});
  const char* const axes[] = {"x", "y", "z"};
  std::vector<Array> operands = device_operands(c);
  int next = 0;
  for (Array& operand : operands) {
    std::vector<SpecEntry> entries;
    for (std::int64_t size : operand.shape()) {
      // Not all in the same place: operands meet in different layouts.
      const bool split = size % 2 == 0 && entries.size() < 3;
      entries.push_back(split ? SpecEntry(axes[(entries.size() + std::size_t(next)) % 3])
                              : SpecEntry(nullptr));
    }
    ++next;
    operand = device_put(operand, NamedSharding(mesh, PartitionSpec::from_entries(entries)));
  }
  FixtureCase loose = c;
  Tolerance& t = loose.tolerance;
  for (const Literal& want : c.results) {
    if (!is_floating(want.dtype()) && !is_complex(want.dtype())) continue;
    if (t.kind != Tolerance::Kind::close) t = {Tolerance::Kind::close, 0, 0, 0};
    const DType part = real_type(want.dtype());
    const double step = part == f64 ? 1e-13 : part == f32 ? 2e-6 : part == f16 ? 2e-3 : 2e-2;
    t.relative = std::max(t.relative, step);
    t.absolute = std::max(t.absolute, step);
  }
  auto jitted =
      jit([&](std::vector<Array> arrays) { return f(FixtureCall(c, std::move(arrays))); });
  return check_results(jitted(operands), loose);
}

}  // namespace tessera::testing
