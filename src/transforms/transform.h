// SPDX-License-Identifier: Apache-2.0
// Transformations of whole programs.
#pragma once

#include <memory>
#include <vector>

#include "src/ir/module.h"

namespace tessera::transforms {

// Each takes a program and gives another one. Tangents and cotangents are of the floating-point and
// complex arguments and results, in their order, with their shapes. Arguments keep their shardings
// and give them to their tangents and cotangents, as results do. Donated arguments are no longer.
//
// NotImplementedError names the op, and its place, that has no derivative.

/// (arguments, tangents of arguments) -> (results, tangents of results)
std::unique_ptr<ir::Module> jvp(const ir::Module& program);

/// (arguments, cotangents of results) -> (results, cotangents of arguments). Products are not
/// conjugated, as in JAX.
std::unique_ptr<ir::Module> vjp(const ir::Module& program);

/// (arguments) -> (gradient of the first result with respect to each of these arguments).
/// ValueError if the first result is no real scalar, or an argument can't be differentiated.
std::unique_ptr<ir::Module> grad(const ir::Module& program,
                                 const std::vector<std::size_t>& arguments);

/// The same program, of which a derivative saves nothing but the arguments.
std::unique_ptr<ir::Module> remat(const ir::Module& program);

}  // namespace tessera::transforms
