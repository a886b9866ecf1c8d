// SPDX-License-Identifier: Apache-2.0
// Functions of the host that programs call: behaviour 319, and what transformations do with them.
#include <tessera/tessera.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "tests/frontend/frontend_testing.h"

namespace tessera::testing::host_callbacks {
namespace {

/// What is printed while in scope.
class Printed {
 public:
  Printed() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Printed() { std::cout.rdbuf(before_); }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    std::istringstream in(text_.str());
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }
  std::vector<std::string> sorted() const {
    std::vector<std::string> out = lines();
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

Array doubled(const Array& x) {
  std::vector<float> v = floats(x);
  for (float& f : v) f *= 2;
  return array(v, x.shape());
}

TEST(HostCallbacks, PureCallbacksComputeResults) {
  const Array x = counting({4});
  const auto f = [](Array v) { return pure_callback(doubled, zeros_like(v), v) + 1.0f; };
  EXPECT_EQ(floats(f(x)), (std::vector<float>{1, 3, 5, 7}));
  EXPECT_EQ(floats(jit(f)(x)), (std::vector<float>{1, 3, 5, 7}));
  const auto two = jit([](Array a, Array b) {
    return pure_callback(
        [](std::pair<Array, Array> p, Array n) { return std::pair(p.first + p.second, n * 10); },
        std::pair(shape_dtype_struct({2}, DType::f32), shape_dtype_struct({}, DType::s32)),
        std::pair(a, b), Array(4));
  });
  const auto [sum, ten] = two(counting({2}), ones({2}));
  EXPECT_EQ(floats(sum), (std::vector<float>{1, 2}));
  EXPECT_EQ(ten.item<int>(), 40);
}

TEST(HostCallbacks, PureCallbacksOnSplitArraysGetWholeOnesOrParts) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array x = device_put(counting({8, 2}), NamedSharding(mesh, P("x")));
  std::vector<std::vector<std::int64_t>> seen;
  const auto f = [&](const PureCallbackOptions& options) {
    return jit([&](Array v) {
      return pure_callback(
          [&](Array part) {
            seen.push_back(part.shape());
            return doubled(part);
          },
          v, options, v);
    });
  };
  expect_close(f({})(x), counting({8, 2}, 2));
  EXPECT_EQ(seen, (std::vector<std::vector<std::int64_t>>{{8, 2}}));
  // Parts aren't declared: what is returned must fit the part.
  seen.clear();
  const Array y = f({.sharding_rule = "i j -> i j", .need_replication_factors = {"j"}})(x);
  expect_close(y, counting({8, 2}, 2));
  EXPECT_EQ(seen, (std::vector<std::vector<std::int64_t>>(4, {2, 2})));
  EXPECT_EQ(y.sharding(), x.sharding());
}

TEST(HostCallbacks, WrongResultsAreErrors) {
  const auto f = jit([](Array v) {
    return pure_callback([](Array) { return ones({3}); }, shape_dtype_struct({4}, DType::f32), v);
  });
  expect_error<TypeError>([&] { (void)f(ones({4})); },
                          {"pure_callback", "f32[3]", "f32[4]", "declared", kNear});
  // The line is that of the call, whatever its form and the number of arguments.
  const Array like = shape_dtype_struct({4}, DType::f32);
  const auto wrong = [](auto...) { return ones({3}); };
  const auto refuses = [&](auto call) {
    expect_error<TypeError>([&] { call(); }, {"f32[3]", "f32[4]", "declared"});
    try {
      call();
    } catch (const TypeError& e) {
      return e.location().line;
    }
    return 0u;
  };
  const Array v = ones({4});
  const PureCallbackOptions pure{};
  const IoCallbackOptions io{.ordered = true};
  const auto at = unsigned(__LINE__);
  EXPECT_EQ(refuses([&] { (void)pure_callback(wrong, like, pure, v); }), at + 1);
  EXPECT_EQ(refuses([&] { (void)pure_callback(wrong, like, {}, v, v); }), at + 2);
  EXPECT_EQ(refuses([&] { (void)io_callback(wrong, like, io, v, v); }), at + 3);
  EXPECT_EQ(refuses([&] { (void)io_callback(wrong, like, v, 1, 2, v, v); }), at + 4);
  EXPECT_EQ(refuses([&] { jit([&] { return io_callback(wrong, like); })(); }), at + 5);
  const auto g = jit([](Array v) {
    return pure_callback([](Array) -> Array { throw ValueError("no such table"); }, v, v);
  });
  expect_error<ValueError>([&] { (void)g(ones({4})); }, {"no such table"});
}

TEST(HostCallbacks, ErrorsLeaveShortLoops) {
  const auto steps = jit([](Array x) {
    return fori_loop(
        0, 100,
        [](Array i, Array c) {
          const Array y = pure_callback(
              [](Array v, Array k) -> Array {
                if (k.item<int>() == 7) throw ValueError("no such step");
                return v;
              },
              c, c, i);
          return y * 2 + 1;
        },
        x);
  });
  expect_error<ValueError>([&] { (void)steps(ones({4})); }, {"no such step"});
  // In a branch, too, that most steps don't take.
  const auto branches = jit([](Array x) {
    return fori_loop(
        0, 100,
        [](Array i, Array c) {
          return cond(
              i == 5,
              [](Array v) {
                return pure_callback([](Array) -> Array { throw ValueError("no such branch"); }, v,
                                     v);
              },
              [](Array v) { return v + 1; }, c);
        },
        x);
  });
  expect_error<ValueError>([&] { (void)branches(ones({4})); }, {"no such branch"});
}

TEST(HostCallbacks, IoCallbacksHappenOnceAndInOrder) {
  std::vector<int> seen;
  const auto note = [&](Array v) {
    seen.push_back(v.item<int>());
    return std::vector<Array>();
  };
  const auto f = jit([&](Array x) {
    for (int k = 0; k < 4; ++k) {
      io_callback(note, std::vector<Array>(), IoCallbackOptions{.ordered = true}, x + k);
    }
    return x;
  });
  (void)f(Array(10));
  EXPECT_EQ(seen, (std::vector<int>{10, 11, 12, 13}));
  (void)f(Array(20));
  EXPECT_EQ(seen.size(), 8u);
  // On a mesh as well, and in each trip of a loop.
  seen.clear();
  const Mesh mesh = mesh_of({{"x", 8}});
  const auto g = jit([&](Array x) {
    return scan(
               [&](Array c, Array v) {
                 io_callback(note, std::vector<Array>(), astype(sum(v), DType::s32));
                 return std::pair(c + sum(v), Array(0));
               },
               Array(0.0f), x)
        .first;
  });
  (void)g(device_put(ones({3, 8}), NamedSharding(mesh, P(nullptr, "x"))));
  EXPECT_EQ(seen, (std::vector<int>{8, 8, 8}));
  int count = 0;
  const auto h = jit(
      [&](Array x) { return x + io_callback([&](Array v) { return ++count, v * 2.0f; }, x, x); });
  expect_close(h(device_put(ones({8}), NamedSharding(mesh, P("x")))), ones({8}) * 3.0f);
  EXPECT_EQ(count, 1);
}

TEST(HostCallbacks, Behaviour_319_PrintsAndCallbacksUnderAll) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array x = device_put(counting({4}), NamedSharding(mesh, P("x")));
  {
    const Printed out;
    debug::print("eager {} and {:.2f}", counting({2}), Array(1.5f));
    EXPECT_EQ(out.lines(), (std::vector<std::string>{"eager [0, 1] and 1.50"}));
  }
  {
    // Once, with the whole value.
    const Printed out;
    (void)jit([](Array v) {
      debug::print("sum {} of {}", sum(v), v);
      return v;
    })(x);
    EXPECT_EQ(out.lines(), (std::vector<std::string>{"sum 6 of [0, 1, 2, 3]"}));
  }
  {
    // Each device's part.
    const Printed out;
    (void)jit(shard_map(
        [](Array v) {
          debug::print("part {}", sum(v));
          return v;
        },
        {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")}))(x);
    EXPECT_EQ(out.sorted(), (std::vector<std::string>{"part 0", "part 1", "part 2", "part 3"}));
  }
  {
    const Printed out;
    const Array g = grad([](Array v) {
      debug::print("at {}", v);
      return v * v;
    })(Array(3.0f));
    EXPECT_EQ(g.item<float>(), 6.0f);
    EXPECT_EQ(out.lines(), (std::vector<std::string>{"at 3"}));
  }
  {
    // In loops and branches as well, once for each trip.
    const Printed out;
    const auto f = [](Array v) {
      const auto step = [](Array c, Array w) {
        debug::print("carry {}", c);
        return std::pair(c * w, Array(0));
      };
      const auto branch = [](Array w) {
        debug::print("branch {}", w);
        return w * w;
      };
      const Array last = scan(step, v, ones({2})).first;
      return cond(
          last > 0.0f, branch, [](Array w) { return w; }, last);
    };
    EXPECT_EQ(jit(grad(f))(Array(3.0f)).item<float>(), 6.0f);
    EXPECT_EQ(out.lines(), (std::vector<std::string>{"carry 3", "carry 3", "branch 3"}));
  }
  {
    const Printed out;
    (void)vmap([](Array v) {
      debug::print("entry {}", v);
      return v;
    })(counting({3}));
    EXPECT_EQ(out.lines(), (std::vector<std::string>{"entry 0", "entry 1", "entry 2"}));
  }
  {
    const Printed out;
    (void)jit([](Array v) {
      return cond(
          v > 0.0f,
          [](Array w) {
            debug::print("yes {}", w);
            return w;
          },
          [](Array w) {
            debug::print("no {}", w);
            return w;
          },
          v);
    })(Array(2.0f));
    EXPECT_EQ(out.lines(), (std::vector<std::string>{"yes 2"}));
  }
  expect_error<ValueError>(
      [&] {
        (void)jit([](Array v) {
          debug::print("{} {}", v);
          return v;
        })(x);
      },
      {"debug::print", "1 argument", "valid: a field {} for each argument in turn", "{:.3f}",
       "{{ or }}", kNear});
  expect_error<ValueError>([&] { debug::print("100 {"); },
                           {"no arguments", "valid: text without replacement fields", kNear});
  expect_error<ValueError>([&] { debug::print("{0} {2}", 1, 2); },
                           {"2 arguments", "or by position {0} to {1}", kNear});
}

TEST(HostCallbacks, OrderedCallsOfABatchAreRefused) {
  int calls = 0;
  const auto counted = [&](Array v) { return ++calls, v; };
  const IoCallbackOptions ordered{.ordered = true};
  const auto each = [&](Array v) { return io_callback(counted, v, ordered, v); };
  for (const char* name : {"", "batch"}) {
    expect_error<ValueError>([&] { (void)vmap(each, {.axis_name = name})(counting({3})); },
                             {"ordered io_callback", "valid: ordered = false", "scan"});
    expect_error<ValueError>([&] { (void)jit(vmap(each, {.axis_name = name}))(counting({3})); },
                             {"ordered io_callback", "host_callback_test.cc"});
    EXPECT_EQ(calls, 0);
    // What doesn't depend on the batch is called once, as in JAX.
    const Array y = jit(
        vmap([&](Array v) { return v + io_callback(counted, Array(1.0f), ordered, Array(1.0f)); },
             {.axis_name = name}))(counting({3}));
    expect_close(y, counting({3}) + 1);
    EXPECT_EQ(calls, 1);
    calls = 0;
  }
}

TEST(HostCallbacks, CallsWithoutTracedArgumentsHappenWhenTheProgramRuns) {
  int io = 0, told = 0;
  const auto f = jit([&](Array a) {
    debug::callback([&](Array) { ++told; }, Array(1));
    return a + io_callback([&](Array) { return Array(float(++io)); }, Array(0.0f), Array(2));
  });
  EXPECT_EQ(io + told, 0);
  for (int n = 1; n <= 3; ++n) EXPECT_EQ(f(Array(0.0f)).item<float>(), float(n));
  EXPECT_EQ(told, 3);
  const auto g = jit([&](Array a) {
    return cond(
        a > 0.0f, [](Array v) { return v; },
        [&](Array v) {
          debug::callback([&](Array) { ++told; }, Array(1));
          return v;
        },
        a);
  });
  (void)g(Array(1.0f));
  EXPECT_EQ(told, 3);
  (void)g(Array(-1.0f));
  EXPECT_EQ(told, 4);
}

TEST(HostCallbacks, SplitArraysOfExplicitAxesArriveWhole) {
  const Mesh mesh = make_mesh({4, 2}, {"x", "y"}, {AxisType::Explicit, AxisType::Explicit});
  const Array x = device_put(counting({4, 2}), NamedSharding(mesh, P("x")));
  const Printed out;
  const Array y = jit([](Array v) {
    debug::print("{}", sum(v, 1));
    return pure_callback(doubled, v, v);
  })(x);
  EXPECT_EQ(out.lines(), (std::vector<std::string>{"[1, 5, 9, 13]"}));
  EXPECT_EQ(type_of(y).to_string(), "f32[4,2]");
  expect_close(y, counting({4, 2}, 2));
}

TEST(HostCallbacks, BatchesOfPureCallbacks) {
  std::vector<std::vector<std::int64_t>> seen;
  const auto f = [&](VmapMethod method) {
    const auto one = [&, method](Array v, Array w) {
      return pure_callback(
          [&](Array a, Array b) {
            seen.push_back(a.shape());
            seen.push_back(b.shape());
            return a * b;
          },
          v, PureCallbackOptions{.vmap_method = method}, v, w);
    };
    seen.clear();
    return vmap(one, {.in_axes = axes_tree(0, nullptr)})(counting({3, 2}), ones({2}) * 2.0f);
  };
  using Shapes = std::vector<std::vector<std::int64_t>>;
  expect_close(f(VmapMethod::sequential), counting({3, 2}, 2));
  EXPECT_EQ(seen, (Shapes{{2}, {2}, {2}, {2}, {2}, {2}}));
  expect_close(f(VmapMethod::expand_dims), counting({3, 2}, 2));
  EXPECT_EQ(seen, (Shapes{{3, 2}, {1, 2}}));
  expect_close(f(VmapMethod::broadcast_all), counting({3, 2}, 2));
  EXPECT_EQ(seen, (Shapes{{3, 2}, {3, 2}}));
}

TEST(HostCallbacks, DerivativesNeedARule) {
  const auto f = [](Array v) { return sum(pure_callback(doubled, v, v)); };
  expect_error<NotImplementedError>([&] { (void)grad(f)(ones({2})); }, {"host", "custom_jvp"});
  auto g = custom_jvp([](Array v) { return pure_callback(doubled, v, v); });
  g.def_jvp([](std::tuple<Array> primals, std::tuple<Array> tangents) {
    const Array v = std::get<0>(primals);
    return std::pair(pure_callback(doubled, v, v), std::get<0>(tangents) * 2.0f);
  });
  EXPECT_EQ(floats(grad([&](Array v) { return sum(g(v)); })(ones({2}))),
            (std::vector<float>{2, 2}));
}

TEST(HostCallbacks, InspectedShardingsAreThoseChosen) {
  const Mesh mesh = mesh_of({{"x", 4}, {"y", 2}});
  const Array a = device_put(counting({8, 4}), NamedSharding(mesh, P("x")));
  const Array b = device_put(counting({4, 8}), NamedSharding(mesh, P(nullptr, "y")));
  for (const Layouts layouts : {Layouts::propagated, Layouts::solved}) {
    std::vector<Sharding> seen;
    const auto f = jit(
        [&](Array v, Array w) {
          const Array y = matmul(v, w);
          inspect_array_sharding(y, [&](const Sharding& s) { seen.push_back(s); });
          return y;
        },
        {.layouts = layouts});
    const Array y = f(a, b);
    ASSERT_EQ(seen.size(), 1u);
    EXPECT_TRUE(seen[0].is_equivalent_to(y.sharding(), 2))
        << seen[0].to_string() << " and " << y.sharding().to_string();
    (void)f(a, b);
    EXPECT_EQ(seen.size(), 1u);
  }
  int one = 0;
  (void)jit([&](Array v) {
    inspect_array_sharding(v, [&](const Sharding& s) { one += int(s.num_devices()); });
    return v;
  })(counting({4}));
  EXPECT_EQ(one, 1);
  std::vector<Sharding> seen;
  inspect_array_sharding(a, [&](const Sharding& s) { seen.push_back(s); });
  EXPECT_EQ(seen, (std::vector<Sharding>{a.sharding()}));
}

}  // namespace
}  // namespace tessera::testing::host_callbacks
