// SPDX-License-Identifier: Apache-2.0
// Products of matrices, by OpenBLAS and oneDNN. Operands lie in memory as those of ours do; only
// "oneDNN, packed" has the right side in an order of its own, as weights that are constant may be.
#include <cblas.h>

#include <cstring>
#include <memory>

#include "bench/libraries/case.h"
#include "bench/libraries/onednn.h"

namespace tessera::bench {
namespace {

using Type = dnnl::memory::data_type;

/// result[batch, m, n] of [batch, m, k] and [batch, k, n]; `lhs`, `rhs`: those are transposed.
struct Shape {
  std::int64_t batch, m, n, k;
  bool lhs = false, rhs = false;
};

template <class T>
void multiply_by_blas(const Shape& s, const T* a, const T* b, T* c) {
  const auto m = blasint(s.m), n = blasint(s.n), k = blasint(s.k);
  const CBLAS_TRANSPOSE ta = s.lhs ? CblasTrans : CblasNoTrans;
  const CBLAS_TRANSPOSE tb = s.rhs ? CblasTrans : CblasNoTrans;
  const blasint lda = s.lhs ? m : k, ldb = s.rhs ? k : n;
  for (std::int64_t i = 0; i < s.batch; ++i, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n) {
    const auto by_vector = [&](CBLAS_TRANSPOSE t, const T* matrix, bool transposed, blasint rows,
                               const T* vector) {
      const blasint high = transposed ? k : rows, wide = transposed ? rows : k;
      if constexpr (std::is_same_v<T, float>) {
        cblas_sgemv(CblasRowMajor, t, high, wide, 1, matrix, wide, vector, 1, 0, c, 1);
      } else {
        cblas_dgemv(CblasRowMajor, t, high, wide, 1, matrix, wide, vector, 1, 0, c, 1);
      }
    };
    if (n == 1) {
      by_vector(ta, a, s.lhs, m, b);
    } else if (m == 1) {
      by_vector(s.rhs ? CblasNoTrans : CblasTrans, b, !s.rhs, n, a);
    } else if constexpr (std::is_same_v<T, float>) {
      cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
    } else {
      cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1, a, lda, b, ldb, 0, c, n);
    }
  }
}

template <class T>
Peer blas_peer(const Shape& s, int threads, std::shared_ptr<const std::vector<T>> a,
               std::shared_ptr<const std::vector<T>> b) {
  auto c = std::make_shared<std::vector<T>>(std::size_t(s.batch * s.m * s.n));
  return {"OpenBLAS",
          [=] {
            // The library keeps it to one thread.
            openblas_set_num_threads(threads);
            multiply_by_blas(s, a->data(), b->data(), c->data());
            openblas_set_num_threads(1);
          },
          [=] { return as_doubles(c->data(), std::int64_t(c->size())); }};
}

dnnl::memory::desc matrices(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                            bool transposed, Type type) {
  const dnnl::memory::dim row = transposed ? 1 : columns, column = transposed ? rows : 1;
  if (batch == 1) return {{rows, columns}, type, dnnl::memory::dims{row, column}};
  return {{batch, rows, columns}, type, dnnl::memory::dims{rows * columns, row, column}};
}

/// R: of the result.
template <class R>
void add_onednn(const Shape& s, Type type, Type result, const void* a, const void* b,
                std::vector<Peer>* peers) {
  const OneDnnOperands plain{matrices(s.batch, s.m, s.k, s.lhs, type),
                             matrices(s.batch, s.k, s.n, s.rhs, type),
                             matrices(s.batch, s.m, s.n, false, result), a, b};
  for (const bool packed : {false, true}) {
    if (packed && s.batch > 1) continue;
    const dnnl::memory::desc any({s.k, s.n}, type, dnnl::memory::format_tag::any);
    const dnnl::matmul::primitive_desc made(
        dnnl::matmul::desc(plain.source, packed ? any : plain.weights, plain.result),
        onednn_engine(), true);
    if (!made) continue;  // not for this type on this processor
    peers->push_back(
        onednn_peer<dnnl::matmul, R>(packed ? "oneDNN, packed" : "oneDNN", made, plain));
  }
}

std::vector<std::int64_t> dims(const Shape& s, std::int64_t rows, std::int64_t columns,
                               bool transposed) {
  if (transposed) std::swap(rows, columns);
  return s.batch == 1 ? std::vector{rows, columns} : std::vector{s.batch, rows, columns};
}

std::function<Array(const Arrays&)> product(const Shape& s, std::optional<DType> preferred) {
  const std::int64_t first = s.batch > 1 ? 1 : 0;
  DotDims d;
  d.lhs_contracting = {first + (s.lhs ? 0 : 1)};
  d.rhs_contracting = {first + (s.rhs ? 1 : 0)};
  if (first == 1) d.lhs_batch = d.rhs_batch = {0};
  d.preferred = preferred;
  return [d](const Arrays& v) { return dot_general(v[0], v[1], d); };
}

template <class T>
Problem floats(const Shape& s, int threads) {
  const auto a = std::make_shared<const std::vector<T>>(some_numbers<T>(1, s.batch * s.m * s.k));
  const auto b = std::make_shared<const std::vector<T>>(some_numbers<T>(2, s.batch * s.k * s.n));
  Problem out;
  out.inputs = {array(*a, dims(s, s.m, s.k, s.lhs)), array(*b, dims(s, s.k, s.n, s.rhs))};
  out.ours = product(s, {});
  out.tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-13;
  out.peers.push_back(blas_peer<T>(s, threads, a, b));
  if constexpr (std::is_same_v<T, float>) {
    add_onednn<float>(s, Type::f32, Type::f32, a->data(), b->data(), &out.peers);
  }
  return out;
}

/// Numbers so small that oneDNN adds up pairs of products without saturating, as it does in 16 bits
/// where the processor has no VNNI. Ours are exact for all.
Problem bytes(const Shape& s) {
  std::vector<std::int8_t> a, b;
  for (const float x : some_numbers<float>(1, s.m * s.k)) a.push_back(std::int8_t(32 * x));
  for (const float x : some_numbers<float>(2, s.k * s.n)) b.push_back(std::int8_t(32 * x));
  Problem out;
  out.inputs = {array(a, dims(s, s.m, s.k, s.lhs)), array(b, dims(s, s.k, s.n, s.rhs))};
  out.ours = product(s, s32);
  add_onednn<std::int32_t>(s, Type::s8, Type::s32, a.data(), b.data(), &out.peers);
  return out;
}

/// bf16 with sums in f32.
Problem halves(const Shape& s) {
  const auto a = some_numbers<float>(1, s.m * s.k), b = some_numbers<float>(2, s.k * s.n);
  const auto upper = [](const std::vector<float>& from) {
    std::vector<std::uint16_t> half;
    for (const float x : from) {
      std::uint32_t bits;
      std::memcpy(&bits, &x, sizeof bits);
      half.push_back(std::uint16_t(bits >> 16));
    }
    return half;
  };
  Problem out;
  out.inputs = {array(a, dims(s, s.m, s.k, s.lhs), bf16), array(b, dims(s, s.k, s.n, s.rhs), bf16)};
  out.ours = product(s, f32);
  out.tolerance = 1e-5;
  add_onednn<float>(s, Type::bf16, Type::f32, upper(a).data(), upper(b).data(), &out.peers);
  return out;
}

std::string name_of(const char* type, const Shape& s) {
  return "products " + std::string(type) + "/" +
         (s.batch > 1 ? std::to_string(s.batch) + "x" : std::string()) + std::to_string(s.m) + "x" +
         std::to_string(s.n) + "x" + std::to_string(s.k) + (s.lhs ? " lhs^T" : "") +
         (s.rhs ? " rhs^T" : "");
}

}  // namespace

