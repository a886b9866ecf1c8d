// SPDX-License-Identifier: Apache-2.0
// A stored program for one device as a header of C and a shared object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/base/arrays/shape.h"

namespace tessera::tool {

struct CArray {
  std::string name;  ///< an identifier of C
  std::string is;    ///< what the module calls it, for the comment
  Shape shape;
};
struct CInterface {
  std::string function;  ///< an identifier of C
  std::string module, cpu;
  std::vector<CArray> arguments, results;
};

/// The last part of `path` as the function's name. UsageError if C can't have it.
std::string c_function_name(const std::string& path);
/// `text` as an identifier, if it has one in it that isn't among `taken`, or else `other`.
std::string c_identifier(const std::string& text, const std::string& other,
                         const std::vector<CArray>& taken);

/// The header.
std::string c_header(const CInterface& interface);
/// The source of the shared object, which reads the stored program from the file `program`.
std::string c_source(const CInterface& interface, const std::string& program);
/// Compiles and links `object` by the C compiler: the variable CC, or else cc. IoError with what it
/// said.
void make_c_object(const CInterface& interface, const std::string& stored,
                   const std::string& object);

}  // namespace tessera::tool
