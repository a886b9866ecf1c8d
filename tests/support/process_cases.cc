// SPDX-License-Identifier: Apache-2.0
// Programs, arrays and errors of several processes.
#include "tests/support/process_cases.h"

#include <gtest/gtest.h>
#include <tessera/tessera.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <complex>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/base/processes/processes.h"
#include "tests/support/refused.h"

namespace tessera::testing {
namespace {

std::int64_t all_devices() { return device_count(); }
Mesh line() { return Mesh(devices(), {all_devices()}, {"x"}); }
Mesh grid() { return Mesh(devices(), {2, all_devices() / 2}, {"x", "y"}); }

Array numbers(std::vector<std::int64_t> shape, float scale = 1, int period = 1 << 20) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  std::vector<float> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(scale * float(i % period));
  return array(values, std::move(shape));
}

Array split(const Array& x, const Mesh& mesh, const PartitionSpec& spec) {
  return device_put(x, NamedSharding(mesh, spec));
}

std::vector<float> everything(const Array& x) {
  return astype(process_allgather(x, {.tiled = !x.is_fully_addressable()}), DType::f32)
      .to_vector<float>();
}

/// The function gives the same of arrays that are split over all processes as within one.
template <class F>
void same_as_alone(F f, const std::vector<Array>& args, const std::vector<PartitionSpec>& specs,
                   const PartitionSpec& out, float tolerance = 0) {
  const Mesh mesh = grid();
  std::vector<Array> placed;
  for (std::size_t i = 0; i < args.size(); ++i) placed.push_back(split(args[i], mesh, specs[i]));
  const auto want = astype(jit(f)(args), DType::f32).template to_vector<float>();
  const auto g = jit(f, {.out_shardings = NamedSharding(mesh, out)});
  for (int run = 0; run < 2; ++run) {
    const Array made = g(placed);
    EXPECT_FALSE(made.is_fully_addressable());
    const auto have = everything(made);
    ASSERT_EQ(have.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_NEAR(have[i], want[i], tolerance * (1 + std::abs(want[i]))) << i;
    }
  }
}

using Arrays = std::vector<Array>;

void devices_and_meshes() {
  const auto per = std::int64_t(local_devices().size());
  EXPECT_GT(process_count(), 1);
  EXPECT_EQ(device_count(), per * process_count());
  for (std::int64_t i = 0; i < device_count(); ++i) {
    EXPECT_EQ(devices()[std::size_t(i)].id, i);
    EXPECT_EQ(devices()[std::size_t(i)].process_index, i / per);
  }
  EXPECT_EQ(local_devices()[0].id, per * process_index());
  const Mesh mesh = line();
  EXPECT_TRUE(mesh.is_multi_process());
  EXPECT_EQ(mesh.local_mesh().size(), per);
  EXPECT_FALSE(mesh.local_mesh().is_multi_process());
  EXPECT_EQ(mesh.local_devices(), local_devices());
}

void shards_of_this_process() {
  const auto d = all_devices();
  const Array x =
      make_array_from_callback({2 * d, 3}, NamedSharding(line(), P("x")), [](const Index& part) {
        return full({2, 3}, float(part[0].start.value_or(0)));
      });
  EXPECT_FALSE(x.is_fully_addressable());
  const auto shards = x.addressable_shards();
  ASSERT_EQ(shards.size(), local_devices().size());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    EXPECT_EQ(shards[i].device, local_devices()[i]);
    EXPECT_EQ(shards[i].index[0].start.value_or(0), 2 * shards[i].device.id);
    EXPECT_EQ(shards[i].data.to_vector<float>()[0], float(2 * shards[i].device.id));
  }
  refused<RuntimeError>([&] { (void)x.to_vector<float>(); },
                        {"can't be read by process " + std::to_string(process_index()),
                         "process_allgather", "addressable_shards"});
  EXPECT_EQ(to_string(x),
            "Array(f32[" + std::to_string(2 * d) + ",3], on devices of several processes)");
  // What is replicated can be read.
  const Array sums =
      jit([](Array a) { return sum(a, {0}); }, {.out_shardings = NamedSharding(line(), P())})(x);
  EXPECT_FALSE(sums.is_fully_addressable());
  EXPECT_EQ(sums.to_vector<float>()[1], float(2 * d * (d - 1)));
  // So can what all of this process's devices hold together.
  const Mesh across(devices(), {process_count(), std::int64_t(local_devices().size())}, {"p", "l"});
  const Array whole = split(numbers({8 * std::int64_t(local_devices().size())}), across, P("l"));
  EXPECT_EQ(whole.to_vector<float>()[7], 7);
}

