// SPDX-License-Identifier: Apache-2.0
// The parts of an instruction's text.
#pragma once

#include <string>
#include <vector>

#include "src/ir/hlo/device_texts.h"
#include "src/ir/module.h"

namespace tessera::ir {

/// False: an op that HLO lacks, or lacks with these attributes, and that is printed as a custom
/// call.
bool has_own_text(const Instruction& i);
/// The attributes of an opcode, each with ", " in front; no callees, no sharding. Symbolic device
/// groups are written as lists.
void append_attributes(std::string& out, const Instruction& i, DeviceTexts& texts);
void append_attributes(std::string& out, const Instruction& i);
/// The keys that its callees are printed under: {"to_apply"}, {"condition", "body"}, ...; a single
/// key with several callees is a list in braces.
std::vector<std::string_view> callee_keys(const Instruction& i);
/// Shardings as tilings, braces included.
void append_sharding(std::string& out, const Instruction& i, DeviceTexts& texts);
std::string sharding_text(const Instruction& i);
/// Shardings with open flags and priorities and without the names of axes.
void append_canonical_sharding(std::string& out, const Instruction& i, DeviceTexts& texts);
std::string canonical_sharding_text(const Instruction& i);

}  // namespace tessera::ir
