// SPDX-License-Identifier: Apache-2.0
// Writes two texts side by side: one with sdy, one without.
#include "tests/support/random_sdy.h"

#include "tests/support/random_sdy_ops.h"

namespace tessera::testing {
namespace {

using namespace sdy_text;

class Writer : OperationWriter {
 public:
  explicit Writer(std::uint64_t seed) : OperationWriter(seed) {}

  RandomSdy run() {
    RandomSdy out;
    Values values;
    std::string annotated, plain;
    for (int n = int(dice_.between(1, 3)); n > 0; --n) {
      Value v;
      for (std::int64_t r = dice_.below(4); r > 0; --r) v.dims.push_back(size());
      v.annotated = v.plain = "%arg" + std::to_string(values.size());
      const std::string between = values.empty() ? "" : ", ";
      annotated += between + v.annotated + ": " + tensor(v.dims);
      if (dice_.chance(0.6)) {
        annotated += " {sdy.sharding = #sdy.sharding" + mesh_.text(even(v.dims)) + "}";
      }
      plain += between + v.plain + ": " + tensor(v.dims);
      out.arguments.push_back(v.dims);
      values.push_back(std::move(v));
    }
    for (int n = int(dice_.between(3, 10)); n > 0; --n) step(values);
    Values results(values.end() - std::min<std::ptrdiff_t>(2, std::ptrdiff_t(values.size())),
                   values.end());
    std::string names[2], types[2], returned;
    for (const Value& v : results) {
      const std::string between = returned.empty() ? "" : ", ";
      names[0] += between + v.annotated;
      names[1] += between + v.plain;
      returned += between + tensor(v.dims);
      types[0] += between + tensor(v.dims);
      if (dice_.chance(0.3)) {
        types[0] += " {sdy.sharding = #sdy.sharding" + mesh_.text(even(v.dims)) + "}";
      }
    }
    types[1] = returned;
    out.annotated = "module @m {\n" + mesh_.declarations() + functions_[0] +
                    "func.func public @main(" + annotated + ") -> (" + types[0] + ") {\n" +
                    text_[0] + "return " + names[0] + " : " + returned + "\n}\n}\n";
    out.plain = "module @m {\n" + functions_[1] + "func.func public @main(" + plain + ") -> (" +
                types[1] + ") {\n" + text_[1] + "return " + names[1] + " : " + returned +
                "\n}\n}\n";
    return out;
  }

 private:
  // ----- operations of sdy alone: the plain text goes on with the operand

  Value passed(const Value& x, const std::string& form) {
    Value v = x;
    v.annotated = fresh();
    text_[0] += v.annotated + " = " + form + " : " + tensor(x.dims) + "\n";
    return v;
  }

  /// An edge must be the only one to read its operand, which no operation of sdy may give.
  std::string own_copy(const Value& x) {
    const std::string copy = fresh();
    text_[0] += copy + " = stablehlo.reshape " + x.annotated + " : (" + tensor(x.dims) + ") -> " +
                tensor(x.dims) + "\n";
    return copy;
  }

  Value annotated(const Values& values) {
    const Value x = pick(values);
    switch (dice_.below(7)) {
      case 0:
        return constraint(x);
      case 1:
        return passed(x, "sdy.reshard " + x.annotated + " " + mesh_.text(any(x.dims)));
      case 2: {
        static const std::vector<std::string> kDirections = {"NONE", "FORWARD", "BACKWARD"};
        return passed(x, "sdy.propagation_barrier " + x.annotated +
                             " allowed_direction=" + dice_.pick(kDirections));
      }
      case 3:
        return passed(x, "sdy.data_flow_edge " + own_copy(x) +
                             (dice_.chance(0.5) ? " sharding=" + mesh_.text(even(x.dims)) : ""));
      case 4: {
        if (unreduced_) return constraint(x);
        const Value y = alike(values, x);
        const int group = next_group_++;
        for (const Value& member : {x, y}) {
          text_[0] += "sdy.sharding_group " + member.annotated +
                      " group_id=" + std::to_string(group) + " : " + tensor(x.dims) + "\n";
        }
        return elementwise(values);
      }
      default:
        return collective(x);
    }
  }

