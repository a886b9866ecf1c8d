// SPDX-License-Identifier: Apache-2.0
// Random bodies under shard_map, fully and partly manual, with shard_maps over further axes within,
// eager and jitted, against the same steps on each device's numbers in plain C++.
#include <tessera/control_flow.h>
#include <tessera/jit.h>
#include <tessera/ops/elementwise.h>
#include <tessera/ops/reductions.h>
#include <tessera/ops/shape_ops.h>
#include <tessera/shard_map.h>

#include <set>

#include "tests/frontend/frontend_testing.h"
#include "tests/support/random_program.h"

namespace tessera::testing {
namespace {

constexpr int kDevices = 8;
const std::vector<std::string> kNames{"x", "y", "z"};
using Positions = std::vector<int>;  // of axes, in kNames

int coordinate(int device, int axis) { return device >> (2 - axis) & 1; }
/// Devices that differ along these axes alone, in the order of the positions along them.
std::vector<int> group_of(int device, const Positions& over) {
  std::vector<int> out;
  for (int k = 0; k < 1 << over.size(); ++k) {
    int d = device;
    for (std::size_t i = 0; i < over.size(); ++i) {
      const int bit = k >> (over.size() - 1 - i) & 1, at = 2 - over[i];
      d = (d & ~(1 << at)) | bit << at;
    }
    out.push_back(d);
  }
  return out;
}
int place_in(int device, const Positions& over) {
  int k = 0;
  for (int axis : over) k = 2 * k + coordinate(device, axis);
  return k;
}
AxisNames names_of(const Positions& over) {
  std::vector<std::string> out;
  for (int axis : over) out.push_back(kNames[std::size_t(axis)]);
  return out;
}

/// A matrix of small integers.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<float> v;
  float& at(std::int64_t r, std::int64_t c) { return v[std::size_t(r * columns + c)]; }
  float at(std::int64_t r, std::int64_t c) const { return v[std::size_t(r * columns + c)]; }
  std::int64_t size(int dim) const { return dim == 0 ? rows : columns; }
};
Matrix zeros_like(const Matrix& m) { return {m.rows, m.columns, std::vector<float>(m.v.size())}; }
Matrix slice(const Matrix& m, int dim, std::int64_t from, std::int64_t count) {
  Matrix out{dim == 0 ? count : m.rows, dim == 1 ? count : m.columns, {}};
  for (std::int64_t r = 0; r < out.rows; ++r) {
    for (std::int64_t c = 0; c < out.columns; ++c) {
      out.v.push_back(m.at(r + (dim == 0 ? from : 0), c + (dim == 1 ? from : 0)));
    }
  }
  return out;
}
Matrix join(const std::vector<Matrix>& parts, int dim) {
  Matrix out = parts[0];
  (dim == 0 ? out.rows : out.columns) *= std::int64_t(parts.size());
  out.v.assign(std::size_t(out.rows * out.columns), 0);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    const Matrix& p = parts[k];
    for (std::int64_t r = 0; r < p.rows; ++r) {
      for (std::int64_t c = 0; c < p.columns; ++c) {
        out.at(r + (dim == 0 ? std::int64_t(k) * p.rows : 0),
               c + (dim == 1 ? std::int64_t(k) * p.columns : 0)) = p.at(r, c);
      }
    }
  }
  return out;
}

/// Each device's value, and the traced one that stands for all.
struct Value {
  std::vector<Matrix> on{kDevices};
  std::int64_t size(int dim) const { return on[0].size(dim); }
};

/// Numbers stay small, so that floats hold them.
float small(float a) { return a - 17 * std::floor(a / 17); }
Array small(Array a) { return a - floor(a / 17.f) * 17.f; }

/// A step as both worlds do it.
struct Step {
  std::function<Array(Array)> traced;
  std::function<Value(const Value&)> plain;
};

class Body {
 public:
  Body(Dice& dice, Positions bound) : dice_(dice), bound_(std::move(bound)) {}

