// SPDX-License-Identifier: Apache-2.0
// Collectives by name, each against the same exchange written in plain C++.
#include <tessera/collectives.h>

#include <functional>

#include <tessera/control_flow.h>
#include <tessera/custom_partitioning.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing {
namespace {

using Locals = std::vector<std::vector<float>>;  // per device, in the mesh's order
using PartitionIdConstants = std::function<Array(Array)>;

/// Runs f per device on rows of x (8 rows, one per device); its results are stacked.
Array on_each(const Mesh& mesh, const Array& x, std::vector<std::int64_t> result_shape,
              const PartitionIdConstants& f) {
  const NamedSharding rows(mesh, P(axes("x", "y")));
  auto g = custom_partitioning(
      [result_shape](Array a) { return full(result_shape, 0.f) + sum(a) * 0; }, "on_each");
  g.def_partition({.partition =
                       [&](const Mesh& m, const ShapeInfos&, const ShapeInfos&) {
                         return Partition{m, f, {rows}, {rows}};
                       },
                   .infer_sharding_from_operands =
                       [&](const Mesh&, const ShapeInfos&, const ShapeInfos&) {
                         return std::vector<Sharding>{rows};
                       }});
  return jit([&](Array a) { return g(a); })(device_put(x, rows));
}

/// Positions in the mesh x=2, y=4 that take part together, in order.
std::vector<std::vector<int>> groups_over(const std::vector<std::string>& names) {
  auto has_axis = [&](const char* n) {
    return std::find(names.begin(), names.end(), n) != names.end();
  };
  std::vector<std::vector<int>> out;
  const bool over_x = has_axis("x"), over_y = has_axis("y");
  for (int fixed = 0; fixed < (over_x ? 1 : 2) * (over_y ? 1 : 4); ++fixed) {
    std::vector<int> group;
    auto add = [&](int i, int j) { group.push_back(i * 4 + j); };
    if (over_x && over_y) {
      const bool x_major = names[0] == "x";
      for (int a = 0; a < (x_major ? 2 : 4); ++a) {
        for (int b = 0; b < (x_major ? 4 : 2); ++b) x_major ? add(a, b) : add(b, a);
      }
    } else if (over_x) {
      for (int i = 0; i < 2; ++i) add(i, fixed);
    } else {
      for (int j = 0; j < 4; ++j) add(fixed, j);
    }
    out.push_back(group);
  }
  return out;
}

class Collectives : public ::testing::TestWithParam<bool> {
 protected:
  Collectives() {
    std::vector<Device> list = devices();
    if (GetParam()) {
      // No order that a formula would give.
      const int order[] = {3, 0, 6, 1, 7, 5, 2, 4};
      for (int i = 0; i < 8; ++i) list[std::size_t(i)] = devices()[std::size_t(order[i])];
    }
    mesh = Mesh(list, {2, 4}, {"x", "y"});
    std::vector<float> values;
    for (int d = 0; d < 8; ++d) {
      in.emplace_back();
      for (int i = 0; i < 8; ++i) {
        in.back().push_back(float((d * 37 + i * 11) % 29) - 9);
        values.push_back(in.back().back());
      }
    }
    x = array(values, {8, 8});
  }

  /// `f` on each device's 8 numbers gives `n` numbers, to compare with `want`.
  void check(const std::string& what, const PartitionIdConstants& f, const Locals& want) {
    const std::int64_t n = std::int64_t(want[0].size());
    const Array have = on_each(mesh, x, {8, n}, [&](Array a) {
      return reshape(f(reshape(a, {8})), {1, n});
    });
    const std::vector<float> all = floats(have);
    for (std::size_t d = 0; d < 8; ++d) {
      SCOPED_TRACE(what + " on the device at position " + std::to_string(d));
      expect_close(std::vector<float>(all.begin() + std::ptrdiff_t(d) * n,
                                      all.begin() + std::ptrdiff_t(d + 1) * n),
                   want[d]);
    }
  }

  /// want[group[k]] = f(group, k).
  template <class F>
  Locals expected(const std::vector<std::string>& names, F f) {
    Locals out(8);
    for (const auto& group : groups_over(names)) {
      for (std::size_t k = 0; k < group.size(); ++k) out[std::size_t(group[k])] = f(group, k);
    }
    return out;
  }
  const std::vector<float>& of(int device) const { return in[std::size_t(device)]; }

