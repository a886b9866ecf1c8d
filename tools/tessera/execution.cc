// SPDX-License-Identifier: Apache-2.0
// Runs a module on files or random inputs, and compares results with expected ones.
#include "tools/tessera/execution.h"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <sstream>

#include "src/base/arrays/literal_util.h"
#include "src/base/arrays/widen.h"
#include "src/base/files/npy.h"
#include "src/base/machine_memory.h"
#include "src/base/threads/background.h"
#include "tools/tessera/placement.h"

namespace tessera::tool {
namespace {

/// The parameters' shapes; the tool takes one file for each.
std::vector<Shape> input_shapes(const ir::Module& module) {
  std::vector<Shape> out;
  for (const ir::Instruction* p : module.entry()->parameters()) {
    if (!p->shape.is_array()) {
      throw NotImplementedError("parameter " + std::to_string(out.size()) + " of '" + module.name +
                                "' is a " + p->shape.to_string() +
                                "; only arrays can be given as files");
    }
    out.push_back(p->shape);
  }
  return out;
}

void check_type(const Shape& met, const Shape& want, const std::string& who) {
  if (met.dtype != want.dtype) {
    throw DTypeError(who + " holds " + met.to_string() + ", and " + want.to_string() +
                     " is needed");
  }
  if (met.dims != want.dims) {
    throw ShapeError(who + " holds " + met.to_string() + ", and " + want.to_string() +
                     " is needed");
  }
}

std::string in_folder(const std::string& folder, const char* stem, std::size_t i) {
  return (std::filesystem::path(folder) / (stem + std::to_string(i) + ".npy")).string();
}

}  // namespace

std::vector<Literal> read_inputs(const ir::Module& module, const std::string& folder) {
  return read_inputs(input_shapes(module), folder);
}

std::vector<Literal> read_inputs(const std::vector<Shape>& shapes, const std::string& folder) {
  std::vector<Literal> out;
  for (const Shape& shape : shapes) {
    const std::string path = in_folder(folder, "arg", out.size());
    out.push_back(read_npy(path, shape.dtype));
    check_type(out.back().shape(), shape, path);
  }
  return out;
}

std::vector<Literal> random_inputs(const ir::Module& module, std::uint64_t seed) {
  return random_inputs(input_shapes(module), seed);
}

std::vector<Literal> random_inputs(const std::vector<Shape>& shapes, std::uint64_t seed) {
  std::vector<Literal> out;
  std::mt19937_64 bits(seed);
  // The distributions of the standard library differ between libraries; these don't.
  auto uniform = [&] { return double(bits() >> 11) * 0x1p-53; };
  for (const Shape& shape : shapes) {
    Literal l(Shape(wide_dtype(shape.dtype), shape.dims));
    dispatch_dtype(l.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (T& v : l.mutable_data<T>()) {
        if (is_complex(shape.dtype)) {
          const double re = 2 * uniform() - 1, im = 2 * uniform() - 1;
          v = convert_element<T>(std::complex<double>(re, im));
        } else if (is_floating(shape.dtype)) {
          v = convert_element<T>(2 * uniform() - 1);
        } else if (shape.dtype == DType::pred) {
          v = convert_element<T>(int(bits() >> 63));
        } else {
          v = wrap_to_dtype(shape.dtype, convert_element<T>(int(10 * uniform())));
        }
      }
    });
    out.push_back(narrowed(l, shape.dtype));
  }
  return out;
}

void check_memory(const ir::Module& module) {
  double bytes = 0;
  const auto add = [&](const Shape& shape) {
    for (const Shape& leaf : flatten(shape)) {
      if (leaf.is_array()) bytes += double(leaf.byte_count());
    }
  };
  for (const ir::Instruction* p : module.entry()->parameters()) add(p->shape);
  add(module.entry()->root()->shape);
  if (bytes <= double(machine_memory())) return;
  std::ostringstream text;
  text.precision(4);
  text << "the arguments and results of '" << module.name << "' are " << bytes
       << " bytes; this machine has " << double(machine_memory()) << " bytes of memory";
  throw RuntimeError(text.str());
}

namespace {

/// What a list by device says of one replica's partitions; an empty list says nothing.
std::vector<std::int32_t> of_replica(const std::vector<std::int32_t>& list, std::int64_t replica,
                                     std::int64_t partitions) {
  if (list.empty()) return {};
  const auto begin = list.begin() + replica * partitions;
  return {begin, begin + partitions};
}

}  // namespace

Outcome execute(std::unique_ptr<ir::Module> module, const std::vector<Literal>& inputs,
                Layouts layouts, int warm_ups, int repeats) {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  compiler::Options options;
  options.keep_stages = false;
  options.layouts = layouts;
  // TESSERA_PLATFORM says where.
  const compiler::Engine& engine = compiler::engine_of(devices().front());
  const auto start = Clock::now();
  options.process_of = deal_out(module->grid().devices());
  const auto executable = engine.compile(std::move(module), options);
  const Milliseconds took = Clock::now() - start;
  Outcome out = execute(*executable, inputs, options.process_of, warm_ups, repeats);
  out.compile_ms = took.count();
  return out;
}

