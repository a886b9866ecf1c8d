// SPDX-License-Identifier: Apache-2.0
// Numbers in text, read alike in every program.
#include "src/base/files/plain_numbers.h"

#include <algorithm>
#include <clocale>
#include <cstdio>
#include <cstdlib>

namespace tessera {
namespace {

locale_t plain() {
  // For the life of the process, as threads may read when it ends.
  static const locale_t c = newlocale(LC_ALL_MASK, "C", nullptr);
  return c;
}

}  // namespace

double read_double(const char* text, char** end) { return strtod_l(text, end, plain()); }
long double read_long_double(const char* text, char** end) { return strtold_l(text, end, plain()); }

std::string hexadecimal_text(long double v) {
  char text[64];
  const int n = std::snprintf(text, sizeof text, "%La", v);
  std::string out(text, std::size_t(n));
  std::replace(out.begin(), out.end(), *std::localeconv()->decimal_point, '.');
  return out;
}

}  // namespace tessera
