// SPDX-License-Identifier: Apache-2.0
// Random numbers from explicit keys.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tessera/array.h>

/// @file
/// Random numbers without hidden state, as in jax.random.
///
/// A key is a u32[2] array, and equal keys give equal numbers: bit for bit those of JAX's
/// threefry2x32 in its partitionable form (Salmon et al., "Parallel random numbers: as easy as 1,
/// 2, 3", 2011), whatever the devices and the sharding. Use each key once; `split` makes new ones.
/// @code
/// Array keys = random::split(random::key(0), 2);
/// Array x = random::normal(index(keys, {0}), {8, 16});
/// @endcode
///
/// Keys, bits, `uniform`, `randint`, `bernoulli`, `rademacher` and what `permutation` and `choice`
/// make of them agree with JAX to the bit. Where logarithms, roots and the like take part, numbers
/// are within a few steps of the last place of JAX's (in f16 and bf16 of f32 computations rounded
/// once or more often); samplers that reject proposals (`gamma`, `poisson`, `binomial` and those
/// that use them) compare such numbers, so that of very many numbers one may be another.
///
/// Derivatives are those of jax.random: with respect to the parameters of a distribution for
/// continuous ones (the implicit derivative for `gamma`), zero for counts, indices and truth
/// values.
///
/// Parameters are floats (or numbers that convert to floats) that broadcast to the shape of the
/// result. Where the shape is an `OptionalShape`, the default is that of the parameters.
/// @throws DTypeError if a key isn't u32, the requested dtype isn't supported, or a parameter's
///   dtype is wider than the requested one. Floating-point distributions support f16, bf16, f32 and
///   f64.
/// @throws ShapeError if a key isn't u32[2], a size is negative, or a parameter doesn't broadcast
///   to the shape.
///
/// All messages name the caller's line.

namespace tessera::random {

/// Shape of a result; empty for a scalar.
using Shape = std::vector<std::int64_t>;

/// Shape of a result, or `{}`: that of the parameters, broadcast together.
class OptionalShape {
 public:
  /// That of the parameters.
  OptionalShape() = default;
  /// That of the parameters.
  OptionalShape(std::nullopt_t) {}  // NOLINT: implicit by design
  /// These sizes.
  OptionalShape(std::initializer_list<std::int64_t> sizes)  // NOLINT: implicit by design
      : shape_(Shape(sizes)) {}
  /// This shape.
  OptionalShape(Shape shape) : shape_(std::move(shape)) {}  // NOLINT: implicit by design
  /// This shape, if there is one.
  OptionalShape(std::optional<Shape> shape)  // NOLINT: implicit by design
      : shape_(std::move(shape)) {}
  /// The shape, if one is given.
  const std::optional<Shape>& given() const { return shape_; }