Outcome execute(const compiler::Executable& executable, const std::vector<Literal>& inputs,
                const std::vector<std::int32_t>& process_of, int warm_ups, int repeats) {
  using Clock = std::chrono::steady_clock;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  const compiler::Engine& engine = compiler::engine_of(devices().front());
  Outcome out;
  out.devices = executable.num_devices();
  out.evaluator_ops = executable.evaluator_ops();

  const bool counts = engine.platform() == Device().platform;
  if (counts) engine.reset_peak_memory();
  compiler::DeviceArrays placed;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    // Replicas are given the same.
    std::vector<DeviceBuffer>& parts = placed.emplace_back();
    for (std::int64_t r = 0; r < executable.num_replicas(); ++r) {
      const std::int64_t partitions = executable.num_partitions();
      for (DeviceBuffer& b : cut(engine, inputs[i], executable.parameter_shardings()[i], partitions,
                                 of_replica(process_of, r, partitions))) {
        parts.push_back(std::move(b));
      }
    }
  }
  compiler::DeviceArrays results;
  for (int run = 0; run < warm_ups + repeats; ++run) {
    results.clear();
    if (warm_ups > 0 && run == warm_ups) wait_for_background();
    compiler::DeviceArrays arguments = placed;
    const auto begin = Clock::now();
    results = executable.run(std::move(arguments), {});
    const Milliseconds took = Clock::now() - begin;
    if (run >= warm_ups) out.run_ms.push_back(took.count());
  }
  if (counts) out.peak_bytes_total = engine.memory_stats().peak;
  out.collectives = executable.last_run_collectives();
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].resize(std::size_t(executable.num_partitions()));  // of replica 0
    out.results.push_back(join(engine, results[i], executable.result_shardings()[i],
                               executable.result_shapes()[i],
                               of_replica(process_of, 0, executable.num_partitions())));
  }
  return out;
}

OrderedJson collectives_json(const Outcome& outcome) {
  OrderedJson out = OrderedJson::object();
  std::int64_t total = 0;
  for (const auto& [kind, entry] : outcome.collectives) {
    const auto& [bytes, count] = entry;
    out[kind] = {{"count", count}, {"bytes", bytes}};
    total += bytes;
  }
  out["total_bytes"] = total;
  return out;
}

namespace {

std::string index_text(std::int64_t flat, const Dims& dims) {
  Dims index(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
  return to_string(index);
}

template <class T>
std::string show(const T& v) {
  std::ostringstream out;
  out.precision(9);
  if constexpr (is_complex_v<T>) {
    out << v.real() << (v.imag() < 0 ? "-" : "+") << std::abs(v.imag()) << "j";
  } else if constexpr (std::is_integral_v<T>) {
    out << std::int64_t(v);
  } else {
    out << convert_element<double>(v);
  }
  return out.str();
}

template <class T>
double excess_of(const T& got, const T& want, double tol) {
  using C = std::complex<double>;
  const C g = convert_element<C>(got), w = convert_element<C>(want);
  auto nan = [](C c) { return std::isnan(c.real()) || std::isnan(c.imag()); };
  if (nan(g) || nan(w)) return nan(g) && nan(w) ? 0 : std::numeric_limits<double>::infinity();
  if (g == w) return 0;
  const double size = std::abs(w);
  const double d = std::abs(g - w) - tol * (1 + (std::isinf(size) ? 0 : size));
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(d, 0.0);
}

}  // namespace

Deviation compare(const Literal& stored, const Literal& expected, double tol) {
  const Literal got = widened(stored), want = widened(expected);
  const bool exact = !is_floating(want.dtype()) && !is_complex(want.dtype());
  return dispatch_dtype(want.dtype(), [&](auto tag) -> Deviation {
    using T = typename decltype(tag)::type;
    Deviation out;
    const auto g = got.data<T>(), w = want.data<T>();
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      double e = 0;
      if (exact) {
        e = std::memcmp(&g[i], &w[i], sizeof(T)) != 0;
        out.excess += e;
      } else {
        e = excess_of(g[i], w[i], tol);
        out.excess = std::max(out.excess, e);
      }
      if (e > worst) {
        worst = e;
        at = i;
      }
    }
    if (worst > 0) {
      out.where = index_text(std::int64_t(at), want.dims()) + ": " + show(g[at]) + " where " +
                  show(w[at]) + " is right";
    }
    return out;
  });
}

std::vector<Deviation> compare_outputs(const std::vector<Literal>& results,
                                       const std::string& folder, double tol) {
  std::vector<Deviation> out;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string path = in_folder(folder, "out", i);
    const Literal want = read_npy(path, results[i].dtype());
    check_type(want.shape(), results[i].shape(), path);
    out.push_back(compare(results[i], want, tol));
  }
  const std::string surplus = in_folder(folder, "out", results.size());
  if (std::filesystem::exists(surplus)) {
    throw ValueError("the program has " + std::to_string(results.size()) + " results, and " +
                     surplus + " is there too");
  }
  return out;
}

}  // namespace tessera::tool
