// SPDX-License-Identifier: Apache-2.0
// Functions of numpy and JAX in terms of the public API, by name.
#include "tests/frontend/ops/numpy_functions.h"

#include <sstream>

namespace tessera::testing {

namespace {

using Call = FixtureCall;
using Table = std::map<std::string, FixtureFunction>;
using Arrays = std::vector<Array>;

void add_elementwise(Table& table) {
  using Unary = Array (*)(Operand);
  const std::map<std::string, Unary> unary{{"abs", abs},
                                           {"negative", negative},
                                           {"sign", sign},
                                           {"square", square},
                                           {"sqrt", sqrt},
                                           {"rsqrt", rsqrt},
                                           {"cbrt", cbrt},
                                           {"reciprocal", reciprocal},
                                           {"exp", exp},
                                           {"exp2", exp2},
                                           {"expm1", expm1},
                                           {"log", log},
                                           {"log2", log2},
                                           {"log10", log10},
                                           {"log1p", log1p},
                                           {"sin", sin},
                                           {"cos", cos},
                                           {"tan", tan},
                                           {"tanh", tanh},
                                           {"sinh", sinh},
                                           {"cosh", cosh},
                                           {"arcsin", arcsin},
                                           {"arccos", arccos},
                                           {"arctan", arctan},
                                           {"arcsinh", arcsinh},
                                           {"arccosh", arccosh},
                                           {"arctanh", arctanh},
                                           {"erf", erf},
                                           {"sigmoid", sigmoid},
                                           {"floor", floor},
                                           {"ceil", ceil},
                                           {"trunc", trunc},
                                           {"rint", round},
                                           {"isnan", isnan},
                                           {"isinf", isinf},
                                           {"isfinite", isfinite},
                                           {"logical_not", logical_not},
                                           {"invert", bitwise_not},
                                           {"real", real},
                                           {"imag", imag},
                                           {"conj", conj},
                                           {"angle", angle},
                                           {"signbit", signbit},
                                           {"nan_to_num", nan_to_num},
                                           {"relu", relu},
                                           {"relu6", relu6},
                                           {"silu", silu},
                                           {"softplus", softplus},
                                           {"log_sigmoid", log_sigmoid},
                                           {"ravel", ravel}};
  for (const auto& [name, f] : unary) {
    table[name] = [f = f](const Call& c) { return Arrays{f(c[0])}; };
  }
  using Binary = Array (*)(Operand, Operand);
  const std::map<std::string, Binary> binary{{"add", add},
                                             {"subtract", subtract},
                                             {"multiply", multiply},
                                             {"divide", divide},
                                             {"floor_divide", floor_divide},
                                             {"remainder", remainder},
                                             {"fmod", fmod},
                                             {"power", power},
                                             {"maximum", maximum},
                                             {"minimum", minimum},
                                             {"arctan2", arctan2},
                                             {"hypot", hypot},
                                             {"copysign", copysign},
                                             {"nextafter", nextafter},
                                             {"logaddexp", logaddexp},
                                             {"equal", equal},
                                             {"not_equal", not_equal},
                                             {"less", less},
                                             {"less_equal", less_equal},
                                             {"greater", greater},
                                             {"greater_equal", greater_equal},
                                             {"logical_and", logical_and},
                                             {"logical_or", logical_or},
                                             {"logical_xor", logical_xor},
                                             {"bitwise_and", bitwise_and},
                                             {"bitwise_or", bitwise_or},
                                             {"bitwise_xor", bitwise_xor},
                                             {"left_shift", left_shift},
                                             {"right_shift", right_shift},
                                             {"dot", dot},
                                             {"vdot", vdot},
                                             {"inner", inner},
                                             {"outer", outer},
                                             {"kron", kron}};
  for (const auto& [name, f] : binary) {
    table[name] = [f = f](const Call& c) { return Arrays{f(c[0], c[1])}; };
  }
  table["positive"] = [](const Call& c) { return Arrays{+c[0]}; };
  table["astype"] = [](const Call& c) { return Arrays{astype(c[0], c.dtype("dtype", f32))}; };
  table["asarray"] = [](const Call& c) { return Arrays{c[0]}; };
  table["round"] = [](const Call& c) {
    return Arrays{c.has("decimals") ? round(c[0], int(c.integer("decimals"))) : round(c[0])};
  };
  table["where"] = [](const Call& c) { return Arrays{where(c[0], c[1], c[2])}; };
  table["clip"] = [](const Call& c) {
    return Arrays{c.count() > 2 ? clip(c[0], c[1], c[2]) : clip(c[0], c[1])};
  };
  table["elu"] = [](const Call& c) { return Arrays{elu(c[0])}; };
  table["leaky_relu"] = [](const Call& c) { return Arrays{leaky_relu(c[0])}; };
  table["gelu"] = [](const Call& c) {
    return Arrays{gelu(c[0], c.integer("approximate", 1) != 0)};
  };
  table["softmax"] = [](const Call& c) { return Arrays{softmax(c[0], c.axis().value_or(-1))}; };
  table["log_softmax"] = [](const Call& c) {
    return Arrays{log_softmax(c[0], c.axis().value_or(-1))};
  };
  table["one_hot"] = [](const Call& c) {
    return Arrays{
        one_hot(c[0], c.integer("num_classes"), c.dtype("dtype", f32), c.axis().value_or(-1))};
  };
}

void add_creation(Table& table) {
  table["zeros"] = [](const Call& c) {
    return Arrays{zeros(c.list("shape"), c.dtype("dtype", f32))};
  };
  table["ones"] = [](const Call& c) {
    return Arrays{ones(c.list("shape"), c.dtype("dtype", f32))};
  };
  table["full"] = [](const Call& c) {
    return Arrays{full(c.list("shape"), c[0], c.dtype("dtype"))};
  };
  table["zeros_like"] = [](const Call& c) { return Arrays{zeros_like(c[0])}; };
  table["ones_like"] = [](const Call& c) { return Arrays{ones_like(c[0])}; };
  table["full_like"] = [](const Call& c) { return Arrays{full_like(c[0], c[1])}; };
  table["arange"] = [](const Call& c) {
    // A plain float among the bounds makes floats, even if its value is an integer.
    std::optional<DType> dtype = c.dtype("dtype");
    for (std::size_t i = 0; i < c.count() && !dtype; ++i) {
      if (c.is_float(i)) dtype = f32;
    }
    if (c.count() == 1) return Arrays{arange(c.plain(0), dtype)};
    return Arrays{arange(c.plain(0), c.plain(1), c.count() > 2 ? c.plain(2) : 1, dtype)};
  };
  table["linspace"] = [](const Call& c) {
    return Arrays{
        linspace(c.plain(0), c.plain(1), c.integer("num"), f32, c.integer("endpoint", 1) != 0)};
  };
  table["eye"] = [](const Call& c) {
    return Arrays{eye(c.integer("n"), c.integer("m", c.integer("n")), c.integer("k"))};
  };
  table["tri"] = [](const Call& c) {
    return Arrays{tri(c.integer("n"), c.integer("m", c.integer("n")), c.integer("k"))};
  };
  table["tril"] = [](const Call& c) { return Arrays{tril(c[0], c.integer("k"))}; };
  table["triu"] = [](const Call& c) { return Arrays{triu(c[0], c.integer("k"))}; };
  table["diag"] = [](const Call& c) { return Arrays{diag(c[0], c.integer("k"))}; };
  table["diagonal"] = [](const Call& c) {
    return Arrays{
        diagonal(c[0], c.integer("offset"), c.integer("axis1", 0), c.integer("axis2", 1))};
  };
  table["trace"] = [](const Call& c) {
    return Arrays{trace(c[0], c.integer("offset"), c.integer("axis1", 0), c.integer("axis2", 1))};
  };
  table["meshgrid"] = [](const Call& c) {
    return meshgrid(c.operands(), c.word("indexing", "xy") == "xy");
  };
}

void add_reductions(Table& table) {
  auto options = [](const Call& c) {
    ReduceOptions o;
    o.keepdims = c.integer("keepdims") != 0;
    o.dtype = c.dtype("dtype");
    return o;
  };
  table["sum"] = [=](const Call& c) { return Arrays{sum(c[0], c.axes(), options(c))}; };
  table["prod"] = [=](const Call& c) { return Arrays{prod(c[0], c.axes(), options(c))}; };
  table["mean"] = [=](const Call& c) { return Arrays{mean(c[0], c.axes(), options(c))}; };
  auto spread = [](const Call& c) {
    VarOptions o;
    o.keepdims = c.integer("keepdims") != 0;
    o.ddof = double(c.integer("ddof"));
    return o;
  };
  table["var"] = [=](const Call& c) { return Arrays{var(c[0], c.axes(), spread(c))}; };
  table["std"] = [=](const Call& c) { return Arrays{tessera::std(c[0], c.axes(), spread(c))}; };
  using Plain = Array (*)(Operand, Axes, bool);
  const std::map<std::string, Plain> plain{{"max", max},
                                           {"min", min},
                                           {"any", any},
                                           {"all", all},
                                           {"logsumexp", logsumexp},
                                           {"count_nonzero", count_nonzero}};
  for (const auto& [name, f] : plain) {
    table[name] = [f = f](const Call& c) {
      return Arrays{f(c[0], c.axes(), c.integer("keepdims") != 0)};
    };
  }
  table["argmax"] = [](const Call& c) {
    return Arrays{argmax(c[0], c.axis(), c.integer("keepdims") != 0)};
  };
  table["argmin"] = [](const Call& c) {
    return Arrays{argmin(c[0], c.axis(), c.integer("keepdims") != 0)};
  };
  table["cumsum"] = [](const Call& c) { return Arrays{cumsum(c[0], c.axis())}; };
  table["cumprod"] = [](const Call& c) { return Arrays{cumprod(c[0], c.axis())}; };
}

void add_shapes(Table& table) {
  table["reshape"] = [](const Call& c) { return Arrays{reshape(c[0], c.list("shape"))}; };
  table["squeeze"] = [](const Call& c) { return Arrays{squeeze(c[0], c.axes())}; };
  table["expand_dims"] = [](const Call& c) { return Arrays{expand_dims(c[0], c.axes())}; };
  table["transpose"] = [](const Call& c) {
    return Arrays{c.has("axes") ? transpose(c[0], c.list("axes")) : transpose(c[0])};
  };
  table["swapaxes"] = [](const Call& c) {
    return Arrays{swapaxes(c[0], c.integer("a"), c.integer("b"))};
  };
  table["moveaxis"] = [](const Call& c) {
    return Arrays{moveaxis(c[0], c.axes("source"), c.axes("destination"))};
  };
  table["broadcast_to"] = [](const Call& c) { return Arrays{broadcast_to(c[0], c.list("shape"))}; };
  table["concatenate"] = [](const Call& c) {
    return Arrays{concatenate(c.operands(), c.integer("axis"))};
  };
  table["stack"] = [](const Call& c) { return Arrays{stack(c.operands(), c.integer("axis"))}; };
  table["vstack"] = [](const Call& c) { return Arrays{vstack(c.operands())}; };
  table["hstack"] = [](const Call& c) { return Arrays{hstack(c.operands())}; };
  table["split"] = [](const Call& c) {
    return c.has("sections") ? split(c[0], c.integer("sections"), c.integer("axis"))
                             : split(c[0], c.list("indices"), c.integer("axis"));
  };
  table["array_split"] = [](const Call& c) {
    return array_split(c[0], c.integer("sections"), c.integer("axis"));
  };
  table["unstack"] = [](const Call& c) { return unstack(c[0], c.integer("axis")); };
  table["broadcast_arrays"] = [](const Call& c) { return broadcast_arrays(c.operands()); };
  table["atleast_1d"] = [](const Call& c) { return Arrays{atleast_1d(c[0])}; };
  table["atleast_2d"] = [](const Call& c) { return Arrays{atleast_2d(c[0])}; };
  table["glu"] = [](const Call& c) { return Arrays{glu(c[0], c.integer("axis", -1))}; };
  table["tile"] = [](const Call& c) { return Arrays{tile(c[0], c.list("reps"))}; };
  table["repeat"] = [](const Call& c) {
    return Arrays{repeat(c[0], c.integer("repeats"), c.axis())};
  };
  table["flip"] = [](const Call& c) { return Arrays{flip(c[0], c.axes())}; };
  table["rot90"] = [](const Call& c) { return Arrays{rot90(c[0], c.integer("k"))}; };
  table["roll"] = [](const Call& c) {
    if (!c.has("axis")) return Arrays{roll(c[0], c.list("shift").at(0))};
    return Arrays{roll(c[0], c.list("shift"), c.axes())};
  };
  table["pad"] = [](const Call& c) {
    const std::map<std::string, PadMode> modes{{"constant", PadMode::constant},
                                               {"edge", PadMode::edge},
                                               {"reflect", PadMode::reflect},
                                               {"symmetric", PadMode::symmetric},
                                               {"wrap", PadMode::wrap}};
    PadOptions options;
    options.mode = modes.at(c.word("mode"));
    if (c.has("value")) options.value = Array(c.number("value"));
    std::vector<std::pair<std::int64_t, std::int64_t>> widths;
    const auto flat = c.list("widths");
    for (std::size_t i = 0; i + 1 < flat.size(); i += 2) widths.emplace_back(flat[i], flat[i + 1]);
    return Arrays{pad(c[0], widths, options)};
  };
}

}  // namespace

std::vector<IndexItem> index_items(const Call& c) {
  const std::string text = c.word("at");
  std::vector<IndexItem> out;
  std::istringstream terms(text.substr(1, text.size() - 2));
  for (std::string term; std::getline(terms, term, ',');) {
    if (term == "...") {
      out.emplace_back(ellipsis);
    } else if (term == "None") {
      out.emplace_back(newaxis);
    } else if (term[0] == 'a') {
      out.emplace_back(c[1 + std::size_t(term[1] - '0')]);
    } else if (term.find(':') == std::string::npos) {
      out.emplace_back(std::int64_t(std::stoll(term)));
    } else {
      std::optional<std::int64_t> part[3];
      std::size_t i = 0;
      std::string number;
      for (char ch : term + ":") {
        if (ch != ':') {
          number += ch;
          continue;
        }
        if (!number.empty() && i < 3) part[i] = std::stoll(number);
        number.clear();
        ++i;
      }
      out.emplace_back(Slice{part[0], part[1], part[2].value_or(1)});
    }
  }
  return out;
}

namespace {

void add_indexing(Table& table) {
  table["index"] = [](const Call& c) { return Arrays{index(c[0], index_items(c))}; };
  table["slice"] = [](const Call& c) {
    return Arrays{slice(c[0], c.list("start"), c.list("stop"), c.list("stride"))};
  };
  table["dynamic_slice"] = [](const Call& c) {
    return Arrays{dynamic_slice(c[0], c.operands_from(1), c.list("sizes"))};
  };
  table["dynamic_update_slice"] = [](const Call& c) {
    return Arrays{dynamic_update_slice(c[0], c[1], c.operands_from(2))};
  };
  table["take"] = [](const Call& c) {
    const TakeMode mode = c.word("mode") == "clip"   ? TakeMode::clip
                          : c.word("mode") == "wrap" ? TakeMode::wrap
                                                     : TakeMode::fill;
    return Arrays{take(c[0], c[1], c.axis(), mode)};
  };
  table["take_along_axis"] = [](const Call& c) {
    return Arrays{take_along_axis(c[0], c[1], c.axis())};
  };
  auto sort_axis = [](const Call& c) {
    return c.word("axis") == "none" ? std::nullopt
                                    : std::optional<std::int64_t>(c.integer("axis", -1));
  };
  table["sort"] = [=](const Call& c) {
    return Arrays{sort(c[0], sort_axis(c), c.integer("descending") != 0)};
  };
  table["argsort"] = [=](const Call& c) {
    return Arrays{argsort(c[0], sort_axis(c), c.integer("descending") != 0)};
  };
  table["dynamic_slice_in_dim"] = [](const Call& c) {
    return Arrays{dynamic_slice_in_dim(c[0], c[1], c.integer("size"), c.integer("axis"))};
  };
  table["dynamic_update_slice_in_dim"] = [](const Call& c) {
    return Arrays{dynamic_update_slice_in_dim(c[0], c[1], c[2], c.integer("axis"))};
  };
  table["dynamic_index_in_dim"] = [](const Call& c) {
    return Arrays{dynamic_index_in_dim(c[0], c[1], c.integer("axis"), c.integer("keepdims") != 0)};
  };
  table["dynamic_update_index_in_dim"] = [](const Call& c) {
    return Arrays{dynamic_update_index_in_dim(c[0], c[1], c[2], c.integer("axis"))};
  };
  table["slice_in_dim"] = [](const Call& c) {
    return Arrays{slice_in_dim(c[0], c.integer("start"), c.integer("stop"), c.integer("stride", 1),
                               c.integer("axis"))};
  };
  table["top_k"] = [](const Call& c) {
    const auto [values, places] = top_k(c[0], c.integer("k"));
    return Arrays{values, places};
  };
  table["searchsorted"] = [](const Call& c) {
    return Arrays{searchsorted(c[0], c[1], c.word("side") == "right")};
  };
}

void add_products(Table& table) {
  table["matmul"] = [](const Call& c) {
    MatmulOptions options;
    options.preferred = c.dtype("preferred");
    return Arrays{matmul(c[0], c[1], options)};
  };
  table["tensordot"] = [](const Call& c) {
    return Arrays{c.has("axes") ? tensordot(c[0], c[1], c.integer("axes"))
                                : tensordot(c[0], c[1], c.list("lhs_axes"), c.list("rhs_axes"))};
  };
  table["cross"] = [](const Call& c) { return Arrays{cross(c[0], c[1])}; };
  table["einsum"] = [](const Call& c) { return Arrays{einsum(c.word("spec"), c.operands())}; };
}

void add_fft(Table& table) {
  auto norm = [](const Call& c) {
    return c.word("norm") == "ortho"     ? FftNorm::ortho
           : c.word("norm") == "forward" ? FftNorm::forward
                                         : FftNorm::backward;
  };
  using One = Array (*)(Operand, const FftOptions&);
  const std::map<std::string, One> one{
      {"fft", fft}, {"ifft", ifft}, {"rfft", rfft}, {"irfft", irfft}};
  for (const auto& [name, f] : one) {
    table[name] = [f = f, norm](const Call& c) {
      FftOptions options;
      if (c.has("n")) options.n = c.integer("n");
      options.axis = c.axis().value_or(-1);
      options.norm = norm(c);
      return Arrays{f(c[0], options)};
    };
  }
  using Many = Array (*)(Operand, const FftnOptions&);
  const std::map<std::string, Many> many{{"fftn", fftn},     {"ifftn", ifftn},  {"rfftn", rfftn},
                                         {"fft2", fft2},     {"ifft2", ifft2},  {"rfft2", rfft2},
                                         {"irfftn", irfftn}, {"irfft2", irfft2}};
  for (const auto& [name, f] : many) {
    table[name] = [f = f, norm](const Call& c) {
      FftnOptions options;
      options.axes = c.axes("axes");
      if (c.has("s")) options.s = c.list("s");
      options.norm = norm(c);
      return Arrays{f(c[0], options)};
    };
  }
  table["rfftfreq"] = [](const Call& c) { return Arrays{rfftfreq(c.integer("n"))}; };
  table["fftfreq"] = [](const Call& c) { return Arrays{fftfreq(c.integer("n"))}; };
  table["fftshift"] = [](const Call& c) { return Arrays{fftshift(c[0])}; };
  table["ifftshift"] = [](const Call& c) { return Arrays{ifftshift(c[0])}; };
}

}  // namespace

const std::map<std::string, FixtureFunction>& numpy_functions() {
  static const Table table = [] {
    Table t;
    add_elementwise(t);
    add_creation(t);
    add_reductions(t);
    add_shapes(t);
    add_indexing(t);
    add_products(t);
    add_fft(t);
    return t;
  }();
  return table;
}

}  // namespace tessera::testing