void programs_give_what_one_process_gives() {
  const auto d = all_devices();
  const Array a = numbers({8 * d, 4 * d}, 1, 7), b = numbers({4 * d, 8}, 1, 5);
  same_as_alone([](Arrays v) { return sum(v[0]); }, {a}, {P("x", "y")}, P());
  same_as_alone([](Arrays v) { return sum(v[0], {0}); }, {a}, {P(axes("x", "y"))}, P("y"));
  same_as_alone([](Arrays v) { return matmul(v[0], v[1]); }, {a, b}, {P("x", "y"), P("y")}, P("x"));
  same_as_alone([](Arrays v) { return matmul(v[0], v[1]); }, {a, b}, {P("y", "x"), P("x")},
                P(nullptr, "y"));
  same_as_alone([](Arrays v) { return transpose(v[0]); }, {a}, {P("x", "y")}, P("x", "y"));
  same_as_alone([](Arrays v) { return v[0] + 1; }, {a}, {P("x", nullptr)}, P(nullptr, "x"));
  same_as_alone([](Arrays v) { return v[0] * 2; }, {a}, {P("x", "y")}, P());
  same_as_alone([](Arrays v) { return cumsum(v[0], 0); }, {a}, {P("x")}, P("y"));
  same_as_alone([](Arrays v) { return flip(v[0], {0}); }, {a}, {P("x")}, P("x"));
  same_as_alone([](Arrays v) { return sort(v[0], 0); }, {a}, {P("x", "y")}, P("x", "y"));
  same_as_alone([](Arrays v) { return max(v[0], {1}); }, {a}, {P("x", "y")}, P("x"));
  same_as_alone([](Arrays v) { return astype(sum(astype(v[0], DType::bf16), {1}), DType::f32); },
                {a}, {P("x")}, P("x"));
  same_as_alone([](Arrays v) { return softmax(v[0], 1); }, {a}, {P("x", "y")}, P("x"), 1e-5f);
  same_as_alone(
      [](Arrays v) {
        return while_loop([](Array c) { return sum(c) < 1e5f; },
                          [](Array c) { return c * 2 + sum(c, {0}) / 64; }, v[0]);
      },
      {a}, {P("x", "y")}, P("x"), 1e-5f);
  same_as_alone(
      [](Arrays v) {
        return cond(
            sum(v[0]) > 10, [](Array c) { return c / sum(c); }, [](Array c) { return c; }, v[0]);
      },
      {a}, {P("x", "y")}, P("x"), 1e-5f);
  same_as_alone(
      [](Arrays v) {
        return v[0] + random::normal(random::key(3), {8, 4});
      },
      {zeros({8, 4})}, {P("x", "y")}, P("x", "y"), 1e-5f);
}

void gradients_of_a_training_step() {
  const auto d = all_devices();
  const Array x = numbers({4 * d, 8}, 0.01f, 13), w = numbers({8, 2 * d}, 0.02f, 11);
  const auto loss = [](Array v, Array in) { return mean(square(tanh(matmul(in, v)))); };
  const auto step = [loss](Array v, Array in) { return v - grad(loss)(v, in) * 0.1f; };
  const Array alone = jit(step)(w, x);
  const Mesh mesh = grid();
  const JitOptions donated{.donate_argnums = {0}};
  const auto spread_out = jit(step, donated);
  const Array next = spread_out(split(w, mesh, P(nullptr, "y")), split(x, mesh, P("x")));
  const auto have = everything(next), want = alone.to_vector<float>();
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-5f);
}