  /// Appends a step that may change the shape; `now` is the value before it.
  void add(Value* now, bool keep_shape, int depth = 0) {
    Step step = make(*now, keep_shape, depth);
    if (dice_.chance(0.15)) {
      step.traced = [inner = step.traced](Array x) {
        return jit([&](Array a) { return inner(a); })(x);
      };
    }
    *now = step.plain(*now);
    steps_.push_back(std::move(step));
  }
  Array traced(Array x) const {
    for (const Step& s : steps_) x = s.traced(x);
    return x;
  }
  Value plain(Value x) const {
    for (const Step& s : steps_) x = s.plain(x);
    return x;
  }

 private:
  Positions some_axes() {
    Positions out;
    for (int a : bound_) {
      if (dice_.chance(0.6)) out.push_back(a);
    }
    if (out.empty()) out.push_back(dice_.pick(bound_));
    if (dice_.chance(0.3)) std::reverse(out.begin(), out.end());
    return out;
  }
  template <class F>
  static Value each(const Value& x, F f) {
    Value out;
    for (int d = 0; d < kDevices; ++d) out.on[std::size_t(d)] = f(d);
    (void)x;
    return out;
  }
  static const Matrix& of(const Value& x, int d) { return x.on[std::size_t(d)]; }
  static std::vector<Matrix> all_of(const Value& x, const std::vector<int>& group) {
    std::vector<Matrix> out;
    for (int d : group) out.push_back(of(x, d));
    return out;
  }

