// SPDX-License-Identifier: Apache-2.0
// Helpers that the random functions share. They must be called inside a trace.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <tessera/random.h>

#include "src/frontend/ops/located.h"

namespace tessera::frontend {

/// A key's two words as scalars; or those of many keys, as arrays of one shape.
using KeyWords = std::pair<Located, Located>;
/// DTypeError or ShapeError unless the key is u32[2].
void check_key(const std::string& op, const Operand& key);
KeyWords key_words(const Operand& key);
/// The hash of counters, as a call of a computation that is made once per shape. There is one key
/// for all counters, or one for each.
std::pair<Located, Located> threefry(const KeyWords& key, const Located& x0, const Located& x1);
/// The hash of each element's row-major index.
std::pair<Located, Located> hashed_positions(const KeyWords& key, const Dims& dims);
/// Key number `which` of those that `split` makes of a key, for each of many keys.
KeyWords child_keys(const KeyWords& keys, std::uint32_t which);
/// The keys of `split(key, n)`.
std::vector<KeyWords> split_in(const KeyWords& key, std::int64_t n);
/// The two keys of `split(key, 2)`.
std::pair<KeyWords, KeyWords> split_in_two(const KeyWords& key);
/// Random unsigned integers of 8, 16, 32 or 64 bits.
Located random_bits(const KeyWords& key, const Dims& dims, int width);
/// The bits of a scalar from each of many keys.
Located random_bits_each(const KeyWords& keys, int width);
/// Uniform numbers in [0, 1).
Located unit_uniform(const KeyWords& key, const Dims& dims, DType dtype);
/// A uniform scalar in [0, 1) from each of many keys.
Located unit_uniform_each(const KeyWords& keys, DType dtype);
/// Uniform numbers in [low, high); the bounds are scalars or arrays of the dtype that broadcast to
/// dims.
Located uniform_between(const KeyWords& key, const Dims& dims, const Located& low,
                        const Located& high);
/// a * b + c, rounded once.
Located fused_multiply_add(const Located& a, const Located& b, const Located& c);
/// ShapeError for negative sizes.
void check_random_shape(const std::string& op, const Dims& dims, Location location);
/// DTypeError unless the dtype is f16, bf16, f32 or f64.
void check_random_float(const std::string& op, DType dtype, Location location);
/// Numbers with the normal distribution from uniform ones in [0, 1).
Located normal_of(const Located& unit);
Located normal_numbers(const KeyWords& key, const Dims& dims, DType dtype);
Located exponential_numbers(const KeyWords& key, const Dims& dims, DType dtype);
Located gumbel_numbers(const KeyWords& key, const Dims& dims, DType dtype,
                       random::Mode mode = random::Mode::low);
Located integers_between(const KeyWords& key, const Dims& dims, const Array& low, const Array& high,
                         DType dtype);
/// -1 or 1 with equal probabilities.
Located random_signs(const KeyWords& key, const Dims& dims, DType dtype);
/// Numbers with the gamma distribution of these parameters, floats, or their logarithms.
Located gamma_numbers(const KeyWords& key, const Located& a, bool logarithm);
/// log(exp(loggamma(a)) * 2) without the logarithm, for a = df / 2.
Located chisquare_numbers(const KeyWords& key, const Dims& dims, const Located& df);
/// Counts of successes in n trials, as numbers of n's dtype. n and p have one shape and float
/// dtypes.
Located binomial_numbers(const KeyWords& key, const Located& n, const Located& p, DType dtype);

/// Least positive normal number, half the distance from 1 to the next smaller float (the step below
/// 1), and bits of the mantissa.
double least_normal(DType t);
double step_below_one(DType t);
int mantissa_bits(DType t);

/// A parameter of a distribution.
struct Parameter {
  const char* name;
  const Operand* value;
};
using Parameters = std::initializer_list<Parameter>;
/// The shape that was given, or that of the parameters. ShapeError if one doesn't broadcast to it.
Dims parameter_shape(const std::string& op, const random::OptionalShape& given, Parameters,
                     Location location);
/// DTypeError if a parameter isn't real, or of a wider dtype than the numbers.
void check_narrower(const std::string& op, DType dtype, Parameters, Location location);
/// A parameter as numbers of a dtype, broadcast.
Located parameter(const Operand& value, const Dims& dims, DType dtype, Location location);

/// Makes the checks that all floating-point distributions share, then the numbers.
template <class F>
Array drawn(const std::string& name, const Operand& key, const Dims& dims, DType dtype, F f) {
  const std::string op = "random::" + name;
  check_key(op, key);
  check_random_shape(op, dims, key.location);
  check_random_float(op, dtype, key.location);
  return composed("random_" + name, key.location,
                  [&]() -> Array { return f(key_words(key)).array; });
}

/// A function of arrays of one shape that works on each element by itself, though by loops: a vmap
/// of it runs the same loops on all elements.
using ElementFunction = std::function<Array(const std::vector<Array>&)>;
Array by_elements(const std::string& name, const std::vector<Array>& operands, ElementFunction f,
                  Location location);
/// In per-device code: the values made to vary over all axes over which one of them, or of `with`,
/// does, as those that a loop carries must.
void vary_together(std::vector<Located>* values, const std::vector<Located>& with);
/// Repeats `step`, which gives the next state and which elements go on, until none does. An element
/// that is done keeps its state; devices that have different elements needn't wait for others.
struct LoopState {
  Located go;
  std::vector<Located> values;
};
using LoopStep = std::function<LoopState(const std::vector<Located>&)>;
/// `read`: what the step reads besides the state.
std::vector<Located> loop_by_elements(const std::string& name, LoopState init,
                                      const std::vector<Located>& read, const LoopStep& step);

}  // namespace tessera::frontend
