// SPDX-License-Identifier: Apache-2.0
// Indexed updates, sorting, sets and the assembly of arrays against jax.numpy's results, evaluated
// and under jit.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <tessera/ops/gather_scatter.h>
#include <tessera/ops/indexed_update.h>
#include <tessera/ops/order.h>
#include <tessera/ops/sets.h>

#include "tests/frontend/ops/numpy_functions.h"

namespace tessera {
namespace {
namespace array_functions {

using Call = testing::FixtureCall;
using Arrays = std::vector<Array>;
using Table = std::map<std::string, testing::FixtureFunction>;
using testing::FixtureCase;

IndexOptions options_of(const Call& c) {
  const std::map<std::string, IndexMode> modes{
      {"", IndexMode::automatic}, {"fill", IndexMode::fill},
      {"drop", IndexMode::drop},  {"clip", IndexMode::clip},
      {"wrap", IndexMode::wrap},  {"promise_in_bounds", IndexMode::promise_in_bounds}};
  IndexOptions options;
  options.mode = modes.at(c.word("mode"));
  options.unique_indices = c.integer("unique_indices") != 0;
  if (c.has("fill")) options.fill_value = Array(c.integer("fill"));
  return options;
}

Array updated(const Call& c) {
  const IndexedArray place = at(c[0], testing::index_items(c));
  const std::string method = c.word("method");
  const IndexOptions options = options_of(c);
  if (method == "get") return place.get(options);
  if (method == "apply") return place.apply([](Array v) { return v * 3 - 1; }, options);
  using Update = Array (IndexedArray::*)(Operand, const IndexOptions&) const;
  const std::map<std::string, Update> updates{
      {"set", &IndexedArray::set},           {"add", &IndexedArray::add},
      {"subtract", &IndexedArray::subtract}, {"multiply", &IndexedArray::multiply},
      {"divide", &IndexedArray::divide},     {"min", &IndexedArray::min},
      {"max", &IndexedArray::max},           {"power", &IndexedArray::power}};
  return (place.*updates.at(method))(c.operands().back(), options);
}

void add_indexing(Table& table) {
  table["at"] = [](const Call& c) { return Arrays{updated(c)}; };
  table["index"] = [](const Call& c) { return Arrays{index(c[0], testing::index_items(c))}; };
  table["put_along_axis"] = [](const Call& c) {
    const auto axis = c.word("axis") == "none" ? std::nullopt : c.axis();
    return Arrays{put_along_axis(c[0], c[1], c[2], axis, options_of(c).mode)};
  };
  table["put"] = [](const Call& c) { return Arrays{put(c[0], c[1], c[2], options_of(c).mode)}; };
  table["place"] = [](const Call& c) { return Arrays{place(c[0], c[1], c[2])}; };
  table["fill_diagonal"] = [](const Call& c) { return Arrays{fill_diagonal(c[0], c[1])}; };
  using Segment = Array (*)(Operand, Operand, std::optional<std::int64_t>, const SegmentOptions&);
  const std::map<std::string, Segment> segments{{"segment_sum", segment_sum},
                                                {"segment_prod", segment_prod},
                                                {"segment_max", segment_max},
                                                {"segment_min", segment_min}};
  for (const auto& [name, f] : segments) {
    table[name] = [f = f](const Call& c) {
      SegmentOptions options;
      options.mode = options_of(c).mode;
      options.indices_are_sorted = c.has("eager");
      return Arrays{f(c[0], c[1],
                      c.has("n") ? std::optional<std::int64_t>(c.integer("n")) : std::nullopt,
                      options)};
    };
  }
}

void add_dimension_numbers(Table& table) {
  const ScatterDims window{.update_window_dims = {1, 2}, .scatter_dims_to_operand_dims = {0, 1}};
  const ScatterDims batch{.inserted_window_dims = {1},
                          .scatter_dims_to_operand_dims = {1},
                          .operand_batching_dims = {0},
                          .scatter_indices_batching_dims = {0}};
  table["gather"] = [](const Call& c) {
    if (c.word("kind") == "window") {
      const GatherDims dims{.offset_dims = {1, 2}, .start_index_map = {0, 1}};
      return Arrays{gather(c[0], c[1], dims, {2, 2}, options_of(c))};
    }
    const GatherDims dims{.collapsed_slice_dims = {1},
                          .start_index_map = {1},
                          .operand_batching_dims = {0},
                          .start_indices_batching_dims = {0}};
    return Arrays{gather(c[0], c[1], dims, {1, 1}, options_of(c))};
  };
  using Scatter = Array (*)(Operand, Operand, Operand, const ScatterDims&, const IndexOptions&);
  const std::map<std::string, Scatter> scatters{
      {"scatter", scatter},         {"scatter_add", scatter_add}, {"scatter_sub", scatter_sub},
      {"scatter_mul", scatter_mul}, {"scatter_min", scatter_min}, {"scatter_max", scatter_max}};
  for (const auto& [name, f] : scatters) {
    table[name] = [=, f = f](const Call& c) {
      return Arrays{
          f(c[0], c[1], c[2], c.word("kind") == "window" ? window : batch, options_of(c))};
    };
  }
  table["scatter_apply"] = [=](const Call& c) {
    return Arrays{scatter_apply(
        c[0], c[1], [](Array v) { return v * v; }, {5, 2}, batch)};
  };
}

void add_order(Table& table) {
  table["sort_together"] = [](const Call& c) {
    return sort_together(c.operands(), c.integer("keys"), c.integer("axis"));
  };
  table["lexsort"] = [](const Call& c) {
    return Arrays{lexsort(c.operands(), c.integer("axis", -1))};
  };
  table["sort_key_val"] = [](const Call& c) {
    const auto [keys, values] = sort_key_val(c[0], c[1], c.integer("axis"));
    return Arrays{keys, values};
  };
  using Largest = std::pair<Array, Array> (*)(Operand, std::int64_t, std::int64_t);
  const std::map<std::string, Largest> largest{
      {"top_k", top_k}, {"approx_max_k", approx_max_k}, {"approx_min_k", approx_min_k}};
  for (const auto& [name, f] : largest) {
    table[name] = [f = f](const Call& c) {
      const auto [values, places] = f(c[0], c.integer("k"), c.integer("axis"));
      return Arrays{values, places};
    };
  }
  table["searchsorted"] = [](const Call& c) {
    return Arrays{searchsorted(c[0], c[1], c[2], c.word("side") == "right")};
  };
}

SizeOptions size_of(const Call& c) {
  SizeOptions options;
  if (c.has("size")) options.size = c.integer("size");
  if (c.has("fill")) options.fill_value = Array(c.integer("fill"));
  return options;
}

void add_sets(Table& table) {
  table["nonzero"] = [](const Call& c) { return nonzero(c[0], size_of(c)); };
  table["flatnonzero"] = [](const Call& c) { return Arrays{flatnonzero(c[0], size_of(c))}; };
  table["argwhere"] = [](const Call& c) { return Arrays{argwhere(c[0], size_of(c))}; };
  table["compress"] = [](const Call& c) {
    return Arrays{compress(c[0], c[1], c.axis(), size_of(c))};
  };
  table["extract"] = [](const Call& c) { return Arrays{extract(c[0], c[1], size_of(c))}; };
  auto options = [](const Call& c) {
    UniqueOptions o;
    o.axis = c.axis();
    o.size = size_of(c).size;
    o.fill_value = size_of(c).fill_value;
    o.equal_nan = c.integer("equal_nan", 1) != 0;
    return o;
  };
  table["unique"] = [=](const Call& c) { return Arrays{unique(c[0], options(c))}; };
  table["unique_all"] = [=](const Call& c) {
    const UniqueResult r = unique_all(c[0], options(c));
    return Arrays{r.values, r.indices, r.inverse, r.counts};
  };
  table["isin"] = [](const Call& c) { return Arrays{isin(c[0], c[1], c.integer("invert") != 0)}; };
  using Pair = Array (*)(Operand, Operand, const SizeOptions&);
  const std::map<std::string, Pair> pairs{{"union1d", union1d},
                                          {"intersect1d", intersect1d},
                                          {"setdiff1d", setdiff1d},
                                          {"setxor1d", setxor1d}};
  for (const auto& [name, f] : pairs) {
    table[name] = [f = f](const Call& c) { return Arrays{f(c[0], c[1], size_of(c))}; };
  }
}

const Table& functions() {
  static const Table table = [] {
    Table t;
    add_indexing(t);
    add_dimension_numbers(t);
    add_order(t);
    add_sets(t);
    return t;
  }();
  return table;
}

/// Cases whose results' shapes depend on values: outside of traces only.
bool eager_only(const FixtureCase& c) {
  if (c.options.count("eager")) return true;
  const std::set<std::string> sized{"nonzero",   "flatnonzero", "argwhere",   "compress",
                                    "extract",   "unique",      "unique_all", "union1d",
                                    "setdiff1d", "intersect1d", "setxor1d"};
  if (sized.count(c.call) && !c.options.count("size")) return true;
  for (std::size_t i = 1; i < c.operands.size(); ++i) {
    const bool mask = c.operands[i].array && c.operands[i].array->dtype() == pred;
    if (mask && c.options.count("at") && c.options.at("at").find('a') != std::string::npos) {
      return true;
    }
  }
  return false;
}

class JnpArrays : public ::testing::TestWithParam<std::string> {
 protected:
  template <class Run>
  void check(Run run, bool traced) {
    const auto found = functions().find(GetParam());
    ASSERT_NE(found, functions().end()) << "no function for the fixtures' name";
    for (const FixtureCase& c : cases()) {
      if (c.call != GetParam() || (traced && eager_only(c))) continue;
      SCOPED_TRACE(c.name);
      try {
        EXPECT_EQ(run(found->second, c), "");
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }

 public:
  static const std::vector<FixtureCase>& cases() {
    static const std::vector<FixtureCase> all = testing::read_fixtures("jnp_arrays.txt");
    return all;
  }
  static std::vector<std::string> names() {
    std::set<std::string> out;
    for (const FixtureCase& c : cases()) out.insert(c.call);
    return {out.begin(), out.end()};
  }
};

TEST_P(JnpArrays, TracedAndEvaluated) { check(testing::run_traced, true); }
TEST_P(JnpArrays, Eagerly) { check(testing::run_eagerly, false); }
TEST_P(JnpArrays, Sharded) { check(testing::run_sharded, true); }

INSTANTIATE_TEST_SUITE_P(All, JnpArrays, ::testing::ValuesIn(JnpArrays::names()),
                         [](const auto& info) { return info.param; });

}  // namespace array_functions
}  // namespace
}  // namespace tessera