  Step make(const Value& now, bool keep_shape, int depth) {
    const Positions over = some_axes();
    const AxisNames names = names_of(over);
    const std::int64_t n = 1 << over.size();
    const int dim = int(dice_.below(2));
    switch (dice_.below(keep_shape ? 9 : 13)) {
      case 0: {  // elementwise, with a number
        const float k = float(dice_.between(-5, 5));
        return {[k](Array a) { return small(a * 3 + k); },
                [k](const Value& x) {
                  return each(x, [&](int d) {
                    Matrix m = of(x, d);
                    for (float& v : m.v) v = small(v * 3 + k);
                    return m;
                  });
                }};
      }
      case 1:
        return {[names](Array a) { return small(a + axis_index(names).astype(f32)); },
                [over](const Value& x) {
                  return each(x, [&](int d) {
                    Matrix m = of(x, d);
                    for (float& v : m.v) v = small(v + float(place_in(d, over)));
                    return m;
                  });
                }};
      case 2:
        return reduction(over, names);
      case 3: {  // some pairs
        std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
        std::vector<std::int64_t> to;
        for (std::int64_t k = 0; k < n; ++k) to.push_back(k);
        for (std::int64_t k = n; --k > 0;) {
          std::swap(to[std::size_t(k)], to[std::size_t(dice_.below(k + 1))]);
        }
        for (std::int64_t k = 0; k < n; ++k) {
          if (dice_.chance(0.8)) pairs.emplace_back(k, to[std::size_t(k)]);
        }
        return {[=](Array a) { return ppermute(a, names, pairs); },
                [=](const Value& x) {
                  return each(x, [&](int d) {
                    for (const auto& [from, target] : pairs) {
                      if (target == place_in(d, over)) {
                        return of(x, group_of(d, over)[std::size_t(from)]);
                      }
                    }
                    return zeros_like(of(x, d));
                  });
                }};
      }
      case 4: {
        if (depth < 2) return loop(now, depth);
        const std::int64_t source = dice_.below(n);
        return {[=](Array a) { return pbroadcast(a, names, source); },
                [=](const Value& x) {
                  return each(x,
                              [&](int d) { return of(x, group_of(d, over)[std::size_t(source)]); });
                }};
      }
      case 5: {
        Positions free;
        for (int a = 0; a < 3; ++a) {
          const bool bound = std::find(bound_.begin(), bound_.end(), a) != bound_.end();
          if (!bound) free.push_back(a);
        }
        if (depth < 2 && !free.empty() && now.size(dim) % 2 == 0) {
          return nested(now, dice_.pick(free), dim, depth);
        }
        return {[=](Array a) { return small(a - flip(a, {dim})); },
                [=](const Value& x) {
                  return each(x, [&](int d) {
                    Matrix m = of(x, d);
                    for (std::int64_t r = 0; r < m.rows; ++r) {
                      for (std::int64_t c = 0; c < m.columns; ++c) {
                        const Matrix& from = of(x, d);
                        m.at(r, c) =
                            small(from.at(r, c) - from.at(dim == 0 ? m.rows - 1 - r : r,
                                                          dim == 1 ? m.columns - 1 - c : c));
                      }
                    }
                    return m;
                  });
                }};
      }
      case 6:  // devices that go their own ways, without communication
        return {[=](Array a) {
                  const Array here = axis_index(names);
                  return cond(
                      here == int(n / 2), [&](Array b) { return pvary(small(b * 2 + 1), names); },
                      [&](Array b) { return small(b - here.astype(f32)); }, a);
                },
                [=](const Value& x) {
                  return each(x, [&](int d) {
                    Matrix m = of(x, d);
                    const int here = place_in(d, over);
                    for (float& v : m.v) v = small(here == n / 2 ? v * 2 + 1 : v - float(here));
                    return m;
                  });
                }};
      case 7:
        if (depth < 2) return branch(now, depth);
        return reduction(over, names);
      case 8: {  // a captured array, replicated
        Matrix w = zeros_like(now.on[0]);
        for (float& v : w.v) v = float(dice_.below(9));
        const Array captured = array(w.v, {w.rows, w.columns});
        return {[=](Array a) { return small(a + captured); },
                [=](const Value& x) {
                  return each(x, [&](int d) {
                    Matrix m = of(x, d);
                    for (std::size_t i = 0; i < m.v.size(); ++i) m.v[i] = small(m.v[i] + w.v[i]);
                    return m;
                  });
                }};
      }
      case 9:
        if (now.size(0) * now.size(1) * n > 2048) return reduction(over, names);
        return {[=](Array a) { return all_gather(a, names, {.axis = dim, .tiled = true}); },
                [=](const Value& x) {
                  return each(x, [&](int d) { return join(all_of(x, group_of(d, over)), dim); });
                }};
      case 10:
        if (now.size(dim) % n != 0) return reduction(over, names);
        return {[=](Array a) {
                  return small(psum_scatter(a, names, {.scatter_dimension = dim, .tiled = true}));
                },
                [=](const Value& x) {
                  return each(x, [&](int d) {
                    Matrix sum = zeros_like(of(x, d));
                    for (int o : group_of(d, over)) {
                      for (std::size_t i = 0; i < sum.v.size(); ++i) sum.v[i] += of(x, o).v[i];
                    }
                    for (float& v : sum.v) v = small(v);
                    return slice(sum, dim, place_in(d, over) * sum.size(dim) / n,
                                 sum.size(dim) / n);
                  });
                }};
      case 11:
        if (now.size(dim) % n != 0) return reduction(over, names);
        return {[=](Array a) { return all_to_all(a, names, dim, 1 - dim, true); },
                [=](const Value& x) {
                  return each(x, [&](int d) {
                    std::vector<Matrix> parts;
                    for (int o : group_of(d, over)) {
                      const std::int64_t size = of(x, o).size(dim) / n;
                      parts.push_back(slice(of(x, o), dim, place_in(d, over) * size, size));
                    }
                    return join(parts, 1 - dim);
                  });
                }};
      default:
        return {[](Array a) { return transpose(a); },
                [](const Value& x) {
                  return each(x, [&](int d) {
                    const Matrix& from = of(x, d);
                    Matrix m{from.columns, from.rows, std::vector<float>(from.v.size())};
                    for (std::int64_t r = 0; r < m.rows; ++r) {
                      for (std::int64_t c = 0; c < m.columns; ++c) m.at(r, c) = from.at(c, r);
                    }
                    return m;
                  });
                }};
    }
  }

