// SPDX-License-Identifier: Apache-2.0
// Factors of matrices as XLA's own library calls them, for TensorFlow and PyTorch: "Qr",
// "ProductOfElementaryHouseholderReflectors" and "Eigh". They stand for LAPACK's routines, which
// have the same form.
#include <algorithm>

#include "src/ir/custom_calls/plain.h"
#include "src/ir/formulas/formula.h"

namespace tessera::ir {
namespace {

/// The type of matrices, in the last two dims of an operand.
const Shape& matrices(const Instruction& call, std::size_t operands) {
  if (call.operands().size() != operands) {
    misfit(call, "it takes " + std::to_string(operands) + (operands == 1 ? " array" : " arrays"));
  }
  const Shape& x = call.operand(0)->shape;
  const bool known = x.is_array() && (x.dtype == DType::f32 || x.dtype == DType::f64 ||
                                      x.dtype == DType::c64 || x.dtype == DType::c128);
  if (!known || x.rank() < 2) misfit(call, "it takes matrices of f32, f64, c64 or c128");
  return x;
}

/// `real` and `complex` are the routine's names.
Instruction* lapack(Builder& b, const char* real, const char* complex,
                    std::vector<Instruction*> operands, Shape shape, std::string config) {
  const DType dtype = operands[0]->shape.dtype;
  const bool wide = dtype == DType::f64 || dtype == DType::c128;
  CustomCallAttrs attrs;
  attrs.target = "lapack_";
  attrs.target += is_complex(dtype) ? (wide ? 'z' : 'c') : (wide ? 'd' : 's');
  attrs.target += std::string(is_complex(dtype) ? complex : real) + "_ffi";
  attrs.api_version = "API_VERSION_TYPED_FFI";
  Instruction* call =
      b.emit_shaped(Opcode::custom_call, std::move(shape), std::move(operands), std::move(attrs));
  call->backend_config = std::move(config);
  return call;
}

/// (R above the vectors of the reflectors, their factors) of matrices.
class Qr : public CustomCallTarget {
 public:
  Computation* body(Module* module, const Instruction& call) const override {
    const Shape& x = matrices(call, 1);
    Dims taus(x.dims.begin(), x.dims.end() - 2);
    taus.push_back(std::min(x.dim(x.rank() - 2), x.dim(x.rank() - 1)));
    const Shape result = Shape::tuple({Shape(x.dtype, x.dims), Shape(x.dtype, std::move(taus))});
    if (!(call.shape == result)) misfit(call, "it gives " + result.to_string());
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    b.computation()->set_root(lapack(b, "geqrf", "geqrf", parameters, result, {}));
    return b.computation();
  }
};

/// The first columns of a product of reflectors.
class Reflectors : public CustomCallTarget {
 public:
  Computation* body(Module* module, const Instruction& call) const override {
    const Shape& x = matrices(call, 2);
    if (!(call.shape == Shape(x.dtype, x.dims))) misfit(call, "it gives what its first operand is");
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    b.computation()->set_root(lapack(b, "orgqr", "ungqr", parameters, Shape(x.dtype, x.dims), {}));
    return b.computation();
  }
};

/// (eigenvectors, eigenvalues) of matrices that are symmetric. The config is "lower,sort,rounds,
/// tolerance"; the routine sorts, and needs neither of the others.
class Eigh : public CustomCallTarget {
 public:
  Computation* body(Module* module, const Instruction& call) const override {
    const Shape& x = matrices(call, 1);
    const Dims batch(x.dims.begin(), x.dims.end() - 2);
    Dims line = batch;
    line.push_back(x.dims.back());
    const DType real = real_type(x.dtype);
    const Shape vectors(x.dtype, x.dims), values(real, line);
    const Shape result = Shape::tuple({vectors, values});
    if (!(call.shape == result)) misfit(call, "it gives " + result.to_string());
    const std::string& config = *call.backend_config;
    const std::size_t first = config.find_first_not_of('"');
    const bool upper = first != std::string::npos && config[first] == '0';
    std::vector<Instruction*> parameters;
    Builder b = body_builder(module, call, &parameters);
    Instruction* found = lapack(
        b, "syevd", "heevd", parameters, Shape::tuple({vectors, values, Shape(DType::s32, batch)}),
        std::string("{mode = 86 : ui8, uplo = ") + (upper ? "85" : "76") + " : ui8}");
    // What did not converge is no number.
    Instruction* info = b.get_tuple_element(found, 2);
    Instruction* good = b.compare(Direction::eq, info, b.splat(b.zero(DType::s32), batch));
    Dims along;
    for (std::size_t d = 0; d < batch.size(); ++d) along.push_back(std::int64_t(d));
    const auto checked = [&](std::int64_t n, const Shape& shape) {
      Instruction* nan = b.splat(b.scalar(shape.dtype, formulas::kNan), shape.dims);
      return b.select(b.broadcast(good, shape.dims, along), b.get_tuple_element(found, n), nan);
    };
    Instruction* first_result = checked(0, vectors);
    b.computation()->set_root(b.tuple({first_result, checked(1, values)}));
    return b.computation();
  }
};

}  // namespace

void add_linear_algebra_calls(NamedTargets* out) {
  out->emplace_back("Qr", std::make_shared<Qr>());
  out->emplace_back("ProductOfElementaryHouseholderReflectors", std::make_shared<Reflectors>());
  out->emplace_back("Eigh", std::make_shared<Eigh>());
}

}  // namespace tessera::ir
