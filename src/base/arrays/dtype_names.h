// SPDX-License-Identifier: Apache-2.0
// Names of dtypes in texts and files of others: columns of the table in dtype.cc.
#pragma once

#include <optional>
#include <string_view>

#include <tessera/dtype.h>

namespace tessera {

/// As MLIR writes the type: "i32", "f8E4M3FN", "complex<f32>". Empty: it has none.
std::string_view mlir_name(DType);
/// Also of `index` and of signed integers such as si32, as which types of others may be written.
std::optional<DType> dtype_from_mlir(std::string_view);

/// In headers of .npy files, with the byte order in which they are written: "<f4". Raw bytes
/// ("<V1") for what numpy lacks. Empty: it has none.
std::string_view npy_name(DType);
/// Nothing for raw bytes of which the name doesn't say what they are.
std::optional<DType> dtype_from_npy(std::string_view);

/// In headers of safetensors files: "F32". Empty: the format lacks it.
std::string_view safetensors_name(DType);
std::optional<DType> dtype_from_safetensors(std::string_view);

}  // namespace tessera
