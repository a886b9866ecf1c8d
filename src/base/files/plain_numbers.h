// SPDX-License-Identifier: Apache-2.0
// Numbers in text, read alike in every program.
#pragma once

#include <string>

namespace tessera {

/// strtod and strtold of the C locale. That of the program may be another (graphical toolkits set
/// the user's), in which "1.5" ends at the point.
double read_double(const char* text, char** end);
long double read_long_double(const char* text, char** end);
/// All bits of a number, as "0x1.8p+0"; not for NaNs.
std::string hexadecimal_text(long double v);

}  // namespace tessera
