// SPDX-License-Identifier: Apache-2.0
// The version of the PJRT API that these declarations are of.
#pragma once

inline constexpr int kPjrtMajorVersion = 0, kPjrtMinorVersion = 114;
