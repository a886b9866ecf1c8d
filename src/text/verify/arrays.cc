// SPDX-License-Identifier: Apache-2.0
// Rules of operations on arrays.
#include <algorithm>

#include "src/base/contains.h"
#include "src/text/verify/verifier.h"

namespace tessera::text {
namespace {

std::string list_text(const Dims& dims) {
  std::string out = "[";
  for (std::int64_t d : dims) out += (out.size() > 1 ? ", " : "") + std::to_string(d);
  return out + "]";
}

}  // namespace

void Verifier::broadcast_result() {
  r_.need_operands(op_, 1, 1);
  r_.need_results(op_, 1);
  const Shape& x = op_.operands[0]->shape;
  Dims dims = r_.integers(op_, "broadcast_sizes");
  dims.insert(dims.end(), x.dims.begin(), x.dims.end());
  const Shape want(x.dtype, dims);
  if (want == *op_.results[0]) return;
  fail("gives " + mlir_type(want) + ", not " + mlir_type(*op_.results[0]));
}

void Verifier::shape_operand() {
  const bool alone = op_.info->name == "stablehlo.dynamic_iota";
  const std::size_t n = alone ? 0 : op_.info->name == "stablehlo.rng" ? 2 : 1;
  if (n >= op_.operands.size()) r_.need_operands(op_, n + 1, n + 1);
  r_.need_results(op_, 1);
  const Shape& shape = op_.operands[n]->shape;
  const Shape& result = *op_.results[0];
  if (shape.rank() != 1 || shape.dim(0) != result.rank()) {
    fail("has a shape " + mlir_type(shape) + " as operand " + std::to_string(n) + "; valid: " +
         std::to_string(result.rank()) + " integers, one for each dim of " + mlir_type(result));
  }
  const std::optional<Dims> dims = known(n);
  if (!dims || *dims == result.dims) return;
  fail("is given the shape " + list_text(*dims) + " and a result " + mlir_type(result) +
       "; valid: " + list_text(result.dims));
}

void Verifier::sorted_dims() {
  const bool scatter = op_.info->opcode == ir::Opcode::scatter;
  const Operation parts =
      r_.fields_or_own(op_, scatter ? "scatter_dimension_numbers" : "dimension_numbers");
  for (std::string_view key :
       {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "update_window_dims",
        "inserted_window_dims", "input_batching_dims"}) {
    const Dims dims = r_.integers_or(parts, key, {});
    if (std::is_sorted(dims.begin(), dims.end())) continue;
    fail("has " + std::string(key) + " " + list_text(dims) + "; valid: in ascending order");
  }
}

void Verifier::window_dimensions() {
  r_.need_operands(op_, 1, std::size_t(1) << 20);
  if (op_.find("window_dimensions") != nullptr || op_.operands[0]->shape.dims.empty()) return;
  fail("needs window_dimensions: a size for each of " +
       std::to_string(op_.operands[0]->shape.rank()) + " dims of its operand");
}

void Verifier::convolution_types() {
  if (op_.operands.size() < 2) return;
  if (operand_quantized(0) != nullptr || operand_quantized(1) != nullptr) return;
  const Shape &x = op_.operands[0]->shape, &kernel = op_.operands[1]->shape;
  if (x.dtype == kernel.dtype) return;
  fail("takes " + mlir_type(x) + " and " + mlir_type(kernel) +
       "; valid: operands of one element type");
}

void Verifier::spatial_dims() {
  if (op_.operands.size() < 2) return;
  ir::ConvolutionAttrs a;
  r_.convolution_numbers(op_, &a);
  const Shape &x = op_.operands[0]->shape, &kernel = op_.operands[1]->shape;
  if (x.rank() != kernel.rank()) {
    fail("takes " + mlir_type(x) + " and " + mlir_type(kernel) + "; valid: operands of one rank");
  }
  const std::pair<const char*, const Dims*> parts[] = {
      {"input", &a.input_spatial}, {"kernel", &a.kernel_spatial}, {"output", &a.output_spatial}};
  for (const auto& [part, dims] : parts) {
    if (std::int64_t(dims->size()) == x.rank() - 2) continue;
    fail("names " + std::to_string(dims->size()) + " spatial dims of its " + part +
         "; valid: " + std::to_string(x.rank() - 2) + ", all dims of " + mlir_type(x) + " but two");
  }
}

void Verifier::precisions() {
  const Attribute* a = op_.find("precision_config");
  if (a == nullptr) return;
  const std::size_t count = items(a->value).size();
  if (count <= 2) return;
  fail("has " + std::to_string(count) + " precisions; valid: none, or one for each of 2 operands");
}

void Verifier::dot_algorithm() {
  const std::optional<Operation> algorithm = r_.dot_algorithm(op_);
  if (!algorithm) return;
  const Operation& parts = *algorithm;
  for (std::string_view key :
       {"lhs_component_count", "rhs_component_count", "num_primitive_operations"}) {
    const std::int64_t value = r_.integer_or(parts, key, 1);
    if (value > 0) continue;
    fail("has an algorithm with " + std::string(key) + " " + std::to_string(value) +
         "; valid: 1 or more");
  }
  if (r_.precision(op_).empty()) return;
  fail("has both an algorithm and a precision; valid: precisions DEFAULT with an algorithm");
}

void Verifier::scan_size() {
  if (op_.find("scan_dim_size") == nullptr || op_.find("dimension") == nullptr) return;
  const std::int64_t size = r_.integer(op_, "scan_dim_size"), dim = r_.integer(op_, "dimension");
  for (std::size_t n = 0; n < op_.scanned.value_or(0) && n < op_.operands.size(); ++n) {
    const Shape& shape = op_.operands[n]->shape;
    if (dim < 0 || dim >= shape.rank() || shape.dim(dim) == size) continue;
    fail("has scan_dim_size " + std::to_string(size) +
         "; valid: " + std::to_string(shape.dim(dim)) + ", the size of dim " + std::to_string(dim) +
         " of " + mlir_type(shape));
  }
}

void Verifier::distinct_dims() {
  const Dims dims = r_.integers(op_, "broadcast_dimensions");
  Dims sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) return;
  fail("has broadcast_dimensions " + list_text(dims) + "; valid: each dim once");
}

