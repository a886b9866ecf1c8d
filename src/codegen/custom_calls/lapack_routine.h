// SPDX-License-Identifier: Apache-2.0
// One LAPACK routine as a custom call: what it takes and gives, and one batch of its work.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tessera/custom/call_attributes.h>

#include "src/codegen/custom_calls/lapack_symbols.h"

namespace tessera::codegen::lapack {

/// A routine's letters and numbers, from attributes or from the scalar operands of the older form.
struct Options {
  char side = 'L', uplo = 'L', trans = 'N', diag = 'N';
  char mode = 'V', left = 'V', right = 'V', sort = 'N';
  bool transpose = false;
  std::int64_t low = 1, high = 0;
  /// Factor of the right-hand side (trsm of the older form): bytes of an element; null: one.
  const void* alpha = nullptr;
};

/// Memory that stays from batch to batch.
class Workspace {
 public:
  /// `which`: a number for each piece in use at one time.
  template <class T>
  T* get(int which, std::int64_t count) {
    Piece& piece = pieces_[std::size_t(which)];
    const std::size_t need = (std::size_t(count > 0 ? count : 1) * sizeof(T) + 15) / 16;
    if (piece.size < need) piece = {std::make_unique_for_overwrite<Chunk[]>(need), need};
    return reinterpret_cast<T*>(piece.chunks.get());
  }

 private:
  struct alignas(16) Chunk {
    std::byte bytes[16];
  };
  struct Piece {
    std::unique_ptr<Chunk[]> chunks;
    std::size_t size = 0;
  };
  std::array<Piece, 24> pieces_;
};

inline constexpr int kSlots = 6;

/// One batch. Matrices are column-major and may be overwritten; others are the call's own buffers,
/// of which inputs must not be written.
struct Batch {
  Options options;
  std::array<std::int64_t, 128> sizes{};  ///< by symbol: sizes['m']
  std::array<void*, kSlots> in{}, out{};
  Workspace* work = nullptr;

  Int size(char symbol) const { return Int(sizes[std::size_t(symbol)]); }
  template <class T>
  T* input(int slot) const {
    return static_cast<T*>(in[std::size_t(slot)]);
  }
  template <class T>
  T* output(int slot) const {
    return static_cast<T*>(out[std::size_t(slot)]);
  }
  /// The matrix of an input becomes that of an output of the same shape.
  void pass(int input_slot, int output_slot) {
    std::swap(in[std::size_t(input_slot)], out[std::size_t(output_slot)]);
  }
};

using BatchFunction = void (*)(Batch& batch);

/// Leaves are described as `T0:m,n`: type (T: the routine's own, R: its real type, C: its complex
/// one, i: s32), slot, and dims behind the batch's. Two dims are a matrix. Symbols: k is min(m,n),
/// h is n-1; `*` in front of one: the routine is independent along it. S is a scalar that says what
/// a shape or an attribute says (older form), W a workspace.
struct Routine {
  std::string name;            ///< with `?` for the letter of the type: "lapack_?potrf_ffi"
  std::string complex_name{};  ///< empty: as `name`
  std::string operands, results;
  std::string complex_results{};  ///< empty: as `results`
  void (*decode)(const CallAttributes& attributes, Options* options) = nullptr;
  /// From scalar operands, as integers in order.
  void (*decode_scalars)(const std::vector<std::int64_t>& scalars, Options* options) = nullptr;
  /// What sizes and options must fulfil; empty, or what is wrong.
  std::string (*misfit)(const Batch& batch) = nullptr;
  /// For f32, f64, c64, c128; null where the type has none.
  std::array<BatchFunction, 4> run{};
  /// Operations per element of the greatest matrix, over its smaller dim.
  double cost = 1;
};

template <class T>
struct RealOf {
  using type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <class T>
using real_of = typename RealOf<T>::type;
template <class T>
inline constexpr bool is_complex_type = !std::is_same_v<T, real_of<T>>;

/// A workspace size that LAPACK gave as a float, which may have lost its last digits.
template <class T>
Int workspace_size(const T& query) {
  const double v = double(std::real(query));
  const double slack = std::is_same_v<real_of<T>, float> ? v * 1.2e-7 : 0;
  return Int(std::max(1.0, v + slack + 0.5));
}

/// Runs a routine, `routine(work, lwork)`, with a workspace as large as it asks for.
template <class T, class F>
Int with_workspace(const Batch& b, F&& routine) {
  T query(0);
  routine(&query, Int(-1));
  const Int lwork = workspace_size(query);
  return routine(b.work->get<T>(0, lwork), lwork);
}

/// How calls of older programs give it: with scalars among the operands, and workspaces among the
/// results.
struct OlderForm {
  std::string name{};  ///< empty: without `_ffi`, as the complex one
  std::string operands, results;
  std::string complex_results{};
  decltype(Routine::decode_scalars) decode = nullptr;
};
inline void add(std::vector<Routine>* out, Routine r) { out->push_back(std::move(r)); }
/// Both forms.
inline void add(std::vector<Routine>* out, const Routine& r, OlderForm form) {
  add(out, r);
  Routine older = r;
  const auto without_ffi = [](const std::string& name) {
    return name.substr(0, name.find("_ffi"));
  };
  older.name = form.name.empty() ? without_ffi(r.name) : std::move(form.name);
  older.complex_name = without_ffi(r.complex_name);
  older.operands = std::move(form.operands);
  older.results = std::move(form.results);
  older.complex_results = std::move(form.complex_results);
  older.decode = nullptr;
  older.decode_scalars = form.decode;
  add(out, std::move(older));
}

/// A routine of all types.
#define TESSERA_FOR_ALL(f) \
  { f<float>, f<double>, f<C64>, f<C128> }

/// The letter that an attribute gives as the number of its character.
inline char letter(const CallAttributes& a, const char* name) {
  return char(a.get<std::int64_t>(name, {}));
}
inline bool one_of(char c, std::string_view letters) {
  return letters.find(c) != std::string_view::npos;
}
inline void decode_uplo(const CallAttributes& a, Options* o) { o->uplo = letter(a, "uplo"); }
inline std::string misfit_uplo(const Batch& b) {
  return one_of(b.options.uplo, "LU") ? "" : "uplo must be 'L' or 'U'";
}

// lapack_solvers.cc: factorisations and solvers; lapack_spectra.cc: eigenvalues and singular
// values.
std::vector<Routine> solvers();
std::vector<Routine> spectra();

}  // namespace tessera::codegen::lapack
