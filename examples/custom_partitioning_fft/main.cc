// SPDX-License-Identifier: Apache-2.0
// Custom partitioning: an FFT along the last dimension that keeps the sharding of the others.
// `--small` divides the sizes by 64.
#include <tessera/tessera.h>

#include <cstring>
#include <iostream>

using namespace tessera;

namespace {

/// For an N-d input: the sharding of the first N - 1 dimensions; the last one isn't split.
Sharding supported_sharding(const ShapeInfo& x) {
  const NamedSharding given(x.sharding);
  std::vector<SpecEntry> entries;
  for (std::size_t d = 0; d + 1 < x.shape.size() && d < given.spec().size(); ++d) {
    entries.push_back(given.spec()[d]);
  }
  return NamedSharding(given.mesh(), PartitionSpec::from_entries(entries));
}

bool communicates(const std::string& hlo) {
  return hlo.find("all-gather") != std::string::npos ||
         hlo.find("dynamic-slice") != std::string::npos ||
         hlo.find("all-to-all") != std::string::npos;
}

bool check(bool condition, const char* what) {
  std::cout << (condition ? "  ok: " : "  WRONG: ") << what << "\n";
  return condition;
}

double largest_difference(const Array& a, const Array& b) { return max(abs(a - b)).item<float>(); }

}  // namespace

int main(int argc, char** argv) {
  const bool small = argc > 1 && std::strcmp(argv[1], "--small") == 0;
  const std::int64_t rows = small ? 512 : 32 * 1024, columns = 1024;

  auto my_fft = custom_partitioning([](const Array& x) { return fft(x); }, "my_fft");
  my_fft.def_partition(
      {.partition =
           [](const Mesh& mesh, const ShapeInfos& args, const ShapeInfos&) {
             const Sharding s = supported_sharding(args[0]);
             return Partition{mesh, [](const Array& x) { return fft(x); }, {s}, {s}};
           },
       .infer_sharding_from_operands =
           [](const Mesh&, const ShapeInfos& args, const ShapeInfos&) {
             return std::vector<Sharding>{supported_sharding(args[0])};
           }});
  auto plain_fft = [](const Array& x) { return fft(x); };

  const MeshScope scope(Mesh(devices(), "x"));
  bool right = true;
  const Array key = random::key(0);

  std::cout << "2-d: c64[" << rows << "," << columns << "] split along its rows\n";
  {
    const Array host = astype(random::normal(key, {rows, columns}), c64);
    const Array x = pjit([](const Array& v) { return v; }, {.out_shardings = P("x")})(host);
    auto custom = pjit(my_fft, {.in_shardings = P("x"), .out_shardings = P("x")});
    auto plain = pjit(plain_fft, {.in_shardings = P("x"), .out_shardings = P("x")});
    const Array a = custom(x), b = plain(x);
    const double difference = largest_difference(a, b);
    std::cout << "  largest difference: " << difference << "\n";
    right &= check(difference < 1e-3, "my_fft and fft give the same numbers");
    right &= check(a.sharding().is_equivalent_to(NamedSharding(current_mesh(), P("x")), 2),
                   "the result is still split along its rows");
    auto text = [&](auto& f) {
      return f.lower(x).compile().runtime_executable().hlo_modules()[0].to_string();
    };
    right &=
        check(!communicates(text(custom)), "my_fft's program has no all-gather or dynamic-slice");
    right &= check(!communicates(text(plain)), "nor has that of plain fft: batch dims stay split");
  }

  std::cout << "1-d: c64[" << rows * columns << "], split along the dimension to transform\n";
  {
    const Array host = astype(random::normal(key, {rows * columns}), c64);
    const Array x = pjit([](const Array& v) { return v; }, {.out_shardings = P("x")})(host);
    auto custom = pjit(my_fft, {.in_shardings = P("x"), .out_shardings = P("x")});
    auto plain = pjit(plain_fft, {.in_shardings = P("x"), .out_shardings = P("x")});
    const Array a = custom(x), b = plain(x);
    const double scale = max(abs(b)).item<float>();
    right &= check(largest_difference(a, b) < 1e-4 * scale, "same numbers");
    const std::string hlo =
        custom.lower(x).compile().runtime_executable().hlo_modules()[0].to_string();
    right &= check(communicates(hlo), "here the program must gather");
  }
  return right ? 0 : 1;
}
