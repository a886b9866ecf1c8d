// SPDX-License-Identifier: Apache-2.0
// Operations whose result's sharding is given.
#include <tessera/ops.h>
#include <tessera/random.h>
#include <tessera/sharding/explicit_sharding.h>

#include "src/frontend/trace/explicit_values.h"

namespace tessera {

Array matmul(Operand a, Operand b, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return matmul(a, b); }, a.location);
}
Array dot(Operand a, Operand b, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return dot(a, b); }, a.location);
}
Array dot_general(Operand lhs, Operand rhs, const DotDims& dims, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return dot_general(lhs, rhs, dims); }, lhs.location);
}
Array tensordot(Operand a, Operand b, std::int64_t axes, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return tensordot(a, b, axes); }, a.location);
}
Array einsum(const std::string& spec, const std::vector<Array>& arrays, const OutSharding& out,
             Location location) {
  return with_out_sharding(
      out, [&] { return einsum(spec, arrays, location); }, location);
}
Array einsum(const std::string& spec, Operand a, Operand b, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return einsum(spec, a, b); }, a.location);
}
Array sum(Operand x, Axes axes, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return sum(x, axes); }, x.location);
}
Array max(Operand x, Axes axes, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return max(x, axes); }, x.location);
}
Array min(Operand x, Axes axes, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return min(x, axes); }, x.location);
}
Array reshape(Operand x, std::vector<std::int64_t> shape, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return reshape(x, shape); }, x.location);
}
Array ravel(Operand x, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return ravel(x); }, x.location);
}
Array broadcast_to(Operand x, std::vector<std::int64_t> shape, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return broadcast_to(x, shape); }, x.location);
}
Array repeat(Operand x, std::int64_t count, std::optional<std::int64_t> axis,
             const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return repeat(x, count, axis); }, x.location);
}
Array take(Operand x, Operand indices, std::optional<std::int64_t> axis, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return take(x, indices, axis); }, x.location);
}
Array one_hot(Operand x, std::int64_t num_classes, DType dtype, const OutSharding& out) {
  const frontend::ShardingType type = frontend::sharding_type_of(x.array);
  for (std::size_t d = 0; type && d < type.dims.size(); ++d) {
    const bool stated = d < out.spec().size() && !out.spec()[d].axes().empty();
    const std::vector<std::string> asked =
        stated ? out.spec()[d].axes() : std::vector<std::string>();
    if (asked == type.dims[d]) continue;
    throw ShardingTypeError(
        "one_hot of " + type_of(x.array, x.location).to_string() + ": dim " + std::to_string(d) +
            " of the indices is sharded as " + type.spec().to_string() + ", and out_sharding is " +
            out.spec().to_string() +
            "; valid: an out_sharding that keeps the dims of the indices, or reshard() of the "
            "indices before or of the result after",
        x.location);
  }
  return with_out_sharding(
      out, [&] { return one_hot(x, num_classes, dtype); }, x.location);
}
Array zeros(std::vector<std::int64_t> shape, DType dtype, const OutSharding& out,
            Location location) {
  return with_out_sharding(
      out, [&] { return zeros(shape, dtype, location); }, location);
}
Array ones(std::vector<std::int64_t> shape, DType dtype, const OutSharding& out,
           Location location) {
  return with_out_sharding(
      out, [&] { return ones(shape, dtype, location); }, location);
}
Array full(std::vector<std::int64_t> shape, Operand value, std::optional<DType> dtype,
           const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return full(shape, value, dtype); }, value.location);
}
Array arange(double stop, std::optional<DType> dtype, const OutSharding& out, Location location) {
  return with_out_sharding(
      out, [&] { return arange(stop, dtype, location); }, location);
}
Array iota(DType dtype, std::vector<std::int64_t> shape, std::int64_t dim, const OutSharding& out,
           Location location) {
  return with_out_sharding(
      out, [&] { return iota(dtype, shape, dim, location); }, location);
}

namespace random {

Array uniform(Operand key, std::vector<std::int64_t> shape, DType dtype, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return uniform(key, shape, dtype); }, key.location);
}
Array normal(Operand key, std::vector<std::int64_t> shape, DType dtype, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return normal(key, shape, dtype); }, key.location);
}
Array bits(Operand key, std::vector<std::int64_t> shape, DType dtype, const OutSharding& out) {
  return with_out_sharding(
      out, [&] { return bits(key, shape, dtype); }, key.location);
}

}  // namespace random
}  // namespace tessera
