// SPDX-License-Identifier: Apache-2.0
// mhlo.uniform_quantize and mhlo.uniform_dequantize. HLO has no quantized types: what integers
// stand for is the calls' config, {scale=[0.5],zero_point=[3],storage_type=i8,expressed_type=f32,
// storage_min=-128,storage_max=127}, with quantization_dimension=0 if there is a scale for each
// index of a dim.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "src/base/arrays/dtype_names.h"
#include "src/ir/custom_calls/plain.h"
#include "src/ir/formulas/quantization.h"

namespace tessera::ir {
namespace {

/// Texts by name: commas within brackets separate nothing.
std::map<std::string_view, std::string_view> items_of(std::string_view text) {
  while (!text.empty() && (text.front() == '{' || text.front() == '"')) {
    text.remove_prefix(1);
    if (!text.empty()) text.remove_suffix(1);
  }
  std::map<std::string_view, std::string_view> out;
  const auto trimmed = [](std::string_view word) {
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    return word;
  };
  while (!text.empty()) {
    std::size_t end = 0;
    for (int open = 0; end < text.size() && (text[end] != ',' || open > 0); ++end) {
      open += int(text[end] == '[') - int(text[end] == ']');
    }
    const std::string_view item = text.substr(0, end);
    const std::size_t equals = std::min(item.find('='), item.size());
    out[trimmed(item.substr(0, equals))] = trimmed(item.substr(std::min(equals + 1, item.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

class Config {
 public:
  explicit Config(const Instruction& call) : call_(call), items_(items_of(*call.backend_config)) {}

  Quantization read() const {
    Quantization q;
    q.storage = type("storage_type", "an integer such as i8 or u8");
    q.expressed = type("expressed_type", "a float such as f32");
    q.scales = numbers<double>("scale");
    q.zero_points = numbers<std::int64_t>("zero_point");
    q.least = number("storage_min");
    q.most = number("storage_max");
    if (items_.contains("quantization_dimension")) q.axis = number("quantization_dimension");
    if (!is_integer(q.storage) || !is_floating(q.expressed)) {
      misfit(call_, "it stores integers that stand for floats");
    }
    if (q.scales.empty() || q.scales.size() != q.zero_points.size()) {
      misfit(call_, "there must be as many zero points as scales, and one or more");
    }
    for (const double s : q.scales) {
      if (!(s > 0) || !std::isfinite(s)) misfit(call_, "scales must be positive");
    }
    const Shape& x = call_.shape;
    if (!x.is_array()) misfit(call_, "it gives one array");
    if (q.axis && q.scales.size() == 1) q.axis.reset();
    if (!q.axis && q.scales.size() > 1) misfit(call_, "there is no quantization_dimension");
    if (q.axis &&
        (*q.axis < 0 || *q.axis >= x.rank() || x.dim(*q.axis) != std::int64_t(q.scales.size()))) {
      misfit(call_, "there are " + std::to_string(q.scales.size()) + " scales along dim " +
                        std::to_string(*q.axis));
    }
    return q;
  }

 private:
  std::string_view item(const char* key) const {
    const auto it = items_.find(key);
    if (it == items_.end()) misfit(call_, std::string("its config lacks ") + key);
    return it->second;
  }
  [[noreturn]] void wrong(const char* key, const std::string& valid) const {
    misfit(call_,
           std::string(key) + "=" + std::string(item(key)) + " in its config isn't " + valid);
  }
  DType type(const char* key, const char* valid) const {
    std::string name(item(key));
    if (!name.empty() && name[0] == 'u' && name.substr(0, 2) != "ui") name.insert(1, "i");
    const std::optional<DType> out = dtype_from_mlir(name);
    if (!out) wrong(key, valid);
    return *out;
  }
  std::int64_t number(const char* key) const {
    const std::string_view text = item(key);
    std::int64_t out = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (error != std::errc() || stop != text.data() + text.size()) wrong(key, "an integer");
    return out;
  }
  template <class T>
  std::vector<T> numbers(const char* key) const {
    std::string_view text = item(key);
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') wrong(key, "a list");
    text = text.substr(1, text.size() - 2);
    std::vector<T> out;
    for (const char* p = text.data(); p < text.data() + text.size();) {
      if (*p == ' ' || *p == ',') {
        ++p;
        continue;
      }
      T value{};
      const auto [stop, error] = std::from_chars(p, text.data() + text.size(), value);
      if (error != std::errc()) wrong(key, "a list of numbers");
      out.push_back(value);
      p = stop;
    }
    return out;
  }

  const Instruction& call_;
  std::map<std::string_view, std::string_view> items_;
};

/// One of the two; `stores`: numbers become integers.
class Quantizing : public CustomCallTarget {
 public:
  explicit Quantizing(bool stores) : stores_(stores) {}
  Computation* body(Module* module, const Instruction& call) const override {
    if (call.operands().size() != 1 || !call.operand(0)->shape.is_array()) {
      misfit(call, "it takes one array");
    }
    const Quantization q = Config(call).read();
    const Shape& x = call.operand(0)->shape;
    if (x.dims != call.shape.dims || x.dtype != (stores_ ? q.expressed : q.storage) ||
        call.shape.dtype != (stores_ ? q.storage : q.expressed)) {
      const std::string stored(name(q.storage)), real(name(q.expressed));
      misfit(call, "it takes " + (stores_ ? real : stored) + " and gives " +
                       (stores_ ? stored : real) + " of the same dims");
    }
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    BuilderFormula m(b, q.expressed, x.dims);
    b.computation()->set_root(stores_ ? quantize(m, parameters[0], q)
                                      : dequantize(m, parameters[0], q));
    return b.computation();
  }

 private:
  bool stores_;
};

}  // namespace

void add_quantization_calls(NamedTargets* out) {
  out->emplace_back("mhlo.uniform_quantize", std::make_shared<Quantizing>(true));
  out->emplace_back("mhlo.uniform_dequantize", std::make_shared<Quantizing>(false));
}

}  // namespace tessera::ir
