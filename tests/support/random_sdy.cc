// SPDX-License-Identifier: Apache-2.0
// Writes two texts side by side: one with sdy, one without.
#include "tests/support/random_sdy.h"

#include "tests/support/random_sdy_forms.h"

namespace tessera::testing {
namespace {

using namespace sdy_text;

/// How deep regions stand in each other.
constexpr int kMaxDepth = 3;

class Writer : FormWriter {
 public:
  explicit Writer(std::uint64_t seed) : FormWriter(seed) {}

  RandomSdy run() {
    RandomSdy out;
    Values values;
    std::string arguments[2];
    for (int n = int(dice_.between(1, 3)); n > 0; --n) {
      Value v;
      for (std::int64_t r = dice_.below(4); r > 0; --r) v.dims.push_back(size());
      v.annotated = v.plain = "%arg" + std::to_string(values.size());
      const std::string between = values.empty() ? "" : ", ";
      arguments[1] += between + v.plain + ": " + tensor(v.dims);
      arguments[0] += between + v.annotated + ": " + tensor(v.dims) + boundary(v.dims, &v.said);
      out.arguments.push_back(v.dims);
      values.push_back(std::move(v));
    }
    for (Value& v : values) v = maybe_edge(v, true);
    for (int n = int(dice_.between(3, 12)); n > 0; --n) step(values);
    Values results;
    if (dice_.chance(0.5)) {
      for (std::int64_t n = dice_.between(1, 3); n > 0; --n) results.push_back(pick(values));
    } else {
      // What nothing depends on isn't compiled.
      for (const Value& v : values) {
        if (dice_.chance(0.8)) results.push_back(v);
      }
      if (results.empty()) results.push_back(values.back());
    }
    std::string names[2], types[2];
    for (const Value& v : results) {
      const std::string between = names[0].empty() ? "" : ", ";
      names[0] += between + v.annotated;
      names[1] += between + v.plain;
      types[1] += between + type_of(v);
      types[0] += between + type_of(v) + boundary(v.dims, nullptr);
    }
    const std::string meshes = meshes_.declarations(&aliases_);
    const bool first = dice_.chance(0.8);
    for (int t = 0; t < 2; ++t) {
      std::string& text = t == 0 ? out.annotated : out.plain;
      if (t == 0) text += aliases_;
      text += "module @m" + (t == 0 ? meshes_.count_attribute() : "") + " {\n";
      if (t == 0 && first) text += meshes;
      text += functions_[t] + "func.func public @main(" + arguments[t] + ") -> (" + types[t] +
              ") {\n" + text_[t] + "return " + names[t] + " : " + types[1] + "\n}\n";
      if (t == 0 && !first) text += meshes;
      text += "}\n";
    }
    return out;
  }

 private:
  /// What a function says of an argument or result.
  std::string boundary(const Dims& dims, std::optional<SdySharding>* said) {
    if (!dice_.chance(0.5)) return "";
    const SdySharding s = any(dims);
    if (said) *said = s;
    return " {sdy.sharding = " + sharding_attribute(s) + "}";
  }

  // ----- regions

  /// A few operations that keep the shape.
  Value body(Values values) {
    ++depth_;
    for (std::int64_t n = dice_.between(0, 3); n > 0; --n) {
      const double kind = dice_.unit();
      Value v = kind < 0.3                         ? annotated({values.back()})
                : kind < 0.4 && depth_ < kMaxDepth ? region(values)
                                                   : elementwise(values);
      values.push_back(std::move(v));
    }
    --depth_;
    return converted(dice_.chance(0.9) ? values.back() : pick(values), values[0].element);
  }

  Value region(const Values& values) {
    switch (dice_.below(6)) {
      case 0:
        return named(values);
      case 1:
        return loop(values);
      case 2:
        return branches(values);
      case 3:
        return called(values);
      case 4:
        return barriers(values);
      default:
        return manual(values);
    }
  }