void Verifier::known_dims() {
  if (op_.operands.empty()) return;
  const std::int64_t rank = op_.operands[0]->shape.rank();
  Dims seen;
  for (std::string_view key : {"known_expanding_dimensions", "known_nonexpanding_dimensions"}) {
    for (std::int64_t dim : r_.integers_or(op_, key, {})) {
      if (dim < 0 || dim >= rank) {
        fail("has dim " + std::to_string(dim) + " in " + std::string(key) +
             "; valid: dims of its operand, 0 to " + std::to_string(rank - 1));
      }
      if (contains(seen, dim)) {
        fail("has dim " + std::to_string(dim) +
             " twice in known_expanding_dimensions and known_nonexpanding_dimensions; valid: each "
             "dim once");
      }
      seen.push_back(dim);
    }
  }
}

void Verifier::types_kept() {
  for (std::size_t n = 0; n < op_.operand_types.size() && n < op_.results.size(); ++n) {
    if (*op_.operand_types[n] == *op_.results[n]) continue;
    fail("takes " + mlir_type(*op_.operand_types[n]) + " as operand " + std::to_string(n) +
         " and gives " + mlir_type(*op_.results[n]) + "; valid: results of the operands' types");
  }
}

void Verifier::normal_of_floats() {
  if (r_.keyword(op_, "rng_distribution") != "NORMAL") return;
  const Shape& type = op_.operands[0]->shape;
  if (is_floating(type.dtype)) return;
  fail("takes " + mlir_type(type) + " for a normal distribution; valid: floating-point numbers");
}

void Verifier::generator_state() {
  if (op_.operands.empty()) return;
  const Shape& state = op_.operands[0]->shape;
  if (state.rank() != 1 || state.dtype != DType::u64) return;
  const std::string_view algorithm = r_.keyword(op_, "rng_algorithm");
  const std::int64_t size = state.dim(0);
  const bool threefry = algorithm == "THREE_FRY";
  if (threefry ? size == 2 : algorithm != "PHILOX" || size == 2 || size == 3) return;
  fail("has a state " + mlir_type(state) + "; valid: " + (threefry ? "2" : "2 or 3") +
       " numbers for " + std::string(algorithm));
}

}  // namespace tessera::text