  /// From one sharding to another by the operation that leads there.
  Value collective(const Value& x) {
    SdySharding from = mesh_.sharding(x.dims, may_be_unreduced(), bound_);
    std::fill(from.open.begin(), from.open.end(), false);
    std::fill(from.priority.begin(), from.priority.end(), -1);
    SdySharding to = from;
    const auto per_dim = [&](const std::vector<SdyAxes>& lists) {
      std::string out = "[";
      for (std::size_t d = 0; d < lists.size(); ++d) {
        out += (d > 0 ? ", {" : "{") + mesh_.axes(lists[d]) + "}";
      }
      return out + "] ";
    };
    std::vector<SdyAxes> moved(x.dims.size());
    std::string form;
    const auto take = [&](std::size_t d, SdyAxes* out) {
      if (to.dims[d].empty()) return;
      out->push_back(to.dims[d].back());
      to.dims[d].pop_back();
    };
    switch (x.dims.empty() ? 2 : dice_.below(5)) {
      case 0:
        for (std::size_t d = 0; d < x.dims.size(); ++d) take(d, &moved[d]);
        form = "sdy.all_gather " + per_dim(moved);
        break;
      case 1:
        for (std::size_t d = 0; d < x.dims.size(); ++d) take(d, &moved[d]);
        std::swap(from, to);
        form = "sdy.all_slice " + per_dim(moved);
        break;
      case 2: {
        const SdyAxes all = SdyMesh::ordered(from.unreduced);
        to.unreduced.clear();
        form = "sdy.all_reduce {" + mesh_.axes(all) + "} ";
        break;
      }
      case 3: {
        if (x.dims.size() < 2 || from.dims[0].empty()) return constraint(x);
        take(0, &moved[0]);
        const auto d = std::size_t(dice_.between(1, std::int64_t(x.dims.size()) - 1));
        to.dims[d].push_back(moved[0][0]);
        form = "sdy.all_to_all [{" + mesh_.axes(moved[0]) + "}: 0->" + std::to_string(d) + "] ";
        break;
      }
      default:
        std::swap(to.dims.front(), to.dims.back());
        if (shards(to.dims.front()) != shards(from.dims.front())) return constraint(x);
        form = "sdy.collective_permute ";
        break;
    }
    const Value held = passed(x, "sdy.reshard " + x.annotated + " " + mesh_.text(from));
    return passed(held, form + held.annotated + " out_sharding=" + mesh_.text(to));
  }

  static std::int64_t shards(const SdyAxes& axes) {
    std::int64_t n = 1;
    for (const SdyAxis& a : axes) n *= a.size;
    return n;
  }

  /// Without unreduced axes, which a constraint would give an argument, too.
  Value constraint(const Value& x) {
    return passed(x, "sdy.sharding_constraint " + x.annotated + " " +
                         mesh_.text(mesh_.sharding(x.dims, false, bound_)));
  }

  // ----- regions

  /// A few operations that keep the shape.
  Value body(const Value& x) {
    Values values{x};
    for (std::int64_t n = dice_.between(1, 3); n > 0; --n) {
      values.push_back(dice_.chance(0.3) ? annotated({values.back()}) : elementwise(values));
    }
    return values.back();
  }

  Value named(const Values& values) {
    const Value x = pick(values);
    Value inner = x;
    inner.annotated = fresh();
    const std::string name = fresh(), type = tensor(x.dims);
    std::string in, out;
    if (dice_.chance(0.5)) in = " in_shardings=[" + mesh_.text(even(x.dims)) + "]";
    if (dice_.chance(0.5)) out = " out_shardings=[" + mesh_.text(even(x.dims)) + "]";
    text_[0] += name + " = sdy.named_computation<\"f\">(" + x.annotated + ")" + in + out + " (" +
                inner.annotated + ": " + type + ") {\n";
    Value result = body(inner);
    text_[0] +=
        "sdy.return " + result.annotated + " : " + type + "\n} : (" + type + ") -> " + type + "\n";
    result.annotated = name;
    return result;
  }