  static std::string names_of(const Values& values) {
    std::string out;
    for (const Value& v : values) out += (out.empty() ? "" : ", ") + v.annotated;
    return out;
  }
  static std::string types_of(const Values& values) {
    std::string out;
    for (const Value& v : values) out += (out.empty() ? "" : ", ") + type_of(v);
    return out;
  }
  /// One or two values of one shape.
  Values operands_of(const Values& values) {
    Values out{pick(values)};
    if (dice_.chance(0.4)) out.push_back(alike(values, out[0]));
    return out;
  }
  /// `%a: tensor<..>, ...` for what a region is given, which goes to `inner`.
  std::string region_arguments(const Values& operands, const Dims& dims, Values* inner) {
    std::string out;
    for (const Value& x : operands) {
      Value v = x;
      v.annotated = fresh();
      v.said = std::nullopt;
      v.dims = dims;
      out += (out.empty() ? "" : ", ") + v.annotated + ": " + type_of(v);
      inner->push_back(std::move(v));
    }
    return out;
  }
  /// The end of a region of sdy.
  void sdy_return(const Values& results) {
    const std::string types = types_of(results);
    text_[0] += dice_.chance(0.1)
                    ? "\"sdy.return\"(" + names_of(results) + ") : (" + types + ") -> ()\n"
                    : "sdy.return " + names_of(results) + " : " + types + "\n";
  }
  /// One of the results of an operation that was written to the first text.
  Value result_of(const std::string& name, const Values& results,
                  const std::vector<SdySharding>& said, const Dims& dims) {
    const auto k = std::size_t(dice_.below(std::int64_t(results.size())));
    Value v = results[k];
    v.annotated = results.size() == 1 ? name : name + "#" + std::to_string(k);
    v.said = k < said.size() ? std::optional(said[k]) : std::nullopt;
    v.dims = dims;
    return dice_.chance(0.15) ? edge(v) : v;
  }
  static std::string bound_name(const std::string& name, std::size_t results) {
    return results == 1 ? name : name + ":" + std::to_string(results);
  }

  Value named(const Values& values) {
    const Values operands = operands_of(values);
    const Dims dims = operands[0].dims;
    const std::string name = fresh();
    std::string in, out;
    std::vector<SdySharding> given, said;
    if (dice_.chance(0.5)) {
      for (const Value& x : operands) given.push_back(fit(x, any(dims)));
      in = " in_shardings=" + list_of(given);
    }
    const std::size_t count = std::size_t(dice_.between(1, 2));
    if (dice_.chance(0.5)) {
      for (std::size_t k = 0; k < count; ++k) said.push_back(any(dims));
    }
    Values inner, results;
    const std::string arguments = region_arguments(operands, dims, &inner);
    std::string before;
    std::swap(before, text_[0]);
    for (std::size_t k = 0; k < inner.size(); ++k) {
      // Inlined, constraints follow each other.
      if (k < given.size()) inner[k].said = given[k];
      inner[k] = maybe_edge(inner[k]);
    }
    for (std::size_t k = 0; k < count; ++k) {
      results.push_back(body(inner));
      if (k < said.size()) said[k] = fit(results[k], said[k]);
    }
    if (!said.empty()) out = " out_shardings=" + list_of(said);
    text_[0] = before + bound_name(name, count) + " = sdy.named_computation<\"f\">(" +
               names_of(operands) + ")" + in + out + " (" + arguments + ") {\n" + text_[0];
    sdy_return(results);
    text_[0] += "} : (" + types_of(operands) + ") -> " +
                (count == 1 ? types_of(results) : "(" + types_of(results) + ")") + "\n";
    return result_of(name, results, said, dims);
  }

  // ----- manual computations

  struct ManualAxes {
    int mesh = 0;
    std::vector<int> axes;
  };
  /// Axes that may be manual here; none: there are no such.
  ManualAxes manual_axes() {
    ManualAxes out;
    out.mesh = scope_.mesh;
    if (scope_.mesh < 0) {
      out.mesh = dice_.chance(0.7) ? meshes_.partly_manual() : int(dice_.below(meshes_.count()));
    }
    if (!meshes_.divides(out.mesh)) return out;
    const bool all = dice_.chance(0.3) || out.mesh != meshes_.partly_manual();
    for (int a = 0; a < int(meshes_.sizes(out.mesh).size()); ++a) {
      if (scope_.is_free(a) && (all || dice_.chance(0.6))) out.axes.push_back(a);
    }
    return out;
  }
  std::string axis_names(const ManualAxes& manual) const {
    std::string out;
    for (const int a : manual.axes) {
      out += (out.empty() ? "\"" : ", \"") + meshes_.axis_name(manual.mesh, a) + "\"";
    }
    return "{" + out + "}";
  }
  SdyAxis whole(int mesh, int axis) const {
    return {axis, 1, meshes_.sizes(mesh)[std::size_t(axis)]};
  }
  SdyScope inside(const ManualAxes& manual, const SdyAxes& nowhere) {
    SdyScope s = scope_;
    for (const SdyAxis& a : nowhere) s.alike.push_back(a.axis);
    s.mesh = manual.mesh;
    s.bound.insert(s.bound.end(), manual.axes.begin(), manual.axes.end());
    s.number = ++scopes_;
    return s;
  }