  Step reduction(const Positions& over, const AxisNames& names) {
    const int kind = int(dice_.below(3));
    const bool difference = dice_.chance(0.5);
    return {[=](Array a) {
              Array r = kind == 0 ? psum(a, names) : kind == 1 ? pmax(a, names) : pmin(a, names);
              return small(difference ? a - r : r);
            },
            [=](const Value& x) {
              return each(x, [&](int d) {
                const std::vector<Matrix> all = all_of(x, group_of(d, over));
                Matrix m = all[0];
                for (std::size_t k = 1; k < all.size(); ++k) {
                  for (std::size_t i = 0; i < m.v.size(); ++i) {
                    const float v = all[k].v[i];
                    m.v[i] = kind == 0   ? m.v[i] + v
                             : kind == 1 ? std::max(m.v[i], v)
                                         : std::min(m.v[i], v);
                  }
                }
                for (std::size_t i = 0; i < m.v.size(); ++i) {
                  m.v[i] = small(difference ? of(x, d).v[i] - m.v[i] : m.v[i]);
                }
                return m;
              });
            }};
  }

  /// All devices take the same branch, which may communicate.
  Step branch(const Value& now, int depth) {
    auto body = std::make_shared<Body>(dice_, bound_);
    Value inside = now;
    body->add(&inside, true, depth + 1);
    const float limit = float(dice_.below(1200));
    const AxisNames all = names_of(bound_);
    return {[=](Array a) {
              return cond(
                  pmax(sum(a), all) > limit, [&](Array b) { return pvary(body->traced(b), all); },
                  [&](Array b) { return pvary(b, all); }, a);
            },
            [=, over = bound_](const Value& x) {
              const Value y = body->plain(x);
              return each(x, [&](int d) {
                float most = -1;
                for (int o : group_of(d, over)) {
                  float total = 0;
                  for (float v : of(x, o).v) total += v;
                  most = std::max(most, total);
                }
                return of(most > limit ? y : x, d);
              });
            }};
  }

  Step loop(const Value& now, int depth) {
    auto body = std::make_shared<Body>(dice_, bound_);
    Value inside = now;
    const int steps = int(dice_.between(1, 3)), trips = int(dice_.between(0, 3));
    for (int s = 0; s < steps; ++s) body->add(&inside, true, depth + 1);
    const AxisNames all = names_of(bound_);
    return {[=](Array a) {
              return fori_loop(
                  0, trips, [&](Array, Array c) { return body->traced(c); }, pvary(a, all));
            },
            [=](const Value& x) {
              Value v = x;
              for (int t = 0; t < trips; ++t) v = body->plain(v);
              return v;
            }};
  }

  /// A shard_map over one more axis, along one dim.
  Step nested(const Value& now, int axis, int dim, int depth) {
    Positions bound = bound_;
    bound.push_back(axis);
    auto body = std::make_shared<Body>(dice_, bound);
    auto cut = [=](const Value& x) {
      return each(x, [&](int d) {
        const std::int64_t half = of(x, d).size(dim) / 2;
        return slice(of(x, d), dim, coordinate(d, axis) * half, half);
      });
    };
    Value inside = cut(now);
    const int steps = int(dice_.between(1, 2));
    for (int s = 0; s < steps; ++s) body->add(&inside, true, depth + 1);
    const std::string name = kNames[std::size_t(axis)];
    const PartitionSpec spec = dim == 0 ? P(name) : P(nullptr, name);
    return {[=](Array a) {
              return shard_map([&](Array b) { return body->traced(b); },
                               {.in_specs = spec, .out_specs = spec, .axis_names = {name}})(a);
            },
            [=](const Value& x) {
              const Value y = body->plain(cut(x));
              return each(y, [&](int d) { return join(all_of(y, group_of(d, {axis})), dim); });
            }};
  }

  Dice& dice_;
  Positions bound_;
  std::vector<Step> steps_;
};

