// SPDX-License-Identifier: Apache-2.0
// The explain report as JSON.
#include "src/compiler/explain/json.h"

#include <cmath>
#include <cstdint>

namespace tessera {
namespace compiler::explain {
namespace {

/// Bytes are whole numbers, nearly always.
Json json_number(double v) {
  if (std::abs(v) < 9e15 && v == std::floor(v)) return std::int64_t(v);
  return v;
}

template <class T, class F>
Json list(const std::vector<T>& items, F json_of) {
  Json out = Json::array();
  for (const T& item : items) out.push_back(json_of(item));
  return out;
}

Json chain_json(const ExplainChain& c) {
  return {{"axes", c.axes},
          {"dim", c.dim},
          {"text", c.to_string()},
          {"steps", list(c.steps, [](const ExplainStep& s) -> Json {
             return {{"tensor", s.tensor},
                     {"spec", s.spec},
                     {"op", s.op},
                     {"location", s.location},
                     {"how", s.how}};
           })}};
}

Json collective_json(const ExplainCollective& c) {
  return {{"kind", c.kind},
          {"instruction", c.instruction},
          {"computation", c.computation},
          {"bytes", json_number(c.bytes)},
          {"times", json_number(c.times)},
          {"trips_known", c.trips_known},
          {"counted", c.counted}};
}

Json suggestion_json(const ExplainSuggestion& s) {
  return {{"target", s.target},
          {"location", s.location},
          {"spec", s.spec},
          {"was", s.was},
          {"total_bytes", json_number(s.total_bytes)},
          {"saved_bytes", json_number(s.saved_bytes)},
          {"more_held_bytes", json_number(s.more_held_bytes)},
          {"text", s.to_string()}};
}

Json entry_json(const ExplainEntry& e) {
  return {{"op", e.op},
          {"op_name", e.op_name},
          {"location", e.location},
          {"tensor", e.tensor},
          {"type", e.type},
          {"from", e.from},
          {"to", e.to},
          {"reason", e.reason},
          {"full_gather", e.full_gather},
          {"bytes", json_number(e.bytes)},
          {"collectives", list(e.collectives, collective_json)},
          {"from_because", list(e.from_because, chain_json)},
          {"to_because", list(e.to_because, chain_json)},
          {"conflicts", e.conflicts},
          {"suggestion", e.suggestion ? suggestion_json(*e.suggestion) : Json()},
          {"tried", e.tried}};
}

Json choice_json(const ExplainChoice& c) {
  return {{"spec", c.spec},
          {"seconds", c.seconds},
          {"next_spec", c.next_spec},
          {"next_seconds", c.next_seconds},
          {"with", c.with},
          {"edges", list(c.edges, [](const ExplainEdge& e) -> Json {
             return {{"op", e.op},
                     {"operand", e.operand},
                     {"spec", e.spec},
                     {"seconds", e.seconds},
                     {"next_seconds", e.next_seconds}};
           })}};
}

Json value_json(const ExplainValue& v) {
  return {{"name", v.name},
          {"op", v.op},
          {"op_name", v.op_name},
          {"location", v.location},
          {"type", v.type},
          {"spec", v.spec},
          {"computation", v.computation},
          {"operands", v.operands},
          {"causes", list(v.causes,
                          [](const ExplainCause& c) -> Json {
                            return {{"dim", c.dim},           {"axes", c.axes}, {"op", c.op},
                                    {"location", c.location}, {"how", c.how},   {"from", c.from}};
                          })},
          {"entries", v.entries},
          {"bytes", json_number(v.bytes)},
          {"choice", v.choice ? choice_json(*v.choice) : Json()}};
}

}  // namespace

Json report_json(const Explanation& e) {
  return {{"module", e.module()},
          {"devices", e.num_devices()},
          {"mesh", e.mesh()},
          {"layouts", to_string(e.layouts())},
          {"total_bytes", json_number(e.total_bytes())},
          {"entries", list(e.entries(), entry_json)},
          {"values", list(e.values(), value_json)}};
}

std::string to_text(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    // It only stands within strings, where "</script>" or "<!--" would end what the page reads.
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace compiler::explain

std::string Explanation::to_json() const {
  return compiler::explain::to_text(compiler::explain::report_json(*this));
}

}  // namespace tessera