  /// The same split by manual axes, with axes that stay free behind.
  SdySharding with_free_axes(SdySharding s, const Dims& dims, const SdyScope& inner) {
    SdyAxes free = some(meshes_.atoms(s.mesh, inner), 0.5);
    meshes_.shuffle(free);
    meshes_.place(free, dims, 0.6, &s);
    meshes_.leave_open(&s);
    return s;
  }

  /// Writes what is on shards: types of these in both texts, which are of whole arrays in the plain
  /// one afterwards.
  template <class Inside>
  void write_inside(const SdyScope& inner, const Dims& local, const Dims& dims, Inside inside) {
    std::string texts, functions;
    std::swap(texts, text_[1]);
    std::swap(functions, functions_[1]);
    const SdyScope outer = std::exchange(scope_, inner);
    inside();
    scope_ = outer;
    text_[1] = texts + replaced(text_[1], local, dims);
    functions_[1] = functions + replaced(functions_[1], local, dims);
  }
  static std::string replaced(const std::string& text, const Dims& local, const Dims& dims) {
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t before = at;
      for (const char* element : {"f32", "i1", "i32", "f64"}) {
        const std::string from = tensor(local, element);
        if (text.compare(at, from.size(), from) != 0) continue;
        out += tensor(dims, element);
        at += from.size();
        break;
      }
      if (at == before) out += text[at++];
    }
    return out;
  }

  std::string manual_text(const std::string& name, std::size_t results, const Values& operands,
                          const std::vector<SdySharding>& in, const std::vector<SdySharding>& out,
                          const ManualAxes& axes, const std::string& arguments) {
    return bound_name(name, results) + " = sdy.manual_computation(" + names_of(operands) +
           ") in_shardings=" + list_of(in) + " out_shardings=" + list_of(out) +
           " manual_axes=" + axis_names(axes) + " (" + arguments + ") {\n";
  }

  /// Splits dims by some of the axes; what is left of the dims.
  Dims split(const ManualAxes& axes, const Dims& dims, double likely, SdySharding* s,
             SdyAxes* nowhere) {
    Dims local = dims;
    s->mesh = axes.mesh;
    for (const int a : axes.axes) {
      const SdyAxis axis = whole(axes.mesh, a);
      const auto d = std::size_t(dims.empty() ? 0 : dice_.below(std::int64_t(dims.size())));
      if (dims.empty() || !dice_.chance(likely) || local[d] % axis.size != 0) {
        nowhere->push_back(axis);
        continue;
      }
      local[d] /= axis.size;
      s->dims[d].push_back(axis);
    }
    return local;
  }

  /// Elementwise code on shards: the same as on whole arrays.
  Value manual(const Values& values) {
    const ManualAxes axes = manual_axes();
    if (axes.axes.empty()) return elementwise(values);
    if (dice_.chance(0.15)) return manual_parts(values, axes);
    const Values operands = operands_of(values);
    const Dims dims = operands[0].dims;
    SdySharding s = SdyMeshes::none_of(dims.size());
    SdyAxes nowhere;
    const Dims local = split(axes, dims, 0.8, &s, &nowhere);
    const SdyScope inner = inside(axes, nowhere);
    std::vector<SdySharding> in, out;
    const auto boundary = [&] {
      SdySharding one = s;
      one.replicated = some(nowhere, 0.3);
      return with_free_axes(one, dims, inner);
    };
    for (const Value& x : operands) in.push_back(fit(x, boundary()));
    const std::size_t count = std::size_t(dice_.between(1, 2));
    for (std::size_t k = 0; k < count; ++k) out.push_back(boundary());
    const std::string name = fresh();
    Values given, results;
    const std::string arguments = region_arguments(operands, local, &given);
    text_[0] += manual_text(name, count, operands, in, out, axes, arguments);
    write_inside(inner, local, dims, [&] {
      for (Value& v : given) v = maybe_edge(v);
      for (std::size_t k = 0; k < count; ++k) results.push_back(body(given));
      sdy_return(results);
    });
    for (Value& v : results) v.dims = dims;
    const std::string types = types_of(results);
    text_[0] +=
        "} : (" + types_of(operands) + ") -> " + (count == 1 ? types : "(" + types + ")") + "\n";
    return result_of(name, results, out, dims);
  }

