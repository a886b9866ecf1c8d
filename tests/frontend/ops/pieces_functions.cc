// SPDX-License-Identifier: Apache-2.0
// Grids, pieces of arrays, margins, bits, other names and polynomials by their names in the
// fixtures.
#include "tests/frontend/ops/numeric_functions.h"

namespace tessera::testing {

namespace {

using Arrays = std::vector<Array>;
using Widths = std::vector<std::pair<std::int64_t, std::int64_t>>;

Arrays both_of(const std::pair<Array, Array>& p) { return {p.first, p.second}; }

Widths pairs_of(const std::vector<std::int64_t>& list) {
  Widths out;
  for (std::size_t i = 0; i + 1 < list.size(); i += 2) out.emplace_back(list[i], list[i + 1]);
  return out;
}

PadMode pad_mode(const std::string& word) {
  static const std::map<std::string, PadMode> modes{
      {"constant", PadMode::constant},   {"reflect", PadMode::reflect},
      {"symmetric", PadMode::symmetric}, {"linear_ramp", PadMode::linear_ramp},
      {"maximum", PadMode::maximum},     {"mean", PadMode::mean},
      {"median", PadMode::median},       {"minimum", PadMode::minimum},
      {"empty", PadMode::empty}};
  return modes.at(word);
}

IndexMode index_mode(const FixtureCall& c) {
  return c.word("mode") == "wrap" ? IndexMode::wrap : IndexMode::clip;
}

SpaceOptions space_options(const FixtureCall& c) {
  SpaceOptions o;
  o.endpoint = c.integer("endpoint", 1) != 0;
  o.dtype = c.dtype("dtype");
  o.axis = c.axis().value_or(0);
  return o;
}

IndexItem position_of(const FixtureCall& c) {
  if (c.has("position")) return c.integer("position");
  if (c.has("slice")) {
    const auto s = c.list("slice");
    return Slice{s[0], s[1], s[2]};
  }
  return c[std::size_t(c.integer("at"))];
}

void add_grids(FixtureTable* table) {
  FixtureTable& t = *table;
  using Call = FixtureCall;
  t["linspace"] = [](const Call& c) {
    return Arrays{linspace(c[0], c[1], c.integer("count"), space_options(c))};
  };
  t["logspace"] = [](const Call& c) {
    return Arrays{logspace(c[0], c[1], c.integer("count"), space_options(c), c.number("base", 10))};
  };
  t["geomspace"] = [](const Call& c) {
    return Arrays{geomspace(c[0], c[1], c.integer("count"), space_options(c))};
  };
  t["meshgrid"] = [](const Call& c) {
    return meshgrid(c.operands(), {.xy = c.integer("xy") != 0, .sparse = c.integer("sparse") != 0});
  };
  t["indices"] = [](const Call& c) {
    return Arrays{indices(c.list("shape"), c.dtype("dtype", s32))};
  };
  t["indices_sparse"] = [](const Call& c) { return indices_sparse(c.list("shape")); };
  t["fromfunction"] = [](const Call& c) {
    return Arrays{
        fromfunction([](const Arrays& at) { return at[0] + 10 * at[1]; }, c.list("shape"))};
  };
  t["ix_"] = [](const Call& c) { return ix_(c.operands()); };
  t["tril_indices"] = [](const Call& c) {
    return both_of(tril_indices(c.integer("n"), c.integer("k"), c.integer("m")));
  };
  t["triu_indices"] = [](const Call& c) {
    return both_of(triu_indices(c.integer("n"), c.integer("k"), c.integer("m")));
  };
  t["diag_indices"] = [](const Call& c) { return diag_indices(c.integer("n"), c.integer("ndim")); };
  t["ravel_multi_index"] = [](const Call& c) {
    return Arrays{
        ravel_multi_index(c.operands(), c.list("shape"),
                          {.mode = index_mode(c), .column_major = c.integer("column_major") != 0})};
  };
  t["unravel_index"] = [](const Call& c) { return unravel_index(c[0], c.list("shape")); };
  using Window = Array (*)(std::int64_t, Location);
  for (const auto& [name, f] : std::map<std::string, Window>{{"bartlett", bartlett},
                                                             {"blackman", blackman},
                                                             {"hamming", hamming},
                                                             {"hanning", hanning}}) {
    t[name] = [f = f](const Call& c) { return Arrays{f(c.integer("n"), Location::current())}; };
  }
  t["kaiser"] = [](const Call& c) { return Arrays{kaiser(c.integer("n"), c[0])}; };
}

void add_pieces(FixtureTable* table) {
  FixtureTable& t = *table;
  using Call = FixtureCall;
  t["append"] = [](const Call& c) { return Arrays{append(c[0], c[1], c.axis())}; };
  t["block"] = [](const Call& c) {
    const auto shape = c.list("shape");
    std::vector<Arrays> rows;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      const auto first = c.operands().begin() + i * shape[1];
      rows.emplace_back(first, first + shape[1]);
    }
    return Arrays{block(rows)};
  };
  t["column_stack"] = [](const Call& c) { return Arrays{column_stack(c.operands())}; };
  t["dstack"] = [](const Call& c) { return Arrays{dstack(c.operands())}; };
  t["vsplit"] = [](const Call& c) { return vsplit(c[0], c.integer("sections")); };
  t["hsplit"] = [](const Call& c) {
    return c.has("indices") ? hsplit(c[0], c.list("indices")) : hsplit(c[0], c.integer("sections"));
  };
  t["dsplit"] = [](const Call& c) { return dsplit(c[0], c.list("indices")); };
  t["atleast_3d"] = [](const Call& c) { return Arrays{atleast_3d(c[0])}; };
  t["rollaxis"] = [](const Call& c) {
    return Arrays{rollaxis(c[0], *c.axis(), c.integer("start"))};
  };
  t["diagflat"] = [](const Call& c) { return Arrays{diagflat(c[0], c.integer("k"))}; };
  t["resize"] = [](const Call& c) { return Arrays{resize(c[0], c.list("shape"))}; };
  t["insert"] = [](const Call& c) { return Arrays{insert(c[0], position_of(c), c[1], c.axis())}; };
  t["delete_"] = [](const Call& c) {
    return Arrays{delete_(c[0], position_of(c), c.axis(),
                          {.assume_unique_indices = c.integer("unique") != 0})};
  };
  t["choose"] = [](const Call& c) {
    return Arrays{choose(c[0], c.operands_from(1), index_mode(c))};
  };
  const auto order = [](const Call& c) {
    return c.word("order") == "little" ? BitOrder::little : BitOrder::big;
  };
  t["packbits"] = [=](const Call& c) { return Arrays{packbits(c[0], c.axis(), order(c))}; };
  t["unpackbits"] = [=](const Call& c) {
    const auto count = c.has("count") ? std::optional(c.integer("count")) : std::nullopt;
    return Arrays{unpackbits(c[0], c.axis(), count, order(c))};
  };
  t["view"] = [](const Call& c) { return Arrays{view(c[0], *c.dtype("dtype"))}; };
  t["pad"] = [](const Call& c) {
    PadOptions o;
    o.mode = pad_mode(c.word("mode"));
    o.odd = c.integer("odd") != 0;
    for (const auto& [low, high] : pairs_of(c.list("values"))) o.values.emplace_back(low, high);
    o.stat_length = pairs_of(c.list("stat_length"));
    return Arrays{pad(c[0], pairs_of(c.list("widths")), o)};
  };
  t["pad_with"] = [](const Call& c) {
    return Arrays{
        pad_with(c[0], pairs_of(c.list("widths")),
                 [](Array row, std::pair<std::int64_t, std::int64_t> width, std::int64_t axis) {
                   const std::int64_t n = row.size();
                   const Array low = at(row, {Slice{0, width.first}}).set(double(axis) + 1);
                   return at(low, {Slice{n - width.second, n}}).set(index(low, {width.first}));
                 })};
  };
}

void add_names(FixtureTable* table) {
  FixtureTable& t = *table;
  using Call = FixtureCall;
  using Unary = Array (*)(Operand);
  for (const auto& [name, f] : std::map<std::string, Unary>{{"absolute", absolute},
                                                            {"acos", tessera::acos},
                                                            {"acosh", tessera::acosh},
                                                            {"asin", tessera::asin},
                                                            {"asinh", tessera::asinh},
                                                            {"atan", tessera::atan},
                                                            {"atanh", tessera::atanh},
                                                            {"fabs", tessera::fabs},
                                                            {"conjugate", conjugate},
                                                            {"isreal", isreal},
                                                            {"iscomplex", iscomplex},
                                                            {"bitwise_invert", bitwise_invert},
                                                            {"sort_complex", sort_complex},
                                                            {"matrix_transpose", matrix_transpose},
                                                            {"fliplr", fliplr},
                                                            {"flipud", flipud}}) {
    t[name] = [f = f](const Call& c) { return Arrays{f(c[0])}; };
  }
  using Binary = Array (*)(Operand, Operand);
  for (const auto& [name, f] :
       std::map<std::string, Binary>{{"atan2", tessera::atan2},
                                     {"mod", mod},
                                     {"pow", tessera::pow},
                                     {"true_divide", true_divide},
                                     {"bitwise_left_shift", bitwise_left_shift},
                                     {"bitwise_right_shift", bitwise_right_shift}}) {
    t[name] = [f = f](const Call& c) { return Arrays{f(c[0], c[1])}; };
  }
  t["around"] = [](const Call& c) { return Arrays{around(c[0])}; };
  t["amax"] = [](const Call& c) { return Arrays{amax(c[0], c.axes())}; };
  t["amin"] = [](const Call& c) { return Arrays{amin(c[0], c.axes())}; };
  t["concat"] = [](const Call& c) {
    return Arrays{c.has("flat") ? concat(c.operands(), std::nullopt) : concat(c.operands())};
  };
  t["permute_dims"] = [](const Call& c) { return Arrays{permute_dims(c[0], c.list("perm"))}; };
  const auto options = [](const Call& c) {
    return CumulativeOptions{.dtype = c.dtype("dtype"),
                             .include_initial = c.integer("include_initial") != 0};
  };
  t["cumulative_sum"] = [=](const Call& c) {
    return Arrays{cumulative_sum(c[0], c.axis(), options(c))};
  };
  t["cumulative_prod"] = [=](const Call& c) {
    return Arrays{cumulative_prod(c[0], c.axis(), options(c))};
  };
  t["apply_along_axis"] = [](const Call& c) {
    const auto f = [](Array v) {
      const Array two = slice_in_dim(v, 0, 2);
      return outer(two, two);
    };
    return Arrays{apply_along_axis(f, *c.axis(), c[0])};
  };
  t["apply_over_axes"] = [](const Call& c) {
    return Arrays{apply_over_axes([](Array v, std::int64_t axis) { return sum(v, axis); }, c[0],
                                  c.list("axes"))};
  };
  t["vectorize_dot"] = [](const Call& c) {
    const auto f = vectorize([](Array a, Array b) { return std::pair(dot(a, b), sum(a)); },
                             {.signature = "(m,n),(n)->(m),()"});
    return both_of(f(c[0], c[1]));
  };
  t["vectorize_scalars"] = [](const Call& c) {
    return Arrays{vectorize([](Array a, Array b) { return where(b > 0, a * b, -a); })(c[0], c[1])};
  };
}

void add_polynomials(FixtureTable* table) {
  FixtureTable& t = *table;
  using Call = FixtureCall;
  const auto options = [](const Call& c) {
    PolyfitOptions o;
    if (c.has("rcond")) o.rcond = c.number("rcond");
    if (c.has("w")) o.w = c[std::size_t(c.integer("w"))];
    return o;
  };
  t["polydiv"] = [](const Call& c) { return both_of(polydiv(c[0], c[1])); };
  t["poly"] = [](const Call& c) { return Arrays{poly(c[0])}; };
  t["roots"] = [](const Call& c) { return Arrays{sort_complex(roots(c[0], false))}; };
  t["polyfit"] = [=](const Call& c) {
    return Arrays{polyfit(c[0], c[1], c.integer("degree"), options(c))};
  };
  t["polyfit_full"] = [=](const Call& c) {
    const PolyfitResult r = polyfit_full(c[0], c[1], c.integer("degree"), options(c));
    return Arrays{r.coefficients, r.residuals, r.rank, r.s};
  };
  t["polyfit_cov"] = [=](const Call& c) {
    return both_of(
        polyfit_cov(c[0], c[1], c.integer("degree"), options(c), c.integer("scaled") != 0));
  };
}

}  // namespace

const FixtureTable& pieces_functions() {
  static const FixtureTable table = [] {
    FixtureTable t;
    add_grids(&t);
    add_pieces(&t);
    add_names(&t);
    add_polynomials(&t);
    return t;
  }();
  return table;
}

}  // namespace tessera::testing
