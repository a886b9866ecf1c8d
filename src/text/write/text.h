// SPDX-License-Identifier: Apache-2.0
// MLIR's forms of types, names, strings and constants.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/arrays/literal.h"
#include "src/base/arrays/shape.h"
#include "src/sharding/axes/device_pairs.h"

namespace tessera::text {

/// f32, i32, ui8, i1, complex<f32>, ... NotImplementedError for types that MLIR lacks.
std::string_view element_type(DType t);
/// "tensor<8x16xf32>", "!stablehlo.token"; not for tuples.
void append_type(std::string& out, const Shape& array);
/// "@name", with quotes where the name needs them.
void append_symbol(std::string& out, std::string_view name);
/// The key of an entry in a dictionary, with quotes where it needs them.
void append_key(std::string& out, std::string_view key);
/// Between quotes, escaped as MLIR does.
void append_string(std::string& out, std::string_view text);
/// "[0, 1]"
void append_list(std::string& out, const Dims& values);
/// "array<i64: 0, 1>"
void append_i64_array(std::string& out, const Dims& values);
/// "dense<...>", without the type. Exact for each bit pattern.
void append_dense(std::string& out, const Literal& array);
/// "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>" of rows of one length.
void append_matrix(std::string& out, const std::vector<Dims>& rows, std::int64_t columns);
/// The same of rows of two.
void append_pairs(std::string& out, const DevicePairs& rows);
/// The text between HLO's quotes, escapes resolved; text without quotes as it stands.
std::string unquoted(std::string_view text);

}  // namespace tessera::text
