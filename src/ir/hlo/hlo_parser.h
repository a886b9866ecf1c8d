// SPDX-License-Identifier: Apache-2.0
// The parser of HLO text; hlo_text.h is its front.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "src/ir/hlo/attribute_reader.h"
#include "src/ir/hlo/hlo_lexer.h"
#include "src/ir/module.h"
#include "src/sharding/axes/sdy_text.h"

namespace tessera::ir {

/// Computations and instructions inside others.
inline constexpr int kMaxNesting = 64;

/// A sharding that stands in the text and waits for all others to be known.
struct PendingSharding {
  Instruction* instruction;
  std::string_view tiling;  ///< `{devices=...}`; empty if absent
  std::string_view sdy_at;  ///< where the sdy text stands
  std::string sdy;          ///< `#sdy.sharding<...>`; empty if absent
};

/// Reads `#sdy.mesh<...>`, given the name.
using ReadMesh = std::function<MeshRef(std::string_view, const std::string&)>;
/// Turns the shardings of the text into axes on one mesh. `read_mesh`: of a caller that has read
/// the meshes before, and need not do so again. Returns the meshes by name.
MeshTable resolve_shardings(HloLexer& in, Module* module,
                            const std::vector<PendingSharding>& pending,
                            std::string_view sdy_meshes, std::string_view meshes_at,
                            const ReadMesh& read_mesh = parse_sdy_mesh);

class HloParser {
 public:
  HloParser(std::string_view text, const std::string& file) : in_(text, file) {}
  std::unique_ptr<Module> run();

 private:
  struct Scope {
    Computation* computation;
    std::unordered_map<std::string_view, Instruction*> names;
    int depth;
  };
  struct OpcodeWord {
    const char* at;
    Location location;  ///< of `at`: lines are counted once, going forward
    Opcode op;
    std::optional<Opcode> async;  ///< the step of an asynchronous `op`
  };
  struct Frame {
    std::string file;
    std::int64_t line = 0;
  };

  // hlo_header_parser.cc
  void header();
  void aliases(AttributeReader& reader, std::string_view value);
  void donors(AttributeReader& reader, std::string_view value);
  void tables();
  void check_entry_layout();

  // hlo_parser.cc
  void computation();
  void signature();
  /// Between the braces, closing one included. Gives it a root.
  void body(Computation* c, int depth);
  void instruction(Scope& scope);
  /// From the shape on. `nested`: an operand that is an instruction; it has no attributes.
  Instruction* right_side(Scope& scope, std::string_view name, bool nested);
  OpcodeWord opcode(bool after_shape);
  ParameterAttrs parameter(const Scope& scope);
  ConstantAttrs constant(const Shape& shape);
  /// A constant tuple becomes a tuple of constants: no pass has to know of others than arrays.
  void split_constant(Scope& scope, Instruction* i);
  void operands(Scope& scope, Opcode op, Instruction* i);
  Instruction* operand(Scope& scope);
  void wrap_async(Opcode base, Instruction* i, const char* where);
  /// `declared`: the shape is the text's, and must be what the operands give.
  void check_or_infer_shape(Instruction* i, bool declared, const OpcodeWord& word);

  // attribute_parser.cc
  void attributes(Scope& scope, const OpcodeWord& word, Instruction* i, bool nested);
  void generic_attributes(Scope& scope, AttributeReader& reader, Instruction* i);
  std::map<std::string, std::string> frontend_attributes(AttributeReader& reader,
                                                         std::string_view value);
  Metadata metadata(AttributeReader& reader, std::string_view value);
  Computation* callee(Scope& scope, AttributeReader& reader, std::string_view key);
  void callees(Scope& scope, AttributeReader& reader, Instruction* i, std::string_view value);
  Computation* callee_here(Scope& scope);
  void backend_config(Instruction* i, std::string_view value);

  HloLexer in_;
  std::unique_ptr<Module> module_;
  std::unordered_map<std::string_view, Computation*> computations_;
  Computation* last_ = nullptr;  ///< the one that was read last
  std::map<std::int64_t, std::string> file_names_;
  std::map<std::int64_t, Frame> file_locations_, stack_frames_;
  std::int64_t inferred_parts_ = 0;  ///< of the shapes that don't stand in the text
  std::vector<PendingSharding> pending_;
  std::string sdy_meshes_;
  std::string_view meshes_at_, layout_at_;
};

/// The structured attributes of an opcode, its callees left out.
Attributes parse_attributes(Opcode op, const Instruction& i, AttributeReader& reader);
/// Replica groups in all their forms.
DeviceGroups parse_groups(AttributeReader& reader);

}  // namespace tessera::ir