  /// What devices have are parts of the result, and maybe of the operand.
  Value manual_parts(const Values& values, const ManualAxes& axes) {
    const Value x = pick(values);
    SdySharding in = SdyMeshes::none_of(x.dims.size());
    SdyAxes nowhere;
    const Dims local = split(axes, x.dims, 0.5, &in, &nowhere);
    const SdyScope inner = inside(axes, {});
    SdySharding out = in;
    out.unreduced = some(nowhere, 0.7);
    out.kind = int(dice_.below(3));
    const bool parts = dice_.chance(0.4);
    if (parts) {
      in.unreduced = out.unreduced;
      in.kind = out.kind;
      if (fit(x, in).kind != in.kind) return elementwise(values);
    }
    const std::int64_t times = parts || out.kind > 0 ? 1 : SdyMeshes::shards(out.unreduced);
    if (double(times) * x.bound > kExact) return elementwise(values);
    const std::string name = fresh(), plain = fresh(), type = type_of(x);
    Values given;
    const std::string arguments = region_arguments({x}, local, &given);
    text_[0] += manual_text(name, 1, {x}, {in}, {out}, axes, arguments);
    Values results;
    write_inside(inner, local, x.dims, [&] {
      // Of parts of a maximum only what keeps their order may be computed.
      const char* op = parts && out.kind > 0 ? "maximum" : "subtract";
      const Value& y = given[0];
      const Value other =
          op[0] == 'm' ? y : operation("stablehlo.constant " + filled(0, y), {}, local, 0);
      results.push_back(
          of_element(operation(std::string("stablehlo.") + op + " $0, $1 : " + type_of(y),
                               {y, other}, local, x.bound),
                     x.element));
      sdy_return(results);
    });
    text_[0] += "} : (" + type + ") -> " + type + "\n";
    Value v = result_of(name, results, {out}, x.dims);
    if (times == 1) return v;
    text_[1] += plain + "c = stablehlo.constant " + filled(times, v) + "\n" + plain +
                " = stablehlo.multiply " + v.plain + ", " + plain + "c : " + type + "\n";
    v.plain = plain;
    v.bound *= double(times);
    return v;
  }
  // ----- control flow

  Value loop(const Values& values) {
    const Values carried{pick(values), pick(values)};
    const auto count = std::size_t(dice_.between(1, 2));
    const Value zero = operation("stablehlo.constant dense<0> : tensor<i32>", {}, {}, 0);
    const Value one = operation("stablehlo.constant dense<1> : tensor<i32>", {}, {}, 0);
    const Value end = operation("stablehlo.constant dense<3> : tensor<i32>", {}, {}, 0);
    const std::string name = fresh(), counter = fresh(), more = fresh(), next = fresh();
    std::vector<Dims> shapes{{}};
    Values inner;
    std::string given[2], types = "tensor<i32>";
    for (std::size_t k = 0; k < count; ++k) {
      Value v = carried[k];
      v.annotated = v.plain = fresh();
      v.said = std::nullopt;
      // So large that nothing in it is multiplied or added up.
      v.bound = kExact;
      given[0] += ", " + v.annotated + " = " + carried[k].annotated;
      given[1] += ", " + v.plain + " = " + carried[k].plain;
      types += ", " + type_of(v);
      shapes.push_back(v.dims);
      inner.push_back(std::move(v));
    }
    std::vector<SdySharding> said;
    const std::string attributes = attribute(shapes, 0.4, &said);
    for (int t = 0; t < 2; ++t) {
      text_[t] += name + ":" + std::to_string(count + 1) + " = stablehlo.while(" + counter + " = " +
                  zero.plain + given[t] + ") : " + types +
                  (t == 0 && !attributes.empty() ? " attributes {" + attributes + "}" : "") +
                  "\ncond {\n" + more + " = stablehlo.compare LT, " + counter + ", " + end.plain +
                  " : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return " + more +
                  " : tensor<i1>\n} do {\n" + next + " = stablehlo.add " + counter + ", " +
                  one.plain + " : tensor<i32>\n";
    }
    std::string returned[2];
    for (Value& v : inner) {
      const Value result = body({maybe_edge(v)});
      returned[0] += ", " + result.annotated;
      returned[1] += ", " + result.plain;
    }
    line("stablehlo.return " + next + returned[0] + " : " + types + "\n}",
         "stablehlo.return " + next + returned[1] + " : " + types + "\n}");
    const auto k = std::size_t(dice_.below(std::int64_t(count)));
    Value result = carried[k];
    result.annotated = result.plain = name + "#" + std::to_string(k + 1);
    result.said = said.empty() ? std::nullopt : std::optional(said[k + 1]);
    return maybe_edge(result);
  }