  /// Elementwise code on shards: the same as on whole arrays.
  Value manual(const Values& values) {
    const Value x = pick(values);
    std::vector<int> manual_axes;
    for (std::size_t i = 0; i < mesh_.sizes().size(); ++i) {
      if (dice_.chance(0.6)) manual_axes.push_back(int(i));
    }
    if (manual_axes.empty() || !bound_.empty()) return elementwise(values);
    SdySharding s;
    s.dims.resize(x.dims.size());
    s.open.assign(x.dims.size(), false);
    s.priority.assign(x.dims.size(), -1);
    Dims local = x.dims;
    std::string names;
    for (const int a : manual_axes) {
      names += (names.empty() ? "\"" : ", \"") + mesh_.axis_name(a) + "\"";
      if (x.dims.empty() || !dice_.chance(0.8)) continue;
      const auto d = std::size_t(dice_.below(std::int64_t(x.dims.size())));
      const std::int64_t size = mesh_.sizes()[std::size_t(a)];
      if (local[d] % size != 0 || size == 1) continue;
      local[d] /= size;
      s.dims[d].push_back({a, 1, size});
    }
    const std::string name = fresh(), type = tensor(x.dims), list = "[" + mesh_.text(s) + "]";
    Value inner = x;
    inner.annotated = fresh();
    inner.dims = local;
    text_[0] += name + " = sdy.manual_computation(" + x.annotated + ") in_shardings=" + list +
                " out_shardings=" + list + " manual_axes={" + names + "} (" + inner.annotated +
                ": " + tensor(local) + ") {\n";
    bound_ = manual_axes;
    // The texts differ in their shapes here.
    std::string kept;
    std::swap(kept, text_[1]);
    Value result = body(inner);
    std::string written;
    std::swap(written, text_[1]);
    text_[1] =
        kept + replaced(written, tensor(local), type, tensor(local, "i1"), tensor(x.dims, "i1"));
    bound_.clear();
    text_[0] += "sdy.return " + result.annotated + " : " + tensor(local) + "\n} : (" + type +
                ") -> " + type + "\n";
    result.annotated = name;
    result.dims = x.dims;
    // Not returned as it is: what a function returns may have another sharding than this has.
    return operation("stablehlo.negate $0 : " + type, {result}, x.dims, result.bound);
  }

  static std::string replaced(std::string text, const std::string& a, const std::string& to_a,
                              const std::string& b, const std::string& to_b) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      if (text.compare(at, a.size(), a) == 0) {
        out += to_a;
        at += a.size();
      } else if (text.compare(at, b.size(), b) == 0) {
        out += to_b;
        at += b.size();
      } else {
        out += text[at++];
      }
    }
    return out;
  }

  Value loop(const Values& values) {
    const Value x = pick(values);
    const std::string type = tensor(x.dims);
    const Value zero = operation("stablehlo.constant dense<0> : tensor<i32>", {}, {}, 0);
    const Value one = operation("stablehlo.constant dense<1> : tensor<i32>", {}, {}, 0);
    const Value end = operation("stablehlo.constant dense<3> : tensor<i32>", {}, {}, 0);
    const std::string name = fresh(), counter = fresh(), carried = fresh(), more = fresh(),
                      next = fresh();
    std::string attributes;
    if (dice_.chance(0.4)) {
      attributes = " attributes {sdy.sharding = #sdy.sharding_per_value<[" + mesh_.text(even({})) +
                   ", " + mesh_.text(even(x.dims)) + "]>}";
    }
    for (int t = 0; t < 2; ++t) {
      text_[t] += name + ":2 = stablehlo.while(" + counter + " = " + zero.plain + ", " + carried +
                  " = " + (t == 0 ? x.annotated : x.plain) + ") : tensor<i32>, " + type +
                  (t == 0 ? attributes : "") + "\ncond {\n" + more + " = stablehlo.compare LT, " +
                  counter + ", " + end.plain +
                  " : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return " + more +
                  " : tensor<i1>\n} do {\n" + next + " = stablehlo.add " + counter + ", " +
                  one.plain + " : tensor<i32>\n";
    }
    Value inner = x;
    inner.annotated = inner.plain = carried;
    // So large that nothing in it is multiplied or added up.
    inner.bound = kExact;
    Value result = body(inner);
    line("stablehlo.return " + next + ", " + result.annotated + " : tensor<i32>, " + type + "\n}",
         "stablehlo.return " + next + ", " + result.plain + " : tensor<i32>, " + type + "\n}");
    result.annotated = result.plain = name + "#1";
    result.bound = x.bound;
    return result;
  }

