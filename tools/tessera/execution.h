// SPDX-License-Identifier: Apache-2.0
// Running a program on host values, and comparing what it gives.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/compiler/compile.h"
#include "src/ir/module.h"
#include "tools/tessera/command.h"

namespace tessera::tool {

/// FOLDER/arg0.npy, ..., checked against the program's parameters. IoError, ShapeError, DTypeError.
std::vector<Literal> read_inputs(const ir::Module& module, const std::string& folder);
std::vector<Literal> read_inputs(const std::vector<Shape>& shapes, const std::string& folder);
/// Floats evenly in [-1, 1), integers in [0, 10), the same for the same seed.
std::vector<Literal> random_inputs(const ir::Module& module, std::uint64_t seed);
std::vector<Literal> random_inputs(const std::vector<Shape>& shapes, std::uint64_t seed);

/// RuntimeError if the arguments and results can't all be held in memory: known before any is made.
void check_memory(const ir::Module& module);

struct Outcome {
  std::int64_t devices = 1;
  double compile_ms = 0;
  std::vector<double> run_ms;  ///< inputs placed, until the outputs are there
  /// The most that all devices' storages came to at a time, inputs included.
  std::int64_t peak_bytes_total = 0;
  /// (bytes that one device received, how many) by kind, of one run.
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> collectives;
  std::vector<std::string> evaluator_ops;
  std::vector<Literal> results;
};
/// Compiles, runs `warm_ups` times without reporting and then `repeats` times.
Outcome execute(std::unique_ptr<ir::Module> module, const std::vector<Literal>& inputs,
                Layouts layouts, int warm_ups, int repeats);
/// Runs what is compiled already. `process_of`: as it was compiled with.
Outcome execute(const compiler::Executable& executable, const std::vector<Literal>& inputs,
                const std::vector<std::int32_t>& process_of, int warm_ups, int repeats);
/// {"all-reduce": {"count": 1, "bytes": 64}, "total_bytes": 64}
OrderedJson collectives_json(const Outcome& outcome);

/// How far a value is from the one expected.
struct Deviation {
  /// Floats: the largest |got - want| - tol (1 + |want|), at least 0, infinite where only one is
  /// NaN. Others: how many elements differ.
  double excess = 0;
  std::string where;  ///< "[1,2]: 3.5 where 3 is right", of the worst element; empty if all is well
  bool ok() const { return excess <= 0; }
};
Deviation compare(const Literal& got, const Literal& want, double tol);
/// With FOLDER/out0.npy, ...: a deviation a result. IoError, ShapeError, DTypeError if a file is
/// missing or of another shape or type.
std::vector<Deviation> compare_outputs(const std::vector<Literal>& results,
                                       const std::string& folder, double tol);

}  // namespace tessera::tool
