// SPDX-License-Identifier: Apache-2.0
// Attributes that any instruction may have, and its callees.
#include <algorithm>

#include "src/base/at_location.h"
#include "src/base/contains.h"
#include "src/ir/hlo/hlo_parser.h"
#include "src/ir/hlo/sdy_attributes.h"
#include "src/ir/hlo/typed_calls.h"

namespace tessera::ir {
namespace {

// What XLA's instructions can have and means nothing here: dropped.
constexpr const char* kIgnored[] = {"statistics", "origin", "parameter_replication"};

// What a step of an asynchronous op may have without the attributes of the op that it wraps.
constexpr std::string_view kOfAnyStep[] = {
    "async_execution_thread", "backend_config", "control-predecessors",
    "frontend_attributes",    "metadata",       "origin",
    "parameter_replication",  "sharding",       "statistics"};

// Keys under which an opcode's callees may stand, each with one computation, in order.
std::vector<std::string_view> single_callee_keys(Opcode op, AttributeReader& reader) {
  switch (op) {
    case Opcode::while_:
      return {"condition", "body"};
    case Opcode::select_and_scatter:
      return {"select", "scatter"};
    case Opcode::fusion:
    case Opcode::async_start:
      return {"calls"};
    case Opcode::async_update:
    case Opcode::async_done:
      return reader.has("calls") ? std::vector<std::string_view>{"calls"}
                                 : std::vector<std::string_view>{};
    case Opcode::conditional:
      if (reader.has("branch_computations")) return {};
      return {"true_computation", "false_computation"};
    case Opcode::custom_call:
      return reader.has("to_apply") ? std::vector<std::string_view>{"to_apply"}
                                    : std::vector<std::string_view>{};
    default:
      if (info(op).calls == Calls::none) return {};
      return {"to_apply"};
  }
}

}  // namespace

void HloParser::attributes(Scope& scope, const OpcodeWord& word, Instruction* i, bool nested) {
  AttributeReader reader(in_, ir::name(i->opcode), nested);
  // A step after the start may leave out what its start says of the wrapped op.
  const bool bare = word.async && word.async != Opcode::async_start && reader.all_in(kOfAnyStep);
  const Opcode op = bare ? i->opcode : word.op;
  if (word.async) reader.take("async_execution_thread");
  // Those two have theirs between the parentheses.
  if (op != Opcode::parameter && op != Opcode::constant) {
    i->attrs = parse_attributes(op, *i, reader);
    // An op that HLO lacks.
    if (op == Opcode::custom_call && i->attrs.get_if<ScanAttrs>()) i->opcode = Opcode::scan;
  }
  for (std::string_view key : single_callee_keys(op, reader)) {
    i->add_called(callee(scope, reader, key));
  }
  for (const char* key : {"branch_computations", "called_computations"}) {
    bool valid = op == (key[0] == 'b' ? Opcode::conditional : Opcode::custom_call);
    if (!valid) continue;
    if (auto value = reader.take(key)) callees(scope, reader, i, *value);
  }
  generic_attributes(scope, reader, i);
  reader.finish({});
  if (!i->is(Opcode::custom_call)) return;
  at_location(in_.location_at(in_.position()), [&] { raise_custom_call(i); });
}

void HloParser::generic_attributes(Scope& scope, AttributeReader& reader, Instruction* i) {
  PendingSharding pending{i, {}, {}, {}};
  if (auto value = reader.take("sharding")) pending.tiling = *value;
  if (auto value = reader.take("frontend_attributes")) {
    i->frontend_attributes = frontend_attributes(reader, *value);
    if (auto node = i->frontend_attributes.edit().extract(kSdySharding)) {
      pending.sdy = std::move(node.mapped());
      pending.sdy_at = *value;
    }
  }
  if (!pending.tiling.empty() || !pending.sdy.empty()) pending_.push_back(std::move(pending));
  if (auto value = reader.take("metadata")) i->metadata = metadata(reader, *value);
  if (auto value = reader.take("backend_config")) backend_config(i, *value);
  if (auto value = reader.take("control-predecessors")) {
    reader.at(*value, [&] {
      in_.expect('{', "before the control predecessors");
      if (in_.accept('}')) return;
      do {
        std::string_view name = in_.name("an instruction");
        auto it = scope.names.find(name);
        if (it == scope.names.end()) {
          in_.fail_at(name.data(), "instruction '" + std::string(name) +
                                       "' is not defined before this use in " +
                                       scope.computation->name());
        }
        i->add_control_predecessor(it->second);
      } while (in_.accept(','));
      in_.expect('}', "after the control predecessors");
    });
  }
  for (const char* key : kIgnored) reader.take(key);
}

std::map<std::string, std::string> HloParser::frontend_attributes(AttributeReader& reader,
                                                                  std::string_view value) {
  std::map<std::string, std::string> out;
  reader.at(value, [&] {
    in_.expect('{', "before the frontend attributes");
    if (in_.accept('}')) return;
    do {
      in_.skip();
      const char* at = in_.position();
      std::string key = in_.peek() == '"' ? in_.quoted("a key") : std::string(in_.word("a key"));
      in_.expect('=', "after a key of the frontend attributes");
      std::string text;
      if (in_.peek() == '"') {
        text = in_.quoted("a value");
      } else if (in_.peek() == '{') {
        text = std::string(in_.balanced());
      } else {
        text = std::string(in_.value());
      }
      if (!out.emplace(key, std::move(text)).second) {
        in_.fail_at(at, "frontend attribute '" + key + "' stands twice");
      }
    } while (in_.accept(','));
    in_.expect('}', "after the frontend attributes");
  });
  return out;
}

Metadata HloParser::metadata(AttributeReader& reader, std::string_view value) {
  Metadata m;
  std::int64_t frame = 0;
  reader.at(value, [&] {
    in_.expect('{', "before the metadata");
    std::vector<std::string_view> seen;
    while (!in_.accept('}')) {
      in_.skip();
      const char* at = in_.position();
      std::string_view key = in_.word("a key of the metadata or '}'");
      if (contains(seen, key)) {
        in_.fail_at(at, "'" + std::string(key) + "' stands twice in the metadata");
      }
      seen.push_back(key);
      in_.expect('=', "after a key of the metadata");
      if (key == "op_type") {
        m.op_type = in_.quoted("op_type");
      } else if (key == "op_name") {
        m.op_name = in_.quoted("op_name");
      } else if (key == "source_file") {
        m.source_file = in_.quoted("source_file");
      } else if (key == "source_line") {
        m.source_line = in_.integer("source_line");
      } else if (key == "stack_frame_id") {
        frame = in_.integer("stack_frame_id");
      } else if (key == "profile_type" || key == "deduplicated_name") {
        m.other.emplace_back(key, std::string(in_.value()));
      } else if (key == "source_end_line" || key == "source_column" || key == "source_end_column" ||
                 key == "preserve_layout" || key == "scheduling_name" ||
                 key == "metadata_payload") {
        // Not all readers of HLO know these; they are not printed either.
        in_.value();
      } else {
        in_.fail_at(at, "unknown key '" + std::string(key) +
                            "' of metadata; valid: deduplicated_name, metadata_payload, op_name, "
                            "op_type, preserve_layout, profile_type, scheduling_name, "
                            "source_column, source_end_column, source_end_line, source_file, "
                            "source_line, stack_frame_id");
      }
      in_.accept(',');  // XLA prints none, and reads both
    }
  });
  if (auto it = stack_frames_.find(frame); it != stack_frames_.end() && m.source_file.empty()) {
    m.source_file = it->second.file;
    m.source_line = it->second.line;
  }
  return m;
}

void HloParser::backend_config(Instruction* i, std::string_view value) {
  i->backend_config = std::string(value);
  auto* loop = i->attrs.edit_if<WhileAttrs>();
  std::size_t key = value.find(kTripCountKey);
  if (loop == nullptr || key == std::string_view::npos) return;
  const char* back = in_.position();
  in_.seek(value.data() + key + std::string_view(kTripCountKey).size());
  in_.expect(':', "after known_trip_count");
  in_.skip();
  const char* open = in_.position();
  if (in_.peek() != '{') in_.fail("expected '{' after known_trip_count");
  std::string_view inner = in_.balanced();
  const char* close = in_.position();
  std::size_t colon = inner.find(':');
  std::size_t digit =
      colon == std::string_view::npos ? colon : inner.find_first_of("-0123456789", colon);
  if (digit == std::string_view::npos || inner.find("\"n\"") > colon) {
    in_.fail_at(open, "expected {\"n\":\"count\"} for known_trip_count");
  }
  in_.seek(inner.data() + digit);
  loop->known_trip_count = in_.integer("the known trip count");
  // The count is printed from the attribute; the rest of the config stays.
  in_.seek(back);
  std::string_view before = value.substr(0, key);
  std::string_view after(close, std::size_t(value.data() + value.size() - close));
  auto trim = [](std::string_view s) {
    constexpr std::string_view kBlank = " \n\t\r";
    std::size_t first = s.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return std::string_view();
    return s.substr(first, s.find_last_not_of(kBlank) - first + 1);
  };
  before = trim(before);
  after = trim(after);
  if (after.size() > 1 && after[0] == ',') {
    after = trim(after.substr(1));
  } else if (!before.empty() && before.back() == ',') {
    before.remove_suffix(1);
  }
  std::string rest = std::string(before) + std::string(after);
  i->backend_config = rest == "{}" ? "" : rest;
}

Computation* HloParser::callee(Scope& scope, AttributeReader& reader, std::string_view key) {
  Computation* c = nullptr;
  reader.at(reader.need(key), [&] { c = callee_here(scope); });
  return c;
}

void HloParser::callees(Scope& scope, AttributeReader& reader, Instruction* i,
                        std::string_view value) {
  reader.at(value, [&] {
    in_.expect('{', "before the computations");
    if (in_.accept('}')) return;
    do {
      i->add_called(callee_here(scope));
    } while (in_.accept(','));
    in_.expect('}', "after the computations");
  });
}

Computation* HloParser::callee_here(Scope& scope) {
  if (in_.peek() == '{') {
    if (scope.depth >= kMaxNesting) {
      in_.fail("computations nest deeper than " + std::to_string(kMaxNesting));
    }
    in_.accept('{');
    Computation* c = module_->add_computation("anonymous");
    body(c, scope.depth + 1);
    return c;
  }
  std::string_view name = in_.name("a computation");
  auto it = computations_.find(name);
  if (it == computations_.end()) {
    in_.fail_at(name.data(),
                "computation '" + std::string(name) + "' is not defined before this use");
  }
  return it->second;
}

}  // namespace tessera::ir