std::vector<Case> products() {
  std::vector<Case> out;
  const auto add = [&](const char* type, const std::vector<Shape>& shapes, auto&& make) {
    for (const Shape& s : shapes) {
      out.push_back({name_of(type, s), [=](int threads) { return make(s, threads); }});
    }
  };
  add("f32",
      {
          {1, 64, 64, 64},
          {1, 96, 96, 96},
          {1, 128, 128, 128},
          {1, 192, 192, 192},
          {1, 256, 256, 256},
          {1, 384, 384, 384},
          {1, 512, 512, 512},
          {1, 768, 768, 768},
          {1, 1024, 1024, 1024},
          {1, 2048, 2048, 2048},
          {1, 333, 555, 777},
          {1, 512, 512, 512, false, true},
          {1, 512, 512, 512, true, false},
          {1, 4096, 64, 64},
          {1, 64, 4096, 64},
          {1, 64, 64, 4096},
          {1, 10000, 32, 32},
          {1, 8, 4096, 1024},
          {1, 16, 1024, 1024},
          {1, 32, 512, 512},
          {1, 256, 512, 784},
          {1, 128, 768, 768},
          {1, 128, 3072, 768},
          {1, 128, 768, 3072},
          {1, 512, 2304, 768, false, true},
          {12, 128, 128, 64, false, true},
          {12, 128, 64, 128},
          {64, 256, 256, 256},
          {256, 32, 32, 32},
      },
      floats<float>);
  add("vector f32",
      {
          {1, 512, 1, 512},
          {1, 2048, 1, 2048},
          {1, 2048, 1, 2048, true, false},
          {1, 1, 3072, 768},
          {1, 1, 3072, 768, false, true},
          {1, 4, 1024, 1024},
      },
      floats<float>);
  add("f64",
      {
          {1, 64, 64, 64},
          {1, 128, 128, 128},
          {1, 256, 256, 256},
          {1, 512, 512, 512},
          {1, 1024, 1024, 1024},
          {1, 4096, 64, 64},
          {1, 2048, 1, 2048},
          {32, 128, 128, 128},
      },
      floats<double>);
  const std::vector<Shape> narrow{
      {1, 256, 256, 256}, {1, 512, 512, 512}, {1, 1024, 1024, 1024}, {1, 128, 3072, 768}};
  add("s8", narrow, [](const Shape& s, int) { return bytes(s); });
  add("bf16", narrow, [](const Shape& s, int) { return halves(s); });
  return out;
}

}  // namespace tessera::bench