  Mesh mesh;
  Locals in;
  Array x;
  const std::vector<std::vector<std::string>> all_axes{{"x"}, {"y"}, {"x", "y"}, {"y", "x"}};
};

TEST_P(Collectives, Reductions) {
  for (const auto& names : all_axes) {
    auto reduced = [&](auto f) {
      return expected(names, [&](const std::vector<int>& group, std::size_t) {
        std::vector<float> out = of(group[0]);
        for (std::size_t k = 1; k < group.size(); ++k) {
          for (std::size_t i = 0; i < 8; ++i) out[i] = f(out[i], of(group[k])[i]);
        }
        return out;
      });
    };
    const AxisNames axis(names);
    const Locals sums = reduced([](float a, float b) { return a + b; });
    check(
        "psum", [&](Array a) { return psum(a, axis); }, sums);
    check(
        "psum over an entry", [&](Array a) { return psum(a, SpecEntry(names)); }, sums);
    check(
        "pmax", [&](Array a) { return pmax(a, axis); },
        reduced([](float a, float b) { return std::max(a, b); }));
    check(
        "pmin", [&](Array a) { return pmin(a, axis); },
        reduced([](float a, float b) { return std::min(a, b); }));
    Locals means = sums;
    const float n = float(groups_over(names)[0].size());
    for (auto& row : means) {
      for (float& v : row) v /= n;
    }
    check(
        "pmean", [&](Array a) { return pmean(a, axis); }, means);
  }
}

TEST_P(Collectives, Positions) {
  for (const auto& names : all_axes) {
    const AxisNames axis(names);
    check(
        "axis_index", [&](Array a) { return axis_index(axis).astype(f32) + sum(a) * 0; },
        expected(names, [](const std::vector<int>&, std::size_t k) {
          return std::vector<float>{float(k)};
        }));
    check(
        "axis_size", [&](Array a) { return sum(a) * 0 + float(axis_size(axis)); },
        expected(names, [](const std::vector<int>& group, std::size_t) {
          return std::vector<float>{float(group.size())};
        }));
  }
}

TEST_P(Collectives, AllGather) {
  for (const auto& names : all_axes) {
    const AxisNames axis(names);
    auto stacked = [&](const std::vector<int>& group, std::size_t) {
      std::vector<float> out;
      for (int d : group) out.insert(out.end(), of(d).begin(), of(d).end());
      return out;
    };
    check(
        "tiled", [&](Array a) { return all_gather(a, axis, {.tiled = true}); },
        expected(names, stacked));
    check(
        "stacked", [&](Array a) { return all_gather(a, axis); }, expected(names, stacked));
    // Along the second dim of [2,4]: rows of the parts side by side.
    const Locals wide = expected(names, [&](const std::vector<int>& group, std::size_t) {
      std::vector<float> out;
      for (int r = 0; r < 2; ++r) {
        for (int d : group) out.insert(out.end(), of(d).begin() + 4 * r, of(d).begin() + 4 * r + 4);
      }
      return out;
    });
    check(
        "tiled, axis 1",
        [&](Array a) {
          return all_gather(reshape(a, {2, 4}), axis, {.axis = 1, .tiled = true});
        },
        wide);
    check(
        "stacked, axis 1",
        [&](Array a) {
          return all_gather(reshape(a, {2, 4}), axis, {.axis = -2});
        },
        wide);
  }
}

TEST_P(Collectives, PsumScatter) {
  for (const auto& names : all_axes) {
    const AxisNames axis(names);
    const std::int64_t g = std::int64_t(groups_over(names)[0].size()), part = 8 / g;
    const Locals want = expected(names, [&](const std::vector<int>& group, std::size_t k) {
      std::vector<float> out(std::size_t(part), 0);
      for (int d : group) {
        for (std::int64_t i = 0; i < part; ++i) {
          out[std::size_t(i)] += of(d)[std::size_t(std::int64_t(k) * part + i)];
        }
      }
      return out;
    });
    check(
        "tiled", [&](Array a) { return psum_scatter(a, axis, {.tiled = true}); }, want);
    check(
        "untiled",
        [&](Array a) {
          return psum_scatter(reshape(a, {g, part}), axis);
        },
        want);
  }
}

TEST_P(Collectives, AllToAll) {
  for (const auto& names : all_axes) {
    const AxisNames axis(names);
    const std::int64_t g = std::int64_t(groups_over(names)[0].size()), part = 8 / g;
    // Tiled on one dim: the k-th parts of all, one after the other.
    const Locals joined = expected(names, [&](const std::vector<int>& group, std::size_t k) {
      std::vector<float> out;
      for (int d : group) {
        out.insert(out.end(), of(d).begin() + std::ptrdiff_t(k) * part,
                   of(d).begin() + std::ptrdiff_t(k + 1) * part);
      }
      return out;
    });
    check(
        "tiled", [&](Array a) { return all_to_all(a, axis, 0, 0, true); }, joined);
    check(
        "untiled to the front",
        [&](Array a) {
          return all_to_all(reshape(a, {g, part}), axis, 0, 0);
        },
        joined);
    // Untiled to the back: out[i][s] = part i of what s sends.
    check(
        "untiled to the back",
        [&](Array a) {
          return all_to_all(reshape(a, {g, part}), axis, 0, 1);
        },
        expected(names, [&](const std::vector<int>& group, std::size_t k) {
          std::vector<float> out;
          for (std::int64_t i = 0; i < part; ++i) {
            for (int d : group) out.push_back(of(d)[k * std::size_t(part) + std::size_t(i)]);
          }
          return out;
        }));
    // Tiled from dim 0 to dim 1 of [8,1].
    check(
        "tiled across",
        [&](Array a) {
          return all_to_all(reshape(a, {8, 1}), axis, 0, 1, true);
        },
        expected(names, [&](const std::vector<int>& group, std::size_t k) {
          std::vector<float> out;
          for (std::int64_t i = 0; i < part; ++i) {
            for (int d : group) out.push_back(of(d)[k * std::size_t(part) + std::size_t(i)]);
          }
          return out;
        }));
  }
}

TEST_P(Collectives, Ppermute) {
  for (const auto& names : all_axes) {
    const AxisNames axis(names);
    const std::int64_t g = std::int64_t(groups_over(names)[0].size());
    std::vector<std::pair<std::int64_t, std::int64_t>> ring, open;
    for (std::int64_t k = 0; k < g; ++k) {
      ring.emplace_back(k, (k + 1) % g);
      if (k + 1 < g) open.emplace_back(k, k + 1);
    }
    check(
        "ring", [&](Array a) { return ppermute(a, axis, ring); },
        expected(names, [&](const std::vector<int>& group, std::size_t k) {
          return of(group[(k + group.size() - 1) % group.size()]);
        }));
    check(
        "open", [&](Array a) { return ppermute(a, axis, open); },
        expected(names, [&](const std::vector<int>& group, std::size_t k) {
          return k == 0 ? std::vector<float>(8, 0) : of(group[k - 1]);
        }));
  }
}

TEST_P(Collectives, InLoopsAndNestedFunctions) {
  auto halve = jit([](Array a) { return a * 0.5f; });
  check(
      "loop",
      [&](Array a) {
        return fori_loop(
            0, 3, [&](Array, Array v) { return halve(psum(v, "x")); }, a);
      },
      expected({"x"}, [&](const std::vector<int>& group, std::size_t) {
        // The first trip makes means, the others keep them.
        std::vector<float> out(8);
        for (std::size_t i = 0; i < 8; ++i) out[i] = (of(group[0])[i] + of(group[1])[i]) / 2;
        return out;
      }));
}

TEST_P(Collectives, Errors) {
  const Array row = zeros({8, 8});
  auto run = [&](const PartitionIdConstants& f) {
    return [this, f, row] { on_each(mesh, row, {8, 8}, f); };
  };
  expect_error<ValueError>(run([](Array a) { return psum(a, "z"); }),
                           {"psum", "'z'", "'x', 'y'", kNear});
  expect_error<ValueError>(run([](Array a) {
                             return psum(a, {"x", "x"});
                           }),
                           {"psum", "'x' stands twice", kNear});
  expect_error<ShapeError>(
      run([](Array a) { return psum_scatter(a, "y", {.scatter_dimension = 0, .tiled = true}); }),
      {"psum_scatter", "dim 0", "f32[1,8]", "multiple of 4", kNear});
  expect_error<ShapeError>(run([](Array a) { return all_to_all(a, "y", 1, 0); }),
                           {"all_to_all", "dim 1", "must be 4", kNear});
  expect_error<ValueError>(run([](Array a) {
                             return ppermute(a, "y", {{0, 4}});
                           }),
                           {"ppermute", "(0, 4)", "0 to 3", kNear});
  expect_error<ValueError>(run([](Array a) {
                             return ppermute(a, "y", {{0, 1}, {2, 1}});
                           }),
                           {"ppermute", "(2, 1)", "unique", kNear});
  expect_error<ValueError>([] { psum(zeros({2}), "x"); },
                           {"psum", "no mesh axes are bound", kNear});
  expect_error<ValueError>([] { jit([](Array a) { return a + axis_index("x"); })(zeros({2})); },
                           {"axis_index", "no mesh axes are bound", kNear});
}

INSTANTIATE_TEST_SUITE_P(Orders, Collectives, ::testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Shuffled") : std::string("InOrder");
});

}  // namespace
}  // namespace tessera::testing
