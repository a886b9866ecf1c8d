// SPDX-License-Identifier: Apache-2.0
// Shape inference, and the verifier of modules.
#pragma once

#include <span>
#include <vector>

#include "src/ir/module.h"

namespace tessera::ir {

/// The shape of op(operands). ShapeError or DTypeError, at `where`, with the shapes met and what
/// would be valid; NotImplementedError for opcodes that have no row yet.
/// `declared`: the shape written in text or asked for, needed by parameter, constant, iota,
/// convert, broadcast, reshape, custom-call, ...; checked if given.
Shape infer_shape(Opcode op, std::span<Instruction* const> operands, const Attributes& attrs,
                  std::span<Computation* const> called, const Shape* declared, Location where,
                  ProcessGrid grid = {});

/// Checks the whole module: shapes, operand counts, attributes, callees' signatures, order, names,
/// shardings against ranks and devices. Throws the first fault, naming the instruction.
void verify(const Module& module);

}  // namespace tessera::ir
