// SPDX-License-Identifier: Apache-2.0
// numpy's .npy files, formats 1 to 3.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/arrays/literal.h"

namespace tessera {

/// Reads an array. Types that numpy itself lacks (bf16, f8 types, integers below 8 bits) are stored
/// in files as raw bytes (`V2`, `V1`); `as` is the type of those and has no effect on others.
/// Without it `<V2`, which is how bf16 is written, is bf16. Fortran order and foreign byte order
/// are converted. IoError, naming `path`, if it isn't such a file, is cut short, or has a type
/// without a counterpart here. Nothing larger than the file is ever allocated.
Literal read_npy(const std::string& path, std::optional<DType> as = std::nullopt);
/// The same from a file's bytes; `who` names them in messages.
Literal parse_npy(std::string_view bytes, const std::string& who,
                  std::optional<DType> as = std::nullopt);

/// Types that numpy lacks become raw bytes. The file is written aside and then renamed, so that at
/// all times `path` is the old file or the whole new one; links are followed, and what isn't a
/// regular file (a pipe) is written to. IoError if the file can't be written; ValueError for tuples
/// and tokens.
void write_npy(const std::string& path, const Literal& value);
std::string to_npy(const Literal& value);
/// What is before the elements, which follow in row-major order.
std::string npy_header(const Shape& shape);

}  // namespace tessera