  Value branches(const Values& values) {
    const Value x = pick(values), y = alike(values, x);
    const std::string type = type_of(x);
    const Value which =
        operation("stablehlo.constant dense<" + std::to_string(dice_.below(2)) + "> : tensor<i32>",
                  {}, {}, 0);
    const std::string name = fresh();
    line(name + " = \"stablehlo.case\"(" + which.annotated + ") ({",
         name + " = \"stablehlo.case\"(" + which.plain + ") ({");
    double bound = 0;
    for (int b = 0; b < 2; ++b) {
      const Value result = body({b == 0 ? x : y});
      bound = std::max(bound, result.bound);
      line("stablehlo.return " + result.annotated + " : " + type,
           "stablehlo.return " + result.plain + " : " + type);
      if (b == 0) line("}, {", "}, {");
    }
    Value v{name, name, x.dims, bound, std::nullopt, x.element};
    std::vector<SdySharding> said;
    const std::string attributes = attribute({x.dims}, 0.35, &said);
    if (!said.empty()) v.said = said[0];
    line("})" + (attributes.empty() ? "" : " {" + attributes + "}") + " : (tensor<i32>) -> " + type,
         "}) : (tensor<i32>) -> " + type);
    return maybe_edge(v);
  }

  Value barriers(const Values& values) {
    const Value x = pick(values), y = pick(values);
    const std::string name = fresh(), types = " : " + type_of(x) + ", " + type_of(y);
    std::vector<SdySharding> said;
    const std::string attributes = attribute({x.dims, y.dims}, 0.5, &said);
    line(name + ":2 = stablehlo.optimization_barrier " +
             (attributes.empty() ? "" : "{" + attributes + "} ") + x.annotated + ", " +
             y.annotated + types,
         name + ":2 = stablehlo.optimization_barrier " + x.plain + ", " + y.plain + types);
    const auto k = std::size_t(dice_.below(2));
    Value v = k == 0 ? x : y;
    v.annotated = v.plain = name + "#" + std::to_string(k);
    v.said = said.empty() ? std::nullopt : std::optional(said[k]);
    return v;
  }

  struct Function {
    std::string symbol;
    Dims dims;
    std::string element;
    int scope;
    double takes, gives;  ///< bounds
  };

  Value called(const Values& values) {
    const Value x = pick(values);
    std::vector<const Function*> known;
    for (const Function& f : known_) {
      if (f.dims == x.dims && f.element == x.element && f.scope == scope_.number &&
          x.bound <= f.takes) {
        known.push_back(&f);
      }
    }
    if (!known.empty() && dice_.chance(0.6)) return call(*dice_.pick(known), x);
    const std::string type = type_of(x);
    const Function f{"@f" + std::to_string(next_++), x.dims, x.element, scope_.number, x.bound, 0};
    std::string outer[2];
    for (int t = 0; t < 2; ++t) std::swap(outer[t], text_[t]);
    Value inner = x;
    inner.annotated = inner.plain = "%x";
    inner.said = std::nullopt;
    const std::string given = boundary(x.dims, &inner.said), gives = boundary(x.dims, nullptr);
    const Value result = body({maybe_edge(inner, true)});
    for (int t = 0; t < 2; ++t) {
      functions_[t] += "func.func private " + f.symbol + "(%x: " + type + (t == 0 ? given : "") +
                       ") -> (" + type + (t == 0 ? gives : "") + ") {\n" + text_[t] + "return " +
                       (t == 0 ? result.annotated : result.plain) + " : " + type + "\n}\n";
      text_[t] = std::move(outer[t]);
    }
    known_.push_back(f);
    known_.back().gives = result.bound;
    return call(known_.back(), x);
  }
  Value call(const Function& f, const Value& x) {
    const std::string type = type_of(x);
    const Value v =
        operation("call " + f.symbol + "($0){} : (" + type + ") -> " + type, {x}, x.dims, f.gives);
    return maybe_edge(of_element(v, x.element), true);
  }

  void step(Values& values) {
    const std::int64_t kind = dice_.below(20);
    Value v = kind < 4    ? elementwise(values)
              : kind < 8  ? moved(values)
              : kind < 9  ? reduced(values)
              : kind < 11 ? dot(values)
              : kind < 16 ? annotated(values)
                          : region(values);
    if (product_of({v.dims.begin(), v.dims.end()}) > 4096) return;
    values.push_back(std::move(v));
  }

  std::vector<Function> known_;
  int depth_ = 0, scopes_ = 0;
};

}  // namespace

RandomSdy random_sdy(std::uint64_t seed) { return Writer(seed).run(); }

}  // namespace tessera::testing