/// What code per device makes of an array of d rows per device, split over a line of all d devices.
template <class Body>
void check_per_device(Body body, std::int64_t columns,
                      const std::function<float(std::int64_t, std::int64_t)>& want,
                      DType dtype = DType::f32) {
  const auto d = all_devices();
  const Mesh mesh = line();
  const auto f = jit(shard_map(body, {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")}));
  const Array made = f(split(astype(numbers({d * d, columns}), dtype), mesh, P("x")));
  for (const Shard& s : made.addressable_shards()) {
    const auto have =
        astype(is_complex(dtype) ? real(s.data) : s.data, DType::f32).to_vector<float>();
    for (std::size_t i = 0; i < have.size(); ++i) {
      ASSERT_EQ(have[i], want(s.device.id, std::int64_t(i))) << s.device.id << " " << i;
    }
  }
}

void collectives_of_per_device_code() {
  const auto d = all_devices();
  const auto check = [](auto body, const std::function<float(std::int64_t, std::int64_t)>& want,
                        DType dtype = DType::f32) { check_per_device(body, 2, want, dtype); };
  const std::int64_t own = 2 * d;  // elements per device
  const float turns = float(own * d * (d - 1) / 2);
  for (const DType dtype : {DType::f32, DType::f64, DType::s32, DType::c64}) {
    check([](Array a) { return psum(a, "x"); },
          [&](std::int64_t, std::int64_t i) { return float(i * d) + turns; }, dtype);
  }
  check([](Array a) { return pmax(a, "x"); },
        [&](std::int64_t, std::int64_t i) { return float(own * (d - 1) + i); }, DType::s16);
  std::vector<std::pair<std::int64_t, std::int64_t>> ring;
  for (std::int64_t i = 0; i < d; ++i) ring.emplace_back(i, (i + 1) % d);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::u8}) {
    check([&](Array a) { return ppermute(a, "x", ring); },
          [&](std::int64_t at, std::int64_t i) { return float(own * ((at + d - 1) % d) + i); },
          dtype);
  }
  check([](Array a) { return all_to_all(a, "x", 0, 0, true); },
        [&](std::int64_t at, std::int64_t i) { return float(own * (i / 2) + 2 * at + i % 2); });
  check([](Array a) { return psum_scatter(a, "x", {.scatter_dimension = 0, .tiled = true}); },
        [&](std::int64_t at, std::int64_t i) { return float(d * (2 * at + i)) + turns; });
  check([](Array a) { return all_gather(a, "x", {.axis = 1, .tiled = true}); },
        [&](std::int64_t, std::int64_t i) {
          const std::int64_t row = i / (2 * d), column = i % (2 * d);
          return float(own * (column / 2) + 2 * row + column % 2);
        });
}

/// Those that stay where they are while they are read, where the system permits that.
void collectives_of_long_arrays() {
  const auto d = all_devices();
  for (const std::int64_t c :
       {std::int64_t(700), std::int64_t(5000), (std::int64_t(1) << 20) / (d * d)}) {
    const std::int64_t own = c * d;
    const float turns = float(own * d * (d - 1) / 2);
    check_per_device([](Array a) { return psum(a, "x"); }, c,
                     [&](std::int64_t, std::int64_t i) { return float(i * d) + turns; });
    check_per_device(
        [](Array a) { return psum_scatter(a, "x", {.scatter_dimension = 0, .tiled = true}); }, c,
        [&](std::int64_t at, std::int64_t i) { return float(d * (c * at + i)) + turns; });
    check_per_device(
        [](Array a) { return psum_scatter(a * 2, "x", {.scatter_dimension = 0, .tiled = true}); },
        c, [&](std::int64_t at, std::int64_t i) { return 2 * (float(d * (c * at + i)) + turns); });
    check_per_device(
        [](Array a) { return all_to_all(a, "x", 0, 0, true); }, c,
        [&](std::int64_t at, std::int64_t i) { return float(own * (i / c) + c * at + i % c); });
    check_per_device([](Array a) { return all_gather(a, "x", {.axis = 0, .tiled = true}); }, c,
                     [&](std::int64_t, std::int64_t i) { return float(i); });
  }
}

void memory_of_exchanges() {
  const auto d = all_devices();
  const Array x = split(numbers({d * d * 16}), line(), P("x"));
  const auto held = [&](auto body, const PartitionSpec& out) {
    const auto f = jit(shard_map(
        body, {.mesh = line(), .in_specs = P("x"), .out_specs = out, .check_vma = false}));
    return f.lower(x).compile().memory_analysis().exchange_bytes_per_process;
  };
  // Received where it belongs.
  EXPECT_EQ(held([](Array a) { return all_gather(a, "x", {.tiled = true}); }, P()), 0);
  EXPECT_EQ(held([](Array a) { return all_to_all(a, "x", 0, 0, true); }, P("x")), 0);
  EXPECT_EQ(held([](Array a) { return a * 2; }, P("x")), 0);
  // For each device here the parts of those elsewhere, but for a first term, and for those that are
  // read where they are.
  const auto per = std::int64_t(local_devices().size()), part = std::int64_t(64);
  std::int64_t moved = 0;
  for (const Device& device : devices()) {
    moved += !is_local(device) && !processes()->can_read(int(device.process_index), part);
  }
  const auto terms =
      held([](Array a) { return psum_scatter(a, "x", {.scatter_dimension = 0, .tiled = true}); },
           P("x"));
  EXPECT_GE(terms, per * (moved - 1) * part);
  EXPECT_LE(terms, per * moved * part);
}

void devices_that_leave_loops_apart() {
  const auto d = all_devices();
  const Mesh mesh = grid();
  // Along "y" all make the same number of trips, which differs along "x": the sums are among some
  // of the devices, and some processes wait for others.
  const auto f = jit(shard_map(
      [](Array a) {
        return while_loop([](Array c) { return max(c) < 100; },
                          [](Array c) { return c + 1 + psum(c * 0 + 1, "y"); }, a);
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x")}));
  const Array x = array(std::vector<float>{0, 60}, {2});
  const Array made = f(split(x, mesh, P("x")));
  const float step = float(1 + d / 2);
  for (const Shard& s : made.addressable_shards()) {
    float want = s.index[0].start.value_or(0) == 0 ? 0 : 60;
    while (want < 100) want += step;
    EXPECT_EQ(s.data.to_vector<float>()[0], want);
  }
}

void a_part_of_a_group_is_an_error_everywhere() {
  const auto d = all_devices();
  const Mesh mesh = line();
  const auto f = jit(shard_map(
      [](Array a) {
        return while_loop([](Array c) { return sum(c) < 10; },
                          [](Array c) { return c + 1 + 0 * psum(c, "x"); }, a);
      },
      {.mesh = mesh, .in_specs = P("x"), .out_specs = P("x"), .check_vma = false}));
  refused<RuntimeError>([&] { (void)f(split(numbers({d}), mesh, P("x"))); },
                        {"does not take part in"});
  // Nobody is left behind: the next program runs.
  EXPECT_EQ(jit([](Array a) { return sum(a); })(split(ones({d}), mesh, P("x"))).item<float>(),
            float(d));
}

void arrays_in_other_threads() {
  const auto d = all_devices();
  const Mesh mesh = line();
  const Array x = split(numbers({4 * d}), mesh, P("x"));
  const auto total = jit([](Array a) { return sum(a); });
  const auto twice = jit([](Array a) { return a * 2; });
  (void)twice(x);  // the first run is compared
  const float want = float(4 * d * (4 * d - 1) / 2);
  const ProcessOfThread here;
  // Threads that exchange by turns, in an order that is the same in all processes, and others that
  // read the array and run programs without exchanges meanwhile.
  constexpr int kThreads = 3, kRounds = 8;
  std::atomic<int> next{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const ProcessOfThread::Use use(here);
      for (int round = 0; round < kRounds; ++round) {
        while (next != round * kThreads + t) std::this_thread::yield();
        if (total(x).item<float>() != want) ++wrong;
        ++next;
      }
    });
    threads.emplace_back([&] {
      const ProcessOfThread::Use use(here);
      for (int round = 0; round < kRounds; ++round) {
        const Array y = twice(x);
        for (const Shard& s : y.addressable_shards()) {
          const auto first = float(s.index[0].start.value_or(0));
          if (s.data.to_vector<float>()[1] != 2 * (first + 1)) ++wrong;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(total(x).item<float>(), want);
}

void functions_of_the_host_are_called_once() {
  // Of threads that are processes each counts for itself.
  static std::array<std::atomic<int>, 16> calls;
  const auto mine = std::size_t(process_index());
  calls[mine] = 0;
  const auto d = all_devices();
  const NamedSharding rows(line(), P("x"));
  const auto f = jit([](Array x) {
    const auto g = [](Array total) {
      const int so_far = ++calls[std::size_t(process_index())];
      return total * float(so_far);
    };
    return fori_loop(
        0, 3,
        [&](Array, Array v) {
          return v + io_callback(g, Array(0.0f), IoCallbackOptions{}, sum(v));
        },
        x);
  });
  const Array made = f(device_put(ones({d}), rows));
  float want = 1;
  for (int i = 1; i <= 3; ++i) want += float(d) * want * float(i);
  EXPECT_EQ(everything(made)[0], want);
  const auto counts = process_allgather(Array(float(calls[mine]))).to_vector<float>();
  EXPECT_EQ(counts[0], 3);
  EXPECT_EQ(counts[1], 0);

  // Of per-device code each device calls, in its own process.
  calls[mine] = 0;
  const auto each = jit(shard_map(
      [](Array x) {
        debug::callback([](Array) { ++calls[std::size_t(process_index())]; }, x);
        return x * 2;
      },
      {.mesh = line(), .in_specs = P("x"), .out_specs = P("x")}));
  (void)each(device_put(numbers({d}), rows));
  EXPECT_EQ(calls[mine], int(local_devices().size()));
}

void gathered_broadcast_and_compared() {
  const float me = float(process_index());
  const std::int64_t n = process_count();
  EXPECT_EQ(process_allgather(full({2}, me)).shape(), (std::vector<std::int64_t>{n, 2}));
  const Array tiled = process_allgather(full({2, 3}, me), {.tiled = true});
  EXPECT_EQ(tiled.shape(), (std::vector<std::int64_t>{2 * n, 3}));
  EXPECT_TRUE(tiled.is_fully_addressable());
  for (std::int64_t p = 0; p < n; ++p) {
    EXPECT_EQ(tiled.to_vector<float>()[std::size_t(6 * p)], float(p));
  }
  EXPECT_EQ(process_allgather(Array(me), {.tiled = true}).shape(), (std::vector<std::int64_t>{n}));
  const auto pair = process_allgather(std::pair(full({1}, me), astype(ones({2}), DType::s8)));
  EXPECT_EQ(pair.second.dtype(), DType::s8);
  const Array global = split(numbers({4 * all_devices()}), line(), P("x"));
  refused<ValueError>([&] { (void)process_allgather(global); }, {"tiled = true"});
  EXPECT_EQ(everything(global)[5], 5);
  refused<ShapeError>([&] { (void)process_allgather(zeros({1 + process_index()})); },
                      {"process 0 has f32[1], and process 1 has f32[2]"});

  const Array sent = broadcast_one_to_all(astype(full({3}, me + 7), DType::s8));
  EXPECT_EQ(sent.dtype(), DType::s8);
  EXPECT_EQ(astype(sent, DType::f32).to_vector<float>()[0], 7);
  EXPECT_EQ(broadcast_one_to_all(full({1}, me), process_index() == n - 1).item<float>(),
            float(n - 1));
  refused<ValueError>([&] { (void)broadcast_one_to_all(Array(me), false); }, {"0 of"});

  sync_processes("here");
  refused<RuntimeError>([&] { sync_processes("at " + std::to_string(process_index())); },
                        {"process 0 at 'at 0'", "process 1 at 'at 1'"});
  assert_equal(numbers({3}), "numbers");
  refused<RuntimeError>([&] { assert_equal(Array(me), "rank"); },
                        {"rank: the values of process", "differ from those of process 0"});
}

void placement_of_values() {
  const NamedSharding target(line(), P("x"));
  const auto d = all_devices();
  refused<RuntimeError>([&] { (void)device_put(full({d}, float(process_index())), target); },
                        {"must be the same in all processes", "process 0 and process"});
  const Array mine = device_put(ones({d}), local_devices()[0]);
  refused<ValueError>([&] { (void)device_put(mine, target); },
                      {"is committed to", "host_local_array_to_global_array"});
  const Device other = devices()[process_index() == 0 ? std::size_t(d - 1) : 0];
  refused<ValueError>([&] { (void)device_put(ones({2}), other); }, {"is a device of process"});
  const auto f = jit([](Array a) { return a + 1; }, {.in_shardings = tree(target)});
  refused<ValueError>([&] { (void)f(ones({d})); }, {"device_put, which checks"});
  // What a function captures is an argument that isn't seen.
  const Array captured = split(numbers({d}), line(), P("x"));
  const auto h = jit([captured](Array a) { return a + captured; });
  EXPECT_EQ(everything(h(split(ones({d}), line(), P("x"))))[std::size_t(d - 1)], float(d));
  // Replicated ones are placed as they are.
  const auto g = jit([](Array a, Array b) { return a + b; });
  EXPECT_EQ(everything(g(split(ones({d}), line(), P("x")), Array(2.0f)))[0], 3);
}

void data_of_each_process() {
  const auto per = std::int64_t(local_devices().size());
  const std::int64_t n = process_count(), d = all_devices();
  const float first = float(process_index() * 2 * per);
  const NamedSharding rows(line(), P("x"));
  const Array x = make_array_from_process_local_data(rows, numbers({2 * per, 3}) * 0 + first);
  EXPECT_EQ(x.shape(), (std::vector<std::int64_t>{2 * d, 3}));
  EXPECT_EQ(everything(x)[std::size_t(2 * per * 3)], float(2 * per));
  // All of the data, or this process's part of it.
  const Array y = make_array_from_process_local_data(rows, numbers({2 * d}), {{2 * d}});
  EXPECT_EQ(everything(y), numbers({2 * d}).to_vector<float>());
  refused<ShapeError>(
      [&] { (void)make_array_from_process_local_data(rows, zeros({3}), {{2 * d}}); },
      {"has " + std::to_string(2 * per) + " elements on the devices of process",
       "or all " + std::to_string(2 * d)});
  EXPECT_EQ(process_index_and_count(rows, 0, 2), std::pair(process_index(), n));
  EXPECT_EQ(process_index_and_count(rows, 1, 2), std::pair(std::int64_t(0), std::int64_t(1)));
  EXPECT_EQ(*local_to_global_shape(rows, {4, 3})[0], 4 * n);

  // Devices of the processes in turns.
  std::vector<Device> turns;
  for (std::int64_t k = 0; k < per; ++k) {
    for (std::int64_t p = 0; p < n; ++p) turns.push_back(devices()[std::size_t(p * per + k)]);
  }
  const NamedSharding in_turns(Mesh(turns, {d}, {"x"}), P("x"));
  EXPECT_EQ(process_index_and_count(in_turns, 0, 1), std::pair(process_index(), n));
  std::vector<float> mine;
  for (std::int64_t k = 0; k < per; ++k) mine.push_back(float(k * n + process_index()));
  const Array z = make_array_from_process_local_data(in_turns, array(mine, {per}));
  EXPECT_EQ(everything(z), numbers({d}).to_vector<float>());
  if (per > 1) {
    refused<ShardingError>(
        [&] { (void)in_turns.device_list(), (void)Mesh(turns, {d}, {"x"}).local_mesh(); },
        {"contiguous block"});
  }

  const Mesh mesh = line();
  const Array part = full({2 * per}, float(process_index()));
  const Array global = host_local_array_to_global_array(part, mesh, P("x"));
  EXPECT_EQ(global.shape(), (std::vector<std::int64_t>{2 * d}));
  EXPECT_EQ(everything(global)[std::size_t(2 * per)], 1);
  const Array again = host_local_array_to_global_array(global, mesh, P("x"));
  EXPECT_EQ(again.impl(), global.impl());
  const Array back = global_array_to_host_local_array(global, mesh, P("x"));
  EXPECT_TRUE(back.is_fully_addressable());
  EXPECT_EQ(back.to_vector<float>(), part.to_vector<float>());
  refused<ValueError>([&] { (void)host_local_array_to_global_array(part, mesh, nullptr); },
                      {"a spec is needed"});
}

void meshes_of_some_processes() {
  const auto per = std::int64_t(local_devices().size());
  // The devices of process 1, which all processes give work.
  const std::vector<Device> its(devices().begin() + per, devices().begin() + 2 * per);
  const NamedSharding there(Mesh(its, {per}, {"x"}), P("x"));
  const Array x = make_array_from_callback(
      {2 * per}, there, [](const Index&) { return ones({2}); }, DType::f32);
  EXPECT_EQ(x.addressable_shards().size(), process_index() == 1 ? std::size_t(per) : 0U);
  const Array y = jit([](Array a) { return a / sum(a); })(x);
  EXPECT_EQ(y.addressable_shards().size(), process_index() == 1 ? std::size_t(per) : 0U);
  if (process_index() == 1) {
    EXPECT_EQ(y.to_vector<float>()[0], 1 / float(2 * per));
  } else {
    refused<RuntimeError>([&] { (void)y.to_vector<float>(); }, {"the parts of none"});
    refused<ValueError>(
        [&] {
          (void)make_array_from_callback({2 * per}, there, [](const Index&) { return ones({2}); });
        },
        {"give the dtype"});
  }
  sync_processes("after");
}

void reshards() {
  const auto d = all_devices();
  const Array x = numbers({2 * d, 2 * d});
  const auto want = x.to_vector<float>();
  std::vector<Device> reversed = devices();
  std::reverse(reversed.begin(), reversed.end());
  const Mesh back(reversed, {2, d / 2}, {"x", "y"});
  Array at = split(x, grid(), P("x", "y"));
  for (const auto& [mesh, spec] : {std::pair(grid(), P("y", "x")),
                                   {back, P("x", "y")},
                                   {line(), P(nullptr, "x")},
                                   {back, P()},
                                   {back, P("y")},
                                   {grid(), P("x", "y")}}) {
    at = device_put(at, NamedSharding(mesh, spec));
    EXPECT_EQ(everything(at), want) << spec.to_string();
  }
  // What a process has anyway it may keep for itself.
  const Array whole = device_put(at, NamedSharding(grid(), P()));
  EXPECT_EQ(device_put(whole, local_devices()[0]).to_vector<float>(), want);
  refused<RuntimeError>([&] { (void)device_put(at, local_devices()[0]); }, {"can't be read"});
}

}  // namespace

const std::vector<ProcessCase>& process_cases() {
  static const std::vector<ProcessCase> cases = {
      {"DevicesAndMeshes", devices_and_meshes},
      {"ShardsOfThisProcess", shards_of_this_process},
      {"ProgramsGiveWhatOneProcessGives", programs_give_what_one_process_gives},
      {"GradientsOfATrainingStep", gradients_of_a_training_step},
      {"CollectivesOfPerDeviceCode", collectives_of_per_device_code},
      {"CollectivesOfLongArrays", collectives_of_long_arrays},
      {"MemoryOfExchanges", memory_of_exchanges},
      {"DevicesThatLeaveLoopsApart", devices_that_leave_loops_apart},
      {"APartOfAGroupIsAnErrorEverywhere", a_part_of_a_group_is_an_error_everywhere},
      {"ArraysInOtherThreads", arrays_in_other_threads},
      {"FunctionsOfTheHostAreCalledOnce", functions_of_the_host_are_called_once},
      {"GatheredBroadcastAndCompared", gathered_broadcast_and_compared},
      {"PlacementOfValues", placement_of_values},
      {"DataOfEachProcess", data_of_each_process},
      {"MeshesOfSomeProcesses", meshes_of_some_processes},
      {"Reshards", reshards},
      {"CheckpointsOfAllProcesses", checkpoints_of_all_processes},
      {"CheckpointsWhileProgramsRun", checkpoints_while_programs_run},
      {"CheckpointsThatFail", checkpoints_that_fail},
      {"SafetensorsOfAllProcesses", safetensors_of_all_processes},
      {"SafetensorsThatAreRefused", safetensors_that_are_refused},
      {"NpyFilesOfAllProcesses", npy_files_of_all_processes},
  };
  return cases;
}

}  // namespace tessera::testing
