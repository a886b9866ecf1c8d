// SPDX-License-Identifier: Apache-2.0
// Fourier transforms, by FFTW with plans that were measured ahead.
#include <fftw3.h>

#include <complex>
#include <cstring>
#include <memory>

#include "bench/libraries/case.h"

namespace tessera::bench {
namespace {

/// FFTW has a set of functions for each type.
template <class T>
struct Fftw;
template <>
struct Fftw<float> {
  using Plan = fftwf_plan;
  using Complex = fftwf_complex;
  static constexpr auto threads = fftwf_init_threads;
  static constexpr auto with_threads = fftwf_plan_with_nthreads;
  static constexpr auto limit = fftwf_set_timelimit;
  static constexpr auto plan = fftwf_plan_many_dft;
  static constexpr auto plan_real = fftwf_plan_many_dft_r2c;
  static constexpr auto run = fftwf_execute;
  static constexpr auto destroy = fftwf_destroy_plan;
  static constexpr auto allocate = fftwf_malloc;
  static constexpr auto release = fftwf_free;
};
template <>
struct Fftw<double> {
  using Plan = fftw_plan;
  using Complex = fftw_complex;
  static constexpr auto threads = fftw_init_threads;
  static constexpr auto with_threads = fftw_plan_with_nthreads;
  static constexpr auto limit = fftw_set_timelimit;
  static constexpr auto plan = fftw_plan_many_dft;
  static constexpr auto plan_real = fftw_plan_many_dft_r2c;
  static constexpr auto run = fftw_execute;
  static constexpr auto destroy = fftw_destroy_plan;
  static constexpr auto allocate = fftw_malloc;
  static constexpr auto release = fftw_free;
};

/// A batch of transforms along all of `dims`.
struct Transform {
  std::int64_t batch;
  std::vector<std::int64_t> dims;
};

template <class T>
struct State {
  using Library = Fftw<T>;
  explicit State(std::size_t in_bytes, std::size_t out_bytes)
      : in(Library::allocate(in_bytes)), out(Library::allocate(out_bytes)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    Library::destroy(plan);
    Library::release(in);
    Library::release(out);
  }
  void *in, *out;
  typename Library::Plan plan = nullptr;
};

std::int64_t product(const std::vector<std::int64_t>& dims) {
  std::int64_t out = 1;
  for (const std::int64_t d : dims) out *= d;
  return out;
}

/// I: the operand's numbers, T or complex ones.
template <class T, class I>
Problem problem(const Transform& t, int threads) {
  using Library = Fftw<T>;
  using Complex = std::complex<T>;
  constexpr bool kReal = std::is_same_v<T, I>;
  const std::int64_t n = product(t.dims), last = t.dims.back();
  const std::int64_t of_result = kReal ? n / last * (last / 2 + 1) : n;
  std::vector<I> numbers;
  if constexpr (kReal) {
    numbers = some_numbers<T>(1, t.batch * n);
  } else {
    const std::vector<T> re = some_numbers<T>(1, t.batch * n), im = some_numbers<T>(2, t.batch * n);
    for (std::size_t i = 0; i < re.size(); ++i) numbers.emplace_back(re[i], im[i]);
  }
  Problem out;
  std::vector<std::int64_t> shape = t.dims;
  if (t.batch > 1) shape.insert(shape.begin(), t.batch);
  out.inputs = {array(numbers, shape)};
  FftnOptions options;
  const auto rank = std::int64_t(t.dims.size());
  std::vector<std::int64_t> axes;
  for (std::int64_t d = -rank; d < 0; ++d) axes.push_back(d);
  options.axes = axes;
  out.ours = [options](const Arrays& v) {
    return kReal ? rfftn(v[0], options) : fftn(v[0], options);
  };
  out.tolerance = std::is_same_v<T, float> ? 2e-6 : 1e-14;

  static const int ready = Library::threads();
  if (ready == 0) return out;
  Library::with_threads(threads);
  Library::limit(1);  // seconds
  auto state = std::make_shared<State<T>>(numbers.size() * sizeof(I),
                                          std::size_t(t.batch * of_result) * sizeof(Complex));
  const std::vector<int> lengths(t.dims.begin(), t.dims.end());
  auto* to = static_cast<typename Library::Complex*>(state->out);
  if constexpr (kReal) {
    state->plan =
        Library::plan_real(int(rank), lengths.data(), int(t.batch), static_cast<T*>(state->in),
                           nullptr, 1, int(n), to, nullptr, 1, int(of_result), FFTW_MEASURE);
  } else {
    state->plan = Library::plan(int(rank), lengths.data(), int(t.batch),
                                static_cast<typename Library::Complex*>(state->in), nullptr, 1,
                                int(n), to, nullptr, 1, int(n), FFTW_FORWARD, FFTW_MEASURE);
  }
  std::memcpy(state->in, numbers.data(), numbers.size() * sizeof(I));
  out.peers.push_back({"FFTW", [state] { Library::run(state->plan); },
                       [state, count = 2 * t.batch * of_result] {
                         return as_doubles(static_cast<const T*>(state->out), count);
                       }});
  return out;
}

}  // namespace

std::vector<Case> transforms() {
  std::vector<Case> out;
  const auto add = [&](const std::string& group, const std::vector<Transform>& all, auto make) {
    for (const Transform& t : all) {
      std::string name = group + "/";
      if (t.batch > 1) name += std::to_string(t.batch) + " of ";
      for (std::size_t d = 0; d < t.dims.size(); ++d) {
        name += (d > 0 ? "x" : "") + std::to_string(t.dims[d]);
      }
      out.push_back({name, [=](int threads) { return make(t, threads); }});
    }
  };
  add("transforms c64",
      {{1, {1024}},       {1, {65536}},      {1, {1 << 20}},   {4096, {64}},   {1024, {256}},
       {256, {1024}},     {64, {4096}},      {128, {2187}},    {64, {3125}},   {64, {2401}},
       {256, {1000}},     {256, {360}},      {64, {5040}},     {1, {100000}},  {256, {101}},
       {64, {1009}},      {16, {10007}},     {1, {65537}},     {32, {64, 64}}, {1, {512, 512}},
       {1, {1000, 1000}}, {1, {1024, 1024}}, {1, {64, 64, 64}}},
      problem<float, std::complex<float>>);
  add("transforms f32",
      {{1, {1 << 20}},
       {256, {1024}},
       {64, {4096}},
       {100, {512}},
       {1, {48000}},
       {64, {1009}},
       {3, {224, 224}},
       {1, {1024, 1024}}},
      problem<float, float>);
  add("transforms c128",
      {{256, {1024}}, {1, {1 << 18}}, {64, {2401}}, {64, {1009}}, {1, {512, 512}}},
      problem<double, std::complex<double>>);
  add("transforms f64", {{256, {1024}}, {1, {100000}}}, problem<double, double>);
  return out;
}

}  // namespace tessera::bench
