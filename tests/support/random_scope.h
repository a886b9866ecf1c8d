// SPDX-License-Identifier: Apache-2.0
// Inside of random_program: the arrays at hand in one computation, and ways to make new ones.
#pragma once

#include <string>
#include <vector>

#include "src/ir/rewrite/builder.h"
#include "tests/support/random_program.h"

namespace tessera::testing {

/// An array with a bound on the magnitude of its elements.
struct Known {
  ir::Instruction* x = nullptr;
  double bound = 0;
};

class RandomScope {
 public:
  RandomScope(Dice& dice, MeshRef mesh, const RandomProgramOptions& options,
              ir::Computation* computation, int depth)
      : dice_(dice), mesh_(std::move(mesh)), options_(options), b_(computation), depth_(depth) {}

  void add(Known k);
  const std::vector<Known>& pool() const { return pool_; }
  ir::Builder& b() { return b_; }
  /// Adds the results of that many random ops to the pool.
  void grow(int ops);
  /// Any array at hand, of one of the types if given.
  Known any();
  Known any_float();
  /// Some array at hand, made to have these dims and be f32 within [-9, 9].
  Known as_shape(Known k, const Dims& dims);
  /// Keeps elements small: exact programs clamp, others squash.
  Known small(Known k);

 private:
  void step();
  bool exact() const { return options_.exact; }
  Known constant_like(const Dims& dims);
  ir::Instruction* fill(DType dtype, double v, const Dims& dims);
  Known no_negative_zero(Known k);
  Known to_float(Known k);
  Dims random_dims();
  Dims regrouped(const Dims& dims);
  ir::Instruction* small_index(std::int64_t size);
  ir::Instruction* flag();
  ir::Instruction* triangle(const Dims& dims, bool lower, double beside);
  ir::Computation* argmax_computation(DType t);

  void unary();
  void binary();
  void compare_select();
  void broadcast();
  void reshape();
  void transpose();
  void reduce();
  void arg_reduce();
  void dot();
  void iota();
  void concatenate();
  void slice();
  void pad();
  void reverse();
  void roll();
  void convert();
  void dynamic_slice();
  void dynamic_update();
  void sort();
  void fft();
  void take();
  void scatter_add();
  void window();
  void integers();
  void gather();
  void scatter();
  void convolution();
  void pool_gradient();
  void solve();
  void cholesky();
  void top_k();
  void batch_norm();
  void real_fft();
  void random_bits();
  void running_argmax();
  void bits_of_floats();
  void mapped();
  void not_a_number();
  void constraint();
  void loop();
  void rows_loop();
  void branch();
  void call();

  Dice& dice_;
  MeshRef mesh_;
  const RandomProgramOptions& options_;
  ir::Builder b_;
  int depth_;
  std::vector<Known> pool_;
};

}  // namespace tessera::testing