void run_case(std::uint64_t seed) {
  Dice dice(seed);
  std::vector<Device> list(devices().begin(), devices().begin() + kDevices);
  if (dice.chance(0.3)) std::reverse(list.begin() + 2, list.begin() + 7);
  const Mesh mesh(list, {2, 2, 2}, kNames);
  Positions manual;
  const std::int64_t set = dice.between(1, 7);
  for (int a = 0; a < 3; ++a) {
    if (set >> a & 1) manual.push_back(a);
  }
  // Each manual axis cuts dim 0, dim 1, or nothing.
  Positions on[2];
  for (int a : manual) {
    if (const auto d = dice.below(3); d < 2) on[d].push_back(a);
  }
  auto spec_of = [&](const Positions& rows, const Positions& columns) {
    return P(SpecEntry(names_of(rows).list()), SpecEntry(names_of(columns).list()));
  };
  Matrix whole{16, 8, {}};
  for (int i = 0; i < 128; ++i) whole.v.push_back(float(dice.below(17)));
  Value now;
  for (int d = 0; d < kDevices; ++d) {
    Matrix m = whole;
    for (int dim = 0; dim < 2; ++dim) {
      const std::int64_t size = m.size(dim) >> on[dim].size();
      m = slice(m, dim, place_in(d, on[dim]) * size, size);
    }
    now.on[std::size_t(d)] = m;
  }
  Body body(dice, manual);
  const int steps = int(dice.between(1, 5));
  for (int s = 0; s < steps; ++s) body.add(&now, false);

  // The inferred type says what the spec must name; here the first trace tells it.
  std::vector<std::string> varying;
  const Array x = array(whole.v, {16, 8});
  ShardMapOptions options{.mesh = mesh, .in_specs = spec_of(on[0], on[1])};
  for (int a : manual) options.axis_names.push_back(kNames[std::size_t(a)]);
  options.check_vma = true;
  auto probe = options;
  probe.out_specs = P();
  jit(shard_map(
          [&](Array a) {
            varying = varying_axes(body.traced(a));
            return zeros({});
          },
          probe))
      .lower(x);
  Positions out[2];
  std::vector<int> unnamed;
  for (int a : manual) {
    const bool varies =
        std::find(varying.begin(), varying.end(), kNames[std::size_t(a)]) != varying.end();
    if (varies || dice.chance(0.2)) {
      out[dice.below(2)].push_back(a);
    } else {
      unnamed.push_back(a);
    }
  }
  options.out_specs = spec_of(out[0], out[1]);

  // Soundness: values tracked as equal are equal.
  for (int d = 0; d < kDevices; ++d) {
    for (int o : group_of(d, unnamed)) {
      ASSERT_EQ(now.on[std::size_t(d)].v, now.on[std::size_t(o)].v) << "type of seed " << seed;
    }
  }
  const int origin = 0;
  std::vector<Matrix> rows;
  for (int d : group_of(origin, out[0])) {
    std::vector<Matrix> columns;
    for (int o : group_of(d, out[1])) columns.push_back(now.on[std::size_t(o)]);
    rows.push_back(join(columns, 1));
  }
  const Matrix want = join(rows, 0);

  auto f = shard_map([&](Array a) { return body.traced(a); }, options);
  Array argument = x;
  if (dice.chance(0.5)) {
    argument = put(x, mesh, dice.chance(0.5) ? P("x", axes("z", "y")) : P(nullptr, "y"));
  } else if (dice.chance(0.3)) {
    argument = put(x, Mesh(list, "all"), P("all"));
  }
  const Array have = dice.chance(0.3) ? f(argument) : jit(f)(argument);
  EXPECT_EQ(have.shape(), (Array::Dims{want.rows, want.columns}));
  expect_close(floats(have), want.v, 0);
}

TEST(ShardMapRandom, BodiesAgreeWithPlainCode) {
  const char* more = std::getenv("SOAK_PROGRAMS");
  const std::uint64_t programs = more ? std::uint64_t(std::atoll(more)) : 200;
  for (std::uint64_t seed = 1; seed <= programs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    try {
      run_case(seed);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tessera::testing
