// SPDX-License-Identifier: Apache-2.0
// Products of sparse matrices by dense ones, under the name that JAX gives them on CPU.
#include <algorithm>
#include <complex>
#include <cstring>
#include <string>

#include "src/base/arrays/literal.h"
#include "src/codegen/custom_calls/call_kernels.h"
#include "src/codegen/custom_calls/custom_calls.h"
#include "src/codegen/kernels/prices.h"

namespace tessera::codegen {
namespace {

/// A row-major matrix of `rows` whose elements stand by rows: those of row i are data[k], in column
/// `columns[k]`, for k in [starts[i], starts[i + 1]).
struct Csr {
  std::int64_t rows, elements, depth;
  std::int64_t width;  ///< columns of the dense side and of the result; 1 for vectors
  std::string who;
  Location location;

  template <class T, class Index>
  void multiply(const T* data, const Index* starts, const Index* columns, const T* dense, T* result,
                std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto first = std::int64_t(starts[i]), last = std::int64_t(starts[i + 1]);
      if (first < 0 || last > elements || first > last) {
        throw ValueError(who + ": row " + std::to_string(i) + " is made of elements " +
                             std::to_string(first) + " to " + std::to_string(last) + " of " +
                             std::to_string(elements),
                         location);
      }
      T* const row = result + i * width;
      std::fill_n(row, width, T(0));
      for (std::int64_t k = first; k < last; ++k) {
        const auto column = std::int64_t(columns[k]);
        if (column < 0 || column >= depth) {
          throw ValueError(who + ": an element of row " + std::to_string(i) + " is in column " +
                               std::to_string(column) + " of " + std::to_string(depth),
                           location);
        }
        const T* const other = dense + column * width;
        for (std::int64_t j = 0; j < width; ++j) row[j] += data[k] * other[j];
      }
    }
  }
};

class SparseDense : public ir::CustomCallTarget, public CallKernel {
 public:
  PreparedCall prepare(const ir::Instruction& call) const override {
    const Csr csr = bind(call);
    PreparedCall out;
    out.units = csr.rows;
    out.nanoseconds = double(csr.rows) * prices::other::kSparseRow +
                      double(csr.elements) * (prices::other::kSparse +
                                              prices::other::kSparseColumn * double(csr.width));
    out.run = [csr](std::span<const BufferView> in, std::span<const MutableBufferView> result,
                    std::int64_t begin, std::int64_t end) {
      dispatch_dtype(in[0].dtype(), [&](auto tag) {
        using T = typename decltype(tag)::type;
        if constexpr (std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t> ||
                      std::is_same_v<T, float> || std::is_same_v<T, double> ||
                      std::is_same_v<T, std::complex<float>> ||
                      std::is_same_v<T, std::complex<double>>) {
          const auto with = [&](auto index) {
            using Index = decltype(index);
            csr.multiply(
                static_cast<const T*>(in[0].bytes()), static_cast<const Index*>(in[1].bytes()),
                static_cast<const Index*>(in[2].bytes()), static_cast<const T*>(in[3].bytes()),
                static_cast<T*>(result[0].bytes()), begin, end);
          };
          in[1].dtype() == DType::s32 ? with(std::int32_t()) : with(std::int64_t());
        }
      });
    };
    return out;
  }

  /// Columns of the dense side are multiplied one by one.
  std::optional<ir::FactorRuleSpec> rule(const ir::Instruction& call) const override {
    const Csr csr = bind(call);
    ir::FactorRuleSpec spec;
    spec.factor_names = {"e", "s", "k", "d", "i"};
    spec.factor_sizes = {csr.elements, csr.rows + 1, csr.elements, csr.depth, csr.rows};
    spec.need_replication = {0, 1, 2, 3, 4};
    spec.operands = {{{0}}, {{1}}, {{2}}, {{3}}};
    spec.results = {{{4}}};
    if (call.shape.rank() == 2) {
      spec.factor_names.emplace_back("j");
      spec.factor_sizes.push_back(csr.width);
      spec.operands[3].push_back({5});
      spec.results[0].push_back({5});
    }
    return spec;
  }

 private:
  static Csr bind(const ir::Instruction& call) {
    const std::string who =
        "custom call to \"" + call.get<ir::CustomCallAttrs>().target + "\" (" + call.describe();
    const auto misfit = [&](const std::string& what) {
      throw ShapeError(who + ": " + ir::call_signature(call) + "): " + what +
                           "; it takes the elements of a matrix of m rows, where each row begins "
                           "(m + 1), the column of each element, and a dense vector or matrix",
                       call.location());
    };
    if (call.operands().size() != 4) misfit("it has other than 4 operands");
    if (!call.shape.is_array()) misfit("its result is no array");
    for (const ir::Instruction* x : call.operands()) {
      if (!x->shape.is_array()) misfit("an operand is no array");
    }
    const Shape &data = call.operand(0)->shape, &starts = call.operand(1)->shape,
                &columns = call.operand(2)->shape, &dense = call.operand(3)->shape;
    if (data.rank() != 1 || starts.rank() != 1 || columns.dims != data.dims) {
      misfit("the first three operands must be vectors, the first and third as long as each other");
    }
    if ((dense.rank() != 1 && dense.rank() != 2) || call.shape.rank() != dense.rank() ||
        (dense.rank() == 2 && dense.dims[1] != call.shape.dims[1])) {
      misfit("the result must have the columns of the dense operand");
    }
    if (starts.dims[0] != call.shape.dims[0] + 1) {
      misfit("the second operand must have one element more than the result has rows");
    }
    if (dense.dtype != data.dtype || call.shape.dtype != data.dtype) {
      misfit("the elements are of several types");
    }
    if (starts.dtype != columns.dtype ||
        (starts.dtype != DType::s32 && starts.dtype != DType::s64)) {
      misfit("the second and third operand must both be s32, or s64");
    }
    switch (data.dtype) {
      case DType::s32:
      case DType::s64:
      case DType::f32:
      case DType::f64:
      case DType::c64:
      case DType::c128:
        break;
      default:
        misfit("the elements must be s32, s64, f32, f64, c64 or c128");
    }
    return {call.shape.dims[0], data.dims[0],
            dense.dims[0],      dense.rank() == 2 ? dense.dims[1] : 1,
            who + ")",          call.location()};
  }
};

}  // namespace

void register_sparse_products() {
  const auto target = std::make_shared<SparseDense>();
  register_custom_call("cpu_csr_sparse_dense_ffi", target, target);
}

}  // namespace tessera::codegen