 private:
  std::optional<Shape> shape_;
};

/// How many random bits numbers near 0 (or large Gumbel numbers) are made of.
enum class Mode {
  low,     ///< those of one number: probabilities below 1e-7 (f32) are biased
  high,    ///< those of two: down to 1e-14, at twice the cost
  highest  ///< all of two words, for `gumbel` in f32; elsewhere as `high`
};

/// Returns the key of a seed. All 64 bits of a plain number or 64-bit integer are used (as in JAX
/// with 64-bit types enabled; without them JAX uses the lower half). Narrower arrays give the lower
/// half.
/// @throws TypeError if the seed isn't an integer scalar.
Array key(Operand seed);
/// Same as `key`, by the older name.
Array PRNGKey(Operand seed);
/// The words of a key, or of an array of keys [.., 2]: the array itself, after checks.
Array key_data(Operand keys);
/// The keys that u32 words [.., 2] are: the array itself, after checks.
Array wrap_key_data(Operand words);
/// The generator that keys are for: "threefry2x32".
std::string key_impl(Operand keys);
/// The same key. (JAX tells a checker of reuse that this is meant.)
Array clone(Operand key);
/// Derives n new keys: u32[n, 2].
Array split(Operand key, std::int64_t n = 2);
/// Derives an array of new keys: u32[shape.., 2].
Array split(Operand key, Shape shape);
/// Derives a new key from a key and the lower 32 bits of a number.
/// @throws TypeError if the number isn't an integer scalar.
Array fold_in(Operand key, Operand data);

/// Uniformly distributed bits, as u8, u16, u32 or u64.
Array bits(Operand key, Shape shape = {}, DType dtype = DType::u32);
/// Uniformly distributed floats in [minval, maxval).
Array uniform(Operand key, Shape shape = {}, DType dtype = DType::f32, Operand minval = 0.0,
              Operand maxval = 1.0);
/// Uniformly distributed integers in [minval, maxval) of 8 to 64 bits. Bounds out of the dtype's
/// range are clamped to it.
/// @throws DTypeError if a bound isn't an integer or is a u64 array.
Array randint(Operand key, Shape shape, Operand minval, Operand maxval, DType dtype = DType::s32);
/// Normal distribution with mean 0 and variance 1; c64 and c128 are supported, too.
Array normal(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Normal distribution truncated to (lower, upper).
Array truncated_normal(Operand key, Operand lower, Operand upper, OptionalShape shape = {},
                       DType dtype = DType::f32);
/// Bernoulli distribution: true with probability p (pred).
Array bernoulli(Operand key, Operand p = 0.5, OptionalShape shape = {}, Mode mode = Mode::low);
/// Exponential distribution with rate 1.
Array exponential(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Standard Gumbel distribution, -log(-log(u)).
Array gumbel(Operand key, Shape shape = {}, DType dtype = DType::f32, Mode mode = Mode::low);
/// Laplace distribution with mean 0 and scale 1.
Array laplace(Operand key, Shape shape = {}, DType dtype = DType::f32);

/// Logistic distribution with mean 0 and scale 1.
Array logistic(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Cauchy distribution with median 0 and scale 1.
Array cauchy(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// -1 or 1 with equal probabilities, as integers of any width or floats.
Array rademacher(Operand key, Shape shape = {}, DType dtype = DType::s32);
/// Maxwell distribution with scale 1: the length of a vector of three normal numbers.
Array maxwell(Operand key, Shape shape = {}, DType dtype = DType::f32);
/// Maxwell distribution with a random sign, times scale plus loc. As in JAX the result has the
/// shape [shape.., P..] where P is that of the parameters broadcast together, [P.., P..] if `shape`
/// is empty; and wider parameters widen the dtype.
Array double_sided_maxwell(Operand key, Operand loc, Operand scale, Shape shape = {},
                           DType dtype = DType::f32);
/// Pareto distribution with least value 1: x^-(b + 1).
Array pareto(Operand key, Operand b, OptionalShape shape = {}, DType dtype = DType::f32);
/// Rayleigh distribution: x exp(-x^2 / (2 scale^2)).
Array rayleigh(Operand key, Operand scale, OptionalShape shape = {}, DType dtype = DType::f32);
/// Weibull distribution. As in JAX the numbers of `shape` broadcast with the parameters, and wider
/// parameters widen the dtype.
Array weibull_min(Operand key, Operand scale, Operand concentration, Shape shape = {},
                  DType dtype = DType::f32);
/// exp(sigma n) of normal numbers n; c64 and c128 are supported, too.
Array lognormal(Operand key, Operand sigma = 1.0, OptionalShape shape = {},
                DType dtype = DType::f32);
/// Triangular distribution: from `left`, most likely at `mode`, to `right`.
Array triangular(Operand key, Operand left, Operand mode, Operand right, OptionalShape shape = {},
                 DType dtype = DType::f32);
/// Wald (inverse Gaussian) distribution of this mean, with scale 1.
Array wald(Operand key, Operand mean, OptionalShape shape = {}, DType dtype = DType::f32);
/// Gamma distribution of shape parameter a with scale 1: x^(a - 1) exp(-x).
/// @code
/// Array x = random::gamma(key, {0.5f, 2.0f}, {1000, 2}) / rate;
/// @endcode
Array gamma(Operand key, Operand a, OptionalShape shape = {}, DType dtype = DType::f32);
/// Logarithms of gamma numbers, accurate where these are tiny or 0 (a far below 1).
Array loggamma(Operand key, Operand a, OptionalShape shape = {}, DType dtype = DType::f32);
/// Beta distribution: x^(a - 1) (1 - x)^(b - 1).
Array beta(Operand key, Operand a, Operand b, OptionalShape shape = {}, DType dtype = DType::f32);
/// Dirichlet distribution: vectors of positive numbers with the sum 1.
/// @param key  The key.
/// @param alpha  [.., n].
/// @param shape  Shape of the result without the last dimension.
/// @param dtype  The dtype.
/// @return [shape.., n].
Array dirichlet(Operand key, Operand alpha, OptionalShape shape = {}, DType dtype = DType::f32);
/// Student's t distribution with df degrees of freedom.
Array t(Operand key, Operand df, OptionalShape shape = {}, DType dtype = DType::f32);
/// Chi-square distribution with df degrees of freedom.
Array chisquare(Operand key, Operand df, OptionalShape shape = {}, DType dtype = DType::f32);
/// F distribution with dfnum and dfden degrees of freedom.
Array f(Operand key, Operand dfnum, Operand dfden, OptionalShape shape = {},
        DType dtype = DType::f32);
/// Generalised normal distribution, exp(-|x|^p).
Array generalized_normal(Operand key, Operand p, Shape shape = {}, DType dtype = DType::f32);
/// Points of the unit ball of the p-norm in d dimensions: [shape.., d].
Array ball(Operand key, std::int64_t d, Operand p = 2.0, Shape shape = {},
           DType dtype = DType::f32);

/// Poisson distribution with mean lam (converted to f32), as integers. Of NaN it is -1. On several
/// devices that share the numbers of one key, they agree after each round of proposals on whether
/// there is another one: a truth value is exchanged.
Array poisson(Operand key, Operand lam, OptionalShape shape = {}, DType dtype = DType::s32);
/// Geometric distribution: trials up to the first success, of probability p, as integers.
Array geometric(Operand key, Operand p, OptionalShape shape = {}, DType dtype = DType::s32);
/// Binomial distribution: successes in n trials of probability p, as floats. NaN where n is
/// negative or p isn't a probability. Devices agree on rounds as in `poisson`.
Array binomial(Operand key, Operand n, Operand p, OptionalShape shape = {},
               DType dtype = DType::f32);
/// Multinomial distribution: how often each of N outcomes occurs in n trials, as floats.
/// @param key  The key.
/// @param n  Trials: a scalar, or an array that broadcasts to the result without its last
///   dimension.
/// @param p  Probabilities [.., N].
/// @param shape  Shape of the result: that of p by default.
/// @param dtype  The dtype.
Array multinomial(Operand key, Operand n, Operand p, OptionalShape shape = {},
                  DType dtype = DType::f32);

/// How `multivariate_normal` factors the covariance.
enum class CovarianceFactor { cholesky, svd, eigh };
/// Normal distribution of vectors.
/// @param key  The key.
/// @param mean  [.., n].
/// @param cov  Covariance, a positive definite matrix: [.., n, n].
/// @param shape  Shape of the result without the last dimension.
/// @param dtype  The dtype of the normal numbers; wider parameters widen the result. By default
///   that of the parameters.
/// @param method  The factorisation; `svd` and `eigh` also take singular matrices.
/// @return [shape.., n].
Array multivariate_normal(Operand key, Operand mean, Operand cov, OptionalShape shape = {},
                          std::optional<DType> dtype = {},
                          CovarianceFactor method = CovarianceFactor::cholesky);

/// Uniformly distributed orthogonal matrices (unitary ones for c64 and c128).
/// @param key  The key.
/// @param n  Rows.
/// @param shape  Leading dimensions of the result.
/// @param dtype  f32, f64, c64 or c128.
/// @param m  Columns: n by default; else the rows or the columns, the fewer ones, are orthonormal.
/// @return [shape.., n, m].
/// @throws ValueError for negative sizes.
Array orthogonal(Operand key, std::int64_t n, Shape shape = {}, DType dtype = DType::f32,
                 std::optional<std::int64_t> m = {});

/// Options of `categorical`.
struct CategoricalOptions {
  /// Whether an index may be drawn more than once.
  bool replace = true;
  /// Bits of the noise that is added to the logits.
  Mode mode = Mode::low;
};
/// Categorical distribution: indices (s32) drawn along an axis of unnormalised log-probabilities.
/// @param key  The key.
/// @param logits  [.., N, ..].
/// @param axis  The axis of size N.
/// @param shape  Shape of the result: the shape of the logits without the axis, which is the
///   default, behind the dimensions of several draws. With replacement, sizes of 1 may broadcast.
/// @param options  Without replacement the draws along the leading dimensions differ.
/// @throws ValueError for more draws without replacement than N.
Array categorical(Operand key, Operand logits, std::int64_t axis = -1, OptionalShape shape = {},
                  const CategoricalOptions& options = {});

/// The integers 0, .., n - 1 (s32) in random order.
Array permutation(Operand key, std::int64_t n);
/// The slices of x along an axis in random order.
/// @param key  The key.
/// @param x  The array.
/// @param axis  The axis.
/// @param independent  Shuffle each vector along the axis in an order of its own.
Array permutation(Operand key, Operand x, std::int64_t axis = 0, bool independent = false);

/// Options of `choice`.
struct ChoiceOptions {
  /// Whether an element may be drawn more than once.
  bool replace = true;
  /// Probabilities of the elements, a float vector [n]; uniform by default.
  std::optional<Array> p{};
  /// The axis of an array whose slices are drawn.
  std::int64_t axis = 0;
  /// Bits of the noise by which elements are drawn without replacement and with probabilities.
  Mode mode = Mode::low;
};
/// Draws from the integers 0, .., n - 1 (s32).
/// @throws ValueError if n is less than 1, or more elements than n are drawn without replacement.
Array choice(Operand key, std::int64_t n, Shape shape = {}, const ChoiceOptions& options = {});
/// Draws from the slices of an array along an axis: values [.., N, ..] -> [.., shape.., ..].
/// @throws ValueError as above; ShapeError if `values` is a scalar.
Array choice(Operand key, Operand values, Shape shape = {}, const ChoiceOptions& options = {});

}  // namespace tessera::random