  Value branches(const Values& values) {
    const Value x = pick(values), y = alike(values, x);
    const std::string type = tensor(x.dims);
    const Value which =
        operation("stablehlo.constant dense<" + std::to_string(dice_.below(2)) + "> : tensor<i32>",
                  {}, {}, 0);
    const std::string name = fresh();
    line(name + " = \"stablehlo.case\"(" + which.annotated + ") ({",
         name + " = \"stablehlo.case\"(" + which.plain + ") ({");
    double bound = 0;
    for (int b = 0; b < 2; ++b) {
      const Value result = body(b == 0 ? x : y);
      bound = std::max(bound, result.bound);
      line("stablehlo.return " + result.annotated + " : " + type,
           "stablehlo.return " + result.plain + " : " + type);
      if (b == 0) line("}, {", "}, {");
    }
    line("})" + attribute({x.dims}) + " : (tensor<i32>) -> " + type,
         "}) : (tensor<i32>) -> " + type);
    return {name, name, x.dims, bound};
  }

  Value called(const Values& values) {
    const Value x = pick(values);
    const std::string type = tensor(x.dims), symbol = "@f" + std::to_string(next_++);
    std::string outer[2];
    for (int t = 0; t < 2; ++t) std::swap(outer[t], text_[t]);
    Value inner = x;
    inner.annotated = inner.plain = "%x";
    const Value result = body(inner);
    const auto sharding = [&] {
      return dice_.chance(0.5) ? " {sdy.sharding = #sdy.sharding" + mesh_.text(even(x.dims)) + "}"
                               : std::string();
    };
    for (int t = 0; t < 2; ++t) {
      functions_[t] += "func.func private " + symbol + "(%x: " + type + (t == 0 ? sharding() : "") +
                       ") -> (" + type + (t == 0 ? sharding() : "") + ") {\n" + text_[t] +
                       "return " + (t == 0 ? result.annotated : result.plain) + " : " + type +
                       "\n}\n";
      text_[t] = std::move(outer[t]);
    }
    return operation("call " + symbol + "($0){} : (" + type + ") -> " + type, {x}, x.dims,
                     result.bound);
  }

  void step(Values& values) {
    const std::int64_t kind = dice_.below(20);
    Value v = kind < 4    ? elementwise(values)
              : kind < 8  ? moved(values)
              : kind < 9  ? reduced(values)
              : kind < 11 ? dot(values)
              : kind < 16 ? annotated(values)
              : kind < 17 ? named(values)
              : kind < 18 ? manual(values)
              : kind < 19 ? (dice_.chance(0.5) ? loop(values) : branches(values))
                          : called(values);
    if (product(v.dims) > 4096) return;
    values.push_back(std::move(v));
  }

  static std::int64_t product(const Dims& dims) {
    std::int64_t n = 1;
    for (const std::int64_t d : dims) n *= d;
    return n;
  }
};

}  // namespace

RandomSdy random_sdy(std::uint64_t seed) { return Writer(seed).run(); }

}  // namespace tessera::testing
